//! The one place that chooses a vendor.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checks::{
    check_gusli, check_host, check_modes, check_nixl, check_nixl_on_host, goes_posix, goes_through_host_memory, is_host_memory,
};
use super::options::{Backend, DeviceIds, Io, Memory, Mode, Options, Wait};
use super::way::Unstarted;
use crate::common::blocking::{Blocking, Synchronous};
use crate::common::bounce::Bounce;
use crate::common::device::Device;
use crate::common::driver::{DeviceOnly, Driver, NoDriver};
use crate::common::gpu::{self, Cuda, GpuDevice, Hip, Runtime};
use crate::common::gpufile::{self, Files};
use crate::common::pool::Pool;
use crate::common::topology;
use crate::common::transport::Transport;
use crate::common::uring::{self, Uring};
use crate::common::wait::Manner;
use crate::cufile::{self, Cufile};
use crate::gusli::{self, Gusli};
use crate::{hipfile, host, nixl};

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
pub struct Opened {
    pub driver: Box<dyn Driver>,
    pub transport: Box<dyn Unstarted>,
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
        (None, _) => Ok(present(options)),
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
    let nixl = options.nixl.implied_by();
    let all = [
        (options.cuda_io.is_some(), Backend::Cufile, "cuda_io"),
        (options.rocm_io.is_some(), Backend::Hipfile, "rocm_io"),
        // A device of GUSLI's is not one of NIXL's plugin of that name.
        (options.gusli.is_implied(), Backend::Gusli, gusli),
        (nixl.is_some(), Backend::Nixl, nixl.unwrap_or_default()),
    ];
    let mut given = all.into_iter().filter(|(is_given, ..)| *is_given).map(|(_, backend, option)| (backend, option));
    match (given.next(), given.next()) {
        (Some((_, one)), Some((_, other))) => Err(format!("{one} and {other} contradict each other: give one of them")),
        (first, _) => Ok(first),
    }
}

/// The first backend whose device and library are on this machine.
fn present(options: &Options) -> Choice {
    let cufile = Runtime::<Cuda>::get().and_then(|_| gpufile::Library::<Cufile>::get());
    let Err(no_cufile) = cufile else {
        return Choice { backend: Backend::Cufile, reason: Some("there is an NVIDIA GPU and a libcufile".to_owned()) };
    };
    let Err(no_hipfile) = hipfile::is_present(options.require_direct) else {
        return Choice { backend: Backend::Hipfile, reason: Some("there is an AMD GPU and a libhipfile".to_owned()) };
    };
    // What is missing, without what to do about it: nothing is wrong with a machine that has no GPU.
    let missing = |line: &str| line.split([':', ';']).next().unwrap_or_default().to_owned();
    Choice { backend: Backend::Host, reason: Some(format!("{}, and {}", missing(&no_cufile), missing(&no_hipfile))) }
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
    /// Whether it reads, and writes.
    pub job_reads: bool,
    pub job_writes: bool,
    /// Bytes of its smallest and its largest write.
    pub write_sizes: (usize, usize),
    /// Where its units lie in its buffers: the first one's place, and bytes from one to the next.
    pub units: (usize, usize),
    /// Bytes of each of its files, where it says so.
    pub file_size: Option<u64>,
    /// The files that it names.
    pub files: Vec<String>,
}

/// Opens the backend for a job.
pub fn open(choice: &Choice, options: &Options, wanted: &Wanted) -> Result<Opened, String> {
    let depth = wanted.depth;
    check_modes(choice.backend, options)?;
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
        Backend::Hipfile => open_hipfile(options, wanted),
        Backend::Gusli => open_gusli(options, wanted),
        Backend::Nixl => open_nixl(options, wanted),
    }
}

fn open_cufile(options: &Options, wanted: &Wanted) -> Result<Opened, String> {
    let mut notes = Vec::new();
    let ordinal = device_of::<Cuda>(options, wanted, &mut notes)?;
    if goes_through_host_memory(options) {
        return open_device::<Cuda>(options, wanted, ordinal, notes);
    }
    if !wanted.direct {
        doubt(options, "direct=0: cuFile goes through the page cache and host memory; use direct=1 for the direct path", &mut notes)?;
    }
    if let Some(line) = cufile::why_not_direct() {
        doubt(options, line, &mut notes)?;
    }
    let mut files = Files::<Cufile>::open(&settings(options, ordinal))?;
    let takes_batches = wanted.depth > 1 && options.threads.is_none() && !is_host_memory(options);
    if options.mode == Mode::Batch || (options.mode == Mode::Auto && takes_batches) {
        let transport = cufile::batches(&mut files, wanted.depth as usize, manner(options))?;
        return Ok(Opened { driver: Box::new(files), transport: Box::new(transport), notes });
    }
    open_files(files, options, wanted.depth, notes)
}

