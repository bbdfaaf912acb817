//! The library's context and its devices: which there are, who has them connected, and in what order they go.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::calls::{DeviceId, Info, Library, is_hung_up};
use super::closing::Closing;
use super::codes::{self, CANCELLED, DONE};
use super::devices::{self, Device, Kind};
use super::ranges::{self, Ranges, Slice};
use super::watch::Watch;
use super::wishes::Wish;
use super::{lock, log};
use crate::common::device::Device as Gpu;

/// What all jobs of a process must agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Common {
    /// `gusli_library`.
    pub library: Option<String>,
    /// `gusli_log`.
    pub log: Option<String>,
    /// `gusli_client_name`.
    pub client: Option<String>,
    /// `gusli_max_inflight`.
    pub max_in_flight: Option<u32>,
}

/// Requests in flight that the library is asked for where no job wants more, and the most that it has.
const USUAL_REQUESTS: u32 = 256;
const MOST_REQUESTS: u32 = 511;

/// What this process has of GUSLI.
pub struct Context {
    pub library: &'static Library,
    pub common: Common,
    devices: Vec<Known>,
    ranges: Ranges,
    /// Jobs that use it.
    pub users: usize,
    /// Something in the library never ended: nothing is taken down any more.
    pub is_abandoned: bool,
}

/// A device of the configuration.
struct Known {
    device: Device,
    id: DeviceId,
    /// Jobs that have it connected.
    users: usize,
    info: Info,
    identity: Option<(u64, u64)>,
    in_flight: Arc<AtomicUsize>,
    is_gone: Arc<AtomicBool>,
    is_hung_up: Arc<AtomicBool>,
    watch: Option<Watch>,
    closing: Arc<Closing>,
    /// It is closed because its server was lost: a thread of the library may still look for it.
    was_lost: bool,
    /// The library opens it by this descriptor's name, where its own does not fit.
    _stand_in: Option<File>,
}

/// A device as one job uses it.
#[derive(Clone)]
pub struct Attached {
    /// What fio calls the file.
    pub file: String,
    pub kind: Kind,
    /// The path or address of the device.
    pub path: String,
    pub descriptor: i32,
    pub block_size: u32,
    /// Requests in flight at most, of all jobs of the process, and those that are.
    pub limit: usize,
    pub in_flight: Arc<AtomicUsize>,
    /// Where on the device the file starts.
    pub offset: u64,
    /// Set for good once the library has cancelled an I/O of it.
    pub is_gone: Arc<AtomicBool>,
    /// Set as soon as its server is: the library is about to take it down.
    is_hung_up: Arc<AtomicBool>,
    pub closing: Arc<Closing>,
    /// fio opens it by its name.
    pub is_plain: bool,
    /// Device and inode of what the library has open.
    identity: Option<(u64, u64)>,
    /// Its place in the context.
    known: usize,
}

impl Attached {
    /// Whether nothing may be submitted any more.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.is_hung_up.load(Ordering::Acquire) || self.is_gone.load(Ordering::Acquire)
    }

    /// Whether the library has lost its server. It says so with what it cancels, and of what comes later that there is no such device.
    pub fn is_lost(&self) -> bool {
        self.kind == Kind::Server && (self.is_closed() || is_hung_up(self.descriptor))
    }

    /// Whether what fio has opened is what the library has: a file that was made anew meanwhile is another one.
    pub fn check_same(&self, fd: RawFd) -> Result<(), String> {
        let opened = std::fs::metadata(format!("/proc/self/fd/{fd}")).ok().map(|about| (about.dev(), about.ino()));
        if self.kind == Kind::File && opened.is_some() && opened != self.identity {
            return Err(format!(
                "{} was made anew since the job began, and GUSLI still has the old one: leave out unlink_each_loop",
                self.path
            ));
        }
        Ok(())
    }
}

impl Context {
    /// Begins to cancel what is in flight on a device that does not answer, for all jobs; the device is gone now.
    pub fn force_close(&mut self, device: &Attached) {
        let known = &mut self.devices[device.known];
        let is_lost = device.is_lost();
        if known.is_gone.swap(true, Ordering::AcqRel) {
            return;
        }
        known.was_lost = is_lost;
        self.ranges.forget(device.known);
        known.closing.begin(self.library, known.id);
    }

