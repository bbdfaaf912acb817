//! A vendor's library in this process: loaded once, its driver opened by the first job and closed by the last, never from an exit handler.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::Vendor;
use super::calls::Calls;
use super::codes::Failure;
use crate::common::device::DeviceError;
use crate::common::gpu::{Runtime, Vendor as _};
use crate::common::library;

/// What a process has of a vendor.
pub struct Place<V> {
    pub library: OnceLock<Result<Library<V>, String>>,
    /// Jobs that have the driver open.
    pub users: Mutex<usize>,
}

impl<V> Place<V> {
    pub const fn new() -> Self {
        Self { library: OnceLock::new(), users: Mutex::new(0) }
    }
}

/// The loaded library.
pub struct Library<V> {
    pub calls: Calls,
    /// What only this vendor's library has.
    pub own: V,
    /// `libcufile 1.14.1`, for instance.
    pub version: String,
}

impl<V: Vendor> Library<V> {
    pub fn get() -> Result<&'static Self, String> {
        V::place().library.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, String> {
        V::before_loading();
        let (variable, names) = V::LIBRARY;
        let opened = library::open(variable, names).map_err(|line| format!("no {}: {line}; {}", V::NAME, V::NO_LIBRARY))?;
        let calls = Calls::load(&opened, |role| format!("{}{role}", V::PREFIX))?;
        let own = V::load(&opened)?;
        let version = own.version().unwrap_or_else(|| "of unknown version".to_owned());
        Ok(Self { calls, own, version: format!("{} {version}", V::NAME) })
    }

    /// What a failure of one of its calls means.
    pub fn explain(failure: Failure) -> String {
        failure.explain::<V>(|code| match Runtime::<V::Runtime>::get() {
            Ok(runtime) => runtime.explain(DeviceError(code)),
            Err(_) => format!("{} error {code}", V::Runtime::NAME),
        })
    }
}

fn users<V: Vendor>() -> MutexGuard<'static, usize> {
    V::place().users.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One job's share of the open driver; dropping the last one closes it.
pub struct Share<V: Vendor> {
    library: &'static Library<V>,
}

impl<V: Vendor> Share<V> {
    /// Opens the driver, or joins the jobs that have it open. The device of this thread must be current: a driver opened without one makes
    /// contexts on every GPU.
    pub fn open() -> Result<Self, String> {
        V::check_machine()?;
        let library = Library::<V>::get()?;
        let mut users = users::<V>();
        if *users == 0 {
            library.own.before_opening();
            let opened = library.calls.open_driver();
            opened.map_err(|failure| format!("{}DriverOpen: {}", V::PREFIX, Library::<V>::explain(failure)))?;
        }
        *users += 1;
        Ok(Self { library })
    }

    /// Leaves the driver open for as long as the process lives.
    pub fn keep(&self) {
        *users::<V>() += 1;
    }

    pub fn library(&self) -> &'static Library<V> {
        self.library
    }
}

impl<V: Vendor> Drop for Share<V> {
    fn drop(&mut self) {
        let mut users = users::<V>();
        *users -= 1;
        if *users == 0 {
            // Every job has given back its files and buffers before its share.
            self.library.own.around_closing(|| self.library.calls.close_driver());
        }
    }
}
