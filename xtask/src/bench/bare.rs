//! The bare loop over GUSLI's client library, which is compiled when it is needed, and a loop device for it.

use crate::command::run;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const SOURCE: &str = include_str!("gusli_loop.cpp");

/// Compiles the loop into `folder`, and returns the program.
pub(super) fn program(folder: &Path) -> Result<PathBuf, String> {
    let (source, program) = (folder.join("gusli_loop.cpp"), folder.join("gusli-loop"));
    fs::write(&source, SOURCE).map_err(|error| format!("{}: {error}", source.display()))?;
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
