//! How large a device is, asked before any job starts: a file's or a kernel device's by the kernel's word, a server's by its own.

use super::calls::{self, DeviceId, Library};
use super::codes::{self, DONE};
use super::context::{PATIENCE, silent};
use super::devices::{self, Device, Kind};
use super::wishes::{self, Wish};
use super::{log, operations, ranges};
use crate::common::iobuf_lock;

/// What the devices with nothing behind them say of themselves.
const DUMMY_BYTES: u64 = 4 << 20;

/// What fio asks for beside the buffers, to align them.
const FIOS_OWN: usize = 8192;

/// A file of a job, before the job starts.
pub struct Named<'a> {
    pub job: usize,
    pub is_thread: bool,
    /// What fio calls it.
    pub file: &'a str,
    pub is_direct: bool,
    /// `gusli_device=`.
    pub devices: Option<&'a str>,
    /// `gusli_config=`.
    pub config: Option<&'a str>,
    /// `gusli_library=`.
    pub library: Option<&'a str>,
    /// Bytes of the largest I/O.
    pub block: usize,
    /// Operations in flight.
    pub depth: u32,
    /// `gusli_sgl`.
    pub makes_lists: bool,
}

/// Notes that a job will use the device of a file, and says how much of it the job can use: `None` where fio knows by itself.
pub fn size_of(named: &Named) -> Result<Option<u64>, String> {
    let device = find(named)?;
    let size = if device.is_plain(named.file) { None } else { Some(size(&device, named.library)?) };
    wishes::add(Wish {
        job: named.job,
        is_thread: named.is_thread,
        file: named.file.to_owned(),
        device,
        bytes: ranges::rounded(
            named.block * named.depth as usize + FIOS_OWN + operations::list_room(named.depth as usize, named.makes_lists),
        ),
        depth: named.depth,
    });
    Ok(size)
}

/// The device that a file's name stands for: an id, or a path of an entry, or else a path.
fn find(named: &Named) -> Result<Device, String> {
    let mut all = named.devices.map_or(Ok(Vec::new()), |text| devices::parse_list(text).map_err(|why| format!("gusli_device: {why}")))?;
    for device in &mut all {
        device.is_direct = named.is_direct;
    }
    if let Some(path) = named.config {
        let text = std::fs::read_to_string(path).map_err(|error| format!("gusli_config={path}: {error}"))?;
        all.extend(devices::parse_config(&text).map_err(|why| format!("gusli_config={path}: {why}"))?);
    }
    let is_meant = |device: &&Device| device.id.as_deref() == Some(named.file) || device.path == named.file;
    match all.iter().find(is_meant) {
        Some(device) => Ok(device.clone()),
        None if named.config.is_some() && !std::path::Path::new(named.file).exists() => {
            let ids: Vec<&str> = all.iter().filter_map(|device| device.id.as_deref()).collect();
            Err(format!("filename={} is no id of gusli_config or gusli_device, which have {}", named.file, ids.join(", ")))
        }
        None => Ok(Device::at(named.file, named.is_direct)),
    }
}

fn size(device: &Device, library: Option<&str>) -> Result<u64, String> {
    let whole = match device.kind {
        Kind::File | Kind::Kernel => devices::size(&device.path).map_err(|error| {
            let id = device.id.as_deref().unwrap_or_default();
            format!(
                "gusli_device={id}:{}:{}: {error}; it must be there, or filename= name the path itself",
                device.kind.letter(),
                device.path
            )
        })?,
        Kind::Server => ask(device, library)?,
        Kind::Failing | Kind::Stuck => DUMMY_BYTES,
    };
    whole.checked_sub(device.offset).filter(|&size| size > 0).ok_or_else(|| {
        let (path, offset) = (&device.path, device.offset);
        format!("{path} has {whole} bytes that can be used, none of them behind the offset {offset}")
    })
}

/// Asks a server how much there is, less the last block. In a process of its own: this one will fork its jobs, and must have no context then.
fn ask(device: &Device, library: Option<&str>) -> Result<u64, String> {
    let said = calls::in_a_child(PATIENCE, || match asked(device, library) {
        Ok(bytes) => bytes.to_string(),
        Err(line) => line,
    });
    let said = said.filter(|said| !said.is_empty()).ok_or_else(|| silent(&device.path))?;
    said.parse().map_err(|_| said)
}

fn asked(device: &Device, library: Option<&str>) -> Result<u64, String> {
    let library = Library::get(library)?;
    let name = device.id.as_deref().unwrap_or("g");
    library.construct(&devices::config(&[device.line(name, &device.path)])?, "fio", 1)?;
    let mut id = DeviceId::default();
    id[..name.len()].copy_from_slice(name.as_bytes());
    let _alone = iobuf_lock::alone()?;
    let code = library.connect(&id);
    if code != DONE {
        return Err(format!("{}: {}{}", device.path, codes::connecting(code), log::reason()));
    }
    let info = library.info(&id).map_err(codes::connecting);
    library.disconnect(&id);
    library.destroy();
    info.map(|info| info.blocks.saturating_sub(1).saturating_mul(u64::from(info.block_size)))
}