    /// What the context is to be, the library's configuration, and how many requests it is asked for.
    pub fn plan(wishes: &[Wish], common: &Common) -> Result<(Self, String, u32), String> {
        let library = Library::get(common.library.as_deref())?;
        let mut devices: Vec<Known> = Vec::new();
        let mut lines = Vec::new();
        for Wish { device, .. } in wishes {
            if devices.iter().any(|known| known.device.is_same(device)) {
                continue;
            }
            check_beside(&devices, device)?;
            let id = device.id.clone().unwrap_or_else(|| unused_id(wishes, devices.len()));
            let stand_in = if device.kind.is_local() && !device.path_fits() { Some(open(device)?) } else { None };
            let path = stand_in.as_ref().map_or_else(|| device.path.clone(), |file| format!("/proc/self/fd/{}", file.as_raw_fd()));
            lines.push(device.line(&id, &path));
            let mut name = DeviceId::default();
            name[..id.len()].copy_from_slice(id.as_bytes());
            let known = Known {
                device: device.clone(),
                id: name,
                users: 0,
                info: Info::default(),
                identity: None,
                in_flight: Arc::default(),
                is_gone: Arc::default(),
                is_hung_up: Arc::default(),
                watch: None,
                closing: Arc::default(),
                was_lost: false,
                _stand_in: stand_in,
            };
            devices.push(known);
        }
        let deepest = wishes.iter().map(|wish| wish.depth).max().unwrap_or(0);
        let requests = common.max_in_flight.unwrap_or(deepest.clamp(USUAL_REQUESTS, MOST_REQUESTS));
        let config = devices::config(&lines)?;
        let mut jobs: Vec<(usize, usize)> = wishes.iter().map(|wish| (wish.job, wish.bytes)).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let expected = jobs.iter().map(|(_, bytes)| ranges::rounded(*bytes)).sum();
        let context = Self { library, common: common.clone(), devices, ranges: Ranges::expecting(expected), users: 0, is_abandoned: false };
        Ok((context, config, requests))
    }

    /// Connects the device of a file, or joins the jobs that have it connected.
    pub fn connect(&mut self, wish: &Wish) -> Result<Attached, String> {
        let Some(known) = self.devices.iter().position(|known| known.device.is_same(&wish.device)) else {
            return Err(format!(
                "{} was not known when GUSLI's context was made, and the library takes no device afterwards: use create_serialize=1, or thread=0",
                wish.file
            ));
        };
        let at = known;
        let known = &mut self.devices[at];
        let device = &known.device;
        if known.is_gone.load(Ordering::Acquire) {
            return Err(format!("{}: {}", device.path, codes::explain(CANCELLED)));
        }
        if known.users == 0 {
            // A file that the library itself makes it removes again.
            known.identity = match device.kind {
                kind if kind.is_local() => open(device)?.metadata().ok().map(|about| (about.dev(), about.ino())),
                _ => None,
            };
            let _alone = lock::alone()?;
            let code = match device.kind {
                Kind::Server => match connect_in_time(self.library, known.id) {
                    Some(code) => code,
                    None => {
                        known.is_gone.store(true, Ordering::Release); // a thread is in there, and stays
                        return Err(silent(&device.path) + "; thread=1 lets the jobs of a run share it");
                    }
                },
                _ => self.library.connect(&known.id),
            };
            if code != DONE {
                return Err(format!("{}: {}{}", device.path, codes::connecting(code), log::reason()));
            }
            let info = self.library.info(&known.id).map_err(codes::connecting);
            let watched = info.and_then(|info| {
                known.info = info;
                if device.kind == Kind::Server {
                    let watch = Watch::over(info.descriptor, known.is_hung_up.clone());
                    known.watch = Some(watch.map_err(|error| format!("no thread to watch the server: {error}"))?);
                }
                Ok(())
            });
            if let Err(line) = watched {
                self.library.disconnect(&known.id);
                return Err(format!("{}: {line}", device.path));
            }
        }
        known.users += 1;
        Ok(Attached {
            file: wish.file.clone(),
            kind: device.kind,
            path: device.path.clone(),
            descriptor: known.info.descriptor,
            block_size: known.info.block_size,
            limit: usize::from(known.info.max_in_flight).max(1),
            offset: wish.device.offset,
            in_flight: known.in_flight.clone(),
            is_gone: known.is_gone.clone(),
            is_hung_up: known.is_hung_up.clone(),
            closing: known.closing.clone(),
            is_plain: wish.device.is_plain(&wish.file),
            identity: known.identity,
            known: at,
        })
    }

