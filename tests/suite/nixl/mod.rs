//! NIXL: the real library and its plugins, from their wheel. POSIX and GUSLI on files and loop devices; GDS and GDS_MT with the real libcufile on the
//! simulated driver; OBJ against a small S3 server.

mod cufile;
mod failures;
mod gusli;
mod objects;
mod posix;
mod refusals;

use crate::harness::{Fio, Run, library, target};

/// Makes one `#[test]` of each function named, on fio 3.33. The function gets a [`Nixl`] of its own.
macro_rules! on_the_real_library {
    ($($test:ident),* $(,)?) => {$(
        #[test]
        fn $test() { run::$test(&crate::nixl::Nixl::get("3.33")) }
    )*};
}
use on_the_real_library;

const MIB: u64 = 1 << 20;

/// A fio with NIXL's library.
struct Nixl {
    fio: Fio,
    variables: Vec<(String, String)>,
}

impl Nixl {
    fn get(version: &'static str) -> Self {
        Self::with(version, &["nixl"])
    }

    /// The same in further environments.
    fn with(version: &'static str, environments: &[&str]) -> Self {
        let fio = Fio::get(version);
        let prepare = |name: &&str| sim_env::prepare(name, target(), &[fio.folder.path()]).unwrap_or_else(|why| panic!("{name}: {why}"));
        Self { variables: environments.iter().flat_map(prepare).collect(), fio }
    }

    /// A job file for NIXL. `text` goes on where `[global]` has begun.
    fn job(&self, text: &str) -> Run {
        self.file(&format!("[global]\nioengine=external:{}\ngpu_backend=nixl\n{text}", library().display()))
    }

    /// A job file just as it is.
    fn file(&self, text: &str) -> Run {
        self.variables.iter().fold(self.fio.job_file(text), |run, (name, value)| run.env(name, value))
    }

    /// psync reads with verification what a job of this library has written.
    #[track_caller]
    fn psync_verifies(&self, text: &str) {
        self.fio.job_file(&format!("[global]\nioengine=psync\nrw=read\n{text}[a]\n")).run().ok();
    }

    /// A ready job file runs, on small files and briefly.
    #[track_caller]
    fn runs_the_ready_file(&self, name: &str) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fio-jobs").join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let text = text.replace("./target/release/libgpuio.so", &library().display().to_string());
        let report =
            self.file(&text.replace("size=256m", "size=4m").replace("size=64m", "size=4m").replace("runtime=5", "runtime=1")).run();
        report.ok();
    }
}
