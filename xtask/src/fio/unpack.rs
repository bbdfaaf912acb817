//! A fio of another release, unpacked beside the machine's own, and the command that runs it.

use crate::command::run;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

/// The C library's package; a program and its C library must be of one glibc.
const GLIBC: &str = "libc6";

#[cfg(target_arch = "aarch64")]
const LOADER: &str = "/lib/ld-linux-aarch64.so.1";
#[cfg(not(target_arch = "aarch64"))]
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// Starts the command. No other program may run in it: what the caller preloads would run there too.
/// Nor does it export LD_LIBRARY_PATH: what fio itself starts (exec_prerun) belongs to the machine and wants the machine's libraries.
const SCRIPT: &str = "#!/bin/sh
case $0 in
/*) here=${0%/*} ;;
*/*) here=$PWD/${0%/*} ;;
*) here=$PWD ;;
esac
";

/// Unpacks the packages into `root` and writes the command to `command`.
///
/// Where the other release has a newer glibc than the machine, fio runs on that one, through its own loader. Where it has an older one, fio
/// runs on the machine's, so that a shim compiled here can still be preloaded.
pub(crate) fn unpack(packages: &[PathBuf], root: &Path, command: &Path) -> Result<(), String> {
    let own_glibc = packages.iter().find_map(|file| package_version(file, GLIBC)).is_some_and(|theirs| theirs > machine_glibc());
    for file in packages {
        if own_glibc || package_version(file, GLIBC).is_none() {
            run(Command::new("dpkg-deb").arg("-x").arg(file).arg(root))?;
        }
    }
    let libraries = library_folders(root)?;
    let loader = match own_glibc {
        false => LOADER.to_owned(),
        true => loader_in(&libraries)
            .and_then(|loader| from_here(&loader, command))
            .ok_or_else(|| format!("{} has a glibc without a loader", root.display()))?,
    };
    let path: Vec<String> = libraries.iter().filter_map(|folder| from_here(folder, command)).collect();
    let fio = from_here(&root.join("usr/bin/fio"), command).ok_or("fio was unpacked elsewhere than beside its command")?;
    let script = format!(
        "{SCRIPT}exec \"{loader}\" --library-path \"${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}{}\" \"{fio}\" \"$@\"\n",
        path.join(":")
    );
    let failed = |error| format!("{}: {error}", command.display());
    fs::write(command, script).map_err(failed)?;
    fs::set_permissions(command, fs::Permissions::from_mode(0o755)).map_err(failed)
}

/// A path below the command's own folder, for use in its script; the cache can so be moved.
fn from_here(path: &Path, command: &Path) -> Option<String> {
    let inside = path.strip_prefix(command.parent()?).ok()?;
    Some(format!("$here/{}", inside.display()))
}

/// The version of a package file named `libc6_2.41-12_amd64.deb`, up to the first character that is neither a digit nor a dot.
fn package_version(file: &Path, package: &str) -> Option<Vec<u32>> {
    let name = file.file_name()?.to_str()?;
    Some(numbers(name.strip_prefix(package)?.strip_prefix('_')?))
}

/// Empty where the machine does not say; every glibc is then newer.
fn machine_glibc() -> Vec<u32> {
    let said = run(Command::new("getconf").arg("GNU_LIBC_VERSION")).unwrap_or_default();
    numbers(said.trim().trim_start_matches("glibc "))
}

fn numbers(version: &str) -> Vec<u32> {
    let end = version.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(version.len());
    version[..end].split('.').map_while(|number| number.parse().ok()).collect()
}

/// Every folder under `lib` or `usr/lib` with a shared library, the common ones (the shortest paths) first.
fn library_folders(root: &Path) -> Result<Vec<PathBuf>, String> {
    let tops = ["lib", "usr/lib"].map(|top| root.join(top));
    let mut rest: Vec<PathBuf> = tops.into_iter().filter(|top| top.is_dir()).collect();
    let mut found = Vec::new();
    while let Some(folder) = rest.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut has_library = false;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            has_library |= name.starts_with("lib") && name.contains(".so.");
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                rest.push(entry.path());
            }
        }
        if has_library {
            found.push(folder);
        }
    }
    found.sort_by_key(|folder| (folder.components().count(), folder.clone()));
    Ok(found)
}

/// The loader itself, not a link to it: such links are absolute in some releases and lead to the machine's own.
fn loader_in(libraries: &[PathBuf]) -> Option<PathBuf> {
    let name = Path::new(LOADER).file_name()?;
    libraries.iter().map(|folder| folder.join(name)).find(|file| file.symlink_metadata().is_ok_and(|kind| kind.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_glibc_of_a_release_is_read_from_its_package_name() {
        let version = |name: &str| package_version(Path::new(name), GLIBC);
        assert_eq!(version("/a/libc6_2.41-12+deb13u2_amd64.deb"), Some(vec![2, 41]));
        assert_eq!(version("/a/libc6-i386_2.41-12_amd64.deb"), None);
        assert!(numbers("2.41") > numbers("2.36") && numbers("2.36") > numbers(""));
    }
}
