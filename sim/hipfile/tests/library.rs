//! The simulated libhipfile on the simulated HIP runtime: both ways of its bytes, and each of the real one's ways to say no.

use std::ffi::c_void;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::{env, io, process};

use sim_common::child;
use sim_common::cufile::{CuFile, Entry, FileHandle, Parameters, Status};
use sim_common::hip::Hip;

const MIB: usize = 1 << 20;

/// Runs `body` in a process of its own under these variables.
fn under(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    let hip = child::library("sim_hip");
    let log = env::temp_dir().join(format!("gpuio-sim-hipfile-{test}.log"));
    let own = [("GPUIO_HIP_LIBRARY", hip.to_str().unwrap()), ("GPUIO_SIM_LOG", log.to_str().unwrap())];
    child::run(test, &[&own[..], variables].concat(), body);
    // The last process to have it writes no more.
    let _ = fs::remove_file(log);
}

/// A device's memory of 1 MiB, the library open, and a file of 1 MiB of a pattern.
struct Stage {
    hip: Hip,
    hipfile: CuFile,
    path: PathBuf,
    file: File,
    handle: FileHandle,
    base: u64,
    data: Vec<u8>,
}

impl Stage {
    fn new() -> Self {
        let hip = Hip::load(child::library("sim_hip")).unwrap();
        hip.init(0).unwrap();
        hip.device_set(0).unwrap();
        let name = |cuda: &str| match cuda {
            "cuFileDriverClose_v2" => "hipFileDriverClose".to_owned(),
            _ => cuda.replacen("cuFile", "hipFile", 1),
        };
        let hipfile = CuFile::load_as(child::library("sim_hipfile"), name).unwrap();
        hipfile.driver_open().unwrap();
        let path = env::temp_dir().join(format!("gpuio-sim-hipfile-{}.data", process::id()));
        let data: Vec<u8> = (0..MIB).map(|index| (index * 131 + index / 4096 * 7) as u8).collect();
        fs::write(&path, &data).unwrap();
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
        let handle = hipfile.handle_register(file.as_raw_fd()).unwrap();
        let base = hip.mem_alloc(MIB).unwrap();
        hipfile.buf_register(base, MIB).unwrap();
        Self { hip, hipfile, path, file, handle, base, data }
    }

    fn read(&self, bytes: usize, file_offset: usize, offset: usize) -> isize {
        // SAFETY: device memory, of which the library checks the range.
        unsafe { self.hipfile.read(self.handle, self.base, bytes, file_offset as i64, offset as i64) }
    }

    fn write(&self, bytes: usize, file_offset: usize, offset: usize) -> isize {
        // SAFETY: device memory, of which the library checks the range.
        unsafe { self.hipfile.write(self.handle, self.base, bytes, file_offset as i64, offset as i64) }
    }

    fn memory(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let mut copy = vec![0; bytes];
        let stream = self.hip.stream_create(1).unwrap();
        // SAFETY: the copy is waited for before its host end is used.
        unsafe { self.hip.copy_async(copy.as_mut_ptr() as u64, self.base + offset as u64, bytes, stream) }.unwrap();
        self.hip.stream_sync(stream).unwrap();
        copy
    }

