//! Where a file's storage is, and which device is closest to it: the one with the longest way through the PCI tree in common, else on the same NUMA node.

use std::fs::{self, Metadata};
use std::os::fd::RawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where Linux shows its devices; a test has its own.
pub const SYSFS: &str = "/sys";

/// The closest devices, all alike, and why, for the user.
#[derive(Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Never empty where there are devices.
    pub ordinals: Vec<u32>,
    pub reason: String,
}

/// Which of `devices` (ordinal and PCI address) are closest to the storage of `file`, which need not be there yet.
pub fn nearest(sysfs: &Path, file: &Path, devices: &[(u32, Option<String>)]) -> Nearest {
    let all = || devices.iter().map(|(ordinal, _)| *ordinal).collect();
    if devices.len() < 2 {
        return Nearest { ordinals: all(), reason: "there is no other device".to_owned() };
    }
    let (name, storage) = storage_of(sysfs, file);
    let Some(storage) = storage else {
        return Nearest { ordinals: all(), reason: format!("{name} is on no PCI device that sysfs shows, so none is nearer") };
    };
    let place = |pci: &Option<String>| {
        let path = fs::canonicalize(sysfs.join("bus/pci/devices").join(pci.as_ref()?.to_ascii_lowercase())).ok()?;
        Some((in_common(&bridges(&path), &bridges(&storage)), numa_node(&path).is_some_and(|node| numa_node(&storage) == Some(node))))
    };
    let places: Vec<_> = devices.iter().map(|(ordinal, pci)| (*ordinal, place(pci).unwrap_or_default())).collect();
    let best = places.iter().map(|(_, place)| *place).max().unwrap_or_default();
    let ordinals = places.iter().filter(|(_, place)| *place == best).map(|(ordinal, _)| *ordinal).collect();
    let reason = match best {
        (0, false) => format!("none is on the PCI root or the NUMA node of {name}"),
        (0, true) => format!("it is on the NUMA node of {name}"),
        (bridges, _) => format!("it has {bridges} PCI nodes in common with {name}"),
    };
    Nearest { ordinals, reason }
}

/// The name of the storage under a file, and its device in sysfs where it is one on PCI.
fn storage_of(sysfs: &Path, file: &Path) -> (String, Option<PathBuf>) {
    let full = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let Some(about) = full.ancestors().find_map(|path| fs::metadata(path).ok()) else { return (file.display().to_string(), None) };
    let device = if about.file_type().is_block_device() { Metadata::rdev(&about) } else { Metadata::dev(&about) };
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    let node = fs::canonicalize(sysfs.join("dev/block").join(&number));
    match node {
        Ok(node) => (name_of(&node), on_pci(&node, 0)),
        Err(_) => (file.display().to_string(), None),
    }
}

/// The block device (major and minor number) that an open file is or lies on; 0 for major where its file system is on none.
pub fn device_of(fd: RawFd) -> Option<(u32, u32)> {
    let about = fs::metadata(format!("/proc/self/fd/{fd}")).ok()?;
    let device = if about.file_type().is_block_device() { Metadata::rdev(&about) } else { Metadata::dev(&about) };
    Some((libc::major(device), libc::minor(device)))
}

/// A mounted file system.
#[derive(Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// `ext4`, for instance.
    pub kind: String,
    /// Its own options, separated by commas.
    pub options: String,
}

/// What an open file lies on; nothing for a block device.
pub fn file_system_of(fd: RawFd) -> Option<FileSystem> {
    mounted(&fs::metadata(format!("/proc/self/fd/{fd}")).ok()?)
}

/// What a file lies on, or will where it is not there yet; nothing for a block device.
pub fn file_system_under(file: &Path) -> Option<FileSystem> {
    let full = std::path::absolute(file).ok()?;
    mounted(&full.ancestors().find_map(|path| fs::metadata(path).ok())?)
}

fn mounted(about: &Metadata) -> Option<FileSystem> {
    if about.file_type().is_block_device() {
        return None;
    }
    let device = Metadata::dev(about);
    find_mounted(&fs::read_to_string("/proc/self/mountinfo").ok()?, &format!("{}:{}", libc::major(device), libc::minor(device)))
}

fn find_mounted(mounts: &str, device: &str) -> Option<FileSystem> {
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(device))?;
    let mut last = line.split_once(" - ")?.1.split(' ');
    Some(FileSystem { kind: last.next()?.to_owned(), options: last.nth(1).unwrap_or_default().to_owned() })
}

