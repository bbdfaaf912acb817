//! GUSLI's one context in this process: made by the first job, shared by all, and taken down by the last, in the only order that the library
//! survives: buffers, devices, context.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::calls::Library;
use super::context::{Attached, Common, Context};
use super::ranges::Slice;
use super::{log, wishes};
use crate::common::device::Device as Gpu;

enum State {
    None,
    Live(Context),
    /// The library keeps what it had parsed before it failed, so there is no second try.
    Failed(String),
}

static STATE: Mutex<State> = Mutex::new(State::None);
/// The process that has, or had, a context: a copy of it that was forked cannot have one.
static OWNER: AtomicU32 = AtomicU32::new(0);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
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
        let all = wishes::beside(job, is_thread);
        let wishes = wishes::kept(wishes::of(job), &all);
        if matches!(*state, State::None) {
            let (context, config, requests) = Context::plan(&wishes::kept(all.clone(), &all), common)?;
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

    /// Registered memory for the job, of `bytes` bytes, for all of its devices, and pinned for `gpu` where there is one.
    pub fn allocate(&mut self, bytes: usize, gpu: Option<&Arc<dyn Gpu>>) -> Result<usize, String> {
        let mut state = state();
        let State::Live(context) = &mut *state else { return Err("GUSLI has no context".to_owned()) };
        let slice = context.take(bytes, &self.devices, gpu)?;
        Ok(self.slice.insert(slice).address)
    }

    /// Undoes [`Share::allocate`]. No request is in flight.
    pub fn free(&mut self) {
        self.devices.iter().filter(|device| device.is_lost()).for_each(force_close);
        self.devices.iter().filter(|device| device.is_gone.load(Ordering::Acquire)).for_each(|device| device.closing.wait());
        let Some(slice) = self.slice.take() else { return };
        if let State::Live(context) = &mut *state() {
            context.put(&slice, &self.devices);
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

/// Begins to cancel what is in flight on a device that does not answer, for all jobs; the device is gone now.
pub fn force_close(device: &Attached) {
    match &mut *state() {
        State::Live(context) if !context.is_abandoned => context.force_close(device),
        _ => {}
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.free();
        let mut state = state();
        let State::Live(context) = &mut *state else { return };
        for attached in &self.devices {
            context.disconnect(attached);
        }
        context.users -= 1;
        if context.users == 0 && context.can_end() {
            context.library.destroy();
            *state = State::None;
        }
    }
}
