//! The environments under which a job runs on real and simulated vendor libraries, prepared under `target/env/NAME`.
//!
//! | name | library for files | GPU runtime |
//! |---|---|---|
//! | `cufile12` | the real libcufile for CUDA 12 | simulated |
//! | `cufile13` | the real libcufile for CUDA 13 | simulated |
//! | `cufile-sim` | simulated libcufile | simulated |
//! | `hipfile-sim` | simulated libhipfile | simulated, as of ROCm 7 |
//! | `hipfile-sim6` | simulated libhipfile | simulated, as of ROCm 6: no file call of amdgpu's |
//!
//! `gusli` and `nixl` have neither, only GUSLI's real client library, and NIXL's.
//!
//! `prepare` puts the libraries into one folder, writes libcufile's settings, adds what the machine lacks (block device
//! properties, a `/proc/modules`), and returns the variables. It can be called again at any time, by several programs
//! at once.

mod machine;
mod wheel;

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use wheel::Wheel;

/// The environments that there are.
pub const NAMES: [&str; 7] = ["cufile12", "cufile13", "cufile-sim", "hipfile-sim", "hipfile-sim6", "gusli", "nixl"];

/// Prepares one environment and returns its variables, in the order in which they are to be set.
///
/// `target` is cargo's target folder. `places` are files or folders whose file systems jobs will use; the folder for
/// temporary files and `target` itself are always among them. The error is one line for a person.
pub fn prepare(name: &str, target: &Path, places: &[&Path]) -> Result<Vec<(String, String)>, String> {
    if !NAMES.contains(&name) {
        return Err(format!("no environment {name:?}; there are {}", NAMES.join(", ")));
    }
    let root = absolute(target)?.join("env");
    let folder = root.join(name);
    let (libraries, logs) = (folder.join("lib"), folder.join("log"));
    for path in [&libraries, &logs] {
        fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let _lock = lock(&root.join("lock"))?;
    match name {
        "hipfile-sim" => return amd("sim_hip", "libamdhip64.so.7", &libraries),
        "hipfile-sim6" => return amd("sim_hip6", "libamdhip64.so.6", &libraries),
        _ => {}
    }
    if let (Some(wheel), "gusli" | "nixl") = (Wheel::of(name), name) {
        let variable = format!("GPUIO_{}_LIBRARY", name.to_uppercase());
        return Ok(vec![(variable, text(&wheel.fetch(&root)?))]);
    }
    install(&built("sim_cuda")?, &libraries.join("libcuda.so.1"))?;
    install(&built("sim_cudart")?, &libraries.join("libcudart.so.12"))?;
    let cufile = libraries.join("libcufile.so.0");
    let mut variables = Vec::new();
    // Not for the simulated one's sake: who checks before it loads a libcufile cannot know which one it will be.
    if !machine::lists_modules() {
        let library = libraries.join("libsim_modules.so");
        install(&built("sim_modules")?, &library)?;
        variables.push(prefixed("LD_PRELOAD", &library));
    }
    match Wheel::of(name) {
        None => install(&built("sim_cufile")?, &cufile)?,
        Some(wheel) => {
            install(&wheel.fetch(&root)?, &cufile)?;
            machine::check_libraries()?;
            let temporary = env::temp_dir();
            for place in places.iter().copied().chain([target, temporary.as_path()]) {
                machine::describe_block_device(place)?;
            }
            let settings = folder.join("cufile.json");
            replace(&settings, wheel::settings(&logs).as_bytes())?;
            variables.push(("CUFILE_ENV_PATH_JSON".to_owned(), text(&settings)));
        }
    }
    variables.push(prefixed("LD_LIBRARY_PATH", &libraries));
    variables.push(("GPUIO_CUDA_LIBRARY".to_owned(), text(&libraries.join("libcuda.so.1"))));
    variables.push(("GPUIO_CUFILE_LIBRARY".to_owned(), text(&cufile)));
    Ok(variables)
}

/// The simulated libraries of AMD's.
fn amd(runtime: &str, name: &str, libraries: &Path) -> Result<Vec<(String, String)>, String> {
    let (hip, hipfile) = (libraries.join(name), libraries.join("libhipfile.so.0"));
    install(&built(runtime)?, &hip)?;
    install(&built("sim_hipfile")?, &hipfile)?;
    Ok(vec![
        prefixed("LD_LIBRARY_PATH", libraries),
        ("GPUIO_HIP_LIBRARY".to_owned(), text(&hip)),
        ("GPUIO_HIPFILE_LIBRARY".to_owned(), text(&hipfile)),
        // Wherever the job's files are, the two ways are told apart by the operation alone.
        ("HIPFILE_UNSUPPORTED_FILE_SYSTEMS".to_owned(), "true".to_owned()),
    ])
}

/// The variables under which a job runs on this machine's own NVIDIA driver with the real libcufile of an environment, or, without a name, with
/// whichever is found then; what the machine lacks is added as in [`prepare`].
pub fn on_the_real_driver(name: Option<&str>, target: &Path, places: &[&Path]) -> Result<Vec<(String, String)>, String> {
    let root = absolute(target)?.join("env");
    let folder = root.join("real-driver");
    let logs = folder.join("log");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let _lock = lock(&root.join("lock"))?;
    let mut variables = Vec::new();
    if !machine::lists_modules() {
        let library = folder.join("libsim_modules.so");
        install(&built("sim_modules")?, &library)?;
        variables.push(prefixed("LD_PRELOAD", &library));
    }
    for place in places.iter().copied().chain([target]) {
        machine::describe_block_device(place)?;
    }
    if let Some(name) = name {
        let wheel = Wheel::of(name).ok_or_else(|| format!("no real libcufile in the environment {name:?}"))?;
        machine::check_libraries()?;
        let settings = folder.join("cufile.json");
        replace(&settings, wheel::settings(&logs).as_bytes())?;
        variables.push(("CUFILE_ENV_PATH_JSON".to_owned(), text(&settings)));
        variables.push(("GPUIO_CUFILE_LIBRARY".to_owned(), text(&wheel.fetch(&root)?)));
    }
    Ok(variables)
}

/// The folders with the headers of cuFile and CUDA 12, for programs that are compiled against them; fetched where they
/// are not there yet.
pub fn cuda_headers(target: &Path) -> Result<Vec<PathBuf>, String> {
    let root = absolute(target)?.join("env");
    fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    let _lock = lock(&root.join("lock"))?;
    wheel::headers(&root)
}

/// The folder with the Python packages of a small S3 server (`python3 -m moto.server`), fetched where they are not there yet.
pub fn s3_server(target: &Path) -> Result<PathBuf, String> {
    let root = absolute(target)?.join("env");
    fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    let _lock = lock(&root.join("lock"))?;
    wheel::s3_server(&root)
}

/// A library of this workspace: cargo builds it into the folder `deps`, in which tests lie and other programs beside.
fn built(name: &str) -> Result<PathBuf, String> {
    let program = env::current_exe().map_err(|error| format!("own path: {error}"))?;
    let beside = program.parent().ok_or("a program that lies in no folder")?;
    let file = format!("lib{name}.so");
    let places = [beside.join("deps").join(&file), beside.join(&file)];
    let found = places.into_iter().find(|path| path.exists());
    found.ok_or_else(|| format!("{file} is not beside {}: run this through cargo", program.display()))
}

/// Copies a library to where it is loaded from, unless the very same is there already: a process that has it loaded
/// keeps the old one.
fn install(from: &Path, to: &Path) -> Result<(), String> {
    let bytes = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    replace(to, &bytes)
}

/// Puts a file in place in one step.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let put = || -> io::Result<()> {
        fs::write(&fresh, bytes)?;
        fs::rename(&fresh, path)
    };
    put().map_err(|error| format!("{}: {error}", path.display()))
}

/// Held until dropped; the file itself stays.
fn lock(path: &Path) -> Result<File, String> {
    let take = || -> io::Result<File> {
        let file = File::create(path)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
        Ok(file)
    };
    take().map_err(|error| format!("{}: {error}", path.display()))
}

/// A list variable with one more entry in front of what it has; an entry from an earlier call is not repeated.
fn prefixed(name: &str, entry: &Path) -> (String, String) {
    let entry = text(entry);
    let old = env::var(name).unwrap_or_default();
    let rest = old.split(':').filter(|part| !part.is_empty() && *part != entry);
    let all: Vec<&str> = [entry.as_str()].into_iter().chain(rest).collect();
    (name.to_owned(), all.join(":"))
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
