//! The one place that chooses a vendor, and refuses what the chosen one cannot do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::options::{Backend, Completion, CudaIo, Data, DeviceIds, Io, Memory, Mode, Options, Wait};
use crate::common::blocking::{Blocking, Synchronous};
use crate::common::bounce::Bounce;
use crate::common::cuda::{Cuda, CudaDevice};
use crate::common::device::Device;
use crate::common::driver::{DeviceOnly, Driver, NoDriver};
use crate::common::pool::Pool;
use crate::common::topology;
use crate::common::transport::Transport;
use crate::common::uring::{self, Uring};
use crate::common::wait::Manner;
use crate::cufile::{self, Cufile};
use crate::gusli::{self, Gusli};
use crate::host;

/// Threads of a pool where `gpu_threads` says nothing and iodepth is higher.
const DEFAULT_THREADS: u32 = 16;

/// Streams where `gpu_streams` says nothing and iodepth is higher.
const DEFAULT_STREAMS: u32 = 8;

/// A backend that a job has settled on, with the reason where the job left the choice open.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    pub backend: Backend,
    pub reason: Option<String>,
}

/// A backend that is ready for a job's memory and files.
pub struct Opened<T> {
    pub driver: Box<dyn Driver>,
    pub transport: Box<dyn Transport<T>>,
    /// What the user is to know, said once a job group.
    pub notes: Vec<String>,
}

/// Settles `gpu_backend=auto` and checks the named backend against the options that imply one. `loaded_as` is the name under which fio
/// loaded the library.
pub fn choose(options: &Options, loaded_as: &str) -> Result<Choice, String> {
    let settled = |backend, reason: &str| Ok(Choice { backend, reason: Some(reason.to_owned()) });
    match (named(options)?, loaded_as) {
        (Some(choice), _) => Ok(choice),
        (None, "libcufile") => settled(Backend::Cufile, "the library was loaded as libcufile"),
        (None, "libhipfile") => settled(Backend::Hipfile, "the library was loaded as libhipfile"),
        (None, _) => present(),
    }
}

/// The backend that the job's options name, themselves or by what they imply.
pub fn named(options: &Options) -> Result<Option<Choice>, String> {
    match (options.backend, implied(options)?) {
        (Backend::Auto, Some((backend, option))) => Ok(Some(Choice { backend, reason: Some(option.to_owned()) })),
        (Backend::Auto, None) => Ok(None),
        (named, Some((backend, option))) if named != backend => Err(format!(
            "gpu_backend={} contradicts {option}, which means gpu_backend={}: leave one of them out",
            named.word(),
            backend.word()
        )),
        (named, _) => Ok(Some(Choice { backend: named, reason: None })),
    }
}

/// The backend that another option stands for, with that option's name.
fn implied(options: &Options) -> Result<Option<(Backend, &'static str)>, String> {
    let gusli = if options.gusli.config.is_some() { "gusli_config" } else { "gusli_device" };
    let all = [
        (options.cuda_io.is_some(), Backend::Cufile, "cuda_io"),
        (options.rocm_io.is_some(), Backend::Hipfile, "rocm_io"),
        (options.gusli.is_implied(), Backend::Gusli, gusli),
    ];
    let mut given = all.into_iter().filter(|(is_given, ..)| *is_given).map(|(_, backend, option)| (backend, option));
    match (given.next(), given.next()) {
        (Some((_, one)), Some((_, other))) => Err(format!("{one} and {other} contradict each other: give one of them")),
        (first, _) => Ok(first),
    }
}

/// The first backend whose device and library are on this machine.
fn present() -> Result<Choice, String> {
    let cufile = Cuda::get().and_then(|_| cufile::is_installed());
    Ok(match cufile {
        Ok(()) => Choice { backend: Backend::Cufile, reason: Some("there is an NVIDIA GPU and a libcufile".to_owned()) },
        // What is missing, without what to do about it: nothing is wrong with a machine that has no GPU.
        Err(line) => Choice { backend: Backend::Host, reason: line.split([':', ';']).next().map(str::to_owned) },
    })
}

