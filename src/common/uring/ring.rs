//! The thin part that touches the ring: made for one thread, filled, entered, drained. All of this folder's `unsafe` is here.

use std::fmt::Display;
use std::io::{self, Error};
use std::os::fd::RawFd;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, opcode, squeue};

use crate::common::transport::{Buffer, Transfer};
use crate::faults;

/// More entries than this are not collected before they are submitted, whatever the depth.
const MOST_ENTRIES: u32 = 4096;
/// Bytes of one entry at most: a registered buffer cannot be longer, and the kernel moves less than 2 GiB at a time.
pub const MOST_BYTES: usize = 1 << 30;

/// A sleep in place of a wait with a time-out, where the kernel has none.
const SHORT: Duration = Duration::from_micros(50);

/// A ring of the thread that made it.
pub struct Ring {
    ring: IoUring,
    /// Entries that the kernel has not taken yet.
    collected: usize,
}

/// One transfer as the kernel is to do it.
pub struct Entry {
    pub transfer: Transfer,
    pub fd: RawFd,
    /// `fd` is also its number in the table of registered files.
    pub is_file_registered: bool,
    pub offset: u64,
    pub buffer: Buffer,
    /// The registered buffer that `buffer` lies in.
    pub registered: Option<u16>,
    /// Handed back with the result.
    pub name: u32,
}

impl Entry {
    #[inline(always)]
    fn build(&self) -> squeue::Entry {
        if self.is_file_registered { self.build_for(Fixed(self.fd as u32)) } else { self.build_for(Fd(self.fd)) }
    }
}

/// The crate's opcodes take either kind of file, by a trait that it keeps to itself.
trait Build<F> {
    fn build_for(&self, file: F) -> squeue::Entry;
}

macro_rules! build_for {
    ($($file:ty),*) => {$(
        impl Build<$file> for Entry {
            #[inline(always)]
            fn build_for(&self, file: $file) -> squeue::Entry {
                let start = self.buffer.start();
                let length = faults::cap(self.buffer.len().min(MOST_BYTES)) as u32;
                let entry = match (self.transfer, self.registered) {
                    (Transfer::Read, Some(n)) => opcode::ReadFixed::new(file, start, length, n).offset(self.offset).build(),
                    (Transfer::Read, None) => opcode::Read::new(file, start, length).offset(self.offset).build(),
                    (Transfer::Write, Some(n)) => opcode::WriteFixed::new(file, start, length, n).offset(self.offset).build(),
                    (Transfer::Write, None) => opcode::Write::new(file, start, length).offset(self.offset).build(),
                };
                entry.user_data(self.name.into())
            }
        }
    )*};
}
build_for!(Fixed, Fd);

