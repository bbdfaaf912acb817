//! What the real libcufile wants of a machine, and what can be done where the machine has it not.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use libloading::Library;

/// Whether the kernel lists its modules; libcufile never returns from its first call where it does not.
pub fn lists_modules() -> bool {
    Path::new("/proc/modules").exists()
}

/// Libraries that libcufile opens by itself, and the Debian packages that have them.
const LIBRARIES: [(&str, &str); 3] = [("libudev.so.1", "libudev1"), ("libmount.so.1", "libmount1"), ("liburcu-bp.so.8", "liburcu8")];

/// An error that names the packages to install, if the loader lacks a library.
pub fn check_libraries() -> Result<(), String> {
    let missing = LIBRARIES.iter().filter(|(library, _)| {
        // SAFETY: the constructors of these system libraries have no precondition.
        unsafe { Library::new(library) }.is_err()
    });
    let packages: Vec<&str> = missing.map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    Err(format!("libcufile needs packages that are not installed: {}", packages.join(" ")))
}

/// Sees to it that udev's data say «a file system» of the block device under a path: libcufile refuses its files
/// otherwise. File systems with no block device need nothing.
pub fn describe_block_device(place: &Path) -> Result<(), String> {
    // A place that does not exist yet lies on the file system of the nearest folder that does.
    let Some(metadata) = place.ancestors().find_map(|path| fs::metadata(path).ok()) else { return Ok(()) };
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    if major == 0 {
        return Ok(());
    }
    let path = format!("/run/udev/data/b{major}:{minor}");
    let mut data = fs::read_to_string(&path).unwrap_or_default();
    if data.lines().any(|line| line.starts_with("E:ID_FS_USAGE=")) {
        return Ok(());
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| format!("/proc/self/mountinfo: {error}"))?;
    let kind = file_system(&mounts, &format!("{major}:{minor}")).unwrap_or("ext4");
    data.push_str(&format!("E:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE={kind}\n"));
    let write = || {
        fs::create_dir_all("/run/udev/data")?;
        fs::write(&path, data)
    };
    write().map_err(|error| format!("{path}: libcufile needs ID_FS_USAGE of this device there: {error}"))
}

/// The type of the file system on a device, from the text of mountinfo.
fn file_system<'a>(mounts: &'a str, device: &str) -> Option<&'a str> {
    let of_device = |line: &&str| line.split(' ').nth(2) == Some(device);
    let line = mounts.lines().find(of_device)?;
    line.split_once(" - ")?.1.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_file_system_is_found_behind_its_optional_fields() {
        let mounts = "22 1 0:21 / /proc rw shared:5 - proc proc rw\n\
                      23 1 254:0 / / rw,relatime shared:1 master:2 - xfs /dev/vda rw\n";
        assert_eq!(file_system(mounts, "254:0"), Some("xfs"));
        assert_eq!(file_system(mounts, "254:1"), None);
    }
}
