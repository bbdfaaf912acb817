//! `cargo xtask …`: what the project needs beside a compiler, one word each.

mod bench;
mod command;
mod fio;
mod gpu_check;
mod hip;
mod layouts;

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
    process::ExitCode,
};

const USAGE: &str = "usage: cargo xtask COMMAND
  env NAME                   print the variables under which a job runs on a vendor's library (cufile12, cufile13, cufile-sim,
                             hipfile-sim, hipfile-sim6, gusli, nixl)
  fio VERSION                print the path of a command that runs this fio (3.25, 3.33, 3.39, 3.41); gets it where needed
  fio 3.41 --with-libcufile  the same for a fio with its own engine libcufile, to be run under an environment; builds it where needed
  fio-src VERSION            print the path of this fio's source, configured (3.33, 3.41); gets it where needed
  hip                        print the folder with a real HIP runtime (5.2); gets it where needed
  layouts add VERSION TREE   read fio's layout from a configured source tree (needs libclang) into that version's column";

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Outcome {
    let root = workspace();
    match words {
        ["bench", words @ ..] => bench::run(&root, words),
        ["env", name] => environment(&root, name),
        ["fio", version] => fio::binary(&root, version),
        ["fio", version, "--with-libcufile"] => yardstick(&root, version),
        ["fio-src", version] => fio::source(&root, version),
        ["gpu-check", words @ ..] => gpu_check::run(&root, words),
        ["hip"] => hip_runtime(&root),
        ["layouts", "add", version, tree] => layouts::add(&root, version, Path::new(tree)),
        _ => Err(format!("{USAGE}{}\n{}", gpu_check::USAGE, bench::USAGE).into()),
    }
}

/// Prints the path of a command that runs fio with its own engine libcufile.
fn yardstick(root: &Path, version: &str) -> Outcome {
    println!("{}", fio::with_libcufile(root, version)?.display());
    Ok(())
}

/// Prints the folder with a real HIP runtime.
fn hip_runtime(root: &Path) -> Outcome {
    println!("{}", hip::libraries(root)?.display());
    Ok(())
}

/// Prints the lines that a shell evaluates.
fn environment(root: &Path, name: &str) -> Outcome {
    for (variable, value) in sim_env::prepare(name, &root.join("target"), &[])? {
        println!("export {variable}='{}'", value.replace('\'', r"'\''"));
    }
    Ok(())
}

/// The workspace's root, where `target/` and the tables are.
fn workspace() -> PathBuf {
    let own = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.parent().map_or_else(|| own.clone(), Path::to_owned)
}