fn open_hipfile(options: &Options, wanted: &Wanted) -> Result<Opened, String> {
    let mut notes = Vec::new();
    let ordinal = device_of::<Hip>(options, wanted, &mut notes)?;
    if goes_through_host_memory(options) {
        return open_device::<Hip>(options, wanted, ordinal, notes);
    }
    if let Some(memory) = options.memory.filter(|&memory| memory != Memory::Device) {
        return Err(format!(
            "gpu_mem={} contradicts gpu_io=direct: hipFile moves device memory only; use gpu_mem=device, or gpu_io=posix or uring",
            memory.word()
        ));
    }
    let mut files = hipfile::open(&settings(options, ordinal))?;
    for line in hipfile::doubts(&wanted.file, wanted.direct)? {
        doubt(options, &line, &mut notes)?;
    }
    if options.mode == Mode::Stream {
        let line = "gpu_mode=stream: hipFile's asynchronous call always goes through host memory; use gpu_mode=pool for the direct path";
        doubt(options, line, &mut notes)?;
    }
    if options.mode == Mode::Batch {
        hipfile::try_batch(&mut files, &wanted.file)?;
        let transport = files.batches(wanted.depth as usize, None, manner(options))?;
        return Ok(Opened { driver: Box::new(files), transport: Box::new(transport), notes });
    }
    open_files(files, options, wanted.depth, notes)
}

/// What keeps bytes from the direct path is told, or refused where the job requires that.
fn doubt(options: &Options, line: &str, notes: &mut Vec<String>) -> Result<(), String> {
    if options.require_direct {
        return Err(format!("gpu_require_direct=1: {line}"));
    }
    notes.push(line.to_owned());
    Ok(())
}

fn settings(options: &Options, ordinal: u32) -> gpufile::Settings {
    gpufile::Settings { ordinal, register: options.register, require_direct: options.require_direct }
}

/// GPU memory through a vendor's library, by its blocking or its asynchronous call.
fn open_files<V: gpufile::Vendor>(files: Files<V>, options: &Options, depth: u32, notes: Vec<String>) -> Result<Opened, String> {
    let transport = match options.mode {
        Mode::Stream => {
            let streams = options.streams.unwrap_or(depth.min(DEFAULT_STREAMS));
            shared(files.streams(depth as usize, streams as usize, manner(options))?)
        }
        _ => issue(|| files.worker(), options, depth)?,
    };
    Ok(Opened { driver: Box::new(files), transport, notes })
}

/// GPU memory by way of host memory, without a vendor's library for files.
fn open_device<R: gpu::Vendor>(options: &Options, wanted: &Wanted, ordinal: u32, notes: Vec<String>) -> Result<Opened, String> {
    if options.require_direct {
        let word = if goes_posix(options) { Io::Posix } else { options.io }.word();
        return Err(format!("gpu_require_direct=1 contradicts gpu_io={word}, which goes through host memory: leave one of them out"));
    }
    let device: Arc<dyn Device> = GpuDevice::<R>::open(ordinal)?;
    let transport = match options.io {
        Io::Uring => uring(options, wanted.depth, Some(&device))?,
        // What the kernel reaches by itself needs no bounce, and a device does not reach all of it.
        _ if is_host_memory(options) => issue(|| host::Posix, options, wanted.depth)?,
        _ => issue(|| Bounce::new(device.clone()), options, wanted.depth)?,
    };
    Ok(Opened { driver: Box::new(DeviceOnly(device)), transport, notes })
}

