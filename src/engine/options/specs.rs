//! The options as fio shows them: names, help, values and checks.

use super::values::{
    Backend, Completion, CudaIo, Data, DeviceIds, Io, Memory, Mode, RocmIo, Wait, flag, number, priority, streams, threads,
};
use crate::fio::OptionSpec;
use crate::{gusli, nixl};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_every_option_passes_its_own_check() {
        for spec in SPECS {
            for (word, _) in spec.values.iter().chain(spec.default.iter().map(|d| (*d, "")).collect::<Vec<_>>().iter()) {
                assert!((spec.check)(word).is_ok(), "{}={word}", spec.name);
            }
        }
    }
}
