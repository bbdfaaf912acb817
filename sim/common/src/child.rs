//! For tests: a body that runs in a process of its own, since the libraries read their knobs once a process.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Output};

const MARK: &str = "GPUIO_SIM_TEST_CHILD";

/// Runs `body` in a new process of the same test program under these variables, and fails if it fails there.
///
/// `test` is the name of the calling test as the test runner knows it.
pub fn run(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if let Some(output) = output(test, variables, body) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "in a process of its own: {}\n{out}\n{err}", output.status);
        assert!(out.contains("1 passed"), "no test is named {test}");
    }
}

/// Runs `body` in a new process and returns how that ended; None inside the new process, after the body.
pub fn output(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> Option<Output> {
    if env::var(MARK).is_ok_and(|mark| mark == test) {
        body();
        return None;
    }
    let program = env::current_exe().expect("the running test has a path");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(MARK, test);
    command.envs(variables.iter().copied());
    Some(command.output().expect("the running test can be started again"))
}

/// The library that cargo built for this test: `libNAME.so` beside the test program.
pub fn library(name: &str) -> PathBuf {
    let program = env::current_exe().expect("the running test has a path");
    let folder = program.parent().expect("a program lies in a folder");
    folder.join(format!("lib{name}.so"))
}
