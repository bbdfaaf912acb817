//! The one place that chooses a vendor, and refuses what the chosen one cannot do.

use super::options::{Backend, Data, Io, Memory, Mode, Options, Wait};
use crate::common::pool::Pool;
use crate::common::transport::Transport;
use crate::common::wait::Manner;
use crate::host;

/// Threads of a pool where `gpu_threads` says nothing and iodepth is higher.
const DEFAULT_THREADS: u32 = 16;

/// A backend that a job has settled on, with the reason where the job left the choice open.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    pub backend: Backend,
    pub reason: Option<&'static str>,
}

/// Settles `gpu_backend=auto` and checks the named backend against the options that imply one. `loaded_as` is the name under which fio
/// loaded the library.
pub fn choose(options: &Options, loaded_as: &str) -> Result<Choice, String> {
    let implied = implied(options, loaded_as)?;
    match (options.backend, implied) {
        (Backend::Auto, Some((backend, reason))) => Ok(Choice { backend, reason: Some(reason) }),
        (Backend::Auto, None) => Ok(Choice { backend: Backend::Host, reason: Some("this build has no other backend yet") }),
        (named, Some((backend, reason))) if named != backend && backend_is_named(options, backend) => Err(format!(
            "gpu_backend={} contradicts {reason}, which means gpu_backend={}: leave one of them out",
            named.word(),
            backend.word()
        )),
        (named, _) => Ok(Choice { backend: named, reason: None }),
    }
}

/// The backend that the other options or the library's name stand for.
fn implied(options: &Options, loaded_as: &str) -> Result<Option<(Backend, &'static str)>, String> {
    match (options.cuda_io, options.rocm_io) {
        (Some(_), Some(_)) => Err("cuda_io and rocm_io contradict each other: give one of them".to_owned()),
        (Some(_), None) => Ok(Some((Backend::Cufile, "cuda_io"))),
        (None, Some(_)) => Ok(Some((Backend::Hipfile, "rocm_io"))),
        (None, None) => Ok(match loaded_as {
            "libcufile" => Some((Backend::Cufile, "ioengine=libcufile")),
            "libhipfile" => Some((Backend::Hipfile, "ioengine=libhipfile")),
            _ => None,
        }),
    }
}

/// Whether an option names `backend`; the library's name alone only suggests one.
fn backend_is_named(options: &Options, backend: Backend) -> bool {
    match backend {
        Backend::Cufile => options.cuda_io.is_some(),
        Backend::Hipfile => options.rocm_io.is_some(),
        _ => false,
    }
}

/// Makes the transport of one job with `depth` operations in flight (1 in a thread of io_submit_mode=offload, where fio makes the depth).
pub fn open<T: Copy + Send + 'static>(choice: &Choice, options: &Options, depth: u32) -> Result<Box<dyn Transport<T>>, String> {
    match choice.backend {
        Backend::Host => {
            check_host(options)?;
            match options.mode {
                Mode::Pool => {}
                Mode::Auto if depth > 1 => {}
                _ => return Ok(Box::new(host::Posix)),
            }
            let threads = options.threads.unwrap_or(depth.min(DEFAULT_THREADS));
            let workers = (0..threads).map(|_| host::Posix).collect();
            let pool = Pool::start(workers, depth as usize, manner(options.wait), "posix");
            Ok(Box::new(pool.map_err(|error| format!("gpu_threads={threads}: {error}; lower it, or raise the limit of processes"))?))
        }
        other => Err(format!("gpu_backend={} is not in this build yet: use gpu_backend=host", other.word())),
    }
}

/// What has no meaning where the buffers are host memory is refused, not ignored.
fn check_host(options: &Options) -> Result<(), String> {
    if options.require_direct {
        return Err("gpu_require_direct=1 needs a GPU: gpu_backend=host moves every byte through host memory".to_owned());
    }
    if let Some(memory) = options.memory.filter(|&m| m != Memory::Host) {
        return Err(format!("gpu_mem={} needs a GPU: gpu_backend=host has gpu_mem=host only", memory.word()));
    }
    if !matches!(options.data, Data::Auto | Data::Exact) {
        return Err(format!(
            "gpu_data={} needs a GPU: gpu_backend=host always writes fio's own buffer, which is gpu_data=exact",
            options.data.word()
        ));
    }
    if options.device_ids.is_some() {
        return Err("gpu_dev_ids needs a GPU: leave it out with gpu_backend=host".to_owned());
    }
    match options.mode {
        Mode::Auto | Mode::Sync | Mode::Pool => {}
        mode @ (Mode::Batch | Mode::Stream) => {
            return Err(format!("gpu_mode={} needs a GPU: gpu_backend=host has sync and pool", mode.word()));
        }
    }
    if options.threads.is_some() && options.mode == Mode::Sync {
        return Err("gpu_threads contradicts gpu_mode=sync: use gpu_mode=pool, or leave one of them out".to_owned());
    }
    if options.io == Io::Uring {
        return Err("gpu_io=uring is not in this build yet: use gpu_io=posix".to_owned());
    }
    Ok(())
}

fn manner(wait: Wait) -> Manner {
    match wait {
        Wait::Spin => Manner::Spin,
        Wait::Yield => Manner::Yield,
        Wait::Block => Manner::Block,
    }
}