    /// What the log says of how many transfers took each way; closes the driver.
    fn close(self) -> String {
        self.hipfile.driver_close().unwrap();
        fs::remove_file(&self.path).unwrap();
        let log = fs::read_to_string(env::var("GPUIO_SIM_LOG").unwrap()).unwrap();
        let line = log.lines().rfind(|line| line.contains("call=hipFileDriverClose")).unwrap().to_owned();
        line[line.find("direct=").unwrap()..].to_owned()
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn refused<T>(err: i32) -> Result<T, Status> {
    Err(Status { err, driver: 0 })
}

#[test]
fn whole_pages_go_straight_and_the_rest_is_bounced_or_refused() {
    under("whole_pages_go_straight_and_the_rest_is_bounced_or_refused", &[], || {
        let stage = Stage::new();
        assert_eq!(stage.read(8192, 4096, 0), 8192);
        assert_eq!(stage.memory(0, 8192), stage.data[4096..12_288]);
        assert_eq!(stage.write(4096, MIB / 2, 4096), 4096);
        assert_eq!(fs::read(&stage.path).unwrap()[MIB / 2..][..4096], stage.data[8192..12_288]);
        // What passes the library's check is not always what amdgpu takes.
        assert_eq!((stage.read(512, 512, 0), errno()), (-1, libc::EINVAL));
        assert_eq!(stage.read(100, 3, 0), 100);
        assert_eq!(stage.memory(0, 100), stage.data[3..103]);
        // The end of the file, and past it; nothing at all.
        assert_eq!((stage.read(8192, MIB - 4096, 0), stage.read(4096, MIB, 0), stage.read(0, 0, 0)), (4096, 0, 0));
        let counted = stage.close();
        assert!(counted.starts_with("direct=") && !counted.ends_with("bounced=0"), "{counted}");
    });
}

#[test]
fn the_ways_can_be_forced() {
    let force = [("HIPFILE_FORCE_COMPAT_MODE", "true")];
    under("the_ways_can_be_forced", &force, || {
        let stage = Stage::new();
        assert_eq!(stage.read(MIB, 0, 0), MIB as isize);
        assert_eq!(stage.memory(0, MIB), stage.data);
        assert_eq!(stage.close(), "direct=0 bounced=1");
    });
}

#[test]
fn only_two_errors_of_the_direct_path_fall_back() {
    let refuses = [("GPUIO_SIM_HIPFILE_NO_FAST_PATH", "121")]; // EREMOTEIO
    under("only_two_errors_of_the_direct_path_fall_back", &refuses, || {
        let stage = Stage::new();
        assert_eq!(stage.read(4096, 0, 0), 4096);
        assert_eq!(stage.close(), "direct=0 bounced=1");
    });
}

#[test]
fn a_wrong_argument_is_told_as_the_real_library_tells_it() {
    under("a_wrong_argument_is_told_as_the_real_library_tells_it", &[], || {
        let stage = Stage::new();
        let Stage { hip, hipfile, file, base, handle, .. } = &stage;
        assert_eq!(hipfile.handle_register(-1), refused(5030));
        assert_eq!(hipfile.handle_register(file.as_raw_fd()), refused(5028));
        let other = file.try_clone().unwrap();
        hipfile.handle_deregister(hipfile.handle_register(other.as_raw_fd()).unwrap());
        assert_eq!(hipfile.buf_register(*base, MIB), refused(5023));
        let pinned = hip.mem_alloc_pinned(4096, 0).unwrap();
        assert_eq!(hipfile.buf_register(pinned, 4096), refused(5013));
        assert_eq!(stage.read(8192, 0, MIB - 4096), -5022);
        let unknown = FileHandle(0x1234_5600 as *mut c_void);
        // SAFETY: device memory; the handle is looked up.
        assert_eq!(unsafe { hipfile.read(unknown, *base, 4096, 0, 0) }, -5027);
        // SAFETY: the library refuses memory that is not a device's.
        assert_eq!(unsafe { hipfile.read(*handle, pinned, 4096, 0, 0) }, -5013);
        assert_eq!(hipfile.properties().err(), refused::<()>(5030).err());
        // Memory that is not registered is moved all the same.
        let bare = hip.mem_alloc(MIB).unwrap();
        // SAFETY: device memory, of which the library checks the range.
        assert_eq!(unsafe { hipfile.read(*handle, bare, 4096, 0, 0) }, 4096);
    });
}

#[test]
fn a_batch_is_accepted_and_never_done() {
    under("a_batch_is_accepted_and_never_done", &[], || {
        let stage = Stage::new();
        let batch = stage.hipfile.batch_set_up(4).unwrap();
        let entry = Entry {
            mode: 1,
            base: stage.base as *mut c_void,
            file_offset: 0,
            offset: 0,
            size: 4096,
            file: stage.handle.0,
            opcode: 0,
            cookie: std::ptr::null_mut(),
        };
        // SAFETY: device memory.
        unsafe { batch.submit(&mut [entry]) }.unwrap();
        assert_eq!(batch.status(1, 1, 10).err(), refused::<()>(5030).err());
        assert_ne!(stage.memory(0, 4096), stage.data[..4096]);
    });
}

#[test]
fn an_asynchronous_call_is_bounced_and_tells_no_more_than_that_it_failed() {
    under("an_asynchronous_call_is_bounced_and_tells_no_more_than_that_it_failed", &[("GPUIO_SIM_HIPFILE_FAIL_IO", "2!:28")], || {
        let stage = Stage::new();
        let stream = stage.hip.stream_create(1).unwrap();
        for moved in [4096, -1] {
            let mut parameters = Parameters { size: 4096, done: 77, ..Parameters::default() };
            // SAFETY: the parameters outlive the wait below.
            unsafe { stage.hipfile.transfer_async(false, stage.handle, stage.base, &raw mut parameters, stream) }.unwrap();
            stage.hip.stream_sync(stream).unwrap();
            assert_eq!(parameters.done, moved);
        }
        assert_eq!(stage.close(), "direct=0 bounced=1");
    });
}

#[test]
fn the_driver_is_closed_as_often_as_it_was_opened() {
    under("the_driver_is_closed_as_often_as_it_was_opened", &[], || {
        let stage = Stage::new();
        stage.hipfile.driver_open().unwrap();
        assert_eq!(stage.hipfile.use_count(), 2);
        stage.hipfile.driver_close().unwrap();
        assert_eq!(stage.read(4096, 0, 0), 4096);
        stage.close();
    });
}
