//! NVIDIA's NIXL: any of its storage plugins, through the C interface of the real library.
//!
//! `calls` is the only one to touch the library; `plugins` knows what plugins do not say themselves; `transfers` is a job's I/O; `log` has what the
//! library prints, `setup` is what has to hold beforehand, and `blocks` makes the configuration that the plugin GUSLI wants.

mod blocks;
mod calls;
mod codes;
mod log;
mod plugins;
mod setup;
mod transfers;

use std::fs::File;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::Arc;

use crate::common::device::Device;
use crate::common::driver::{Driver, Handle};
use crate::common::iobuf_lock;
use crate::common::transport::Transport;
use crate::common::wait::Manner;
use calls::{Agent, Library, Registration, Segment};
use codes::Failure;
use plugins::Plugin;
pub use plugins::parse_params;
pub use setup::{look_in, size_of_object};
use transfers::Transfers;

/// More than any file has: storage is registered whole.
const WHOLE: usize = i64::MAX as usize;
const PAGE: usize = 4096;

/// What one job asks of NIXL.
pub struct Settings<'a> {
    /// `nixl_library`.
    pub library: Option<&'a str>,
    /// `nixl_plugin`.
    pub plugin: &'a str,
    /// `nixl_params`, read.
    pub params: Vec<(String, String)>,
    /// `nixl_plugin_dir`.
    pub plugin_dir: Option<&'a str>,
    /// `nixl_log`.
    pub log: Option<&'a str>,
    /// `nixl_object`.
    pub object: Option<&'a str>,
    /// `nixl_batch`.
    pub batch: usize,
    /// Operations in flight.
    pub depth: u32,
    pub wait: Manner,
    /// fio's direct=1.
    pub is_direct: bool,
    pub reads: bool,
    pub writes: bool,
    /// Bytes of the job's smallest and largest write.
    pub write_sizes: (usize, usize),
    /// Where units lie in the I/O buffers: the first one's place, and bytes from one to the next.
    pub units: (usize, usize),
    /// Bytes of each of its files, where the job says so.
    pub file_size: Option<u64>,
    /// fio's filename, each with its folder.
    pub files: &'a [String],
}

/// NIXL as one job uses it.
pub struct Nixl {
    // In this order: what is registered goes before the agent, which goes before the streams are let go.
    agent: Rc<Agent>,
    plugin: Plugin,
    name: String,
    version: String,
    settings: transfers::Settings,
    device: Option<Arc<dyn Device>>,
    /// Host memory or the device's.
    segment: Segment,
    /// Where units lie in the I/O buffers: the first one's place, and bytes from one to the next.
    units: (usize, usize),
    memory: Vec<Registration>,
    storage: Vec<Registration>,
    /// Objects opened so far: each gets a number of its own.
    objects: u64,
    /// What objects' names begin with.
    prefix: String,
    blocks: blocks::Blocks,
    notes: Vec<String>,
    /// Objects that the job reads have to be there.
    reads: bool,
    alone: Option<setup::Alone>,
    _watch: log::Watch,
}

/// The job's agent with its plugin, before anything is registered.
pub fn open(
    settings: Settings,
    wants_device: Option<bool>,
    device: impl FnOnce() -> Result<Arc<dyn Device>, String>,
) -> Result<Nixl, String> {
    let name = settings.plugin;
    setup::check_plugin_folder(settings.plugin_dir)?;
    setup::check_same_process()?;
    let library = Library::get(settings.library)?;
    let watch = log::Watch::begin(settings.log, name == "GUSLI")?;
    let alone; // let go of after the agent, also where this fails
    let said = |line: String| line + &log::reason();
    let mut agent = Agent::new(library, "gpuio").map_err(|failure| said(failure.to_string()))?;
    let about = agent.about(name).map_err(|failure| setup::why_no_plugin(library, name, failure))?;
    let plugin = Plugin::of(name, &about, &settings.params)?;
    alone = plugin.traits.is_alone.then(|| setup::Alone::take(name)).transpose()?;
    let on_device = wants_device.unwrap_or(plugin.takes_device_memory && plugin.storage == Segment::File);
    if on_device && !plugin.takes_device_memory {
        return Err(format!("gpu_mem=device contradicts nixl_plugin={name}, which takes host memory only: use gpu_mem=host"));
    }
    setup::check_objects(&settings, &plugin)?;
    let blocks = if plugin.storage == Segment::Block { blocks::Blocks::new(settings.files)? } else { blocks::Blocks::default() };
    let setup::Params { all: params, notes } = setup::params(&settings, &plugin, &about.params, &blocks)?;
    // cuFile wants one in host memory, too.
    let device = (on_device || plugin.traits.is_cufile).then(device).transpose()?;
    let segment = if on_device { Segment::DeviceMemory } else { Segment::HostMemory };
    let _lock = lock_of(plugin)?;
    agent.start(name, &params, segment, plugin.storage).map_err(|failure| {
        let with: Vec<String> = params.iter().map(|(key, value)| format!("{key}={}", value.lines().last().unwrap_or_default())).collect();
        said(format!("nixl_plugin={name} cannot be used with {}: {failure}", with.join(",")))
    })?;
    Ok(Nixl {
        agent: Rc::new(agent),
        plugin,
        name: name.to_owned(),
        version: format!("{}, plugin {name}", library.name),
        settings: transfers::Settings {
            depth: settings.depth as usize,
            wait: settings.wait,
            plugin,
            batch: settings.batch,
            memory_device: device.as_ref().filter(|_| on_device).map_or(0, |device| u64::from(device.place().ordinal)),
            is_direct: settings.is_direct,
        },
        device,
        segment,
        units: settings.units,
        memory: Vec::new(),
        storage: Vec::new(),
        objects: 0,
        prefix: settings.object.and_then(|object| object.split_once('/')).map_or("", |(_, prefix)| prefix).to_owned(),
        blocks,
        notes,
        reads: settings.reads,
        alone,
        _watch: watch,
    })
}

