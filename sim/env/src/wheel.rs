//! The real libcufile, the headers of CUDA 12, NIXL, and GUSLI's client library, from their wheels on PyPI: fetched by pip by name and version,
//! checked by pip against a pinned SHA-256, kept under `target/env/wheels`. A small S3 server, too, by its packages' versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One wheel and where in it lies what it is fetched for.
pub struct Wheel {
    package: &'static str,
    version: &'static str,
    /// Of the file for x86-64 Linux.
    sha256: &'static str,
    /// A library, or a folder of headers.
    content: &'static str,
}

const CUDA_12: Wheel = Wheel {
    package: "nvidia-cufile-cu12",
    version: "1.14.1.1",
    sha256: "9552e2231792e94b1ff17bc99e958cc0e6bbbaa4a9d91fa2dbeed97716628fe6",
    content: "nvidia/cufile/lib/libcufile.so.0",
};

const CUDA_13: Wheel = Wheel {
    package: "nvidia-cufile",
    version: "1.20.0.107",
    sha256: "d134f10ce336c411664d79e3538e4797b38a41d3388edad1ec4a1a8c64c8c03a",
    content: "nvidia/cu13/lib/libcufile.so.0",
};

/// NIXL's C interface, with its plugins in a folder beside it.
const NIXL: Wheel = Wheel {
    package: "nixl-cu12",
    version: "1.5.1",
    sha256: "341d0dfa499f941c054614252f1d8047d1380e33f29c87707372ff5ec7d3779a",
    content: ".nixl_cu12.mesonpy.libs/libnixl_capi.so",
};

/// GUSLI's client library, with a name that the wheel's makers gave it.
const GUSLI: Wheel = Wheel { content: "nixl_cu12.libs/libgusli_clnt-3fabe21f.so", ..NIXL };

/// The packages of the S3 server: moto, and what it imports to serve S3 alone, which is a third of what it can.
const S3_SERVER: &str = include_str!("s3_server.txt");

/// What a program written for cuFile includes: the runtime's headers include `crt/`, which comes with the compiler.
const HEADERS: [Wheel; 3] = [
    Wheel { content: "nvidia/cufile/include", ..CUDA_12 },
    Wheel {
        package: "nvidia-cuda-runtime-cu12",
        version: "12.9.79",
        sha256: "25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3",
        content: "nvidia/cuda_runtime/include",
    },
    Wheel {
        package: "nvidia-cuda-nvcc-cu12",
        version: "12.9.86",
        sha256: "5d6a0d32fdc7ea39917c20065614ae93add6f577d840233237ff08e9a38f58f0",
        content: "nvidia/cuda_nvcc/include",
    },
];

/// The folders of headers, after fetching their wheels if they are not there yet. The caller holds the lock.
pub fn headers(root: &Path) -> Result<Vec<PathBuf>, String> {
    HEADERS.iter().map(|wheel| wheel.fetch(root)).collect()
}

/// The folder of the S3 server's packages, for the Python that there is. The caller holds the lock.
pub fn s3_server(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join("s3-server");
    let list = root.join("s3-server.txt");
    if folder.exists() && fs::read_to_string(&list).is_ok_and(|fetched| fetched == S3_SERVER) {
        return Ok(folder);
    }
    let fresh = root.join("s3-server.fresh");
    // What a fetch that was broken off has left, or an older server; often nothing.
    let _ = fs::remove_dir_all(&fresh);
    let _ = fs::remove_dir_all(&folder);
    fs::write(&list, S3_SERVER).map_err(|error| format!("{}: {error}", list.display()))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--only-binary=:all:"]);
    run_pip(pip.args(["--root-user-action=ignore", "--target"]).arg(&fresh).arg("-r").arg(&list), "the S3 server")?;
    fs::rename(&fresh, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

fn run_pip(pip: &mut Command, what: &str) -> Result<(), String> {
    let output = pip.output().map_err(|error| format!("python3 -m pip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    Err(format!("pip cannot fetch {what}: {}", reason.trim().lines().last().unwrap_or("no reason given")))
}

impl Wheel {
    /// The wheel of an environment, if it has one.
    pub fn of(environment: &str) -> Option<&'static Self> {
        match environment {
            "cufile12" => Some(&CUDA_12),
            "cufile13" => Some(&CUDA_13),
            "gusli" => Some(&GUSLI),
            "nixl" => Some(&NIXL),
            _ => None,
        }
    }

    /// The content's path, after fetching the wheel if it is not there yet. The caller holds the lock.
    pub fn fetch(&self, root: &Path) -> Result<PathBuf, String> {
        let wheels = root.join("wheels");
        let folder = wheels.join(format!("{}-{}", self.package, self.version));
        let content = folder.join(self.content);
        if content.exists() {
            return Ok(content);
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
        // A wheel made for one Python is as good for another: nothing of Python is used.
        pip.args(["--python-version=3.11", "--implementation=cp", "--abi=cp311", "--abi=none"]);
        pip.args(["--only-binary=:all:", "--root-user-action=ignore", "--target"]).arg(&fresh).arg("-r").arg(&list);
        run_pip(&mut pip, &format!("{} {}", self.package, self.version))?;
        fs::rename(&fresh, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        if content.exists() { Ok(content) } else { Err(format!("{}: not in the wheel", content.display())) }
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
