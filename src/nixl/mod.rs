//! NVIDIA's NIXL: any of its storage plugins, through the C interface of the real library.
//!
//! `calls` is the only one to touch the library; `plugins` knows what plugins do not say themselves; `transfers` is a job's I/O; `log` has what the
//! library prints, and `blocks` makes the configuration that the plugin GUSLI wants.

mod blocks;
mod calls;
mod codes;
mod log;
mod plugins;
mod transfers;

use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::common::device::Device;
use crate::common::driver::{Driver, Handle};
use crate::common::library;
use crate::common::transport::Transport;
use crate::common::wait::Manner;
use calls::{Agent, Library, PLUGIN_FOLDER, Registration, Segment};
use codes::Failure;
use plugins::Plugin;
pub use plugins::parse_params;
use transfers::Transfers;

/// More than any file has: storage is registered whole.
const WHOLE: usize = i64::MAX as usize;
const PAGE: usize = 4096;
/// Entries that cuFile takes in a batch at most, and the bytes of one that the plugin GDS is content with by itself.
const MOST_GDS_ENTRIES: usize = 128;
const USUAL_GDS_ENTRY: usize = 16 << 20;

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
    storage: Vec<Option<Registration>>,
    /// What objects' names begin with.
    prefix: String,
    blocks: blocks::Blocks,
    notes: Vec<String>,
    /// Objects that the job reads have to be there.
    reads: bool,
    _alone: Option<Alone>,
    _watch: log::Watch,
}

/// The one backend of a plugin that takes one in a process.
struct Alone;

static TAKEN: AtomicBool = AtomicBool::new(false);

impl Alone {
    fn take(plugin: &str) -> Result<Self, String> {
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Err(format!("nixl_plugin={plugin} takes one job in a process, and another has it: use thread=0"));
        }
        Ok(Self)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

/// Where plugins are, before the library is loaded; fio's main thread calls it while it looks for the files of a job.
pub fn look_in(plugin_dir: &str) {
    if std::env::var(PLUGIN_FOLDER).is_err() {
        calls::set_plugin_folder(plugin_dir);
    }
}

/// How large one object of a job is: the plugins do not say, so the job has to.
pub fn size_of_object(plugin: &str, size: Option<u64>) -> Result<Option<u64>, String> {
    if !Plugin::stores_objects(plugin) {
        return Ok(None);
    }
    size.map(Some).ok_or_else(|| format!("nixl_plugin={plugin} does not say how large an object is: give size= or filesize="))
}

/// The job's agent with its plugin, before anything is registered.
pub fn open(
    settings: Settings,
    wants_device: Option<bool>,
    device: impl FnOnce() -> Result<Arc<dyn Device>, String>,
) -> Result<Nixl, String> {
    let name = settings.plugin;
    check_plugin_folder(settings.plugin_dir)?;
    check_same_process()?;
    let library = Library::get(settings.library)?;
    let watch = log::Watch::begin(settings.log, name == "GUSLI")?;
    let said = |line: String| line + &log::reason();
    let mut agent = Agent::new(library, "gpuio").map_err(|failure| said(failure.to_string()))?;
    let about = agent.about(name).map_err(|failure| why_no_plugin(library, name, failure))?;
    let plugin = Plugin::of(name, &about, &settings.params)?;
    let alone = plugin.traits.is_alone.then(|| Alone::take(name)).transpose()?;
    let on_device = wants_device.unwrap_or(plugin.takes_device_memory && plugin.storage == Segment::File);
    if on_device && !plugin.takes_device_memory {
        return Err(format!("gpu_mem=device contradicts nixl_plugin={name}, which takes host memory only: use gpu_mem=host"));
    }
    check_objects(&settings, &plugin)?;
    let blocks = if plugin.storage == Segment::Block { blocks::Blocks::new(settings.files)? } else { blocks::Blocks::default() };
    let Params { all: params, notes } = params(&settings, &plugin, &about.params, &blocks)?;
    // cuFile wants one in host memory, too.
    let device = (on_device || plugin.traits.is_cufile).then(device).transpose()?;
    let segment = if on_device { Segment::DeviceMemory } else { Segment::HostMemory };
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
        prefix: settings.object.and_then(|object| object.split_once('/')).map_or("", |(_, prefix)| prefix).to_owned(),
        blocks,
        notes,
        reads: settings.reads,
        _alone: alone,
        _watch: watch,
    })
}

/// Threads of a process can share the library, and so can processes; a copy of a process that has used it cannot.
fn check_same_process() -> Result<(), String> {
    static OWNER: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id();
    match OWNER.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire) {
        Err(other) if other != own => Err("NIXL was used in this process before this job was forked, and its library cannot be used in \
                                            both: use thread=1 for all jobs of this run, or for none"
            .to_owned()),
        _ => Ok(()),
    }
}

fn check_plugin_folder(wanted: Option<&str>) -> Result<(), String> {
    let Some(wanted) = wanted else { return Ok(()) };
    if !Path::new(wanted).is_dir() {
        return Err(format!("nixl_plugin_dir={wanted} is no folder"));
    }
    match std::env::var(PLUGIN_FOLDER) {
        Ok(folder) if folder == wanted => Ok(()),
        folder => Err(format!(
            "nixl_plugin_dir={wanted}: plugins come from {} in this process ({PLUGIN_FOLDER}, or the first job): give all jobs the same",
            folder.unwrap_or_default()
        )),
    }
}