/// What a backend has to know of fio's job.
pub struct Wanted {
    /// Its number in its group.
    pub subjob: u32,
    /// Operations in flight.
    pub depth: u32,
    /// fio's direct=1.
    pub direct: bool,
    /// Its first file, or the folder of its files.
    pub file: PathBuf,
    /// The same in fio's main thread and in the job.
    pub job: usize,
    /// Whether it is a thread of fio's process.
    pub is_thread: bool,
    /// fio's prio: 0 is the highest, 7 the lowest.
    pub priority: Option<i32>,
}

/// Opens the backend for a job.
pub fn open<T: Copy + Send + 'static>(choice: &Choice, options: &Options, wanted: &Wanted) -> Result<Opened<T>, String> {
    let depth = wanted.depth;
    check_modes(choice, options)?;
    match choice.backend {
        Backend::Auto | Backend::Host => {
            check_host(options)?;
            let transport = match options.io {
                Io::Uring => uring(options, depth, None)?,
                _ => issue(|| host::Posix, options, depth)?,
            };
            Ok(Opened { driver: Box::new(NoDriver), transport, notes: Vec::new() })
        }
        Backend::Cufile => open_cufile(options, wanted),
        Backend::Gusli => open_gusli(options, wanted),
        other => Err(format!("gpu_backend={} is not in this build yet: use gpu_backend=host, cufile or gusli", other.word())),
    }
}

fn open_cufile<T: Copy + Send + 'static>(options: &Options, wanted: &Wanted) -> Result<Opened<T>, String> {
    let depth = wanted.depth;
    let mut notes = Vec::new();
    let ordinal = device_of(options, wanted, &mut notes)?;
    if goes_posix(options) || options.io == Io::Uring {
        if options.require_direct {
            let word = if goes_posix(options) { Io::Posix } else { options.io }.word();
            return Err(format!("gpu_require_direct=1 contradicts gpu_io={word}, which goes through host memory: leave one of them out"));
        }
        let device: Arc<dyn Device> = CudaDevice::open(ordinal)?;
        let transport = match options.io {
            Io::Uring => uring(options, depth, Some(&device))?,
            _ => issue(|| Bounce::new(device.clone()), options, depth)?,
        };
        return Ok(Opened { driver: Box::new(DeviceOnly(device)), transport, notes });
    }
    let mut doubt = |line: &str| match options.require_direct {
        true => Err(format!("gpu_require_direct=1: {line}")),
        false => {
            notes.push(line.to_owned());
            Ok(())
        }
    };
    if !wanted.direct {
        doubt("direct=0: cuFile goes through the page cache and host memory; use direct=1 for the direct path")?;
    }
    if let Some(line) = cufile::why_not_direct() {
        doubt(line)?;
    }
    let mut driver = Cufile::open(&cufile::Settings { ordinal, register: options.register })?;
    let transport: Box<dyn Transport<T>> = match options.mode {
        Mode::Stream => {
            let streams = options.streams.unwrap_or(depth.min(DEFAULT_STREAMS));
            Box::new(driver.streams(depth as usize, streams as usize, manner(options))?)
        }
        Mode::Batch => Box::new(driver.batches(depth as usize, manner(options))?),
        Mode::Auto if depth > 1 && options.threads.is_none() && !is_host_memory(options) => {
            Box::new(driver.batches(depth as usize, manner(options))?)
        }
        _ => issue(|| driver.worker(), options, depth)?,
    };
    Ok(Opened { driver: Box::new(driver), transport, notes })
}

fn open_gusli<T: Copy + Send + 'static>(options: &Options, wanted: &Wanted) -> Result<Opened<T>, String> {
    let has_callback = check_gusli(options)?;
    let of_prio = |prio: i32| (7 - prio.clamp(0, 7)) as u8 * 100 / 7;
    let driver = Gusli::open(&gusli::Settings {
        job: wanted.job,
        is_thread: wanted.is_thread,
        common: gusli::Common {
            library: options.gusli.library.clone(),
            log: options.gusli.log.clone(),
            client: options.gusli.client_name.clone(),
            max_in_flight: options.gusli.max_in_flight,
        },
        depth: wanted.depth,
        wait: manner(options),
        requests: gusli::Manner {
            priority: options.gusli.priority.or(wanted.priority.map(of_prio)).unwrap_or(0),
            try_uring: options.gusli.uring,
        },
        has_callback,
        makes_lists: options.gusli.sgl,
    })?;
    let (transport, notes) = (driver.requests(), driver.notes());
    Ok(Opened { driver: Box::new(driver), transport, notes })
}

