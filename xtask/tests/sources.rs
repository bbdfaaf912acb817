//! The checked-in tables against what bindgen sees in fio's sources, and the build for a source tree of one's own.
//!
//! Needs libclang and the sources: `cargo xtask fio-src 3.33` and `cargo xtask fio-src 3.41` get them.

use layout::Table;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

fn source_of(version: &str) -> PathBuf {
    let folder = workspace().join(format!("target/fio/{version}-src"));
    assert!(folder.join("stamp").is_file(), "the source of fio {version} is not here; get it with: cargo xtask fio-src {version}");
    folder.join("fio")
}

fn checked_in() -> Table {
    Table::parse(include_str!("../../src/fio/layouts/x86_64.tsv")).expect("the checked-in table is valid")
}

fn assert_column_equals_source(asked: &str) {
    let (table, tree) = (checked_in(), source_of(asked));
    let version = layout::tree_version(&tree).expect("a configured tree has a version");
    let Some(column) = table.column(&version) else {
        // Debian's sid goes on to versions that nobody has measured yet; that is no fault of the tables.
        println!("fio {version} has no column yet; make it with: cargo xtask layouts add {version} {}", tree.display());
        return;
    };
    let seen = layout::extract(&table, &workspace().join("wrapper.h"), &tree).expect("bindgen reads the tree");
    for ((row, checked_in), seen) in table.rows.iter().zip(column).zip(seen) {
        assert_eq!(checked_in, seen, "{}.{} in fio {version}", row.group, row.field);
    }
}

#[test]
fn the_column_of_3_33_is_what_its_source_says() {
    assert_column_equals_source("3.33");
}

#[test]
fn the_column_of_3_41_is_what_its_source_says() {
    assert_column_equals_source("3.41");
}

#[test]
fn fio_src_adds_the_layout_of_that_tree_as_the_preferred_one() {
    let tree = source_of("3.33");
    let built = build_with_fio_src(Some(&tree));
    let errors = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{errors}");
    let messages = String::from_utf8_lossy(&built.stdout);
    let out = messages.lines().filter(|line| line.contains("build-script-executed") && line.contains("/gpuio-")).find_map(|line| {
        let (_, rest) = line.split_once("\"out_dir\":\"")?;
        Some(rest.split_once('"')?.0)
    });
    let out = out.unwrap_or_else(|| panic!("cargo names no folder of gpuio's build script in {messages}"));
    let tables = fs::read_to_string(Path::new(out).join("tables.rs")).expect("the build script wrote the tables");
    let entries: Vec<&str> = tables.split("    Table {\n").skip(1).collect();
    assert_eq!(entries.len(), checked_in().versions.len() + 1);
    let of_3_33: Vec<&&str> = entries.iter().filter(|entry| entry.contains("version: \"3.33\"")).collect();
    let [measured, added] = of_3_33[..] else {
        panic!("3.33 is there {} times", of_3_33.len());
    };
    assert!(std::ptr::eq(added, &entries[entries.len() - 1]), "the tree's own table is not the last");
    assert_eq!(measured.trim(), added.trim().trim_end_matches("];").trim());
}

#[test]
fn fio_src_without_a_configured_tree_says_what_to_do() {
    for (tree, advice) in [(None, "set it to the folder of a configured fio source tree"), (Some(env::temp_dir()), "it has no fio.h")] {
        let built = build_with_fio_src(tree.as_deref());
        let errors = String::from_utf8_lossy(&built.stderr);
        assert!(!built.status.success() && errors.contains(advice), "{errors}");
    }
}

fn build_with_fio_src(tree: Option<&Path>) -> Output {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace()).env_remove("FIO_SRC").env_remove("CARGO_TARGET_DIR");
    // A target folder of its own: cargo holds the usual one while tests run.
    cargo.args(["build", "--package", "gpuio", "--features", "fio-src", "--message-format", "json", "--target-dir", "target/fio-src"]);
    if let Some(tree) = tree {
        cargo.env("FIO_SRC", tree);
    }
    cargo.output().expect("cargo starts")
}
