//! What has to hold before a job's plugin is made: where plugins come from, who may use the library, and the plugin's parameters.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::blocks::Blocks;
use super::calls::{self, Library, PLUGIN_FOLDER, Segment};
use super::codes::Failure;
use super::plugins::Plugin;
use super::{Settings, log};
use crate::common::library;

/// Entries that cuFile takes in a batch at most, and the bytes of one that the plugin GDS is content with by itself.
const MOST_GDS_ENTRIES: usize = 128;
const USUAL_GDS_ENTRY: usize = 16 << 20;

/// The one backend of a plugin that takes one in a process.
pub(super) struct Alone;

static TAKEN: AtomicBool = AtomicBool::new(false);

impl Alone {
    pub fn take(plugin: &str) -> Result<Self, String> {
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

/// Threads of a process can share the library, and so can processes; a copy of a process that has used it cannot.
pub(super) fn check_same_process() -> Result<(), String> {
    static OWNER: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id();
    match OWNER.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire) {
        Err(other) if other != own => Err("NIXL was used in this process before this job was forked, and its library cannot be used in \
                                            both: use thread=1 for all jobs of this run, or for none"
            .to_owned()),
        _ => Ok(()),
    }
}

pub(super) fn check_plugin_folder(wanted: Option<&str>) -> Result<(), String> {
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
pub(super) fn check_objects(settings: &Settings, plugin: &Plugin) -> Result<(), String> {
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
pub(super) struct Params {
    pub all: Vec<(String, String)>,
    pub notes: Vec<String>,
}

/// The plugin's parameters: the job's own, and what follows from its depth; with a line where the plugin has less room than the job wants.
pub(super) fn params(settings: &Settings, plugin: &Plugin, known: &[String], blocks: &Blocks) -> Result<Params, String> {
    let name = settings.plugin;
    let mut all = settings.params.clone();
    if let Some((key, _)) = all.iter().find(|(key, _)| !known.is_empty() && !known.contains(key)) {
        return Err(format!("nixl_params={key}: nixl_plugin={name} has no such parameter; it has {}", known.join(", ")));
    }
    let too_long =
        |(key, value): &&(String, String)| key == "batch_limit" && value.parse().is_ok_and(|entries: usize| entries > MOST_GDS_ENTRIES);
    if let Some((key, value)) = all.iter().find(too_long) {
        return Err(format!("nixl_params={key}={value}: cuFile takes {MOST_GDS_ENTRIES} in a batch at most"));
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
pub(super) fn why_no_plugin(library: &Library, name: &str, failure: Failure) -> String {
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