    /// Undoes [`Context::connect`].
    pub fn disconnect(&mut self, device: &Attached) {
        let known = &mut self.devices[device.known];
        known.users -= 1;
        if known.users > 0 {
            return;
        }
        known.watch = None;
        if !self.is_abandoned && !known.is_gone.load(Ordering::Acquire) {
            let _alone = lock::alone();
            self.library.disconnect(&known.id);
        }
    }

    /// A part of registered memory, of `bytes` bytes, for all of `devices`, and pinned for `gpu` where there is one.
    pub fn take(&mut self, bytes: usize, devices: &[Attached], gpu: Option<&Arc<dyn Gpu>>) -> Result<Slice, String> {
        let largest = devices.iter().map(|device| device.block_size as usize).max().unwrap_or(1);
        if ranges::rounded(1) % largest.max(1) != 0 {
            return Err(format!("a device has blocks of {largest} bytes, which registered memory here is no multiple of"));
        }
        let ids = self.ids(devices);
        self.ranges.take(bytes, &ids, gpu, self.library).map_err(|line| line + &log::reason())
    }

    /// Undoes [`Context::take`].
    pub fn put(&mut self, slice: &Slice, devices: &[Attached]) {
        let ids = self.ids(devices);
        self.ranges.put(slice, &ids, self.library);
    }

    /// What the ranges know devices by. A device that is gone is not touched any more, not even to give back: a thread of the library may hold
    /// its lock for good.
    fn ids(&self, devices: &[Attached]) -> Vec<(DeviceId, usize)> {
        let is_there = |device: &&Attached| !device.is_gone.load(Ordering::Acquire);
        devices.iter().filter(is_there).map(|device| (self.devices[device.known].id, device.known)).collect()
    }

    /// Whether nothing in the library is in the way of its end.
    pub fn can_end(&self) -> bool {
        let is_rid_of = |known: &Known| !known.is_gone.load(Ordering::Acquire) || (known.closing.is_done() && !known.was_lost);
        !self.is_abandoned && self.devices.iter().all(is_rid_of)
    }
}

/// How long a server has to answer; the library itself would wait for ever.
pub const PATIENCE: Duration = Duration::from_secs(5);

fn connect_in_time(library: &'static Library, id: DeviceId) -> Option<i32> {
    let (answer, answered) = mpsc::channel();
    let connect = move || {
        let _ = answer.send(library.connect(&id)); // nobody waits for it any more
    };
    std::thread::Builder::new().name("gpuio-connect".to_owned()).spawn(connect).ok()?;
    answered.recv_timeout(PATIENCE).ok()
}

/// The line for a server that does not answer.
pub fn silent(path: &str) -> String {
    format!("{path}: the GUSLI server does not answer within {} s: it serves somebody else, or hangs", PATIENCE.as_secs())
}

/// The library knows all devices that have nothing behind them by one and the same descriptor.
fn check_beside(devices: &[Known], device: &Device) -> Result<(), String> {
    if device.kind.is_dummy() && devices.iter().any(|known| known.device.kind.is_dummy()) {
        return Err("the library cannot tell two devices of the types x and s apart: use one of them in a process".to_owned());
    }
    if device.id.is_some() && devices.iter().any(|known| known.device.id == device.id) {
        return Err(format!("the id {} stands for two devices in this process", device.id.as_deref().unwrap_or_default()));
    }
    Ok(())
}

fn unused_id(wishes: &[Wish], from: usize) -> String {
    let is_used = |id: &String| wishes.iter().any(|wish| wish.device.id.as_ref() == Some(id));
    (from..).map(|n| format!("g{n}")).find(|id| !is_used(id)).unwrap_or_default()
}

/// Opens what a device lies on as the library will, so that its failure can be explained, and makes a file that is not there.
fn open(device: &Device) -> Result<File, String> {
    let opened = File::options().read(true).write(true).create(device.kind == Kind::File).truncate(false).open(&device.path);
    opened.map_err(|error| format!("{}: {error}; GUSLI opens every device for reading and writing", device.path))
}
