//! The words after `cargo xtask bench`.

use std::{path::PathBuf, str::FromStr, thread};

pub(super) const USAGE: &str = "  bench [NAME…]              compare with fio's own engines, side by side; all where none is named:
                             posix, depth, uring, uring-cached, uring-disk, cufile12, cufile13, null, null-deep, wait,
                             gusli, gusli-block, nixl, nixl-disk, nixl-plugins
    --rounds N               rounds, each of which runs every command line once (9)
    --seconds S              length of each run (1)
    --apart                  give each command line a fio of its own, one after the other, also where one fio can run all at once
    --dir DIR                where the test file is made and removed again (/dev/shm; target/bench for those on a disk)
    --core N                 the core that single-threaded runs are pinned to (the last one)
    --fio PATH               the fio to run (/usr/bin/fio)
    --library PATH           the library to measure (target/release/libgpuio.so)
    --instructions           count user instructions per I/O with valgrind instead of measuring time";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub names: Vec<String>,
    pub rounds: usize,
    pub seconds: u32,
    pub apart: bool,
    pub folder: Option<PathBuf>,
    pub core: usize,
    pub fio: PathBuf,
    pub library: Option<PathBuf>,
    pub instructions: bool,
}

impl Options {
    pub fn parse(words: &[&str]) -> Result<Self, String> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut options = Self {
            names: Vec::new(),
            rounds: 9,
            seconds: 1,
            apart: false,
            folder: None,
            core: cores - 1,
            fio: "/usr/bin/fio".into(),
            library: None,
            instructions: false,
        };
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word {
                "--rounds" => options.rounds = positive(word, value()?)?,
                "--seconds" => options.seconds = positive(word, value()?)?,
                "--apart" => options.apart = true,
                "--dir" => options.folder = Some(value()?.into()),
                "--core" => options.core = number(word, value()?)?,
                "--fio" => options.fio = value()?.into(),
                "--library" => options.library = Some(value()?.into()),
                "--instructions" => options.instructions = true,
                unknown if unknown.starts_with('-') => return Err(format!("bench has no option {unknown}; it has\n{USAGE}")),
                name => options.names.push(name.to_owned()),
            }
        }
        Ok(options)
    }
}

fn number<T: FromStr>(option: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{option}={text}: use a whole number"))
}

fn positive<T: FromStr + PartialOrd + From<u8>>(option: &str, text: &str) -> Result<T, String> {
    let found: T = number(option, text)?;
    if found >= T::from(1) { Ok(found) } else { Err(format!("{option}={text}: use a whole number from 1 on")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_options_come_in_any_order() {
        let options = Options::parse(&["posix", "--rounds", "21", "depth", "--instructions"]).unwrap();
        assert_eq!(options.names, ["posix", "depth"]);
        assert_eq!((options.rounds, options.seconds, options.instructions), (21, 1, true));
    }

    #[test]
    fn what_cannot_be_meant_is_named() {
        for (words, complaint) in [
            (&["--rounds", "0"][..], "--rounds=0"),
            (&["--seconds", "half"], "--seconds=half"),
            (&["--dir"], "--dir needs"),
            (&["--round"], "no option --round;"),
        ] {
            let error = Options::parse(words).unwrap_err();
            assert!(error.contains(complaint), "{error}");
        }
    }
}