/// Objects are written whole, so a job that would write parts of them is told before it begins.
fn check_objects(settings: &Settings, plugin: &Plugin) -> Result<(), String> {
    let name = settings.plugin;
    if plugin.storage != Segment::Object {
        return match settings.object {
            Some(object) => Err(format!("nixl_object={object} contradicts nixl_plugin={name}, which does not store objects: leave it out")),
            None => Ok(()),
        };
    }
    let Some(size) = settings.file_size.filter(|_| settings.writes) else { return Ok(()) };
    let (smallest, largest) = settings.write_sizes;
    if smallest as u64 != size || largest as u64 != size {
        return Err(format!(
            "nixl_plugin={name} writes whole objects only, and this job would write {size} bytes in blocks of {}: use bs={size}, and nrfiles= \
             or filename= for more objects",
            smallest
        ));
    }
    Ok(())
}

/// What a plugin is made with.
struct Params {
    all: Vec<(String, String)>,
    notes: Vec<String>,
}

/// The plugin's parameters: the job's own, and what follows from its depth; with a line where the plugin has less room than the job wants.
fn params(settings: &Settings, plugin: &Plugin, known: &[String], blocks: &blocks::Blocks) -> Result<Params, String> {
    let name = settings.plugin;
    let mut all = settings.params.clone();
    if let Some((key, _)) = all.iter().find(|(key, _)| !known.is_empty() && !known.contains(key)) {
        return Err(format!("nixl_params={key}: nixl_plugin={name} has no such parameter; it has {}", known.join(", ")));
    }
    let mut notes = Vec::new();
    let is_given = |all: &[(String, String)], key: &str| all.iter().any(|(given, _)| given == key);
    for &(key, most) in plugin.traits.limits {
        if is_given(&all, key) {
            continue;
        }
        if settings.depth > most {
            notes.push(format!("nixl_plugin={name} has {most} I/Os in flight at most: iodepth={} acts as {most}", settings.depth));
        }
        all.push((key.to_owned(), settings.depth.min(most).to_string()));
    }
    if name == "GDS" {
        // One entry an I/O: it would make several of a large one, and cuFile know none but the first by its address.
        let usual = [("batch_limit", settings.batch.min(MOST_GDS_ENTRIES)), ("max_request_size", settings.units.1.max(USUAL_GDS_ENTRY))];
        for (key, value) in usual {
            if !is_given(&all, key) {
                all.push((key.to_owned(), value.to_string()));
            }
        }
    }
    if plugin.storage == Segment::Block {
        if is_given(&all, "config_file") {
            return Err("nixl_params=config_file: the configuration is made from filename=; leave it out".to_owned());
        }
        all.push(("config_file".to_owned(), blocks.config(settings.is_direct)?));
    }
    if let Some(object) = settings.object {
        let key = if name == "AZURE_BLOB" { "container_name" } else { "bucket" };
        if is_given(&all, key) {
            return Err(format!("nixl_object={object} and {key} in nixl_params contradict each other: leave one of them out"));
        }
        all.push((key.to_owned(), object.split('/').next().unwrap_or_default().to_owned()));
    }
    Ok(Params { all, notes })
}

/// Why a plugin was not found or loaded: NIXL does not say, the loader does.
fn why_no_plugin(library: &Library, name: &str, failure: Failure) -> String {
    let folder = std::env::var(PLUGIN_FOLDER).map(PathBuf::from).ok();
    let folder = folder.or_else(|| Some(Path::new(&library.path()?).parent()?.join("plugins"))).unwrap_or_default();
    let file = folder.join(format!("libplugin_{name}.so"));
    if !file.exists() {
        let files =
            std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut there: Vec<String> =
            files.filter_map(|file| Some(file.strip_prefix("libplugin_")?.strip_suffix(".so")?.to_owned())).collect();
        there.sort();
        return format!("nixl_plugin={name}: there is no such plugin in {}, which has {}", folder.display(), there.join(", "));
    }
    match library::open_named(&file.to_string_lossy(), "nixl_plugin") {
        Err(line) => format!("nixl_plugin={name}: {line}"),
        Ok(_) => format!("nixl_plugin={name} is not taken: {failure}{}", log::reason()),
    }
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
    pub fn transfers(&self) -> Box<dyn Transport<u32>> {
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
        if self.plugin.traits.is_cufile && self.register_units(&whole) {
            return Ok(None);
        }
        let all = match self.plugin.storage {
            Segment::Block => {
                let bytes = bytes.next_multiple_of(PAGE);
                self.blocks.numbers().map(|device| Registration { bytes, device, ..whole.clone() }).collect()
            }
            _ => vec![whole],
        };
        for memory in all {
            self.agent
                .register(&memory)
                .map_err(|failure| self.failed(&format!("registering the I/O buffers ({bytes} bytes)"), failure))?;
            self.memory.push(memory);
        }
        Ok(None)
    }

    fn detach(&mut self) {
        for what in self.storage.drain(..).flatten().chain(self.memory.drain(..)) {
            self.agent.deregister(&what);
        }
    }

    fn abandon(&mut self) {
        self.agent.abandon();
        self.memory.clear();
        self.storage.clear();
    }

    /// Objects are known by their names.
    fn open_own(&mut self, _name: &str) -> Option<Result<Option<RawFd>, String>> {
        (self.plugin.storage == Segment::Object).then_some(Ok(None))
    }

    fn open_file(&mut self, fd: RawFd, name: &str) -> Result<Handle, String> {
        let device = match self.plugin.storage {
            Segment::Object => self.storage.len() as u64,
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
        self.agent.register(&file).map_err(|failure| self.failed("registering a file", failure))?;
        self.storage.push(Some(file));
        // An operation names its file by its device.
        Ok(Handle(device as usize))
    }

    fn close_file(&mut self, handle: Handle) {
        let found = self.storage.iter_mut().find(|file| file.as_ref().is_some_and(|file| file.device == handle.0 as u64));
        if let Some(file) = found.and_then(Option::take) {
            self.agent.deregister(&file);
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
