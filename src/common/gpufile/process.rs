//! libcufile in this process: loaded once, its driver opened by the first job and closed by the last, never from an exit handler.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::calls::{Calls, modules_are_listed};
use super::codes::Failure;
use super::settings;
use crate::common::cuda::Cuda;
use crate::common::device::DeviceError;
use crate::common::library;

/// The loaded library.
pub struct Library {
    pub calls: Calls,
    /// `libcufile 1.14.1`, for instance.
    pub version: String,
}

impl Library {
    pub fn get() -> Result<&'static Self, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, String> {
        let opened = library::open("GPUIO_CUFILE_LIBRARY", &["libcufile.so.0", "libcufile.so"]).map_err(|line| {
            format!("no libcufile: {line}; install it (package libcufile, part of the CUDA toolkit), or use gpu_io=posix")
        })?;
        let calls = Calls::load(&opened)?;
        let version = match calls.version() {
            Some(number) => format!("{}.{}.{}", number / 1000, number % 1000 / 10, number % 10),
            None => "of unknown version".to_owned(),
        };
        Ok(Self { calls, version: format!("libcufile {version}") })
    }

    /// libcufile 1.20 starts I/O threads for every GPU that it sees, each with a context; where there are several GPUs it gets none, unless
    /// its settings ask for them. Only I/Os larger than min_io_threshold_size_kb (8 MiB) are ever split among them.
    fn keep_to_named_devices(&self) {
        let several = Cuda::get().is_ok_and(|cuda| cuda.count() > 1);
        let asked = settings::read().is_some_and(|settings| !settings["execution"]["max_io_threads"].is_null());
        if several && !asked {
            self.calls.set_io_threads(0);
        }
    }

    /// What a failure of one of its calls means.
    pub fn explain(failure: Failure) -> String {
        failure.explain(|code| Cuda::get().map_or_else(|_| format!("CUDA error {code}"), |cuda| cuda.explain(DeviceError(code))))
    }
}

/// Jobs of this process that have the driver open.
static USERS: Mutex<usize> = Mutex::new(0);

/// One job's share of the open driver; dropping the last one closes it.
pub struct Share {
    library: &'static Library,
}

impl Share {
    /// Opens the driver, or joins the jobs that have it open. The device of this thread must be current: a driver opened without one makes
    /// contexts on every GPU.
    pub fn open() -> Result<Self, String> {
        if !modules_are_listed() && std::env::var("GPUIO_FORCE").as_deref() != Ok("1") {
            return Err(
                "/proc/modules cannot be read, and libcufile would wait for it for ever: use a kernel with modules, use gpu_io=posix, \
                        or set GPUIO_FORCE=1 to try all the same"
                    .to_owned(),
            );
        }
        let library = Library::get()?;
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        if *users == 0 {
            library.keep_to_named_devices();
            library.calls.open_driver().map_err(|failure| format!("cuFileDriverOpen: {}", Library::explain(failure)))?;
        }
        *users += 1;
        Ok(Self { library })
    }

    /// Leaves the driver open for as long as the process lives.
    pub fn keep(&self) {
        *USERS.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    pub fn library(&self) -> &'static Library {
        self.library
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        *users -= 1;
        if *users == 0 {
            // Every job has given back its files and buffers before its share.
            let close = || self.library.calls.close_driver();
            match Cuda::get() {
                // 1.20 gives back a context of every GPU here, whether its I/O threads had one or not.
                Ok(cuda) if cuda.count() > 1 => cuda.keep_contexts(close),
                _ => close(),
            }
        }
    }
}
