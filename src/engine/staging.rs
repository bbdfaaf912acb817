//! Which bytes a write sends from device memory (`gpu_data`), and the bytes that a read brings back for fio to verify.
//!
//! Neither is in any latency: staging is taken out of the unit's times, and the copy back comes in fio's event hook, after completion is
//! stamped.

use std::sync::Arc;

use super::memory::Region;
use super::options::Data;
use crate::common::device::{Device, DeviceError};
use crate::common::transport::Buffer;
use crate::fio::JobOptions;

/// What a job with buffers in device memory does about data.
pub struct Staging {
    device: Arc<dyn Device>,
    data: Data,
    /// Reads are copied back, since fio verifies them.
    copy_back: bool,
    /// The next value for [`Data::Scramble`].
    next: u32,
}

/// What `gpu_data` settles on.
#[derive(Debug, PartialEq, Eq)]
pub struct Decision {
    /// Never [`Data::Auto`].
    pub data: Data,
    pub copy_back: bool,
    /// A line for the user, where the job's options could not be read or contradict each other.
    pub note: Option<String>,
}

/// The job options that the decision hangs on. `None`: this fio does not let it be read.
#[derive(Debug, Clone, Copy)]
pub struct Wishes {
    pub verify: Option<bool>,
    /// fio fills every write with bytes of its own: patterns, refill, compression, dedupe, zeros.
    pub own_bytes: Option<bool>,
    pub scramble: Option<bool>,
}

impl Wishes {
    pub fn of(fio: &JobOptions) -> Self {
        let on = |name: &str| fio.int(name).map(|n| n != 0);
        let fills = ["refill_buffers", "zero_buffers", "buffer_compress_percentage", "dedupe_percentage"].map(on);
        let known = fills.iter().all(Option::is_some);
        let set =
            ["buffer_pattern", "verify_pattern", "dedupe_percentage", "buffer_compress_percentage"].iter().any(|name| fio.is_set(name));
        Self { verify: on("verify"), own_bytes: known.then(|| set || fills.contains(&Some(true))), scramble: on("scramble_buffers") }
    }
}

/// Settles `gpu_data`.
pub fn decide(asked: Data, wishes: Wishes) -> Result<Decision, String> {
    let verify = wishes.verify.unwrap_or(true);
    if verify && wishes.verify.is_some() && !matches!(asked, Data::Auto | Data::Exact) {
        return Err(format!(
            "gpu_data={} contradicts verify=, which needs fio's own bytes on disk: use gpu_data=exact or auto",
            asked.word()
        ));
    }
    let unknown = wishes.verify.is_none() || wishes.own_bytes.is_none() || wishes.scramble.is_none();
    let (data, note) = match asked {
        Data::Auto if unknown => (
            Data::Exact,
            Some("gpu_data=exact: this fio does not let its buffer options be read, so every write stages fio's own bytes".to_owned()),
        ),
        Data::Auto if verify || wishes.own_bytes == Some(true) => (Data::Exact, None),
        Data::Auto if wishes.scramble == Some(true) => (Data::Scramble, None),
        Data::Auto => (Data::Once, None),
        named => (named, None),
    };
    Ok(Decision { data, copy_back: verify, note })
}

impl Staging {
    /// `seed` tells the jobs of a run apart.
    pub fn new(device: Arc<dyn Device>, decision: &Decision, seed: u32) -> Self {
        Self { device, data: decision.data, copy_back: decision.copy_back, next: seed.wrapping_mul(0x85eb_ca6b) }
    }

    /// Fills the device's block before the first I/O.
    pub fn fill(&self, region: &Region) -> Result<(), DeviceError> {
        let whole = region.whole();
        match self.data {
            Data::None => self.device.clear(region.base, whole.len()),
            _ => self.device.copy_in(region.base, whole),
        }
    }

    /// Puts the bytes of one write into place, `at` bytes into the block.
    #[inline]
    pub fn before_write(&mut self, region: &Region, at: usize, from: Buffer) -> Result<(), DeviceError> {
        match self.data {
            Data::Exact => self.device.copy_in(region.base + at, from),
            Data::Scramble => {
                // An odd step visits every 32-bit value once before any comes again.
                self.next = self.next.wrapping_add(0x9e37_79b1);
                let aligned = at.next_multiple_of(4);
                self.device.stamp(region.base + aligned, from.len().saturating_sub(aligned - at), self.next)
            }
            Data::Once | Data::None | Data::Auto => Ok(()),
        }
    }

    /// Whether a write needs anything done before it.
    #[inline]
    pub fn stages_writes(&self) -> bool {
        matches!(self.data, Data::Exact | Data::Scramble)
    }

    /// Whether reads are copied back.
    #[inline]
    pub fn copies_back(&self) -> bool {
        self.copy_back
    }

    /// Copies what a read has brought to fio's buffer.
    pub fn after_read(&self, region: &Region, at: usize, to: Buffer) -> Result<(), DeviceError> {
        self.device.copy_out(region.base + at, to)
    }

    pub fn explain(&self, error: DeviceError) -> String {
        self.device.explain(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Wishes = Wishes { verify: Some(false), own_bytes: Some(false), scramble: Some(true) };

    fn decided(asked: Data, wishes: Wishes) -> (Data, bool) {
        let decision = decide(asked, wishes).unwrap();
        (decision.data, decision.copy_back)
    }

    #[test]
    fn auto_is_exact_where_fios_own_bytes_matter_and_cheaper_where_not() {
        assert_eq!(decided(Data::Auto, PLAIN), (Data::Scramble, false));
        assert_eq!(decided(Data::Auto, Wishes { scramble: Some(false), ..PLAIN }), (Data::Once, false));
        assert_eq!(decided(Data::Auto, Wishes { own_bytes: Some(true), ..PLAIN }), (Data::Exact, false));
        assert_eq!(decided(Data::Auto, Wishes { verify: Some(true), ..PLAIN }), (Data::Exact, true));
        assert_eq!(decided(Data::None, PLAIN), (Data::None, false));
    }

    #[test]
    fn an_unknown_fio_gets_exact_and_is_told() {
        let decision = decide(Data::Auto, Wishes { own_bytes: None, ..PLAIN }).unwrap();
        assert_eq!(decision.data, Data::Exact);
        assert!(decision.note.is_some());
        assert!(decide(Data::Auto, Wishes { verify: None, ..PLAIN }).unwrap().copy_back);
    }

    #[test]
    fn verify_refuses_data_that_it_could_not_verify() {
        let line = decide(Data::None, Wishes { verify: Some(true), ..PLAIN }).unwrap_err();
        assert!(line.contains("gpu_data=none contradicts verify="), "{line}");
    }
}