/// What has no meaning with GUSLI is refused, not ignored. Says whether completions come by callback.
fn check_gusli(options: &Options) -> Result<bool, String> {
    let contradicts = |what: String, why: &str| Err(format!("{what} contradicts gpu_backend=gusli, {why}: leave it out"));
    match options {
        Options { memory: Some(memory), .. } if *memory != Memory::Host => {
            return Err(format!(
                "gpu_mem={} contradicts gpu_backend=gusli, whose library takes host memory only: use gpu_mem=host",
                memory.word()
            ));
        }
        Options { require_direct: true, .. } => {
            return contradicts("gpu_require_direct=1".to_owned(), "which moves every byte through host memory");
        }
        Options { device_ids: Some(_), .. } => return contradicts("gpu_dev_ids".to_owned(), "which uses no GPU"),
        Options { io: io @ (Io::Posix | Io::Uring), .. } => {
            return contradicts(format!("gpu_io={}", io.word()), "which has one way to move bytes (gpu_io=direct)");
        }
        Options { mode, .. } if *mode != Mode::Auto => {
            return contradicts(format!("gpu_mode={}", mode.word()), "which has one way to issue I/O (gpu_mode=auto)");
        }
        Options { threads: Some(_), .. } => return contradicts("gpu_threads".to_owned(), "which has one way to issue I/O (gpu_mode=auto)"),
        Options { register: false, .. } => return contradicts("gpu_register=0".to_owned(), "whose library moves registered memory only"),
        Options { data, .. } if !matches!(data, Data::Auto | Data::Exact) => {
            return contradicts(format!("gpu_data={}", data.word()), "which always writes fio's own buffer (gpu_data=exact)");
        }
        _ => {}
    }
    match (options.gusli.completion, options.wait) {
        (Some(Completion::Poll), Wait::Block) => {
            Err("gusli_completion=poll contradicts gpu_wait=block: only a callback can wake a sleeper; leave one of them out".to_owned())
        }
        (completion, wait) => Ok(completion == Some(Completion::Callback) || wait == Wait::Block),
    }
}

/// Whether the I/O buffers lie in host memory, on whose bytes libcufile's batch call cannot be relied: 1.14 and 1.20 leave out the offset in the
/// buffer, and where it is 0 some operations end before their bytes have come.
fn is_host_memory(options: &Options) -> bool {
    matches!(options.memory, Some(Memory::Pinned | Memory::Host))
}

/// Whether the job asks for pread and pwrite in place of the vendor's call.
fn goes_posix(options: &Options) -> bool {
    options.cuda_io == Some(CudaIo::Posix) || options.io == Io::Posix
}

/// Devices are given out round-robin by subjob number, also where several are equally near.
fn device_of(options: &Options, wanted: &Wanted, notes: &mut Vec<String>) -> Result<u32, String> {
    let turn = |ids: &[u32]| ids.get(wanted.subjob as usize % ids.len().max(1)).copied().unwrap_or(0);
    match &options.device_ids {
        None => Ok(0),
        Some(DeviceIds::Listed(ids)) => Ok(turn(ids)),
        Some(DeviceIds::Nearest) => {
            let found = topology::nearest(Path::new(topology::SYSFS), &wanted.file, &Cuda::get()?.addresses());
            let ids: Vec<String> = found.ordinals.iter().map(u32::to_string).collect();
            notes.push(format!("gpu_dev_ids=nearest is {}: {}", ids.join(":"), found.reason));
            Ok(turn(&found.ordinals))
        }
    }
}

