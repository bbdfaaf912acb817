//! What the process has: knobs, devices, contexts, memory; and how every call enters.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use sim_common::knobs::{self, FailAt};
use sim_common::log::Line;

use crate::abi::{
    CONTEXT_IS_DESTROYED, Code, Device, Handle, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, NOT_INITIALIZED, NOT_PERMITTED, SUCCESS,
};
use crate::context::{self, Context};
use crate::event::Event;
use crate::memory::Ranges;

/// The environment's wishes; the table is in `lib.rs`.
pub struct Knobs {
    pub devices: i32,
    pub memory: u64,
    pub pci: Vec<String>,
    /// None is the runtime's own.
    pub version: Option<i32>,
    pub fail_alloc: FailAt,
    pub fail_register: FailAt,
    pub fail_copy: FailAt,
    pub fail_async: FailAt,
    pub copy_delay: Duration,
}

impl Knobs {
    fn from_env() -> Self {
        Self {
            devices: knobs::number("GPUIO_SIM_DEVICES", 1),
            memory: knobs::bytes("GPUIO_SIM_MEMORY", 8 << 30),
            pci: knobs::list("GPUIO_SIM_PCI"),
            version: Some(knobs::number("GPUIO_SIM_VERSION", 0)).filter(|&version| version > 0),
            fail_alloc: FailAt::from_env("GPUIO_SIM_FAIL_ALLOC"),
            fail_register: FailAt::from_env("GPUIO_SIM_FAIL_REGISTER"),
            fail_copy: FailAt::from_env("GPUIO_SIM_FAIL_COPY"),
            fail_async: FailAt::from_env("GPUIO_SIM_FAIL_ASYNC"),
            copy_delay: Duration::from_micros(knobs::number("GPUIO_SIM_COPY_DELAY_US", 0)),
        }
    }
}

/// A device's primary context: made by the first retain, ended by the last release.
#[derive(Default)]
pub struct Primary {
    pub handle: Handle,
    pub retained: u32,
    pub flags: u32,
}

#[derive(Default)]
pub struct Tables {
    pub contexts: HashMap<Handle, Arc<Context>>,
    pub primary: HashMap<Device, Primary>,
    /// Which context a stream or event belongs to.
    pub owners: HashMap<Handle, Handle>,
}

impl Tables {
    /// Takes a context out, with what is known of its streams and events.
    pub fn take_context(&mut self, handle: Handle) -> Result<Arc<Context>, Code> {
        let context = self.contexts.remove(&handle).ok_or(INVALID_CONTEXT)?;
        self.owners.retain(|_, owner| *owner != handle);
        Ok(context)
    }
}

pub struct Process {
    pub knobs: Knobs,
    tables: Mutex<Tables>,
    ranges: Mutex<Ranges>,
    initialised: AtomicBool,
    /// Set in a process forked after `cuInit`: nothing works there, as with the real driver.
    orphan: AtomicBool,
    next: AtomicU64,
}

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

fn process() -> &'static Process {
    static PROCESS: OnceLock<Process> = OnceLock::new();
    PROCESS.get_or_init(|| Process {
        knobs: Knobs::from_env(),
        tables: Mutex::default(),
        ranges: Mutex::default(),
        initialised: AtomicBool::new(false),
        orphan: AtomicBool::new(false),
        next: AtomicU64::new(1),
    })
}

extern "C" fn in_forked_child() {
    process().orphan.store(true, Ordering::Release);
}

impl Process {
    /// Marks the driver as initialised; from now on a forked child is cut off.
    pub fn initialise(&self) {
        if !self.initialised.swap(true, Ordering::AcqRel) {
            // SAFETY: the handler only stores a flag, which is allowed after a fork, and is never unloaded (nodelete).
            unsafe { libc::pthread_atfork(None, None, Some(in_forked_child)) };
        }
    }

    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        // A panic aborts (every caller is a C function), so a poisoned lock cannot be seen.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn ranges(&self) -> MutexGuard<'_, Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number never given before.
    pub fn fresh(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A handle never given before, far from any mapping.
    pub fn fresh_handle(&self) -> Handle {
        usize::try_from(0x6b00_0000_0000_0000 + (self.fresh() << 8)).unwrap_or(usize::MAX)
    }

    pub fn check_device(&self, device: Device) -> Result<(), Code> {
        if (0..self.knobs.devices).contains(&device) { Ok(()) } else { Err(INVALID_DEVICE) }
    }

    pub fn context(&self, handle: Handle) -> Option<Arc<Context>> {
        self.tables().contexts.get(&handle).cloned()
    }

    /// The calling thread's context, alive.
    pub fn current(&self) -> Result<Arc<Context>, Code> {
        match context::current() {
            0 => Err(INVALID_CONTEXT),
            handle => self.context(handle).ok_or(CONTEXT_IS_DESTROYED),
        }
    }

    /// The context that owns a stream or event.
    pub fn owner(&self, handle: Handle) -> Result<Arc<Context>, Code> {
        let tables = self.tables();
        let context = tables.owners.get(&handle).ok_or(INVALID_HANDLE)?;
        tables.contexts.get(context).cloned().ok_or(CONTEXT_IS_DESTROYED)
    }

    pub fn event(&self, handle: Handle) -> Result<Arc<Event>, Code> {
        self.owner(handle)?.event(handle).ok_or(INVALID_HANDLE)
    }
}

/// The calling thread's device for the log, -1 for none.
fn device_of_thread(process: &Process) -> i32 {
    match context::current() {
        0 => -1,
        handle => process.context(handle).map_or(-1, |context| context.device),
    }
}

/// A call that needs nothing but the process; not logged, since it is a mere question.
pub fn ask(answer: impl FnOnce(&Process) -> Result<(), Code>) -> Code {
    let process = process();
    if process.orphan.load(Ordering::Acquire) || !process.initialised.load(Ordering::Acquire) {
        return NOT_INITIALIZED;
    }
    if IN_HOST_FUNCTION.get() {
        return NOT_PERMITTED;
    }
    answer(process).err().unwrap_or(SUCCESS)
}

/// A call that does something: logged with its result and what it adds to the line.
pub fn act(name: &str, action: impl FnOnce(&Process, &mut Line) -> Result<(), Code>) -> Code {
    let mut line = Line::new();
    let code = ask(|process| action(process, &mut line));
    // The tables are taken for the device's ordinal only if a log is kept and this process may use them.
    let orphan = code == NOT_INITIALIZED;
    let device = if line.is_kept() && !orphan { device_of_thread(process()) } else { -1 };
    line.finish(device, name, code.into());
    code
}

/// The two calls that work before `cuInit`.
pub fn before_init(name: &str, action: impl FnOnce(&Process) -> Result<(), Code>) -> Code {
    let process = process();
    let code = if process.orphan.load(Ordering::Acquire) { NOT_INITIALIZED } else { action(process).err().unwrap_or(SUCCESS) };
    Line::new().finish(-1, name, code.into());
    code
}

/// Runs a caller's function on a stream's thread, where calls into the driver are not permitted.
pub fn run_host_function(function: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    function();
    IN_HOST_FUNCTION.set(false);
}
