//! `cargo xtask fio` and `cargo xtask fio-src`: real fios of several releases side by side, kept under `target/fio/`.
//!
//! `sources` reads the machine's apt configuration, `apt` downloads with it, `unpack` makes a command of what was downloaded; `with_libcufile`
//! compiles one.

mod apt;
mod sources;
mod unpack;
mod with_libcufile;

pub(crate) use apt::Apt;
pub(crate) use sources::Kind;
pub(crate) use with_libcufile::with_libcufile;

use crate::{Outcome, command::run};
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

/// Debian's releases of fio, and the suites that hold them.
const RELEASES: [Release; 4] = [
    Release { version: "3.25", suite: "bullseye", moves: false },
    Release { version: "3.33", suite: "bookworm", moves: false },
    Release { version: "3.39", suite: "trixie", moves: false },
    Release { version: "3.41", suite: "sid", moves: true },
];
const INSTALLED: &str = "/usr/bin/fio";
/// Written last into a cache folder, with the version that is in it.
const STAMP: &str = "stamp";

struct Release {
    version: &'static str,
    suite: &'static str,
    /// Whether the suite goes on to newer versions; it then stands for «the newest».
    moves: bool,
}

impl Release {
    fn named(version: &str) -> Result<&'static Self, String> {
        RELEASES.iter().find(|release| release.version == version).ok_or_else(|| {
            let known = RELEASES.map(|release| release.version).join(", ");
            format!("fio {version} is not to be had; known are {known}")
        })
    }

    /// Complains where `found` is not the version that was asked for: in a suite that moves on standard error, else as an error.
    fn check(&self, found: &str) -> Result<(), String> {
        match (found == self.version, self.moves) {
            (true, _) => Ok(()),
            (false, true) => {
                eprintln!("xtask: {} has moved on: this is fio {found}, not {}", self.suite, self.version);
                Ok(())
            }
            (false, false) => Err(format!("{} should have fio {}, and has {found}", self.suite, self.version)),
        }
    }
}

/// Prints the path of a command that runs this fio.
pub(crate) fn binary(root: &Path, version: &str) -> Outcome {
    let release = Release::named(version)?;
    if version_of(Path::new(INSTALLED), &[]).is_ok_and(|installed| installed == release.version) {
        println!("{INSTALLED}");
        return Ok(());
    }
    let folder = root.join("target/fio").join(release.version);
    let command = folder.join("fio");
    cached(release, &folder, || {
        eprintln!("xtask: getting fio {} of {} (40 to 50 MB)", release.version, release.suite);
        let packages = Apt::for_suite(&folder.join("apt"), release.suite, Kind::Binaries)?.packages("fio")?;
        unpack::unpack(&packages, &fresh(&folder.join("root"))?, &command)?;
        version_of(&command, &[])
    })?;
    println!("{}", command.display());
    Ok(())
}

/// Prints the path of this fio's source, configured.
pub(crate) fn source(root: &Path, version: &str) -> Outcome {
    println!("{}", configured(root, version)?.display());
    Ok(())
}

/// The path of this fio's source, configured.
fn configured(root: &Path, version: &str) -> Result<PathBuf, String> {
    let release = Release::named(version)?;
    let folder = root.join("target/fio").join(format!("{}-src", release.version));
    let tree = folder.join("fio");
    cached(release, &folder, || {
        eprintln!("xtask: getting the source of fio {} of {}", release.version, release.suite);
        let tarball = Apt::for_suite(&folder.join("apt"), release.suite, Kind::Sources)?.tarball("fio")?;
        fresh(&tree)?;
        run(Command::new("tar").arg("-xf").arg(&tarball).arg("-C").arg(&tree).arg("--strip-components=1"))?;
        run(Command::new("./configure").current_dir(&tree))?;
        layout::tree_version(&tree).map_err(|error| error.to_string())
    })?;
    Ok(tree)
}

/// Lets `make` fill `folder` unless its stamp says that it is full; `make` returns the version it got.
///
/// What was downloaded before a failure is kept for the next try, and removed when all is done.
fn cached(release: &Release, folder: &Path, make: impl FnOnce() -> Result<String, String>) -> Result<(), String> {
    let stamp = folder.join(STAMP);
    if let Ok(found) = fs::read_to_string(&stamp) {
        return release.check(&found);
    }
    let at = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(at)?;
    let lock = File::create(folder.join("lock")).map_err(at)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| at(error.into()))?;
    // Another process may have filled it while this one waited.
    if let Ok(found) = fs::read_to_string(&stamp) {
        return release.check(&found);
    }
    let found = make()?;
    release.check(&found)?;
    if folder.join("apt").exists() {
        fs::remove_dir_all(folder.join("apt")).map_err(at)?;
    }
    fs::write(&stamp, found).map_err(at)
}

/// An empty folder, whatever a failed try left there.
pub(crate) fn fresh(folder: &Path) -> Result<PathBuf, String> {
    let at = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(at)?;
    }
    fs::create_dir_all(folder).map_err(at)?;
    Ok(folder.to_owned())
}

/// The version that a fio says it is, without «fio-».
fn version_of(fio: &Path, variables: &[(String, String)]) -> Result<String, String> {
    let said = run(Command::new(fio).arg("--version").envs(variables.iter().map(|(name, value)| (name, value))))?;
    match said.trim().strip_prefix("fio-") {
        Some(version) => Ok(version.to_owned()),
        None => Err(format!("«{} --version» says «{}»", fio.display(), said.trim())),
    }
}
