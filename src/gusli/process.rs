//! GUSLI's one context in this process: made by the first job, shared by all, and taken down by the last, in the only order that the library
//! survives: buffers, devices, context.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use super::calls::{DeviceId, Info, Library, is_hung_up};
use super::codes::{self, CANCELLED, DONE};
use super::devices::{self, Device, Kind};
use super::ranges::{Ranges, Slice};
use super::wishes::{self, Wish};
use super::{lock, log, ranges};

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

enum State {
    None,
    Live(Context),
    /// The library keeps what it had parsed before it failed, so there is no second try.
    Failed(String),
}

struct Context {
    library: &'static Library,
    common: Common,
    devices: Vec<Known>,
    ranges: Ranges,
    /// Jobs that use it.
    users: usize,
    /// Something in the library never ended: nothing is taken down any more.
    is_abandoned: bool,
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
    /// It is gone because it was closed, so the library has nothing of it any more.
    was_closed: bool,
    /// The library opens it by this descriptor's name, where its own does not fit.
    _stand_in: Option<File>,
}

static STATE: Mutex<State> = Mutex::new(State::None);
/// The process that has, or had, a context: a copy of it that was forked cannot have one.
static OWNER: AtomicU32 = AtomicU32::new(0);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// fio opens it by its name.
    pub is_plain: bool,
    /// Device and inode of what the library has open.
    identity: Option<(u64, u64)>,
    /// Its place in the context.
    known: usize,
}

impl Attached {
    /// Whether the library has lost its server. It says so with what it cancels, and of what comes later that there is no such device.
    pub fn is_lost(&self) -> bool {
        self.kind == Kind::Server && (self.is_gone.load(Ordering::Acquire) || is_hung_up(self.descriptor))
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

/// One job's share of the context.
pub struct Share {
    pub library: &'static Library,
    pub devices: Vec<Attached>,
    slice: Option<Slice>,
}

impl Share {
    /// Connects the devices of `job`, in the context that is there or that is made now.
    pub fn open(job: usize, is_thread: bool, common: &Common) -> Result<Self, String> {
        let own = std::process::id();
        if ![0, own].contains(&OWNER.load(Ordering::Acquire)) {
            return Err(
                "GUSLI was used in this process before this job was forked, and its library cannot be used in both: use thread=1 for all \
                        jobs of this run, or for none"
                    .to_owned(),
            );
        }
        let mut state = state();
        if let State::Failed(line) = &*state {
            return Err(line.clone());
        }
        let wishes = wishes::of(job);
        if matches!(*state, State::None) {
            let (context, config, requests) = Context::plan(&wishes::beside(job, is_thread), common)?;
            OWNER.store(own, Ordering::Release);
            let client = common.client.as_deref().unwrap_or("fio");
            if let Some(path) = &common.log {
                log::write_to(path)?;
            }
            if let Err(why) = context.library.construct(&config, client, requests) {
                let line = format!("GUSLI's context cannot be made: {why}{}", log::reason());
                *state = State::Failed(line.clone());
                return Err(line);
            }
            *state = State::Live(context);
        }
        let State::Live(context) = &mut *state else { return Err("GUSLI has no context".to_owned()) };
        if context.common != *common {
            return Err(
                "gusli_library, gusli_log, gusli_client_name and gusli_max_inflight are the process's: give all jobs the same, or use \
                        thread=0"
                    .to_owned(),
            );
        }
        context.users += 1;
        let mut share = Self { library: context.library, devices: Vec::new(), slice: None };
        for wish in &wishes {
            match context.connect(wish) {
                Ok(attached) => share.devices.push(attached),
                Err(line) => {
                    drop(state); // the share takes down what it has
                    return Err(line);
                }
            }
        }
        Ok(share)
    }

    /// Registered memory for the job, of `bytes` bytes, for all of its devices.
    pub fn allocate(&mut self, bytes: usize) -> Result<usize, String> {
        let mut state = state();
        let State::Live(context) = &mut *state else { return Err("GUSLI has no context".to_owned()) };
        let largest = self.devices.iter().map(|device| device.block_size as usize).max().unwrap_or(1);
        if ranges::rounded(1) % largest.max(1) != 0 {
            return Err(format!("a device has blocks of {largest} bytes, which registered memory here is no multiple of"));
        }
        let ids = context.ids(&self.devices);
        let slice = context.ranges.take(bytes, &ids, context.library).map_err(|line| line + &log::reason())?;
        Ok(self.slice.insert(slice).address)
    }

    /// Undoes [`Share::allocate`]. No request is in flight.
    pub fn free(&mut self) {
        for device in self.devices.iter().filter(|device| device.is_lost()) {
            device.is_gone.store(true, Ordering::Release);
        }
        let Some(slice) = self.slice.take() else { return };
        if let State::Live(context) = &mut *state() {
            let ids = context.ids(&self.devices);
            context.ranges.put(&slice, &ids, context.library);
        }
    }

    /// Leaves everything as it is for as long as the process lives.
    pub fn abandon(&mut self) {
        self.slice = None;
        if let State::Live(context) = &mut *state() {
            context.is_abandoned = true;
        }
    }
}

/// Cancels what is in flight on a device that does not answer, for all jobs; the device is gone afterwards.
pub fn force_close(device: &Attached) {
    if let State::Live(context) = &mut *state() {
        let known = &mut context.devices[device.known];
        if !known.is_gone.swap(true, Ordering::AcqRel) {
            known.was_closed = context.library.force_close(&known.id) == DONE;
            context.ranges.forget(device.known);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.free();
        let mut state = state();
        let State::Live(context) = &mut *state else { return };
        for attached in &self.devices {
            context.disconnect(attached.known);
        }
        context.users -= 1;
        if context.users == 0 && context.can_end() {
            context.library.destroy();
            *state = State::None;
        }
    }
}

impl Context {
    /// What the context is to be, the library's configuration, and how many requests it is asked for.
    fn plan(wishes: &[Wish], common: &Common) -> Result<(Self, String, u32), String> {
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
                was_closed: false,
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
    fn connect(&mut self, wish: &Wish) -> Result<Attached, String> {
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
            match self.library.info(&known.id) {
                Ok(info) => known.info = info,
                Err(code) => {
                    self.library.disconnect(&known.id);
                    return Err(format!("{}: {}", device.path, codes::connecting(code)));
                }
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
            is_plain: wish.device.is_plain(&wish.file),
            identity: known.identity,
            known: at,
        })
    }

    fn disconnect(&mut self, known: usize) {
        let known = &mut self.devices[known];
        known.users -= 1;
        if known.users == 0 && !self.is_abandoned && !known.is_gone.load(Ordering::Acquire) {
            let _alone = lock::alone();
            self.library.disconnect(&known.id);
        }
    }

    /// What the ranges know devices by. A device that is gone is not touched any more, not even to give back: a thread of the library may hold
    /// its lock for good.
    fn ids(&self, devices: &[Attached]) -> Vec<(DeviceId, usize)> {
        let is_there = |device: &&Attached| !device.is_gone.load(Ordering::Acquire);
        devices.iter().filter(is_there).map(|device| (self.devices[device.known].id, device.known)).collect()
    }

    /// Whether nothing in the library is in the way of its end.
    fn can_end(&self) -> bool {
        !self.is_abandoned && self.devices.iter().all(|known| !known.is_gone.load(Ordering::Acquire) || known.was_closed)
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
