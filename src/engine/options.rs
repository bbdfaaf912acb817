//! The engine's options: their names and values as users know them, and one job's choice of them.

use serde_json::{Value, json};

use crate::fio::{OptionSpec, OptionValues};
use crate::{gusli, nixl};

/// An option whose values are words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal : $meaning:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant),* }

        impl $name {
            pub const VALUES: &'static [(&'static str, &'static str)] = &[$(($word, $meaning)),*];

            pub fn parse(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(one_of(Self::VALUES)),
                }
            }

            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            fn check(text: &str) -> Result<(), String> {
                Self::parse(text).map(|_| ())
            }
        }
    };
}

words! {
    /// Who moves the bytes.
    Backend {
        Auto = "auto": "what cuda_io, rocm_io, gusli_* or nixl_* imply; else the first of cufile and hipfile that has a device; else host",
        Host = "host": "host memory, on any machine",
        Cufile = "cufile": "NVIDIA GPU memory through cuFile",
        Hipfile = "hipfile": "AMD GPU memory through hipFile",
        Gusli = "gusli": "NVIDIA's user-space block access",
        Nixl = "nixl": "a storage plugin of NIXL",
    }
}

words! {
    /// How bytes get between the file and the buffers.
    Io {
        Direct = "direct": "the vendor's direct call",
        Posix = "posix": "pread and pwrite on host memory, and a copy where the buffers are elsewhere",
        Uring = "uring": "the same through io_uring, at full queue depth",
    }
}

words! {
    CudaIo {
        Cufile = "cufile": "gpu_backend=cufile with gpu_io=direct",
        Posix = "posix": "gpu_backend=cufile with gpu_io=posix",
    }
}

words! {
    RocmIo {
        Hipfile = "hipfile": "gpu_backend=hipfile with gpu_io=direct",
        Posix = "posix": "gpu_backend=hipfile with gpu_io=posix",
    }
}

words! {
    /// How direct I/O is issued.
    Mode {
        Auto = "auto": "sync at iodepth=1, else the best that the backend has",
        Sync = "sync": "one blocking call at a time",
        Batch = "batch": "the vendor's batch call",
        Stream = "stream": "the vendor's asynchronous call",
        Pool = "pool": "threads, each in a blocking call",
    }
}

words! {
    /// What the buffers are made of.
    Memory {
        Device = "device": "the GPU's memory",
        Managed = "managed": "memory that the vendor's driver migrates",
        Pinned = "pinned": "host memory locked for the GPU",
        Host = "host": "plain host memory",
    }
}

words! {
    /// How completions are waited for.
    Wait {
        Spin = "spin": "poll",
        Yield = "yield": "poll with back-off",
        Block = "block": "sleep until woken",
    }
}

words! {
    /// How GUSLI tells of the end of an I/O.
    Completion {
        Poll = "poll": "it is asked",
        Callback = "callback": "a thread of its own says so",
    }
}

words! {
    /// Which bytes a write sends from device memory.
    Data {
        Auto = "auto": "exact where the job needs fio's own bytes, else scramble or once as scramble_buffers says",
        Exact = "exact": "fio's buffer, staged before every write",
        Scramble = "scramble": "as once, with a value of its own set into every 512-byte sector on the device before each write",
        Once = "once": "fio's buffer as it was when the I/O unit was made",
        None = "none": "a constant, as fio's own GPU engines send",
    }
}

