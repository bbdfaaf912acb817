//! Turns the layout tables of the target's architecture into Rust source, and sets how the library is linked.

use std::{env, error::Error, fs, path::Path, process::ExitCode};

const LAYOUTS: &str = "src/fio/layouts/x86_64.tsv";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={LAYOUTS}");
    // fio opens libraries lazily: an unresolved symbol has to show at load, not at a job's first I/O.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,now");
    // fio up to 3.25 closes and opens the library again while it parses; the ops table has to stay where it is.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    match write_tables() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("cargo::error={error}");
            ExitCode::FAILURE
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