fn open_gusli(options: &Options, wanted: &Wanted) -> Result<Opened, String> {
    let has_callback = check_gusli(options)?;
    let of_prio = |prio: i32| (7 - prio.clamp(0, 7)) as u8 * 100 / 7;
    let mut notes = Vec::new();
    let gpu: Option<Arc<dyn Device>> = match options.memory {
        Some(Memory::Pinned) => {
            let device = device_of::<Cuda>(options, wanted, &mut notes).and_then(GpuDevice::<Cuda>::open);
            Some(device.map_err(|line| format!("gpu_mem=pinned needs CUDA (gpu_mem=host does not): {line}"))?)
        }
        _ => None,
    };
    let driver = Gusli::open(gusli::Settings {
        job: wanted.job,
        is_thread: wanted.is_thread,
        common: gusli::Common {
            library: options.gusli.library.clone(),
            log: options.gusli.log.clone(),
            client: options.gusli.client_name.clone(),
            max_in_flight: options.gusli.max_in_flight,
        },
        gpu,
        depth: wanted.depth,
        wait: manner(options),
        requests: gusli::Manner {
            priority: options.gusli.priority.or(wanted.priority.map(of_prio)).unwrap_or(0),
            try_uring: options.gusli.uring,
        },
        has_callback,
        makes_lists: options.gusli.sgl,
    })?;
    notes.extend(driver.notes());
    let transport = driver.requests();
    Ok(Opened { driver: Box::new(driver), transport: Box::new(transport), notes })
}

fn open_nixl(options: &Options, wanted: &Wanted) -> Result<Opened, String> {
    let wants_device = check_nixl(options)?;
    let own = &options.nixl;
    let mut notes = Vec::new();
    let mut nixl = nixl::open(
        nixl::Settings {
            library: own.library.as_deref(),
            plugin: own.plugin(),
            params: own.params.as_deref().map_or(Ok(Vec::new()), nixl::parse_params)?,
            plugin_dir: own.plugin_dir.as_deref(),
            log: own.log.as_deref(),
            object: own.object.as_deref(),
            batch: own.batch.unwrap_or(1) as usize,
            depth: wanted.depth,
            wait: manner(options),
            is_direct: wanted.direct,
            reads: wanted.job_reads,
            writes: wanted.job_writes,
            write_sizes: wanted.write_sizes,
            units: wanted.units,
            file_size: wanted.file_size,
            files: &wanted.files,
        },
        wants_device,
        || GpuDevice::<Cuda>::open(device_of::<Cuda>(options, wanted, &mut notes)?).map(|device| device as Arc<dyn Device>),
    )?;
    if nixl.is_on_host() {
        check_nixl_on_host(options, own.plugin(), nixl.device().is_some())?;
    }
    notes.extend(nixl.notes());
    let transport = nixl.transfers();
    Ok(Opened { driver: Box::new(nixl), transport: Box::new(transport), notes })
}

/// Devices are given out round-robin by subjob number, also where several are equally near.
fn device_of<R: gpu::Vendor>(options: &Options, wanted: &Wanted, notes: &mut Vec<String>) -> Result<u32, String> {
    let turn = |ids: &[u32]| ids.get(wanted.subjob as usize % ids.len().max(1)).copied().unwrap_or(0);
    match &options.device_ids {
        None => Ok(0),
        Some(DeviceIds::Listed(ids)) => Ok(turn(ids)),
        Some(DeviceIds::Nearest) => {
            let found = topology::nearest(Path::new(topology::SYSFS), &wanted.file, &Runtime::<R>::get()?.addresses());
            let ids: Vec<String> = found.ordinals.iter().map(u32::to_string).collect();
            notes.push(format!("gpu_dev_ids=nearest is {}: {}", ids.join(":"), found.reason));
            Ok(turn(&found.ordinals))
        }
    }
}

/// Blocking calls, one at a time or in a pool of threads as the job's mode and depth say.
fn issue<B: Blocking>(worker: impl Fn() -> B, options: &Options, depth: u32) -> Result<Box<dyn Unstarted>, String> {
    if options.mode == Mode::Sync || (options.mode == Mode::Auto && depth == 1) {
        return Ok(Box::new(Synchronous(worker())));
    }
    let threads = options.threads.unwrap_or(depth.min(DEFAULT_THREADS));
    let pool = Pool::start((0..threads).map(|_| worker()).collect(), depth as usize, manner(options));
    pool.map(shared)
        .map_err(|error| format!("a pool of {threads} threads: {error}; lower gpu_threads or iodepth, or raise the limit of processes"))
}

/// A transport on the job type that all share which do not end an operation at once.
fn shared(transport: impl Transport + 'static) -> Box<dyn Unstarted> {
    Box::new(Box::new(transport) as Box<dyn Transport>)
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
fn uring(options: &Options, depth: u32, device: Option<&Arc<dyn Device>>) -> Result<Box<dyn Unstarted>, String> {
    let device = device.filter(|_| !is_host_memory(options)).cloned();
    let settings = uring::Settings { depth: depth as usize, manner: manner(options), register: options.register, device };
    Uring::open(settings).map(shared)
}