/// All options, in the order in which `--enghelp` shows them.
pub const SPECS: &[OptionSpec] = &[
    OptionSpec { name: "gpu_backend", help: "Who moves the bytes", default: Some("auto"), values: Backend::VALUES, check: Backend::check },
    OptionSpec {
        name: "gpu_dev_ids",
        help: "Devices, given out round-robin by subjob number: 0:1:2, or 0,1,2, or nearest to the file (default: device 0)",
        default: None,
        values: &[],
        check: |text| DeviceIds::parse(text).map(|_| ()),
    },
    OptionSpec {
        name: "gpu_io",
        help: "How bytes get between file and buffers",
        default: Some("direct"),
        values: Io::VALUES,
        check: Io::check,
    },
    OptionSpec { name: "cuda_io", help: "As in fio's libcufile engine", default: None, values: CudaIo::VALUES, check: CudaIo::check },
    OptionSpec { name: "rocm_io", help: "As in fio's libhipfile engine", default: None, values: RocmIo::VALUES, check: RocmIo::check },
    OptionSpec { name: "gpu_mode", help: "How direct I/O is issued", default: Some("auto"), values: Mode::VALUES, check: Mode::check },
    OptionSpec {
        name: "gpu_threads",
        help: "Threads of gpu_mode=pool, 1 to 256 (default: iodepth, 16 at most)",
        default: None,
        values: &[],
        check: |text| threads(text).map(|_| ()),
    },
    OptionSpec {
        name: "gpu_streams",
        help: "Streams of gpu_mode=stream, 1 to 128 (default: iodepth, 8 at most)",
        default: None,
        values: &[],
        check: |text| streams(text).map(|_| ()),
    },
    OptionSpec {
        name: "gpu_mem",
        help: "What the I/O buffers are made of (default: device; host with gpu_backend=host or gusli)",
        default: None,
        values: Memory::VALUES,
        check: Memory::check,
    },
    OptionSpec {
        name: "gpu_register",
        help: "Register the buffers with the vendor's library: 0 or 1",
        default: Some("1"),
        values: &[],
        check: |text| flag(text).map(|_| ()),
    },
    OptionSpec {
        name: "gpu_wait",
        help: "How completions are waited for",
        default: Some("yield"),
        values: Wait::VALUES,
        check: Wait::check,
    },
    OptionSpec {
        name: "gpu_data",
        help: "Which bytes a write sends from device memory",
        default: Some("auto"),
        values: Data::VALUES,
        check: Data::check,
    },
    OptionSpec {
        name: "gpu_require_direct",
        help: "Fail the job where the path is not direct: 0 or 1",
        default: Some("0"),
        values: &[],
        check: |text| flag(text).map(|_| ()),
    },
    OptionSpec {
        name: "gusli_device",
        help: "Devices that filename= names by id or path: id:type:path[:cookie[:byte offset]], separated by commas; types F, K, N",
        default: None,
        values: &[],
        check: gusli::check_list,
    },
    OptionSpec {
        name: "gusli_config",
        help: "A configuration file of GUSLI, whose ids filename= names",
        default: None,
        values: &[],
        check: |_| Ok(()),
    },
    OptionSpec { name: "gusli_library", help: "The path of GUSLI's client library", default: None, values: &[], check: |_| Ok(()) },
    OptionSpec {
        name: "gusli_completion",
        help: "How GUSLI tells of the end of an I/O (default: poll; callback with gpu_wait=block)",
        default: None,
        values: Completion::VALUES,
        check: Completion::check,
    },
    OptionSpec {
        name: "gusli_sgl",
        help: "Send what is queued at once for one device as one request of many ranges: 0 or 1",
        default: Some("0"),
        values: &[],
        check: |text| flag(text).map(|_| ()),
    },
    OptionSpec {
        name: "gusli_priority",
        help: "Priority of all requests, 0 to 100, 100 the highest (default: from prio=)",
        default: None,
        values: &[],
        check: |text| priority(text).map(|_| ()),
    },
    OptionSpec {
        name: "gusli_max_inflight",
        help: "Requests in flight on a device that GUSLI is asked for, 1 to 511 (default: iodepth, 256 at least)",
        default: None,
        values: &[],
        check: |text| number(text, 511).map(|_| ()),
    },
    OptionSpec {
        name: "gusli_client_name",
        help: "What servers know this client by (default: fio)",
        default: None,
        values: &[],
        check: |_| Ok(()),
    },
    OptionSpec {
        name: "gusli_uring",
        help: "Ask GUSLI to use io_uring where it can: 0 or 1",
        default: Some("0"),
        values: &[],
        check: |text| flag(text).map(|_| ()),
    },
    OptionSpec { name: "gusli_log", help: "Write the log of GUSLI's library to this file", default: None, values: &[], check: |_| Ok(()) },
    OptionSpec {
        name: "nixl_plugin",
        help: "NIXL's plugin: POSIX, GDS, GDS_MT, GUSLI, OBJ, AZURE_BLOB or another (default: POSIX)",
        default: None,
        values: &[],
        check: |text| if text.is_empty() { Err("name a plugin".to_owned()) } else { Ok(()) },
    },
    OptionSpec {
        name: "nixl_params",
        help: "Parameters of the plugin: key=value,key=value",
        default: None,
        values: &[],
        check: |text| nixl::parse_params(text).map(|_| ()),
    },
    OptionSpec {
        name: "nixl_object",
        help: "Bucket or container of objects, and what their keys begin with: bucket/prefix",
        default: None,
        values: &[],
        check: |_| Ok(()),
    },
    OptionSpec {
        name: "nixl_batch",
        help: "I/Os that are queued at once and sent as one transfer at most, 1 to 1024 (default: 1)",
        default: None,
        values: &[],
        check: |text| number(text, 1024).map(|_| ()),
    },
    OptionSpec { name: "nixl_library", help: "The path of NIXL's libnixl_capi.so", default: None, values: &[], check: |_| Ok(()) },
    OptionSpec { name: "nixl_plugin_dir", help: "The folder of NIXL's plugins", default: None, values: &[], check: |_| Ok(()) },
    OptionSpec { name: "nixl_log", help: "Write the log of NIXL's library to this file", default: None, values: &[], check: |_| Ok(()) },
    OptionSpec { name: "gpu_report", help: "Write a JSON report of the job to this file", default: None, values: &[], check: |_| Ok(()) },
];

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

