//! One job (`struct thread_data`) as the engine sees it when it starts.

use std::ffi::c_void;

use super::engine::Engine;
use super::job_options::JobOptions;
use super::layout::tables::ThreadData;
use super::options::OptionValues;
use super::symbols::Symbols;

/// `FIO_SYNCIO`: queue() completes what it is given. Bit 0 in every version.
pub(super) const SYNCIO: u64 = 1;
/// `FIO_RAWIO`: fio itself sets it in the engine's flags for direct=1, for all later jobs.
const RAWIO: u64 = 2;

/// A job during its init hook, or before it while fio looks for its files' sizes.
pub struct Job {
    /// The name under which the library was loaded: `gpuio`, `libcufile` or `libhipfile`.
    pub loaded_as: &'static str,
    /// The same in fio's main thread and in the job itself.
    pub id: usize,
    /// Which of the jobs that `numjobs` made of one section, counted from 0.
    pub subjob: u32,
    /// The options of this library.
    pub options: OptionValues,
    /// fio's own options.
    pub fio: JobOptions,
}

impl Job {
    /// # Safety
    /// `td` is the live job whose init hook is running, `at` was confirmed for it, and its options struct was made by fio from the table
    /// built for `E`.
    pub(super) unsafe fn new<E: Engine>(td: *mut c_void, at: &ThreadData, loaded_as: &'static str, fio: &'static Symbols) -> Self {
        // SAFETY: `at` was confirmed for this job; both fields are inside it and aligned as C has them.
        let (eo, subjob) =
            unsafe { (td.byte_add(at.eo).cast::<*const c_void>().read(), td.byte_add(at.subjob_number).cast::<u32>().read()) };
        // SAFETY: as promised by the caller.
        let options = unsafe { OptionValues::copy::<E>(eo) };
        Self { loaded_as, id: td as usize, subjob, options, fio: JobOptions::new(fio, td as usize + at.o) }
    }
}

/// Gives this job alone a further one of the flags that fio has for engines. The flags of a job are its own copy of the engine's, shifted by
/// an amount that differs between versions; it is found by comparing the two. Returns false, and changes nothing, where no single shift fits.
///
/// # Safety
/// `td` is a live job whose layout is `at`.
pub(super) unsafe fn add_engine_flag(td: *mut c_void, at: &ThreadData, flag: u64) -> bool {
    /// Where every version's ops table has its flags.
    const OPS_FLAGS: usize = 28;
    // SAFETY: `flags` is a word inside the job, written only by the job's own thread once it runs; the job's ops table is this library's own.
    let (flags, ops_flags) = unsafe {
        let ops = td.byte_add(at.io_ops).cast::<*const c_void>().read();
        (&mut *td.byte_add(at.flags).cast::<u64>(), ops.byte_add(OPS_FLAGS).cast::<u32>().read())
    };
    match shift(*flags, ops_flags) {
        Some(shift) => {
            *flags |= flag << shift;
            true
        }
        None => false,
    }
}

/// Whether fio has told a job to end.
///
/// # Safety
/// `td` is a live job whose layout is `at`.
pub(super) unsafe fn must_end(td: *const c_void, at: &ThreadData) -> bool {
    // SAFETY: `terminate` is a volatile bool inside the job, which fio's other threads set.
    unsafe { td.byte_add(at.terminate).cast::<u8>().read_volatile() != 0 }
}

/// Makes `errno` the error of a job that has none yet. fio does so for its own calls only: where a hook fails, the job would end with status 0.
///
/// # Safety
/// `td` is a live job, and one of its hooks is running in its own thread.
pub(super) unsafe fn set_error(td: *mut c_void, at: &ThreadData, errno: i32) {
    // SAFETY: `error` is an int inside the job, written by the job's own thread.
    let error = unsafe { &mut *td.byte_add(at.error).cast::<i32>() };
    if *error == 0 {
        *error = errno;
    }
}

/// The only shift at which the upper part of a job's flags are the engine's.
fn shift(flags: u64, ops_flags: u32) -> Option<u32> {
    let engine = u64::from(ops_flags) & !RAWIO;
    let mut fitting = (16..=30).filter(|&s| engine != 0 && (flags >> s) & !RAWIO == engine);
    let found = fitting.next()?;
    fitting.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shift_is_found_whatever_fio_has_set_below_it() {
        let ops = 0x40_4000; // two flags, neither of them RAWIO
        for s in [17, 18, 19] {
            assert_eq!(shift((u64::from(ops) << s) | 0x11010, ops), Some(s));
            assert_eq!(shift((u64::from(ops) << s) | (RAWIO << s) | 0x11010, ops), Some(s));
        }
        assert_eq!(shift(0x11010, ops), None);
    }
}
