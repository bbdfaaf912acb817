//! fio's own libcufile engine on the real libcufile, and ours in that same fio.
//!
//! Needs `cargo xtask fio 3.41 --with-libcufile`, and `cargo build --release`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
};

const VERIFIED: [&str; 9] = [
    "--name=a",
    "--size=4m",
    "--bs=64k",
    "--rw=randwrite",
    "--direct=1",
    "--verify=crc32c",
    "--verify_state_save=0",
    "--iodepth=8",
    "--thread",
];

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

fn fio() -> PathBuf {
    let command = workspace().join("target/fio/3.41-libcufile/fio");
    assert!(command.is_file(), "{} is not there; get it with: cargo xtask fio 3.41 --with-libcufile", command.display());
    command
}

/// Runs a verified job with this engine under an environment; both directions must move all bytes.
fn verifies(environment: &str, engine: &[&str]) {
    let target = workspace().join("target");
    let variables = sim_env::prepare(environment, &target, &[]).expect("an environment");
    let file = target.join("tmp").join(format!("libcufile-{}-{environment}-{}", process::id(), engine.len()));
    fs::create_dir_all(target.join("tmp")).expect("a folder for temporary files");
    let mut command = Command::new("timeout");
    command.args(["-k", "1", "20"]).arg(fio()).args(VERIFIED).args(engine);
    command.arg(format!("--filename={}", file.display())).envs(variables).current_dir(target.join("tmp"));
    let output = command.output().expect("timeout, of coreutils");
    let _ = fs::remove_file(&file);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("READ: ") && said.contains("WRITE: ") && said.contains("io=4096KiB"), "{said}");
}

#[test]
fn fios_own_engine_verifies_on_the_real_library_of_either_wheel() {
    for environment in ["cufile12", "cufile13"] {
        verifies(environment, &["--ioengine=libcufile", "--cuda_io=cufile"]);
    }
}

#[test]
fn this_engine_verifies_in_the_same_fio() {
    let library = workspace().join("target/release/libgpuio.so");
    let engine = format!("--ioengine=external:{}", library.display());
    for environment in ["cufile12", "cufile13"] {
        verifies(environment, &[&engine, "--gpu_backend=cufile", "--gpu_mode=batch"]);
    }
}

#[test]
fn without_an_environment_the_command_says_what_to_do() {
    let output = Command::new(fio()).arg("--version").env_remove("GPUIO_CUFILE_LIBRARY").output().expect("a shell script");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("cargo xtask env cufile12"));
}
