//! NVIDIA's GUSLI, user-space block access, through the real client library: files, kernel block devices and servers, on registered host memory, which can
//! be pinned for GPUs.
//!
//! `calls` is the only one to touch the library; `devices` reads what users name, `wishes` gathers it before any job starts, with `sizes`;
//! `process` keeps the one `context` with its `ranges` of registered memory, under a lock between processes; `requests` is a job's I/O, with its
//! `operations`; `watch` keeps it away from servers that are gone, and `closing` gets rid of them.

mod calls;
mod closing;
mod codes;
mod context;
mod devices;
mod log;
mod operations;
mod process;
mod ranges;
mod requests;
mod sizes;
mod watch;
mod wishes;

use std::fs::File;
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::Arc;

use crate::common::device::Device as Gpu;
use crate::common::driver::{Driver, Handle};
use crate::common::transport::Transport;
use crate::common::wait;
pub use calls::Manner;
pub use context::Common;
use devices::Kind;
use operations::list_room;
use process::Share;
use requests::Requests;
pub use sizes::{Named, size_of};

/// Whether a text is a value of `gusli_device=`.
pub fn check_list(text: &str) -> Result<(), String> {
    devices::parse_list(text).map(|_| ())
}

/// What one job asks of GUSLI.
pub struct Settings {
    /// Which job: the same in the main thread and in the job.
    pub job: usize,
    /// Whether it is a thread of fio's process.
    pub is_thread: bool,
    pub common: Common,
    /// The GPU that the I/O buffers are pinned for.
    pub gpu: Option<Arc<dyn Gpu>>,
    /// Operations in flight.
    pub depth: u32,
    pub wait: wait::Manner,
    pub requests: Manner,
    /// `gusli_completion=callback`.
    pub has_callback: bool,
    /// `gusli_sgl`.
    pub makes_lists: bool,
}

/// GUSLI as one job uses it.
pub struct Gusli {
    share: Share,
    gpu: Option<Arc<dyn Gpu>>,
    requests: requests::Settings,
}

impl Gusli {
    /// Connects the job's devices.
    pub fn open(settings: Settings) -> Result<Self, String> {
        let share = Share::open(settings.job, settings.is_thread, &settings.common)?;
        let requests = requests::Settings {
            depth: settings.depth as usize,
            wait: settings.wait,
            requests: settings.requests,
            has_callback: settings.has_callback,
            makes_lists: settings.makes_lists,
        };
        Ok(Self { share, gpu: settings.gpu, requests })
    }

    /// What the user is to know of the job's devices.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for device in self.share.devices.iter().filter(|device| !device.file.is_empty()) {
            if device.limit < self.requests.depth {
                let (path, limit, depth) = (&device.path, device.limit, self.requests.depth);
                notes.push(format!("{path} takes {limit} requests at a time: iodepth={depth} acts as {limit} there"));
            }
            if device.kind == Kind::Server {
                let (path, bytes) = (&device.path, device.block_size);
                notes.push(format!("GUSLI refuses the last block of {path} ({bytes} bytes), so the device counts as one block shorter"));
            }
        }
        notes
    }

    /// The job's I/O.
    pub fn requests(&self) -> Box<dyn Transport> {
        Box::new(Requests::new(self.share.library, &self.share.devices, self.requests))
    }
}

impl Driver for Gusli {
    fn device(&self) -> Option<&Arc<dyn Gpu>> {
        self.gpu.as_ref()
    }

    fn version(&self) -> Option<String> {
        Some(self.share.library.name.clone())
    }

    fn allocate(&mut self, bytes: usize) -> Option<Result<usize, String>> {
        let all = bytes + list_room(self.requests.depth, self.requests.makes_lists);
        Some(self.share.allocate(all, self.gpu.as_ref()))
    }

    fn detach(&mut self) {
        self.share.free();
    }

    fn abandon(&mut self) {
        self.share.abandon();
    }

    /// A file that fio cannot open under its name: one that stands for a device. A server has no descriptor.
    fn open_own(&mut self, name: &str) -> Option<Result<Option<RawFd>, String>> {
        let device = self.share.devices.iter().find(|device| device.file == name && !device.is_plain)?;
        if !device.kind.is_local() {
            return Some(Ok(None));
        }
        // For what goes past GUSLI: syncs.
        let opened = File::options().read(true).write(true).open(&device.path);
        Some(opened.map(|file| Some(file.into_raw_fd())).map_err(|error| format!("{}: {error}", device.path)))
    }

    fn open_file(&mut self, fd: RawFd, name: &str) -> Result<Handle, String> {
        let found = self.share.devices.iter().position(|device| device.file == name);
        let handle =
            found.map(Handle).ok_or_else(|| format!("{name} was not there when the job began, and GUSLI takes no device afterwards"))?;
        self.share.devices[handle.0].check_same(fd)?;
        Ok(handle)
    }

    fn explain(&self, code: i32) -> String {
        codes::explain(code)
    }
}