impl Ring {
    /// A ring for `depth` operations in flight, used by the calling thread only. The error is a line for the user.
    pub fn new(depth: usize) -> Result<Self, String> {
        let entries = u32::try_from(depth).unwrap_or(u32::MAX).clamp(1, MOST_ENTRIES);
        let completions = u32::try_from(depth).unwrap_or(u32::MAX).max(entries);
        let mut made = Err(Error::from_raw_os_error(libc::EINVAL));
        // What a kernel does not know is EINVAL; no kind of setup differs in what it can do, only in what it costs.
        for setup in [Setup::Newest, Setup::Deferred, Setup::Cooperative, Setup::Plain] {
            made = setup.build(entries, completions);
            if !made.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
                break;
            }
        }
        made.map(|ring| Self { ring, collected: 0 }).map_err(|error| why_not(&error))
    }

    /// Collects one transfer. The error is an errno, for a queue that is full and cannot be emptied.
    #[inline]
    pub fn push(&mut self, entry: &Entry) -> Result<(), i32> {
        let entry = entry.build();
        // SAFETY: the buffer belongs to the operation until its completion is drained (see Buffer): the transport keeps it in a slot until
        // then, and after cancel() the ring says whether the kernel still has any.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            let before = self.collected;
            self.submit()?;
            if self.collected == before {
                return Err(libc::EBUSY);
            }
        }
        self.collected += 1;
        Ok(())
    }

    /// Entries that the kernel has not taken yet.
    #[inline]
    pub fn collected(&self) -> usize {
        self.collected
    }

    /// Hands what is collected to the kernel. What it cannot take now (no memory, results not fetched) stays collected.
    #[inline]
    pub fn submit(&mut self) -> Result<(), i32> {
        while self.collected > 0 {
            let before = self.collected;
            self.enter(before, 0, EnterFlags::empty(), None)?;
            if self.collected == before {
                break;
            }
        }
        Ok(())
    }

    /// Whether the kernel has something that it does only when entered.
    #[inline]
    pub fn has_work(&mut self) -> bool {
        let queue = self.ring.submission();
        queue.taskrun() || queue.cq_overflow() || self.collected > 0
    }

    /// Lets the kernel do what it has to do now, without waiting.
    pub fn work(&mut self) -> Result<(), i32> {
        self.enter(self.collected, 0, EnterFlags::GETEVENTS, None)
    }

    /// Sleeps until `min` results are there, a signal comes, or `most` has passed. Kernels before 5.11 know no such time; there it is short.
    pub fn wait(&mut self, min: usize, most: Option<Duration>) -> Result<(), i32> {
        self.sleep(self.collected, min, most)
    }

    /// As wait(), for one result, with what is collected left alone.
    pub fn wait_only(&mut self, most: Option<Duration>) -> Result<(), i32> {
        self.sleep(0, 1, most)
    }

    fn sleep(&mut self, take: usize, min: usize, most: Option<Duration>) -> Result<(), i32> {
        match most {
            None => self.enter(take, min, EnterFlags::GETEVENTS, None),
            Some(time) if self.ring.params().is_feature_ext_arg() => {
                let time = Timespec::from(time);
                self.enter(take, min, EnterFlags::GETEVENTS | EnterFlags::EXT_ARG, Some(&SubmitArgs::new().timespec(&time)))
            }
            Some(_) => {
                std::thread::sleep(SHORT);
                self.enter(take, 0, EnterFlags::GETEVENTS, None)
            }
        }
    }

    #[inline]
    fn enter(&mut self, take: usize, min: usize, flags: EnterFlags, args: Option<&SubmitArgs>) -> Result<(), i32> {
        // SAFETY: no more entries than were collected, and the arguments are there where EXT_ARG says so.
        match unsafe { self.ring.submitter().enter(take as u32, min as u32, flags.bits(), args) } {
            Ok(taken) => self.collected -= taken.min(self.collected),
            Err(error) => match error.raw_os_error().unwrap_or(libc::EIO) {
                libc::EINTR | libc::ETIME | libc::EAGAIN | libc::EBUSY => {}
                errno => return Err(errno),
            },
        }
        Ok(())
    }

    /// The next result: the name of its entry, and bytes or minus an errno.
    #[inline]
    pub fn next(&mut self) -> Option<(u32, i32)> {
        self.ring.completion().next().map(|result| (result.user_data() as u32, result.result()))
    }

    /// Asks the kernel to end everything that it has, and gives it `most` for that. Kernels before 6.0 cannot.
    pub fn end_all(&mut self, most: Duration) {
        // Nothing found, not known, not in time: in every case the results tell what became of each.
        let _ = self.ring.submitter().register_sync_cancel(Some(most.into()), CancelBuilder::any());
    }

    /// Registers the parts of a block as buffers 0, 1, …
    pub fn register_buffers(&mut self, parts: &[Buffer]) -> io::Result<()> {
        let parts: Vec<_> = parts.iter().map(|part| libc::iovec { iov_base: part.start().cast(), iov_len: part.len() }).collect();
        // SAFETY: the kernel pins the pages of the job's block itself; an address that is not mapped is an error, and a block that goes
        // before the ring leaves the kernel with pages of its own.
        unsafe { self.ring.submitter().register_buffers(&parts) }
    }

    pub fn unregister_buffers(&mut self) {
        let _ = self.ring.submitter().unregister_buffers(); // closing the ring does it, too
    }

    /// Makes a table of `size` registered files, all free.
    pub fn register_files(&mut self, size: usize) -> io::Result<()> {
        self.ring.submitter().register_files(&vec![-1; size])
    }

    /// Puts `file` into place `index` of the table, or frees the place.
    pub fn set_file(&mut self, index: u32, file: Option<RawFd>) -> io::Result<()> {
        self.ring.submitter().register_files_update(index, &[file.unwrap_or(-1)]).map(|_| ())
    }
}

