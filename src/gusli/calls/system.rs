//! What the library makes necessary of the operating system: a look at its sockets, a signal held back, a process to ask a server from.

use std::fs::File;
use std::io::Write;
use std::{mem, ptr};

/// Whether nobody is at the other end of a connected device's socket any more.
pub fn is_hung_up(socket: i32) -> bool {
    let mut asked = libc::pollfd { fd: socket, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one struct that lives through the call; a number that is no descriptor is answered as such.
    let found = unsafe { libc::poll(&mut asked, 1, 0) };
    found > 0 && asked.revents & (libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

/// Waits until nobody is at the other end of a socket any more; returns false where `stop` can be read before.
pub fn wait_until_hung_up(socket: i32, stop: i32) -> bool {
    let asked = |fd, events| libc::pollfd { fd, events, revents: 0 };
    let mut both = [asked(socket, libc::POLLRDHUP), asked(stop, libc::POLLIN)];
    loop {
        // SAFETY: two structs that live through the call; a number that is no descriptor is answered as such.
        let found = unsafe { libc::poll(both.as_mut_ptr(), 2, -1) };
        if found > 0 {
            return both[1].revents == 0;
        }
        if found < 0 && std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return false;
        }
    }
}

/// Holds back the signal that writing to a server which is gone sends to the calling thread: it would end the process.
pub fn hold_sigpipe() {
    let mut set = mem::MaybeUninit::uninit();
    // SAFETY: a place for one set, which sigemptyset fills before it is read; neither call can fail here.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut());
    }
}

/// Runs `body` in a forked copy of this process and hands back what it writes, or nothing where it does not end in `most`. GUSLI's context must
/// not be made in a process that forks jobs later.
pub fn in_a_child(most: std::time::Duration, body: impl FnOnce() -> String) -> Option<String> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?;
    // SAFETY: the child runs only this closure and ends without fio's or the library's exit handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or_default();
        let _ = File::from(to).write_all(said.as_bytes()); // the parent takes silence for failure
        // SAFETY: ends this copy of the process at once.
        unsafe { libc::_exit(0) };
    }
    drop(to);
    if child < 0 {
        return None;
    }
    let timeout = Timespec::try_from(most).ok();
    let is_ready = poll(&mut [PollFd::new(&from, PollFlags::IN)], timeout.as_ref()).is_ok_and(|ready| ready > 0);
    let mut text = String::new();
    let read = is_ready && std::io::Read::read_to_string(&mut File::from(from), &mut text).is_ok();
    // SAFETY: the child is this function's own and was not waited for yet.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, ptr::null_mut(), 0);
    }
    read.then_some(text)
}