/// Blocking calls, one at a time or in a pool of threads as the job's mode and depth say.
fn issue<T: Copy + Send + 'static, B: Blocking<T>>(
    worker: impl Fn() -> B,
    options: &Options,
    depth: u32,
) -> Result<Box<dyn Transport<T>>, String> {
    if options.mode == Mode::Sync || (options.mode == Mode::Auto && depth == 1) {
        return Ok(Box::new(Synchronous(worker())));
    }
    let threads = options.threads.unwrap_or(depth.min(DEFAULT_THREADS));
    let pool = Pool::start((0..threads).map(|_| worker()).collect(), depth as usize, manner(options));
    Ok(Box::new(
        pool.map_err(|error| {
            format!("a pool of {threads} threads: {error}; lower gpu_threads or iodepth, or raise the limit of processes")
        })?,
    ))
}

fn manner(options: &Options) -> Manner {
    match options.wait {
        Wait::Spin => Manner::Spin,
        Wait::Yield => Manner::Yield,
        Wait::Block => Manner::Block,
    }
}

/// A ring, straight on the job's buffers where the kernel can reach them. Managed memory it can reach, too, but must not hold: the driver
/// moves it.
fn uring<T: Copy + 'static>(options: &Options, depth: u32, device: Option<&Arc<dyn Device>>) -> Result<Box<dyn Transport<T>>, String> {
    let device = device.filter(|_| !is_host_memory(options)).cloned();
    let settings = uring::Settings { depth: depth as usize, manner: manner(options), register: options.register, device };
    Ok(Box::new(Uring::open(settings)?))
}

/// What no backend of this build can do, and what contradicts itself in all of them.
fn check_modes(choice: &Choice, options: &Options) -> Result<(), String> {
    let word = options.mode.word();
    match (options.mode, choice.backend) {
        (Mode::Batch | Mode::Stream, Backend::Host) => {
            return Err(format!("gpu_mode={word} needs a GPU: gpu_backend=host has sync and pool"));
        }
        (Mode::Batch | Mode::Stream, _) if goes_posix(options) => {
            return Err(format!("gpu_mode={word} is the vendor's own call: with gpu_io=posix use gpu_mode=sync or pool"));
        }
        _ => {}
    }
    if options.mode == Mode::Batch && is_host_memory(options) {
        let memory = options.memory.unwrap_or(Memory::Host).word();
        return Err(format!(
            "gpu_mode=batch contradicts gpu_mem={memory}: libcufile's batch call mixes up bytes in host memory; use gpu_mode=pool, or \
             gpu_mem=device"
        ));
    }
    if options.threads.is_some() && !matches!(options.mode, Mode::Auto | Mode::Pool) {
        return Err(format!("gpu_threads contradicts gpu_mode={word}: use gpu_mode=pool, or leave one of them out"));
    }
    if options.streams.is_some() && options.mode != Mode::Stream {
        return Err(format!("gpu_streams contradicts gpu_mode={word}: use gpu_mode=stream, or leave it out"));
    }
    if options.io == Io::Uring {
        check_uring(options)?;
    }
    if options.cuda_io == Some(CudaIo::Cufile) && options.io == Io::Posix {
        return Err("cuda_io=cufile contradicts gpu_io=posix: leave one of them out".to_owned());
    }
    let shared = options.memory.is_some_and(|memory| memory != Memory::Device);
    if shared && !matches!(options.data, Data::Auto | Data::Exact) {
        return Err(format!(
            "gpu_data={} needs gpu_mem=device: in host, pinned and managed memory a write sends fio's own buffer, which is gpu_data=exact",
            options.data.word()
        ));
    }
    Ok(())
}

/// A ring has its own way to issue I/O, and it is the only one.
fn check_uring(options: &Options) -> Result<(), String> {
    let other = match options {
        Options { mode, .. } if *mode != Mode::Auto => format!("gpu_mode={}", mode.word()),
        Options { threads: Some(n), .. } => format!("gpu_threads={n}"),
        Options { cuda_io: Some(io), .. } => format!("cuda_io={}", io.word()),
        Options { rocm_io: Some(io), .. } => format!("rocm_io={}", io.word()),
        _ => return Ok(()),
    };
    Err(format!("{other} contradicts gpu_io=uring, which has its own way to issue I/O (gpu_mode=auto): leave one of them out"))
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
    Ok(())
}
