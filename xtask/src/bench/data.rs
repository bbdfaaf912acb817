//! The file that all contenders read. Where it can be, it has no name any more when they do, so that it goes with this process however that
//! ends.

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
    /// Removed in the end; `None` where it was removed at once.
    name: Option<PathBuf>,
}

impl DataFile {
    /// Makes a file of `bytes` bytes in `folder`; unless it `keeps_name`, the name is taken away.
    pub fn make(folder: &Path, bytes: usize, keeps_name: bool) -> Result<Self, String> {
        let path = folder.join(format!("gpuio-bench-{}", process::id()));
        let at = |error: std::io::Error| format!("{}: {error}; --dir names another folder", path.display());
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(at)?;
        let mut data = Self { file: file.try_clone().map_err(at)?, folder: folder.to_owned(), name: Some(path.clone()) };
        if !keeps_name {
            fs::remove_file(&path).map_err(at)?;
            data.name = None;
        }
        // Written, not a hole: the pages must be there before the first read.
        let block = [0xa5; 1 << 16];
        for _ in 0..bytes / block.len() {
            file.write_all(&block).map_err(at)?;
        }
        file.sync_all().map_err(at)?; // on a disk its blocks must be there, too
        Ok(data)
    }

    /// A path at which other processes can open the file while this one lives (proc(5)).
    pub fn path(&self) -> String {
        if let Some(name) = &self.name {
            return name.display().to_string();
        }
        format!("/proc/{}/fd/{}", process::id(), self.file.as_raw_fd())
    }

    pub fn folder(&self) -> &Path {
        &self.folder
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

impl Drop for DataFile {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.name.as_ref().map(fs::remove_file) {
            eprintln!("xtask: {}: {error}", self.folder.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_can_be_opened_and_has_no_name_in_its_folder() {
        let folder = std::env::temp_dir();
        let file = DataFile::make(&folder, 1 << 17, false).unwrap();
        assert_eq!(fs::metadata(file.path()).unwrap().len(), 1 << 17);
        assert!(!folder.join(format!("gpuio-bench-{}", process::id())).exists());
    }

    #[test]
    fn a_file_that_keeps_its_name_is_gone_in_the_end() {
        let folder = std::env::temp_dir().join(format!("gpuio-bench-data-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = DataFile::make(&folder, 1 << 16, true).unwrap();
        assert_eq!(fs::metadata(file.path()).unwrap().len(), 1 << 16);
        drop(file);
        fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = DataFile::make(Path::new("/no/such/folder"), 1, false).err().unwrap();
        assert!(error.contains("/no/such/folder") && error.contains("--dir"), "{error}");
    }
}
