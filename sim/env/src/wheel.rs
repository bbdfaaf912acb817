//! The real libcufile, from its wheels on PyPI: fetched by pip by name and version, checked by pip against a pinned
//! SHA-256, kept under `target/env/wheels`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One wheel and where the library lies in it.
pub struct Wheel {
    package: &'static str,
    version: &'static str,
    /// Of the file for x86-64 Linux.
    sha256: &'static str,
    library: &'static str,
}

const CUDA_12: Wheel = Wheel {
    package: "nvidia-cufile-cu12",
    version: "1.14.1.1",
    sha256: "9552e2231792e94b1ff17bc99e958cc0e6bbbaa4a9d91fa2dbeed97716628fe6",
    library: "nvidia/cufile/lib/libcufile.so.0",
};

const CUDA_13: Wheel = Wheel {
    package: "nvidia-cufile",
    version: "1.20.0.107",
    sha256: "d134f10ce336c411664d79e3538e4797b38a41d3388edad1ec4a1a8c64c8c03a",
    library: "nvidia/cu13/lib/libcufile.so.0",
};

impl Wheel {
    /// The wheel of an environment, if it has one.
    pub fn of(environment: &str) -> Option<&'static Self> {
        match environment {
            "cufile12" => Some(&CUDA_12),
            "cufile13" => Some(&CUDA_13),
            _ => None,
        }
    }

    /// The library's path, after fetching the wheel if it is not there yet. The caller holds the lock.
    pub fn fetch(&self, root: &Path) -> Result<PathBuf, String> {
        let wheels = root.join("wheels");
        let folder = wheels.join(format!("{}-{}", self.package, self.version));
        let library = folder.join(self.library);
        if library.exists() {
            return Ok(library);
        }
        fs::create_dir_all(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
        let requirement = format!("{}=={} --hash=sha256:{}\n", self.package, self.version, self.sha256);
        let list = wheels.join("requirement.txt");
        fs::write(&list, requirement).map_err(|error| format!("{}: {error}", list.display()))?;
        let fresh = wheels.join("fresh");
        // What a fetch that was broken off has left; often nothing.
        let _ = fs::remove_dir_all(&fresh);
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--require-hashes"]);
        pip.args(["--only-binary=:all:", "--root-user-action=ignore", "--target"]).arg(&fresh).arg("-r").arg(&list);
        let output = pip.output().map_err(|error| format!("python3 -m pip: {error}"))?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            let reason = reason.trim().lines().last().unwrap_or("no reason given").to_owned();
            return Err(format!("pip cannot fetch {} {}: {reason}", self.package, self.version));
        }
        fs::rename(&fresh, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        if library.exists() { Ok(library) } else { Err(format!("{}: not in the wheel", library.display())) }
    }
}

/// libcufile's settings: compatibility mode permitted, and a log that does not land in the working directory.
pub fn settings(logs: &Path) -> String {
    let logs = logs.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        r#"{{
    "logging": {{ "dir": "{logs}", "level": "ERROR" }},
    "properties": {{ "allow_compat_mode": true, "max_batch_io_size": 128 }}
}}
"#
    )
}
