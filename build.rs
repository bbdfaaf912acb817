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
    let tables = layout::for_arch(&arch, &measured).unwrap_or_else(|| measured.without_versions());
    let out = Path::new(&env::var("OUT_DIR")?).join("tables.rs");
    fs::write(&out, layout::rust_source(&measured, &tables)?)
        .map_err(|error| format!("{}: {error}", out.display()))?;
    Ok(())
}
