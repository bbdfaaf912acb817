//! How a job comes up: its options checked, its backend chosen and opened, and what the user is told.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::Setup;
use super::backend::{self, Choice, Opened, Wanted};
use super::memory::Layout;
use super::options::{Backend, Memory, Options};
use super::report::Report;
use super::staging::{self, Staging, Wishes};
use crate::common::device::{Device, Kind};
use crate::fio::{self, Running};
use crate::{gusli, nixl};

/// Makes a job ready for its memory and files. The error is the line for the user; whatever was opened is closed again.
pub fn start(job: &fio::Job) -> Result<Box<dyn Running>, String> {
    check_fio_options(job)?;
    let options = Options::parse(&job.options)?;
    let choice = backend::choose(&options, job.loaded_as)?;
    let depth = depth(job);
    let wanted = Wanted {
        subjob: job.subjob,
        depth,
        direct: is_direct(job),
        file: files(job).first().map_or_else(|| PathBuf::from(job.fio.text("directory").unwrap_or_default()), PathBuf::from),
        job: job.id,
        is_thread: job.fio.is_thread(),
        priority: job.fio.int("prio").filter(|_| job.fio.is_set("prio")),
        job_reads: directions(job) & READS != 0,
        job_writes: directions(job) & WRITES != 0,
        write_sizes: job.fio.writes(),
        units: (job.fio.int("iomem_align").map_or(0, |align| align.max(0) as usize), job.fio.largest_block()),
        file_size: file_size(job),
        files: files(job),
    };
    let Opened { driver, transport, notes } = backend::open(&choice, &options, &wanted)?;
    let layout = layout(&options, driver.device().is_some());
    let mut lines = notes;
    let staging = match (layout, driver.device()) {
        (Layout::Separate, Some(device)) => {
            let decision = staging::decide(options.data, Wishes::of(&job.fio))?;
            lines.extend(decision.note.clone());
            Some(Staging::new(Arc::clone(device), &decision, job.subjob + 1))
        }
        _ => None,
    };
    let trims = job.fio.int("trim_percentage").unwrap_or(0) > 0;
    if depth > 1 && transport.is_synchronous() && trims && staging.as_ref().is_some_and(Staging::copies_back) {
        // fio asks again for what finds a read held back, and has forgotten then that it had trimmed the block.
        return Err(format!(
            "gpu_mode=sync with iodepth={depth} cannot verify what trim_percentage trims: use iodepth=1, or gpu_mode=pool"
        ));
    }
    if depth > 1 && transport.is_synchronous() {
        lines.push(format!("gpu_mode=sync has one operation in flight at a time: iodepth={depth} acts as 1"));
    }
    announce(job, &choice, lines, driver.device());
    let about = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "job": job.fio.text("name"),
        "loaded_as": job.loaded_as,
        "subjob": job.subjob,
        "backend": choice.backend.word(),
        "vendor": driver.version(),
        "driver": driver.device().map(|device| device.driver()),
        "device": driver.device().map(|device| device.place().to_string()),
        "iodepth": depth,
        "options": options.to_json(),
    });
    let report = options.report.map(|path| Report::new(&path, job, about)).transpose()?;
    Ok(transport.start(Setup { driver, layout, staging, depth, runtime: job.fio.runtime(), report }))
}

/// What fio's main thread asks of a job that has not started yet: how large one of its files is. Only GUSLI and NIXL have files that fio does not
/// know.
pub fn size(job: &fio::Job, file: &fio::File) -> Result<Option<u64>, String> {
    // What else is wrong with a job, start() says.
    let Ok(options) = Options::parse(&job.options) else { return Ok(None) };
    if options.backend == Backend::Nixl || options.nixl.implied_by().is_some() {
        options.nixl.plugin_dir.iter().for_each(|folder| nixl::look_in(folder));
        return nixl::size_of_object(options.nixl.plugin(), file_size(job));
    }
    let may_be_gusli = options.backend == Backend::Gusli || options.gusli.is_implied();
    if !may_be_gusli || backend::named(&options)?.is_none_or(|choice| choice.backend != Backend::Gusli) {
        return Ok(None);
    }
    let depth = depth(job);
    gusli::size_of(&gusli::Named {
        job: job.id,
        is_thread: job.fio.is_thread(),
        file: &file.name(),
        is_direct: is_direct(job),
        devices: options.gusli.devices.as_deref(),
        config: options.gusli.config.as_deref(),
        library: options.gusli.library.as_deref(),
        block: job.fio.largest_block(),
        makes_lists: options.gusli.sgl,
        depth,
    })
}

