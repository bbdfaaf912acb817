//! The engine's options: their names and values as users know them, and one job's choice of them.

mod specs;
mod values;

use serde_json::{Value, json};

use crate::fio::OptionValues;
pub use specs::SPECS;
pub use values::{Backend, Completion, CudaIo, Data, DeviceIds, Io, Memory, Mode, RocmIo, Wait};
use values::{flag, number, priority, streams, threads};

/// One job's options. `None` where the job leaves the choice to the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub backend: Backend,
    pub device_ids: Option<DeviceIds>,
    pub io: Io,
    pub cuda_io: Option<CudaIo>,
    pub rocm_io: Option<RocmIo>,
    pub mode: Mode,
    pub threads: Option<u32>,
    pub streams: Option<u32>,
    pub memory: Option<Memory>,
    pub register: bool,
    pub wait: Wait,
    pub data: Data,
    pub require_direct: bool,
    pub gusli: Gusli,
    pub nixl: Nixl,
    pub report: Option<String>,
}

/// What only `gpu_backend=gusli` has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gusli {
    pub devices: Option<String>,
    pub config: Option<String>,
    pub library: Option<String>,
    pub completion: Option<Completion>,
    pub sgl: bool,
    pub priority: Option<u8>,
    pub max_in_flight: Option<u32>,
    pub client_name: Option<String>,
    pub uring: bool,
    pub log: Option<String>,
}

/// What only `gpu_backend=nixl` has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nixl {
    pub plugin: Option<String>,
    pub params: Option<String>,
    pub object: Option<String>,
    pub batch: Option<u32>,
    pub library: Option<String>,
    pub plugin_dir: Option<String>,
    pub log: Option<String>,
}

impl Options {
    /// Reads the texts that fio has kept. They were checked when fio parsed them, so an error here is one of the library.
    pub fn parse(values: &OptionValues) -> Result<Self, String> {
        let get = |name| values.get(name).map(str::trim);
        Ok(Self {
            backend: get("gpu_backend").map_or(Ok(Backend::Auto), Backend::parse)?,
            device_ids: get("gpu_dev_ids").map(DeviceIds::parse).transpose()?,
            io: get("gpu_io").map_or(Ok(Io::Direct), Io::parse)?,
            cuda_io: get("cuda_io").map(CudaIo::parse).transpose()?,
            rocm_io: get("rocm_io").map(RocmIo::parse).transpose()?,
            mode: get("gpu_mode").map_or(Ok(Mode::Auto), Mode::parse)?,
            threads: get("gpu_threads").map(threads).transpose()?,
            streams: get("gpu_streams").map(streams).transpose()?,
            memory: get("gpu_mem").map(Memory::parse).transpose()?,
            register: get("gpu_register").map_or(Ok(true), flag)?,
            wait: get("gpu_wait").map_or(Ok(Wait::Yield), Wait::parse)?,
            data: get("gpu_data").map_or(Ok(Data::Auto), Data::parse)?,
            require_direct: get("gpu_require_direct").map_or(Ok(false), flag)?,
            gusli: Gusli {
                devices: get("gusli_device").map(str::to_owned),
                config: get("gusli_config").map(str::to_owned),
                library: get("gusli_library").map(str::to_owned),
                completion: get("gusli_completion").map(Completion::parse).transpose()?,
                sgl: get("gusli_sgl").map_or(Ok(false), flag)?,
                priority: get("gusli_priority").map(priority).transpose()?,
                max_in_flight: get("gusli_max_inflight").map(|text| number(text, 511)).transpose()?,
                client_name: get("gusli_client_name").map(str::to_owned),
                uring: get("gusli_uring").map_or(Ok(false), flag)?,
                log: get("gusli_log").map(str::to_owned),
            },
            nixl: Nixl {
                plugin: get("nixl_plugin").map(str::to_owned),
                params: get("nixl_params").map(str::to_owned),
                object: get("nixl_object").map(str::to_owned),
                batch: get("nixl_batch").map(|text| number(text, 1024)).transpose()?,
                library: get("nixl_library").map(str::to_owned),
                plugin_dir: get("nixl_plugin_dir").map(str::to_owned),
                log: get("nixl_log").map(str::to_owned),
            },
            report: get("gpu_report").map(str::to_owned),
        })
    }
}

impl Gusli {
    /// Whether a device is named that only GUSLI knows.
    pub fn is_implied(&self) -> bool {
        self.devices.is_some() || self.config.is_some()
    }
}

impl Nixl {
    pub fn plugin(&self) -> &str {
        self.plugin.as_deref().unwrap_or("POSIX")
    }

    /// The first option that only NIXL has, where one is given that means something without the others.
    pub fn implied_by(&self) -> Option<&'static str> {
        let given = [
            (self.plugin.is_some(), "nixl_plugin"),
            (self.params.is_some(), "nixl_params"),
            (self.object.is_some(), "nixl_object"),
            (self.batch.is_some(), "nixl_batch"),
        ];
        given.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }
}

impl Options {
    /// The options as the report shows them: what the job said, or its default.
    pub fn to_json(&self) -> Value {
        json!({
            "gpu_backend": self.backend.word(),
            "gpu_io": self.io.word(),
            "cuda_io": self.cuda_io.map(CudaIo::word),
            "rocm_io": self.rocm_io.map(RocmIo::word),
            "gpu_mode": self.mode.word(),
            "gpu_threads": self.threads,
            "gpu_streams": self.streams,
            "gpu_mem": self.memory.map(Memory::word),
            "gpu_register": self.register,
            "gpu_wait": self.wait.word(),
            "gpu_data": self.data.word(),
            "gpu_require_direct": self.require_direct,
            "gusli_device": self.gusli.devices,
            "gusli_config": self.gusli.config,
            "gusli_completion": self.gusli.completion.map(Completion::word),
            "gusli_sgl": self.gusli.sgl,
            "gusli_priority": self.gusli.priority,
            "gusli_max_inflight": self.gusli.max_in_flight,
            "nixl_plugin": self.nixl.plugin,
            "nixl_object": self.nixl.object,
            "nixl_batch": self.nixl.batch,
        })
    }
}
