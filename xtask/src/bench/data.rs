//! The file that all contenders read. It has no name any more when they do, so that it goes with this process however that ends.

use super::plan::Place;
use rustix::fs::fstatfs;
use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process,
};

/// The kernel's number for tmpfs (statfs(2)).
const TMPFS: u64 = 0x0102_1994;

pub(super) struct DataFile {
    file: fs::File,
    folder: PathBuf,
}

impl DataFile {
    /// Makes a file of `bytes` bytes in `folder` and takes its name away.
    pub fn make(folder: &Path, bytes: usize) -> Result<Self, String> {
        let path = folder.join(format!("gpuio-bench-{}", process::id()));
        let at = |error: std::io::Error| format!("{}: {error}; --dir names another folder", path.display());
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(at)?;
        fs::remove_file(&path).map_err(at)?;
        // Written, not a hole: the pages must be there before the first read.
        let block = [0xa5; 1 << 16];
        for _ in 0..bytes / block.len() {
            file.write_all(&block).map_err(at)?;
        }
        file.sync_all().map_err(at)?; // on a disk its blocks must be there, too
        Ok(Self { file, folder: folder.to_owned() })
    }

    /// A path at which other processes can open the file while this one lives (proc(5)).
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", process::id(), self.file.as_raw_fd())
    }

    /// Refuses a file that is not where the benchmark wants it.
    pub fn check(&self, wanted: Place) -> Result<(), String> {
        let found = fstatfs(&self.file).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        match (wanted, found.f_type as u64 == TMPFS) {
            (Place::Tmpfs, false) => Err(format!("{} is no tmpfs; --dir names one, /dev/shm for instance", self.folder.display())),
            (Place::Disk, true) => Err(format!("{} is a tmpfs; --dir names a folder on a disk", self.folder.display())),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_can_be_opened_and_has_no_name_in_its_folder() {
        let folder = std::env::temp_dir();
        let file = DataFile::make(&folder, 1 << 17).unwrap();
        assert_eq!(fs::metadata(file.path()).unwrap().len(), 1 << 17);
        assert!(!folder.join(format!("gpuio-bench-{}", process::id())).exists());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = DataFile::make(Path::new("/no/such/folder"), 1).err().unwrap();
        assert!(error.contains("/no/such/folder") && error.contains("--dir"), "{error}");
    }
}
