//! Options that contradict each other, or the backend. Each is refused in one line.

use super::options::{Backend, Completion, CudaIo, Data, Io, Memory, Mode, Options, RocmIo, Wait};

/// Whether the I/O buffers lie in host memory, on whose bytes libcufile's batch call cannot be relied: 1.14 and 1.20 leave out the offset in the
/// buffer, and where it is 0 some operations end before their bytes have come.
pub fn is_host_memory(options: &Options) -> bool {
    matches!(options.memory, Some(Memory::Pinned | Memory::Host))
}

/// Whether the job asks for pread and pwrite in place of the vendor's call.
pub fn goes_posix(options: &Options) -> bool {
    options.cuda_io == Some(CudaIo::Posix) || options.rocm_io == Some(RocmIo::Posix) || options.io == Io::Posix
}

/// Whether it asks for any other way than the vendor's call.
pub fn goes_through_host_memory(options: &Options) -> bool {
    goes_posix(options) || options.io == Io::Uring
}

/// What no backend of this build can do, and what contradicts itself in all of them.
pub fn check_modes(backend: Backend, options: &Options) -> Result<(), String> {
    let word = options.mode.word();
    match (options.mode, backend) {
        (Mode::Batch | Mode::Stream, Backend::Host) => {
            return Err(format!("gpu_mode={word} needs a GPU: gpu_backend=host has sync and pool"));
        }
        (Mode::Batch | Mode::Stream, _) if goes_posix(options) => {
            return Err(format!("gpu_mode={word} is the vendor's own call: with gpu_io=posix use gpu_mode=sync or pool"));
        }
        _ => {}
    }
    if options.mode == Mode::Batch && backend == Backend::Cufile && is_host_memory(options) {
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
    let direct = match (options.cuda_io, options.rocm_io) {
        (Some(CudaIo::Cufile), _) => Some("cuda_io=cufile"),
        (_, Some(RocmIo::Hipfile)) => Some("rocm_io=hipfile"),
        _ => None,
    };
    if let Some(word) = direct.filter(|_| options.io == Io::Posix) {
        return Err(format!("{word} contradicts gpu_io=posix: leave one of them out"));
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
pub fn check_host(options: &Options) -> Result<(), String> {
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

/// What has no meaning with GUSLI is refused, not ignored. Says whether completions come by callback.
pub fn check_gusli(options: &Options) -> Result<bool, String> {
    let contradicts = |what: String, why: &str| Err(format!("{what} contradicts gpu_backend=gusli, {why}: leave it out"));
    match options {
        Options { memory: Some(memory @ (Memory::Device | Memory::Managed)), .. } => {
            return Err(format!(
                "gpu_mem={} contradicts gpu_backend=gusli, whose library takes host memory only: use gpu_mem=host or pinned",
                memory.word()
            ));
        }
        Options { require_direct: true, .. } => {
            return contradicts("gpu_require_direct=1".to_owned(), "which moves every byte through host memory");
        }
        Options { device_ids: Some(_), memory, .. } if *memory != Some(Memory::Pinned) => {
            return contradicts("gpu_dev_ids".to_owned(), "which uses no GPU unless gpu_mem=pinned");
        }
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

/// What has no meaning with NIXL is refused, not ignored. Says whether the buffers are to be on the device, where the job says so.
pub fn check_nixl(options: &Options) -> Result<Option<bool>, String> {
    let contradicts = |what: String, why: &str| Err(format!("{what} contradicts gpu_backend=nixl, {why}: leave it out"));
    match options {
        Options { io: io @ (Io::Posix | Io::Uring), .. } => {
            return contradicts(format!("gpu_io={}", io.word()), "whose plugins have their own ways to move bytes (nixl_plugin)");
        }
        Options { mode, .. } if *mode != Mode::Auto => {
            return contradicts(format!("gpu_mode={}", mode.word()), "which has one way to issue I/O (gpu_mode=auto)");
        }
        Options { threads: Some(_), .. } => return contradicts("gpu_threads".to_owned(), "which has one way to issue I/O (gpu_mode=auto)"),
        Options { register: false, .. } => return contradicts("gpu_register=0".to_owned(), "whose library moves registered memory only"),
        Options { require_direct: true, .. } => {
            return contradicts("gpu_require_direct=1".to_owned(), "whose plugins do not say which way bytes take");
        }
        _ => {}
    }
    match options.memory {
        None => Ok(None),
        Some(Memory::Device) => Ok(Some(true)),
        Some(Memory::Host) => Ok(Some(false)),
        Some(memory) => Err(format!(
            "gpu_mem={} contradicts gpu_backend=nixl, which knows host memory and device memory: use gpu_mem=host or device",
            memory.word()
        )),
    }
}

/// What needs a GPU is refused in a job of NIXL's whose buffers are in host memory. Some plugins have one there, too.
pub fn check_nixl_on_host(options: &Options, plugin: &str, has_device: bool) -> Result<(), String> {
    if options.device_ids.is_some() && !has_device {
        return Err(format!("gpu_dev_ids contradicts nixl_plugin={plugin} in host memory, which uses no GPU: leave it out"));
    }
    if !matches!(options.data, Data::Auto | Data::Exact) {
        return Err(format!(
            "gpu_data={} contradicts nixl_plugin={plugin} in host memory, which always writes fio's own buffer (gpu_data=exact): leave it out",
            options.data.word()
        ));
    }
    Ok(())
}