/// The devices of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceIds {
    Nearest,
    /// Never empty.
    Listed(Vec<u32>),
}

impl DeviceIds {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "nearest" {
            return Ok(Self::Nearest);
        }
        let ids: Result<Vec<u32>, _> = text.split([':', ',']).map(|id| id.trim().parse()).collect();
        ids.map(Self::Listed).map_err(|_| "use device numbers separated by ':' or ',' (0:1:2), or nearest".to_owned())
    }
}

fn one_of(values: &[(&str, &str)]) -> String {
    let words: Vec<&str> = values.iter().map(|(word, _)| *word).collect();
    format!("use one of {}", words.join(", "))
}

fn threads(text: &str) -> Result<u32, String> {
    number(text, 256)
}

fn streams(text: &str) -> Result<u32, String> {
    number(text, 128)
}

fn number(text: &str, most: u32) -> Result<u32, String> {
    let digits = text.bytes().all(|b| b.is_ascii_digit()); // parse() takes a sign, too
    text.parse().ok().filter(|n| digits && (1..=most).contains(n)).ok_or_else(|| format!("use a number from 1 to {most}"))
}

fn priority(text: &str) -> Result<u8, String> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|n| digits && *n <= 100).ok_or_else(|| "use a number from 0 to 100".to_owned())
}

fn flag(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("use 0 or 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_ids_take_both_separators_and_nothing_else() {
        assert_eq!(DeviceIds::parse("0:1,2"), Ok(DeviceIds::Listed(vec![0, 1, 2])));
        assert_eq!(DeviceIds::parse("nearest"), Ok(DeviceIds::Nearest));
        for bad in ["", "0:", "-1", "0x1", "a", "0;1", "near", "99999999999"] {
            assert!(DeviceIds::parse(bad).unwrap_err().contains("0:1:2"), "{bad}");
        }
    }

    #[test]
    fn a_word_outside_the_list_is_answered_with_the_list() {
        assert_eq!(Backend::parse("gds").unwrap_err(), "use one of auto, host, cufile, hipfile, gusli, nixl");
        assert_eq!(threads("0").unwrap_err(), "use a number from 1 to 256");
        assert!(threads("256").is_ok() && threads("257").is_err() && threads("4k").is_err());
        assert!(flag("yes").is_err());
    }

    #[test]
    fn every_value_of_every_option_passes_its_own_check() {
        for spec in SPECS {
            for (word, _) in spec.values.iter().chain(spec.default.iter().map(|d| (*d, "")).collect::<Vec<_>>().iter()) {
                assert!((spec.check)(word).is_ok(), "{}={word}", spec.name);
            }
        }
    }
}
