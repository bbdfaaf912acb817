//! The values that options take: words, devices, numbers; each answers a text that it does not take with what it takes.

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

            pub fn check(text: &str) -> Result<(), String> {
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

/// The devices of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceIds {
    Nearest,
    /// Never empty.
    Listed(Vec<u32>),
}

impl DeviceIds {
    pub fn parse(text: &str) -> Result<Self, String> {
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

pub fn threads(text: &str) -> Result<u32, String> {
    number(text, 256)
}

pub fn streams(text: &str) -> Result<u32, String> {
    number(text, 128)
}

pub fn number(text: &str, most: u32) -> Result<u32, String> {
    let digits = text.bytes().all(|b| b.is_ascii_digit()); // parse() takes a sign, too
    text.parse().ok().filter(|n| digits && (1..=most).contains(n)).ok_or_else(|| format!("use a number from 1 to {most}"))
}

pub fn priority(text: &str) -> Result<u8, String> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|n| digits && *n <= 100).ok_or_else(|| "use a number from 0 to 100".to_owned())
}

pub fn flag(text: &str) -> Result<bool, String> {
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
}