/// What a ring can be told of its use, from the newest kernel down.
#[derive(Clone, Copy)]
enum Setup {
    /// 6.6: no indirection in the queue.
    Newest,
    /// 6.1: results are worked on only when this thread asks for them.
    Deferred,
    /// 5.19: no interrupt for a result.
    Cooperative,
    /// 5.6, the first with plain reads and writes.
    Plain,
}

impl Setup {
    fn build(self, entries: u32, completions: u32) -> io::Result<IoUring> {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_cqsize(completions);
        if matches!(self, Self::Newest) {
            builder.setup_no_sqarray();
        }
        if matches!(self, Self::Newest | Self::Deferred) {
            builder.setup_single_issuer().setup_defer_taskrun();
        }
        if matches!(self, Self::Newest | Self::Deferred | Self::Cooperative) {
            builder.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
        }
        builder.build(entries)
    }
}

/// Why there is no ring, and what to do.
fn why_not(error: &Error) -> String {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    refusal(error.raw_os_error().unwrap_or(0), &disabled, error)
}

/// `disabled` is what the sysctl of that name holds; nothing on kernels that have none.
fn refusal(errno: i32, disabled: &str, error: &dyn Display) -> String {
    let seccomp = "a seccomp filter forbids it (a container's profile): allow io_uring_setup, io_uring_enter and io_uring_register";
    let what = match (errno, disabled.trim()) {
        (libc::EPERM, "2") => "it is switched off on this machine: sysctl -w kernel.io_uring_disabled=0".to_owned(),
        (libc::EPERM, "1") => {
            "kernel.io_uring_disabled is 1, which leaves it to CAP_SYS_ADMIN and the group kernel.io_uring_group: run the job so, \
             or sysctl -w kernel.io_uring_disabled=0"
                .to_owned()
        }
        (libc::EPERM | libc::EACCES, _) => seccomp.to_owned(),
        (libc::ENOSYS, _) => format!("this kernel is built without it or older than 5.1, or {seccomp}"),
        (libc::EINVAL, _) => "this kernel's io_uring is older than 5.6".to_owned(),
        (libc::ENOMEM, _) => "the limit of locked memory is too low for the ring: raise it (ulimit -l)".to_owned(),
        (libc::EMFILE | libc::ENFILE, _) => "raise the limit of open files (ulimit -n)".to_owned(),
        _ => "check that this kernel lets the job use io_uring".to_owned(),
    };
    format!("gpu_io=uring: io_uring_setup: {error}; {what}; or use gpu_io=posix")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_forbid_io_uring_gets_what_to_do() {
        for (errno, disabled, part) in [
            (libc::EPERM, "2\n", "sysctl -w kernel.io_uring_disabled=0"),
            (libc::EPERM, "1\n", "kernel.io_uring_group"),
            (libc::EPERM, "0\n", "seccomp"),
            (libc::EPERM, "", "seccomp"),
            (libc::ENOSYS, "", "built without it"),
            (libc::ENOMEM, "0\n", "ulimit -l"),
        ] {
            let line = refusal(errno, disabled, &"no");
            assert!(line.contains(part) && line.contains("gpu_io=posix"), "{line}");
        }
    }
}
