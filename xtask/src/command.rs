//! Runs other programs quietly; what they said is shown where they fail.

use std::process::{Command, Output};

/// How many of the last lines of a failed program are worth showing.
const LINES_SHOWN: usize = 15;

/// Runs a program to its end and returns what it wrote on standard output.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("«{}» failed ({}):\n{}", shown(command), output.status, last_lines(&output)))
}

/// The command line without its `-o NAME=VALUE` settings, of which apt-get gets many.
fn shown(command: &Command) -> String {
    let mut shown = command.get_program().to_string_lossy().into_owned();
    let mut words = command.get_args();
    while let Some(word) = words.next() {
        if word == "-o" {
            words.next();
        } else {
            shown = shown + " " + &word.to_string_lossy();
        }
    }
    shown
}

fn last_lines(output: &Output) -> String {
    let text = [&*output.stdout, &*output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}