/// Held while a plugin connects or registers that has GUSLI's library do so.
fn lock_of(plugin: Plugin) -> Result<Option<File>, String> {
    (plugin.storage == Segment::Block).then(iobuf_lock::alone).transpose()
}

impl Nixl {
    /// What the user is to know of the job.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Whether the I/O buffers are host memory.
    pub fn is_on_host(&self) -> bool {
        self.segment == Segment::HostMemory
    }

    /// The job's I/O.
    pub fn transfers(&self) -> Box<dyn Transport> {
        Box::new(Transfers::new(self.agent.clone(), self.settings))
    }

    /// Registers each unit on its own: these plugins name a buffer to cuFile by its own address, which cuFile knows only as it was registered.
    /// Returns false, with nothing registered, where that cannot be.
    fn register_units(&mut self, whole: &Registration) -> bool {
        let (first, stride) = self.units;
        if stride == 0 {
            return false;
        }
        for at in (first..whole.bytes).step_by(stride) {
            let unit = Registration { address: whole.address + at, bytes: stride.min(whole.bytes - at), ..whole.clone() };
            if self.agent.register(&unit).is_err() {
                self.memory.drain(..).for_each(|unit| self.agent.deregister(&unit));
                return false;
            }
            self.memory.push(unit);
        }
        true
    }

    fn failed(&self, what: &str, failure: Failure) -> String {
        format!("{what} with NIXL's plugin {}: {failure}{}", self.name, log::reason())
    }
}

impl Driver for Nixl {
    fn device(&self) -> Option<&Arc<dyn Device>> {
        self.device.as_ref()
    }

    fn version(&self) -> Option<String> {
        Some(self.version.clone())
    }

    fn attach(&mut self, base: usize, bytes: usize) -> Result<Option<String>, String> {
        let device = self.settings.memory_device;
        let whole = Registration { segment: self.segment, address: base, bytes, device, name: String::new() };
        if self.plugin.traits.is_cufile {
            if self.register_units(&whole) {
                return Ok(None);
            }
            log::reason(); // it is no failure of the job's
        }
        let all = match self.plugin.storage {
            Segment::Block => {
                let bytes = bytes.next_multiple_of(PAGE);
                self.blocks.numbers().map(|device| Registration { bytes, device, ..whole.clone() }).collect()
            }
            _ => vec![whole],
        };
        let _lock = lock_of(self.plugin)?;
        for memory in all {
            self.agent
                .register(&memory)
                .map_err(|failure| self.failed(&format!("registering the I/O buffers ({bytes} bytes)"), failure))?;
            self.memory.push(memory);
        }
        Ok(None)
    }

    fn detach(&mut self) {
        let _lock = lock_of(self.plugin); // where it cannot be had, all must be given back all the same
        for what in self.storage.drain(..).chain(self.memory.drain(..)) {
            self.agent.deregister(&what);
        }
    }

    fn abandon(&mut self) {
        self.agent.abandon();
        std::mem::forget(self.alone.take()); // there is no second one in this process
        self.memory.clear();
        self.storage.clear();
    }

    /// Objects are known by their names.
    fn open_own(&mut self, _name: &str) -> Option<Result<Option<RawFd>, String>> {
        (self.plugin.storage == Segment::Object).then_some(Ok(None))
    }

    fn open_file(&mut self, fd: RawFd, name: &str) -> Result<Handle, String> {
        let device = match self.plugin.storage {
            Segment::Object => self.objects,
            Segment::Block => {
                self.blocks.number_of(name).ok_or_else(|| format!("{name} is not in filename=, and GUSLI takes no device afterwards"))?
            }
            _ => fd as u64,
        };
        let name = match self.plugin.storage {
            Segment::Object => format!("{}{name}", self.prefix),
            _ => String::new(),
        };
        let file = Registration { segment: self.plugin.storage, address: 0, bytes: WHOLE, device, name };
        if self.plugin.storage == Segment::Object && self.reads {
            let is_there = self.agent.is_there(&file).map_err(|failure| self.failed(&format!("asking for {}", file.name), failure))?;
            if !is_there {
                return Err(format!("there is no object {}: write it first", file.name));
            }
        }
        let _lock = lock_of(self.plugin)?;
        self.agent.register(&file).map_err(|failure| self.failed("registering a file", failure))?;
        self.objects += 1;
        self.storage.push(file);
        // An operation names its file by its device.
        Ok(Handle(device as usize))
    }

    fn close_file(&mut self, handle: Handle) {
        if let Some(at) = self.storage.iter().position(|file| file.device == handle.0 as u64) {
            let _lock = lock_of(self.plugin);
            self.agent.deregister(&self.storage.swap_remove(at));
        }
    }

    fn explain(&self, code: i32) -> String {
        let more = if self.plugin.traits.loses_track {
            "; the plugin cannot tell which of the I/Os in flight it was, nor what has become of the others: they all fail"
        } else {
            ""
        };
        format!("NIXL's plugin {}: {}{}{more}", self.name, codes::explain(code), log::reason())
    }
}
