//! What every test here stands on: a real fio, the real library, a folder of the test's own, and what came out of a run.

mod folder;
pub mod machine;
mod report;
mod run;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

pub use folder::Folder;
pub use report::Report;
pub use run::{Run, Running};

/// Makes one `#[test]` a fio version of each function named: `mod name { fn fio_3_25(), … }`. The function gets a [`Fio`] of its own.
macro_rules! on_every_fio {
    ($($test:ident),* $(,)?) => {$(
        mod $test {
            #[test]
            fn fio_3_25() { super::$test(&crate::harness::Fio::get("3.25")) }
            #[test]
            fn fio_3_33() { super::$test(&crate::harness::Fio::get("3.33")) }
            #[test]
            fn fio_3_39() { super::$test(&crate::harness::Fio::get("3.39")) }
            #[test]
            fn fio_3_41() { super::$test(&crate::harness::Fio::get("3.41")) }
        }
    )*};
}
pub(crate) use on_every_fio;

/// The same on the oldest and the newest fio only: for what lies behind the hooks, where no version differs from another.
macro_rules! on_two_fios {
    ($($test:ident),* $(,)?) => {$(
        mod $test {
            #[test]
            fn fio_3_25() { super::$test(&crate::harness::Fio::get("3.25")) }
            #[test]
            fn fio_3_41() { super::$test(&crate::harness::Fio::get("3.41")) }
        }
    )*};
}
pub(crate) use on_two_fios;

/// Ends a test that needs what this machine has not, and says so where `make test` counts it: past libtest's capture.
macro_rules! skip {
    ($($why:tt)*) => {{
        crate::harness::skipped(&format!($($why)*));
        return;
    }};
}
pub(crate) use skip;

pub fn skipped(why: &str) {
    use std::io::Write;
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // A test that cannot say that it skipped must not count as passed.
    writeln!(std::io::stderr(), "skipped: {test}: {why}").expect("standard error takes a line");
}

/// The folder that cargo builds into.
pub fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("cargo's own folder lies in target/")
}

/// The library under test.
pub fn library() -> PathBuf {
    built("release/libgpuio.so", "cargo build --release")
}

/// The library with its deliberate faults.
pub fn faulty_library() -> PathBuf {
    built("faults/release/libgpuio.so", "cargo build --release --features faults --target-dir target/faults")
}

/// The preloaded library that makes a fio look unknown.
pub fn shim() -> PathBuf {
    built("release/libfio_shim.so", "cargo build --release --package fio-shim")
}

fn built(path: &str, command: &str) -> PathBuf {
    let path = target().join(path);
    assert!(path.exists(), "{} is not there: run `{command}`", path.display());
    path
}

/// One real fio, with a folder for the test that uses it.
pub struct Fio {
    pub version: &'static str,
    pub command: PathBuf,
    pub folder: Folder,
}

impl Fio {
    pub fn get(version: &'static str) -> Self {
        library();
        Self { version, command: command(version), folder: Folder::new() }
    }

    /// Whether this fio is at least 3.`minor`.
    pub fn is_at_least(&self, minor: u32) -> bool {
        self.version.split('.').nth(1).and_then(|m| m.parse().ok()).is_some_and(|own: u32| own >= minor)
    }

    /// A job file on the host backend. `text` goes on where `[global]` has begun.
    pub fn job(&self, text: &str) -> Run {
        self.job_file(&format!("[global]\nioengine=external:{}\ngpu_backend=host\n{text}", library().display()))
    }

    /// The same job file on fio's own psync, in a folder beside: the yardstick.
    pub fn psync(&self, text: &str) -> Run {
        self.job_file(&format!("[global]\nioengine=psync\n{text}")).inside(&self.yardstick())
    }

