//! Primary contexts. The driver counts who uses one, for the whole process; here they are taken and given back in turn.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Context, Cuda, DeviceError};

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cuda {
    /// Takes a device's context, which the first user makes.
    pub(super) fn retain(&self, device: c_int) -> Result<Context, DeviceError> {
        let _turn = turn();
        self.take(device)
    }

    fn take(&self, device: c_int) -> Result<Context, DeviceError> {
        let mut context = std::ptr::null_mut();
        // SAFETY: a place for a pointer.
        self.check(unsafe { (self.calls.cuDevicePrimaryCtxRetain)(&mut context, device) }).map(|()| context)
    }

    /// Gives back what retain() took; the last user ends the context.
    pub(super) fn release(&self, device: c_int) {
        let _turn = turn();
        // SAFETY: a number.
        unsafe { (self.calls.cuDevicePrimaryCtxRelease_v2)(device) };
    }

    /// Runs a call that gives back every device's context once, though it has not taken it: another job may have it. The contexts that there
    /// are get one more user before. Where the call gives nothing back, they stay until the process ends.
    pub fn keep_contexts(&self, call: impl FnOnce()) {
        let _turn = turn();
        for device in 0..self.count() as c_int {
            let (mut flags, mut active) = (0, 0);
            // SAFETY: places for two ints.
            let known = unsafe { (self.calls.cuDevicePrimaryCtxGetState)(device, &mut flags, &mut active) } == 0;
            if known && active != 0 {
                // Where it fails there is nothing to keep.
                let _ = self.take(device);
            }
        }
        call();
    }
}