fn name_of(node: &Path) -> String {
    node.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The PCI way of a block device: its own, or that of the first device behind it (a mapped or striped one has slaves, a multipath NVMe
/// namespace has controllers).
fn on_pci(node: &Path, depth: u32) -> Option<PathBuf> {
    const DEEPEST: u32 = 8;
    if !bridges(node).is_empty() {
        return Some(node.to_owned());
    }
    let whole = node.parent().filter(|_| node.join("partition").exists()).unwrap_or(node);
    let behind = |folder: &str, all: bool| {
        let entries = fs::read_dir(whole.join(folder)).into_iter().flatten().flatten();
        let mut entries: Vec<_> = entries.filter(|entry| all || entry.file_name().to_string_lossy().starts_with("nvme")).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        entries.into_iter().filter_map(|entry| fs::canonicalize(entry.path()).ok())
    };
    let mut found = behind("slaves", true).chain(behind("device", false)).filter(|other| other != whole);
    found.find_map(|other| on_pci(&other, depth + 1).filter(|_| depth < DEEPEST))
}

/// The PCI nodes on the way from a root to a device, root first.
fn bridges(path: &Path) -> Vec<String> {
    let is_root = |part: &str| part.strip_prefix("pci").is_some_and(|rest| rest.contains(':'));
    let is_node = |part: &str| {
        part.len() == 12
            && part.bytes().enumerate().all(|(n, b)| match n {
                4 | 7 => b == b':',
                10 => b == b'.',
                _ => b.is_ascii_hexdigit(),
            })
    };
    path.iter().map(|part| part.to_string_lossy().into_owned()).filter(|part| is_root(part) || is_node(part)).collect()
}

fn in_common(one: &[String], other: &[String]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// The NUMA node of a device, or of what it hangs on.
fn numa_node(path: &Path) -> Option<u32> {
    let text = path.ancestors().find_map(|path| fs::read_to_string(path.join("numa_node")).ok())?;
    text.trim().parse().ok() // -1 is none
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A sysfs of its own, with the disk under this source file at `disk`, two GPUs on one root and one on another.
    fn machine(name: &str, disk: &str) -> (PathBuf, [(u32, Option<String>); 3]) {
        let root = std::env::temp_dir().join(format!("gpuio-topology-{}-{name}", std::process::id()));
        let gpus = ["pci0000:00/0000:00:01.0/0000:01:00.0", "pci0000:00/0000:00:02.0/0000:02:00.0", "pci0000:80/0000:80:01.0/0000:81:00.0"];
        for folder in ["bus/pci/devices", "dev/block"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (number, gpu) in gpus.iter().enumerate() {
            let path = root.join("devices").join(gpu);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("numa_node"), if number == 2 { "1\n" } else { "0\n" }).unwrap();
            symlink(&path, root.join("bus/pci/devices").join(path.file_name().unwrap())).unwrap();
        }
        let block = root.join("devices").join(disk);
        fs::create_dir_all(&block).unwrap();
        let device = Metadata::dev(&fs::metadata(file!()).unwrap());
        symlink(&block, root.join("dev/block").join(format!("{}:{}", libc::major(device), libc::minor(device)))).unwrap();
        let pci = |n: u32, address: &str| (n, Some(address.to_ascii_uppercase()));
        (root, [pci(0, "0000:01:00.0"), pci(1, "0000:02:00.0"), pci(2, "0000:81:00.0")])
    }

    fn closest(root: &Path, devices: &[(u32, Option<String>)]) -> Nearest {
        nearest(root, Path::new("not-there-yet/file"), devices)
    }

    #[test]
    fn a_file_system_is_found_behind_the_optional_fields_of_its_mount() {
        let mounts = "22 1 0:21 / /proc rw shared:5 - proc proc rw\n\
                      23 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,data=journal\n";
        let found = find_mounted(mounts, "254:0").unwrap();
        assert_eq!((found.kind.as_str(), found.options.as_str()), ("ext4", "rw,data=journal"));
        assert_eq!(find_mounted(mounts, "254:1"), None);
    }

    #[test]
    fn the_longest_common_way_through_pci_wins() {
        let (root, devices) = machine("switch", "pci0000:00/0000:00:02.0/0000:03:00.0/nvme/nvme0/nvme0n1");
        let found = closest(&root, &devices);
        assert_eq!(found, Nearest { ordinals: vec![1], reason: "it has 2 PCI nodes in common with nvme0n1".to_owned() });
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn devices_that_are_equally_close_are_all_named() {
        let (root, devices) = machine("root", "pci0000:00/0000:00:1f.0/ata1/block/sda");
        assert_eq!(closest(&root, &devices).ordinals, [0, 1]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_numa_node_decides_where_no_root_is_shared() {
        let (root, devices) = machine("node", "pci0000:c0/0000:c0:01.0/0000:c1:00.0/nvme/nvme0/nvme0n1");
        fs::write(root.join("devices/pci0000:c0/0000:c0:01.0/0000:c1:00.0/numa_node"), "1\n").unwrap();
        assert_eq!(closest(&root, &devices), Nearest { ordinals: vec![2], reason: "it is on the NUMA node of nvme0n1".to_owned() });
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_mapped_disk_is_where_its_first_slave_is() {
        let (root, devices) = machine("mapped", "virtual/block/dm-0");
        let slave = root.join("devices/pci0000:80/0000:80:01.0/0000:82:00.0/nvme/nvme1/nvme1n1");
        fs::create_dir_all(&slave).unwrap();
        fs::create_dir_all(root.join("devices/virtual/block/dm-0/slaves")).unwrap();
        symlink(&slave, root.join("devices/virtual/block/dm-0/slaves/nvme1n1")).unwrap();
        assert_eq!(closest(&root, &devices).ordinals, [2]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn where_nothing_is_known_none_is_nearer_and_the_reason_says_so() {
        let (root, devices) = machine("nothing", "virtual/block/loop0");
        let found = closest(&root, &devices);
        assert_eq!(found.ordinals, [0, 1, 2]);
        assert!(found.reason.contains("loop0 is on no PCI device"), "{}", found.reason);
        assert_eq!(closest(&root, &devices[..1]).reason, "there is no other device");
        fs::remove_dir_all(root).unwrap();
    }
}
