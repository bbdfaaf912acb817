//! `cargo xtask fio VERSION --with-libcufile`: fio with its own libcufile engine, the yardstick for ours.
//!
//! It is compiled against the headers of CUDA 12 and linked with the real libcufile, a simulated driver and a simulated runtime, all by
//! their sonames: which of each it runs on is the environment's choice (`cargo xtask env`).

use super::{Release, cached, configured, fresh, version_of};
use crate::command::run;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

/// The environment whose libraries fio is linked with.
const ENVIRONMENT: &str = "cufile12";
/// Names for the linker, and the files they stand for.
const LINKS: [(&str, &str); 3] = [("libcuda.so", "libcuda.so.1"), ("libcudart.so", "libcudart.so.12"), ("libcufile.so", "libcufile.so.0")];

/// Without the environment the loader would name one library and no way out.
const SCRIPT: &str = "#!/bin/sh
case $0 in
/*) here=${0%/*} ;;
*/*) here=$PWD/${0%/*} ;;
*) here=$PWD ;;
esac
if [ -z \"$GPUIO_CUFILE_LIBRARY\" ]; then
    echo \"$0: run this under an environment: eval \\\"\\$(cargo xtask env cufile12)\\\", or cufile13, or cufile-sim\" >&2
    exit 1
fi
exec \"$here/fio-tree/fio\" \"$@\"
";

/// The path of a command that runs this fio under one of the environments; it is built where it is not there yet.
pub(crate) fn with_libcufile(root: &Path, version: &str) -> Result<PathBuf, String> {
    let release = Release::named(version)?;
    let folder = root.join("target/fio").join(format!("{version}-libcufile"));
    let command = folder.join("fio");
    cached(release, &folder, || {
        let source = configured(root, version)?;
        if !source.join("engines/libcufile.c").exists() {
            return Err(format!("fio {version} has no engine libcufile"));
        }
        let target = root.join("target");
        let headers = sim_env::cuda_headers(&target)?;
        let variables = sim_env::prepare(ENVIRONMENT, &target, &[])?;
        let cufile = variables.iter().find(|(name, _)| name == "GPUIO_CUFILE_LIBRARY").map(|(_, path)| PathBuf::from(path));
        let libraries = cufile.as_deref().and_then(Path::parent).ok_or("the environment has no libcufile")?;
        eprintln!("xtask: building fio {version} with its engine libcufile (a minute)");
        let links = link(libraries, &fresh(&folder.join("link"))?)?;
        let tree = fresh(&folder.join("fio-tree"))?;
        run(Command::new("cp").arg("-a").arg(source.join(".")).arg(&tree))?;
        let includes: Vec<String> = headers.iter().map(|folder| format!("-isystem {}", folder.display())).collect();
        let mut configure = Command::new("./configure");
        configure.current_dir(&tree).args(["--enable-libcufile", &format!("--extra-cflags={}", includes.join(" "))]);
        // libcufile wants more than the linker sees here: what it opens by itself.
        run(configure.env("LDFLAGS", format!("-L{} -Wl,--allow-shlib-undefined", links.display())))?;
        let jobs = thread::available_parallelism().map_or(1, usize::from);
        run(Command::new("make").current_dir(&tree).arg(format!("-j{jobs}")).arg("fio"))?;
        let failed = |error: std::io::Error| format!("{}: {error}", command.display());
        fs::write(&command, SCRIPT).map_err(failed)?;
        fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        check(&tree.join("fio"), &variables)
    })?;
    Ok(command)
}

/// Makes the names that `-lcuda` and its like look for.
fn link(libraries: &Path, links: &Path) -> Result<PathBuf, String> {
    for (name, file) in LINKS {
        symlink(libraries.join(file), links.join(name)).map_err(|error| format!("{}: {error}", links.join(name).display()))?;
    }
    Ok(links.to_owned())
}

/// The version of a fio that starts and has the engine.
fn check(fio: &Path, variables: &[(String, String)]) -> Result<String, String> {
    let with = |words: &[&str]| run(Command::new(fio).args(words).envs(variables.iter().map(|(name, value)| (name, value))));
    if !with(&["--enghelp"])?.lines().any(|line| line.trim() == "libcufile") {
        return Err(format!("{} was built, and has no engine libcufile", fio.display()));
    }
    version_of(fio, variables)
}
