//! The log of calls that the simulated libraries keep.

use std::collections::BTreeSet;
use std::path::Path;

use super::vendor::Vendor;

/// One call into the simulated driver or the simulated libcufile.
#[derive(Debug, Clone)]
pub struct Call {
    pub pid: u32,
    pub tid: u32,
    /// The calling thread's device, -1 for none.
    pub device: i32,
    pub name: String,
    pub result: i64,
    pairs: Vec<(String, String)>,
}

impl Call {
    fn parse(line: &str, vendor: &Vendor) -> Option<Self> {
        let pairs: Vec<(String, String)> = line.split(' ').filter_map(|word| word.split_once('=')).map(owned).collect();
        let get = |key: &str| pairs.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str());
        Some(Self {
            pid: get("pid")?.parse().ok()?,
            tid: get("tid")?.parse().ok()?,
            device: get("dev")?.parse().ok()?,
            name: vendor.as_cuda(get("call")?),
            result: get("ret")?.parse().ok()?,
            pairs: pairs.clone(),
        })
    }

    /// A number that the call has said beside its result.
    pub fn number(&self, key: &str) -> Option<i64> {
        self.pairs.iter().find(|(own, _)| own == key).and_then(|(_, value)| value.parse().ok())
    }

    /// A word that the call has said beside its result.
    pub fn word(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str())
    }
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// All calls of the runs of one test, in order.
pub struct Calls(pub Vec<Call>);

impl Calls {
    pub fn read(path: &Path, vendor: &Vendor) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(text.lines().map(|line| Call::parse(line, vendor).unwrap_or_else(|| panic!("no call: {line}"))).collect())
    }

    /// The calls of a name that succeeded.
    pub fn good(&self, name: &str) -> Vec<&Call> {
        self.0.iter().filter(|call| call.name == name && call.result >= 0).filter(|call| is_good(call)).collect()
    }

    pub fn count(&self, name: &str) -> usize {
        self.good(name).len()
    }

    /// The processes that called anything.
    pub fn processes(&self) -> BTreeSet<u32> {
        self.0.iter().map(|call| call.pid).collect()
    }

    /// Nothing was left in any context that was given back, and everything was given back as often as it was taken; HIP's devices are not.
    #[track_caller]
    pub fn nothing_is_left(&self) {
        for call in &self.0 {
            for left in ["left_ranges", "left_streams", "left_events", "left_files", "left_buffers", "left_batches"] {
                assert!(call.number(left).unwrap_or(0) == 0, "{left}: {call:?}");
            }
        }
        for (taken, given) in [
            ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease"),
            ("cuMemAlloc", "cuMemFree"),
            ("cuMemHostAlloc", "cuMemFreeHost"),
            ("cuStreamCreate", "cuStreamDestroy"),
        ] {
            let is_given_back = taken != "cuDevicePrimaryCtxRetain" || self.count(given) > 0;
            for pid in self.processes().into_iter().filter(|_| is_given_back) {
                let count = |name: &str| self.good(name).iter().filter(|call| call.pid == pid).count();
                assert!(count(taken) <= count(given), "process {pid}: {taken} {} times, {given} {} times", count(taken), count(given));
            }
        }
    }
}

/// Status calls answer 0; transfers answer bytes.
fn is_good(call: &Call) -> bool {
    call.result == 0 || matches!(call.name.as_str(), "cuFileRead" | "cuFileWrite")
}
