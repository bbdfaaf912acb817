//! Reading memory of this process that may not be there: a wrong guess is `None`, never a fault.

use std::ffi::c_void;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Copies what lies at `address` into `into`, and says how many bytes there were before the first page that is not mapped.
pub(super) fn bytes(address: usize, into: &mut [u8]) -> usize {
    const PAGE: usize = 4096;
    let mut done = 0;
    while done < into.len() {
        // A transfer ends at the first hole only between vectors, so no vector crosses a page.
        let at = address.wrapping_add(done);
        let part = (PAGE - at % PAGE).min(into.len() - done);
        let got = copy(at, &mut into[done..done + part]);
        if got != Some(part) {
            break;
        }
        done += part;
    }
    done
}

fn copy(from: usize, into: &mut [u8]) -> Option<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: from as *mut c_void, iov_len: into.len() };
    // SAFETY: `local` describes `into`, which lives through the call; the kernel checks `remote` and fails where it is not readable.
    let got = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    if let Ok(got) = usize::try_from(got) {
        return Some(got);
    }
    match std::io::Error::last_os_error().raw_os_error() {
        // Older container runtimes forbid the call even on the process itself; its memory file they leave.
        Some(libc::EPERM | libc::ENOSYS) => File::open("/proc/self/mem").ok()?.read_at(into, from as u64).ok(),
        _ => None,
    }
}

pub(super) fn word(address: usize) -> Option<usize> {
    let mut raw = [0; 8];
    (bytes(address, &mut raw) == raw.len()).then(|| usize::from_ne_bytes(raw))
}

pub(super) fn int(address: usize) -> Option<i32> {
    let mut raw = [0; 4];
    (bytes(address, &mut raw) == raw.len()).then(|| i32::from_ne_bytes(raw))
}

/// The NUL-terminated text at `address`, where it ends within `most` bytes and is UTF-8.
pub(super) fn text(address: usize, most: usize) -> Option<String> {
    let mut raw = vec![0; most];
    let there = bytes(address, &mut raw);
    let end = raw[..there].iter().position(|&b| b == 0)?;
    raw.truncate(end);
    String::from_utf8(raw).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_ends_the_read_and_faults_nobody() {
        assert_eq!(word(8), None);
        let mut into = [0; 16];
        assert_eq!(bytes(0, &mut into), 0);
    }

    #[test]
    fn memory_that_is_there_is_read_across_pages() {
        let data: Vec<u8> = (0..20_000u32).map(|n| n as u8).collect();
        let mut into = vec![0; data.len()];
        assert_eq!(bytes(data.as_ptr() as usize, &mut into), data.len());
        assert_eq!(into, data);
        assert_eq!(text(c"psync".as_ptr() as usize, 64).as_deref(), Some("psync"));
    }
}
