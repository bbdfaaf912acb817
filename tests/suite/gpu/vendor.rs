//! What a test has to know of a vendor: its words, and where it is known to differ.

/// One vendor.
pub struct Vendor {
    /// What every job in its environment is told.
    pub usual: &'static [&'static str],
    /// The same in CUDA's words and its own; the first that fits counts.
    words: &'static [(&'static str, &'static str)],
    /// Calls into its runtime, by the names that CUDA's have.
    calls: &'static [(&'static str, &'static str)],
    /// Copies that the library itself makes in each I/O.
    pub copies: u32,
    /// The mode that is the vendor's own, beside its blocking call.
    pub deep: &'static str,
    /// What moves buffers that are in host memory.
    pub host_memory: &'static str,
}

static NVIDIA: Vendor = Vendor {
    usual: &[
        "nvidia-fs is not loaded, so cuFile runs in compat mode, through host memory; load it (modprobe nvidia-fs) for the direct path",
    ],
    words: &[],
    calls: &[],
    copies: 1,
    deep: "gpu_mode=batch\n",
    host_memory: "",
};

static AMD: Vendor = Vendor {
    usual: &[],
    words: &[
        ("cuda_io=cufile", "rocm_io=hipfile"),
        ("gpu_backend=cufile", "gpu_backend=hipfile"),
        ("gpu_backend=auto is cufile", "gpu_backend=auto is hipfile"),
        ("cuda_io", "rocm_io"),
        ("GPUIO_SIM_CUFILE_", "GPUIO_SIM_HIPFILE_"),
        ("GPUIO_CUFILE_", "GPUIO_HIPFILE_"),
        ("GPUIO_CUDA_", "GPUIO_HIP_"),
        ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
        ("CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory"),
        ("CUDA_ERROR_LAUNCH_FAILED", "hipErrorLaunchFailure"),
        ("CUDA_ERROR_", "hipError"),
        ("CUDA was initialised", "HIP was initialised"),
        ("CU_FILE_INTERNAL_ERROR (5030); see cufile.log", "hipFileInternalError (5030); see the system's log"),
        ("libcufile", "libhipfile"),
        ("cuFile", "hipFile"),
        ("libcuda.so.1 and libcuda.so", "libamdhip64.so.7 and libamdhip64.so.6 and libamdhip64.so.5 and libamdhip64.so"),
        ("libcuda.so.1", "libamdhip64.so.7"),
        ("cuInit", "hipInit"),
        ("no NVIDIA driver", "no HIP runtime"),
        ("install the driver", "install ROCm's"),
        ("no NVIDIA GPU: the driver is here", "no AMD GPU: the HIP runtime is here"),
        ("an NVIDIA GPU and a", "an AMD GPU and a"),
        ("nvidia-smi", "rocminfo"),
    ],
    calls: &[
        ("hipSetDevice", "cuDevicePrimaryCtxRetain"),
        ("hipMalloc", "cuMemAlloc"),
        ("hipFree", "cuMemFree"),
        ("hipHostMalloc", "cuMemHostAlloc"),
        ("hipHostFree", "cuMemFreeHost"),
        ("hipMemcpyHtoDAsync", "cuMemcpyHtoDAsync"),
        ("hipMemcpyDtoHAsync", "cuMemcpyDtoHAsync"),
        ("hipMemsetD2D32Async", "cuMemsetD2D32Async"),
        ("hipStreamCreateWithFlags", "cuStreamCreate"),
        ("hipStreamDestroy", "cuStreamDestroy"),
    ],
    copies: 0,
    deep: "gpu_mode=stream\n",
    host_memory: "gpu_io=posix\n",
};

impl Vendor {
    pub fn of(environment: &str) -> &'static Self {
        if environment.starts_with("hipfile") { &AMD } else { &NVIDIA }
    }

    pub fn is_amd(&self) -> bool {
        std::ptr::eq(self, &AMD)
    }

    /// A text of a test in the vendor's words.
    pub fn words(&self, text: &str) -> String {
        let mut rest = text;
        let mut said = String::with_capacity(text.len());
        while let Some(first) = rest.chars().next() {
            let (old, new) = self.words.iter().find(|(old, _)| rest.starts_with(old)).copied().unwrap_or((&rest[..first.len_utf8()], ""));
            said.push_str(if new.is_empty() { old } else { new });
            rest = &rest[old.len()..];
        }
        said
    }

    /// What CUDA calls a function of this vendor's.
    pub fn as_cuda(&self, name: &str) -> String {
        match self.calls.iter().find(|(own, _)| *own == name) {
            Some((_, cuda)) => (*cuda).to_owned(),
            None if self.is_amd() => name.replacen("hipFile", "cuFile", 1),
            None => name.to_owned(),
        }
    }
}
