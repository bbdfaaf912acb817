//! Bare loops over vendors' libraries, which are compiled when they are needed, and a loop device for them.

use super::plan::Bare;
use crate::command::run;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Compiles a loop into `folder`, and returns the program.
pub(super) fn program(bare: &Bare, folder: &Path) -> Result<PathBuf, String> {
    let program = folder.join(bare.name);
    let source = program.with_extension("cpp");
    fs::write(&source, bare.source).map_err(|error| format!("{}: {error}", source.display()))?;
    run(Command::new("c++").args(["-O2", "-std=c++17", "-o"]).args([&program, &source]).arg("-ldl"))?;
    Ok(program)
}

/// A loop device over a file, gone when dropped.
pub(super) struct LoopDevice(pub String);

impl LoopDevice {
    pub fn over(file: &str) -> Result<Self, String> {
        let made = run(Command::new("losetup").args(["--find", "--show", file]))?;
        Ok(Self(made.trim().to_owned()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if let Err(why) = run(Command::new("losetup").args(["--detach", &self.0])) {
            eprintln!("xtask: {why}");
        }
    }
}
