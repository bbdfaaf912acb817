//! `cargo xtask layouts`: keeps the checked-in layout tables.

use crate::Outcome;
use layout::Table;
use std::{fs, path::Path};

const TABLE: &str = "src/fio/layouts/x86_64.tsv";

/// Writes the layout of the configured fio at `tree` into the column of `version`; a new version goes last.
pub(crate) fn add(root: &Path, version: &str, tree: &Path) -> Outcome {
    if !cfg!(target_arch = "x86_64") {
        return Err("the tables are made on x86_64; other architectures follow from them".into());
    }
    let path = root.join(TABLE);
    let at_path = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(&path).map_err(|error| at_path(&error))?;
    let mut table = Table::parse(&text).map_err(|error| at_path(&error))?;
    let before = table.column(version);
    let column = layout::extract(&table, &root.join("wrapper.h"), tree)?;
    let changed = match &before {
        Some(before) => before.iter().zip(&column).filter(|(old, new)| old != new).count(),
        None => column.len(),
    };
    table.set_column(version, column);
    fs::write(&path, table.to_string()).map_err(|error| at_path(&error))?;
    eprintln!("fio {version}: {changed} of {} values changed in {TABLE}", table.rows.len());
    Ok(())
}
