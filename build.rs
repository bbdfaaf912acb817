//! Turns the layout tables of the target's architecture into Rust source, builds GUSLI's shim, and sets how the library is linked.

use std::{
    env,
    error::Error,
    fs,
    path::Path,
    process::{ExitCode, Stdio},
};

const LAYOUTS: &str = "src/fio/layouts/x86_64.tsv";
const SHIM: &str = "src/gusli/shim.cpp";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={LAYOUTS}");
    // fio opens libraries lazily: an unresolved symbol has to show at load, not at a job's first I/O.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,now");
    // fio up to 3.25 closes and opens the library again while it parses; the ops table has to stay where it is.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    build_shim();
    match write_tables() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("cargo::error={error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the object that GUSLI's C++ needs, to be opened at run time. Without a C++ compiler it is empty, and a job that asks for GUSLI says so.
fn build_shim() {
    println!("cargo::rerun-if-changed={SHIM}");
    let Some(out) = env::var_os("OUT_DIR") else { return };
    let object = Path::new(&out).join("gusli_shim.so");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").pic(true).opt_level(2).debug(false).cargo_metadata(false).cargo_warnings(false);
    let built = build.try_get_compiler().ok().and_then(|compiler| {
        let mut command = compiler.to_command();
        command.args(["-shared", "-fvisibility=hidden", "-Wl,-z,now", "-o"]).arg(&object).arg(SHIM).stderr(Stdio::inherit());
        command.status().ok()
    });
    if !built.is_some_and(|status| status.success()) {
        println!("cargo::warning=there is no C++ compiler that works here, so gpu_backend=gusli is not in this build (package g++)");
        if let Err(error) = fs::write(&object, "") {
            println!("cargo::error={}: {error}", object.display());
        }
    }
}

fn write_tables() -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(LAYOUTS).map_err(|error| format!("{LAYOUTS}: {error}"))?;
    let measured = layout::Table::parse(&text).map_err(|error| format!("{LAYOUTS}: {error}"))?;
    let arch = env::var("CARGO_CFG_TARGET_ARCH")?;
    // With no tables the library still builds; it refuses to run a job on a machine whose layouts nobody has measured.
    let mut tables = layout::for_arch(&arch, &measured).unwrap_or_else(|| measured.without_versions());
    add_source_tree(&mut tables)?;
    let out = Path::new(&env::var("OUT_DIR")?).join("tables.rs");
    let source = layout::rust_source(&measured, &tables)?;
    fs::write(&out, source).map_err(|error| format!("{}: {error}", out.display()))?;
    Ok(())
}

#[cfg(not(feature = "fio-src"))]
fn add_source_tree(_: &mut layout::Table) -> Result<(), Box<dyn Error>> {
    Ok(())
}

/// Adds the layout of the tree that FIO_SRC names, behind all others: the engine prefers the last that fits.
#[cfg(feature = "fio-src")]
fn add_source_tree(tables: &mut layout::Table) -> Result<(), Box<dyn Error>> {
    const WRAPPER: &str = "wrapper.h";
    println!("cargo::rerun-if-env-changed=FIO_SRC");
    println!("cargo::rerun-if-changed={WRAPPER}");
    let tree = env::var_os("FIO_SRC")
        .filter(|tree| !tree.is_empty())
        .ok_or("the feature fio-src needs FIO_SRC: set it to the folder of a configured fio source tree")?;
    let tree = Path::new(&tree);
    println!("cargo::rerun-if-changed={}", tree.display());
    let column = layout::extract(tables, Path::new(WRAPPER), tree)?;
    tables.push_column(&layout::tree_version(tree)?, column);
    Ok(())
}
