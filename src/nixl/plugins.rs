//! What is known of NIXL's plugins beyond what they say themselves: their limits, and where they differ from what a user expects.

use super::calls::{About, Segment};

/// One plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plugin {
    pub storage: Segment,
    /// It takes device memory, too.
    pub takes_device_memory: bool,
    pub traits: Traits,
}

/// What a plugin does not say itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// The parameters that bound what it has in flight, each with the most that is asked for.
    pub limits: &'static [(&'static str, u32)],
    /// After one failed I/O it cannot tell what has become of the others.
    pub loses_track: bool,
    /// A read or write that moved less than it should is a failure.
    pub tells_short: bool,
    /// A transfer that has ended can be started once more.
    pub starts_again: bool,
    /// It takes one backend in a process.
    pub is_alone: bool,
    /// It calls cuFile, on the calling thread's current device, and with sizes of any kind.
    pub is_cufile: bool,
}

const USUAL: Traits =
    Traits { limits: &[], loses_track: false, tells_short: false, starts_again: false, is_alone: false, is_cufile: false };

fn traits(name: &str) -> Traits {
    match name {
        "POSIX" => Traits { limits: &[("ios_pool_size", 65536), ("kernel_queue_size", 1024)], starts_again: true, ..USUAL },
        "GDS" => Traits { limits: &[("batch_pool_size", 1024)], is_cufile: true, starts_again: true, ..USUAL },
        "GDS_MT" => Traits { limits: &[("thread_count", 256)], is_cufile: true, starts_again: true, ..USUAL },
        "GUSLI" => Traits { limits: &[("max_num_simultaneous_requests", 511)], is_alone: true, ..USUAL },
        "OBJ" | "AZURE_BLOB" => Traits { limits: &[("num_threads", 256)], ..USUAL },
        _ => USUAL,
    }
}

impl Plugin {
    /// What a plugin is, by its name, its own word and the job's parameters; the error is a line for the user.
    pub fn of(name: &str, about: &About, params: &[(String, String)]) -> Result<Self, String> {
        let has = |segment: &Segment| about.segments.contains(&(*segment as i32));
        let storage = [Segment::File, Segment::Object, Segment::Block].into_iter().find(has);
        let storage =
            storage.ok_or_else(|| format!("nixl_plugin={name} moves memory to memory, and has no storage: use one for storage"))?;
        // Seen in 1.5.1 with this queue; before 1.5, when the plugin did not name its parameters either, with all three.
        let loses_track = name == "POSIX" && (about.params.is_empty() || params.iter().any(|(key, _)| key == "use_posix_aio"));
        let tells_short = name == "POSIX" && !about.params.is_empty();
        let traits = Traits { loses_track, tells_short, ..traits(name) };
        Ok(Self { storage, takes_device_memory: has(&Segment::DeviceMemory), traits })
    }

    /// The segment that a plugin stores in, as far as it is known before it is loaded.
    pub fn stores_objects(name: &str) -> bool {
        matches!(name, "OBJ" | "AZURE_BLOB" | "INFINIA")
    }
}

/// Reads `key=value,key=value`.
pub fn parse_params(text: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |part: &str| match part.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("{part} is not key=value: use key=value,key=value")),
    };
    let pairs: Vec<(String, String)> = text.split(',').map(pair).collect::<Result<_, _>>()?;
    let twice = pairs.iter().enumerate().find(|(n, (key, _))| pairs[..*n].iter().any(|(other, _)| other == key));
    twice.map_or(Ok(pairs.clone()), |(_, (key, _))| Err(format!("{key} is there twice")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_pairs_and_each_is_there_once() {
        let pairs = parse_params("use_uring=true, endpoint_override=http://127.0.0.1:9000/?a=b").unwrap();
        assert_eq!(pairs[1], ("endpoint_override".to_owned(), "http://127.0.0.1:9000/?a=b".to_owned()));
        assert!(parse_params("use_uring").unwrap_err().starts_with("use_uring is not key=value"));
        assert!(parse_params("=x").is_err() && parse_params("").is_err());
        assert_eq!(parse_params("a=1,a=2").unwrap_err(), "a is there twice");
    }

    #[test]
    fn a_plugin_stores_where_it_says_it_does() {
        let about = |segments: &[i32]| About { segments: segments.to_vec(), params: Vec::new() };
        assert_eq!(Plugin::of("POSIX", &about(&[0, 4]), &[]).unwrap().storage, Segment::File);
        let unknown = Plugin::of("NEW", &about(&[0, 1, 3]), &[]).unwrap();
        assert!(unknown.storage == Segment::Object && unknown.takes_device_memory && unknown.traits == USUAL);
        let posix_aio = [("use_posix_aio".to_owned(), "true".to_owned())];
        let newer = About { segments: vec![0, 4], params: vec!["use_aio".to_owned()] };
        let loses = |about: &About, params: &[(String, String)]| Plugin::of("POSIX", about, params).unwrap().traits.loses_track;
        assert!(loses(&about(&[0, 4]), &[]) && loses(&newer, &posix_aio) && !loses(&newer, &[]));
        assert!(Plugin::of("UCX", &about(&[0, 1]), &[]).unwrap_err().contains("nixl_plugin=UCX moves memory to memory"));
    }
}
