//! `cargo xtask hip`: AMD's real HIP runtime of Debian, and its headers, beside the machine's own libraries, kept under `target/hip/`. It finds
//! no device where there is none, which is what it is for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::run;
use crate::fio::{Apt, Kind, fresh};

const SUITE: &str = "bookworm";
/// What depends on the C library's own packages is loaded into processes that have those.
const OF_THE_PROCESS: [&str; 4] = ["libc6_", "libgcc-s1_", "libstdc++6_", "gcc-12-base_"];

/// The folder with `libamdhip64.so.5` and all that it needs.
pub(crate) fn libraries(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join("target/hip/5.2");
    let tree = folder.join("root");
    let stamp = folder.join("stamp");
    if !stamp.exists() {
        eprintln!("xtask: getting the HIP runtime of {SUITE} (60 MB)");
        let apt = Apt::for_suite(&folder.join("apt"), SUITE, Kind::Binaries)?;
        let mut packages = apt.packages("libamdhip64-5")?;
        packages.push(apt.alone("libamdhip64-dev")?);
        fresh(&tree)?;
        let is_own = |file: &&PathBuf| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            !OF_THE_PROCESS.iter().any(|start| name.starts_with(start))
        };
        for file in packages.iter().filter(is_own) {
            run(Command::new("dpkg-deb").arg("-x").arg(file).arg(&tree))?;
        }
        let at = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::remove_dir_all(folder.join("apt")).map_err(at)?;
        fs::write(&stamp, SUITE).map_err(at)?;
    }
    let libraries = tree.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let library = libraries.join("libamdhip64.so.5");
    if library.exists() { Ok(libraries) } else { Err(format!("{} is not there", library.display())) }
}
