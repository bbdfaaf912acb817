//! An apt of our own: the machine's sources for another suite, nothing installed, all files in one folder.

use super::sources::{self, Kind};
use crate::command::run;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub(crate) struct Apt {
    folder: PathBuf,
    suite: &'static str,
}

impl Apt {
    /// Makes the folder's configuration and fetches the suite's package lists.
    pub(crate) fn for_suite(folder: &Path, suite: &'static str, kind: Kind) -> Result<Self, String> {
        let apt = Self { folder: folder.to_owned(), suite };
        for inside in ["etc/sources.d", "state/lists/partial", "cache/archives/partial", "got"] {
            make_folder(&folder.join(inside))?;
        }
        write(&folder.join("state/status"), "")?;
        let release = fs::read_to_string("/etc/os-release").map_err(|error| format!("/etc/os-release: {error}"))?;
        let name = |key: &str| release.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("").trim_matches('"').to_owned();
        let (id, codename) = (name("ID="), name("VERSION_CODENAME="));
        let mut found = false;
        for (index, file) in machine_files().into_iter().enumerate() {
            let Ok(text) = fs::read_to_string(&file) else {
                continue;
            };
            let (text, form) = match file.extension() {
                Some(form) if form == "sources" => (sources::deb822(&text, &codename, suite, kind), "sources"),
                _ => (sources::one_line(&text, &codename, suite, kind), "list"),
            };
            found |= !text.is_empty();
            write(&folder.join(format!("etc/sources.d/{index}.{form}")), &text)?;
        }
        if !found {
            return Err(format!(
                "no entry for «{codename} main» in /etc/apt/sources.list or /etc/apt/sources.list.d, so no way to {suite}"
            ));
        }
        run(apt.command().arg("update")).map_err(|error| match id.as_str() {
            "debian" => error,
            _ => format!("{error}\n{suite} is a suite of Debian's; this machine's apt is set up for {id}"),
        })?;
        Ok(apt)
    }

    /// Downloads a package and all it depends on; returns the package files.
    pub(crate) fn packages(&self, package: &str) -> Result<Vec<PathBuf>, String> {
        let archives = self.folder.join("cache/archives");
        run(self.command().args(["install", "--no-install-recommends", "--download-only", "--yes", package]))?;
        let files = files_of(&archives, "deb")?;
        match files.is_empty() {
            true => Err(format!("apt-get downloaded no package of {} into {}", self.suite, archives.display())),
            false => Ok(files),
        }
    }

    /// Downloads a package without what it depends on.
    pub(crate) fn alone(&self, package: &str) -> Result<PathBuf, String> {
        let folder = self.folder.join("got");
        run(self.command().args(["download", package]).current_dir(&folder))?;
        let file = files_of(&folder, "deb")?.pop();
        file.ok_or_else(|| format!("apt-get downloaded no {package} into {}", folder.display()))
    }

    /// Downloads a source package's own tarball, without the distribution's changes.
    pub(crate) fn tarball(&self, package: &str) -> Result<PathBuf, String> {
        let folder = self.folder.join("got");
        run(self.command().args(["source", "--tar-only", "--download-only", package]).current_dir(&folder))?;
        let tarball = ["gz", "xz", "bz2"].iter().find_map(|form| files_of(&folder, form).ok()?.pop());
        tarball.ok_or_else(|| format!("apt-get downloaded no tarball of {package} into {}", folder.display()))
    }

    fn command(&self) -> Command {
        let folder = self.folder.display();
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
        for option in [
            "Dir::Etc::sourcelist=/dev/null".to_owned(),
            format!("Dir::Etc::sourceparts={folder}/etc/sources.d"),
            "Dir::Etc::preferences=/dev/null".to_owned(),
            "Dir::Etc::preferencesparts=/dev/null".to_owned(),
            format!("Dir::State={folder}/state"),
            format!("Dir::State::lists={folder}/state/lists"),
            format!("Dir::State::status={folder}/state/status"),
            format!("Dir::Cache={folder}/cache"),
            "Acquire::Languages=none".to_owned(),
            // A suite that gets no updates any more keeps its last, expired date.
            "Acquire::Check-Valid-Until=false".to_owned(),
            "Acquire::Retries=3".to_owned(),
            // apt's own user may not reach this folder.
            "APT::Sandbox::User=root".to_owned(),
            "APT::Get::List-Cleanup=false".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        command
    }
}

fn machine_files() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    let parts = Path::new("/etc/apt/sources.list.d");
    for form in ["list", "sources"] {
        files.extend(files_of(parts, form).unwrap_or_default());
    }
    files
}

fn files_of(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|form| form == extension));
    files.sort();
    Ok(files)
}

fn make_folder(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