    /// A job file just as it is. The newest fio runs by its own choice of clock, the others by one that is named: what runs on several meets
    /// both, and the one that is named is had without the 90 ms of a core in which fio compares the cores' counters.
    pub fn job_file(&self, text: &str) -> Run {
        let run = Run::new(&self.command, self.folder.path()).job_text(text);
        if self.is_at_least(41) { run } else { run.args(&["--clocksource=clock_gettime"]) }
    }

    /// A command line just as it is; JSON is asked for as well.
    pub fn args<S: AsRef<str>>(&self, args: &[S]) -> Run {
        Run::new(&self.command, self.folder.path()).args(args)
    }

    /// `--ioengine=external:…` for a command line.
    pub fn engine(&self) -> String {
        format!("--ioengine=external:{}", library().display())
    }

    /// Runs the job on the library and on psync; both must end well, with as many I/Os and bytes.
    #[track_caller]
    pub fn same_as_psync(&self, text: &str) -> Report {
        let (ours, theirs) = (self.job(text).run(), self.psync(text).run());
        ours.ok();
        theirs.ok();
        for (job, yardstick) in ours.jobs().iter().zip(theirs.jobs()) {
            for direction in ["read", "write", "trim", "sync"] {
                for count in ["total_ios", "io_bytes", "short_ios", "drop_ios"] {
                    let (own, expected) = (&job[direction][count], &yardstick[direction][count]);
                    ours.assert(own == expected, &format!("{direction}.{count} is {own}, with psync {expected}"));
                }
            }
        }
        ours
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder in which psync runs.
    pub fn yardstick(&self) -> PathBuf {
        let path = self.path("psync");
        std::fs::create_dir_all(&path).expect("a folder for psync");
        path
    }

    /// Makes a file for the library and the same for psync.
    pub fn file(&self, name: &str, content: &[u8]) {
        for folder in [self.folder.path().to_owned(), self.yardstick()] {
            std::fs::write(folder.join(name), content).expect("a file of the test");
        }
    }

    /// A run that writes 64 KiB of `byte` to the file `name` waits while another process holds the lock under which GUSLI's library makes its
    /// shared memory.
    #[track_caller]
    pub fn waits_for_the_lock_of_shared_memory(&self, run: Run, name: &str, byte: u8) {
        /// Longer than the whole run takes where nothing is in its way.
        const HELD: Duration = Duration::from_millis(4000);
        let place = std::fs::File::open("/dev/shm").expect("/dev/shm");
        flock(&place, FlockOperation::LockExclusive).expect("a lock");
        let running = run.start();
        std::thread::sleep(HELD);
        let early = std::fs::read(self.path(name)).is_ok_and(|bytes| bytes.contains(&byte));
        flock(&place, FlockOperation::Unlock).expect("an end of the lock");
        running.finish().ok().says_nothing();
        assert!(!early, "it did not wait for the lock");
        assert_eq!(self.read(name), vec![byte; 64 << 10]);
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Both runs left the same bytes, by another program's word.
    #[track_caller]
    pub fn same_bytes(&self, name: &str) {
        machine::tool("cmp", &[&self.path(name), &self.yardstick().join(name)]);
    }

    /// The SHA-256 of a file, by another program's word.
    #[track_caller]
    pub fn sha256(&self, name: &str) -> String {
        machine::tool("sha256sum", &[&self.path(name)]).split_whitespace().next().expect("a sum").to_owned()
    }
}

/// Where `cargo xtask fio` puts that version, or the machine's own fio where it is that version.
fn command(version: &str) -> PathBuf {
    static INSTALLED: LazyLock<String> = LazyLock::new(|| machine::try_tool("fio", &["--version"]).unwrap_or_default());
    if INSTALLED.trim().strip_prefix("fio-") == Some(version) {
        return PathBuf::from("fio");
    }
    let command = target().join("fio").join(version).join("fio");
    assert!(command.exists(), "{} is not there: run `cargo xtask fio {version}`", command.display());
    command
}

/// Bytes that differ at every place, for files whose content must be known.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_ne_bytes());
    }
    bytes.truncate(length);
    bytes
}