fn depth(job: &fio::Job) -> u32 {
    job.fio.int("iodepth").and_then(|n| u32::try_from(n).ok()).unwrap_or(1).max(1)
}

fn is_direct(job: &fio::Job) -> bool {
    job.fio.int("direct") == Some(1)
}

/// The bits of fio's `rw` for reads and for writes.
const READS: i32 = 1;
const WRITES: i32 = 2;

fn directions(job: &fio::Job) -> i32 {
    job.fio.int("rw").unwrap_or(0)
}

/// Bytes of each of the job's files, where the job says so.
fn file_size(job: &fio::Job) -> Option<u64> {
    let files = job.fio.int("nrfiles").map_or(1, |count| count.max(1) as u64);
    job.fio.bytes("filesize").or_else(|| job.fio.bytes("size").map(|all| all / files))
}

/// The files that the job names, each with its folder; none where fio makes up their names.
fn files(job: &fio::Job) -> Vec<String> {
    // In both lists ':' separates, and a backslash takes that meaning from it.
    let list = |name: &str| {
        let text = job.fio.text(name).unwrap_or_default().replace("\\:", "\0");
        text.split(':').filter(|part| !part.is_empty()).map(|part| part.replace('\0', ":")).collect::<Vec<_>>()
    };
    let folder = list("directory").into_iter().next().unwrap_or_default();
    list("filename").iter().map(|name| Path::new(&folder).join(name).to_string_lossy().into_owned()).collect()
}

fn layout(options: &Options, has_device: bool) -> Layout {
    match options.memory {
        _ if !has_device => Layout::Host,
        None | Some(Memory::Device) => Layout::Separate,
        Some(Memory::Managed) => Layout::Shared(Kind::Managed),
        Some(Memory::Pinned) => Layout::Shared(Kind::Pinned),
        Some(Memory::Host) => Layout::Host,
    }
}

/// fio's own options that this engine cannot serve, with the line that says so. fio says less, or nothing, or crashes (up to 3.33).
fn check_fio_options(job: &fio::Job) -> Result<(), String> {
    const ZONE_MODE_ZBD: i32 = 3;
    const IO_MODE_OFFLOAD: i32 = 1;
    if job.fio.is_set("mem") {
        return Err("mem= and iomem= conflict with this engine, which allocates the I/O buffers itself: leave them out".to_owned());
    }
    if job.fio.int("io_submit_mode") == Some(IO_MODE_OFFLOAD) {
        return Err("io_submit_mode=offload is not supported: fio's submission threads hang or fail with external engines; \
                    for more submitters use gpu_mode=pool with gpu_threads=N, or numjobs=N"
            .to_owned());
    }
    if job.fio.int("zonemode") == Some(ZONE_MODE_ZBD) {
        return Err(fio::ZONED.to_owned());
    }
    Ok(())
}

/// Says once a job group what the engine chose where the job left it open, and what is not as the user may think; and for each job, which
/// device it has.
fn announce(job: &fio::Job, choice: &Choice, notes: Vec<String>, device: Option<&Arc<dyn Device>>) {
    let chosen = choice.reason.as_ref().map(|reason| format!("gpu_backend=auto is {}: {reason}", choice.backend.word()));
    let group = chosen.into_iter().chain(notes).filter(|_| job.subjob == 0);
    let own = device.map(|device| format!("job {} uses {}", job.subjob, device.place()));
    group.chain(own).for_each(|line| fio::line(&line));
}
