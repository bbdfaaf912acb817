//! Makes a column of the tables from a configured fio source tree, with bindgen.
//!
//! Twice over the same headers: the first run tells which fields this fio has, the second the values of constants made of `offsetof`
//! for just these. The compiler so answers for every number, also within anonymous unions, of which bindgen tells no offset.

use crate::{Column, Table, bindings::Bindings};
use std::{
    error::Error,
    fmt::{self, Write},
    fs,
    path::{Path, PathBuf},
};

/// What fio's own Makefile defines and a struct could depend on.
const FIO_CFLAGS: [&str; 6] = [
    "-std=gnu99",
    "-D_GNU_SOURCE",
    "-D_LARGEFILE_SOURCE",
    "-D_FILE_OFFSET_BITS=64",
    "-DFIO_INTERNAL",
    // Warnings are for fio's authors.
    "-w",
];
/// The pseudo-struct of constants; wrapper.h restates some under a prefix.
const CONSTANTS: &str = "const";
const RESTATED: &str = "GPUIO_";
const SIZE: &str = "__sizeof__";

/// The values of `table`'s rows in the fio source tree at `tree`, read through `wrapper` (wrapper.h); `None` where that fio has no such field.
pub fn extract(table: &Table, wrapper: &Path, tree: &Path) -> Result<Column, ExtractError> {
    require_configured(tree)?;
    clang_sys::load().map_err(|error| ExtractError::new(tree, format!("reading it needs libclang (package libclang-dev): {error}")))?;
    let wrapper = wrapper.canonicalize().map_err(|error| ExtractError::new(tree, format!("{}: {error}", wrapper.display())))?;
    let include = format!("#include \"{}\"\n", wrapper.display());
    let fields = table.rows.iter().filter(|row| row.group != CONSTANTS);

    let types = fields.clone().fold(builder(tree), |builder, row| builder.allowlist_type(&row.group));
    let seen = run(tree, types, &include)?;
    let mut questions = include;
    for row in fields {
        let (group, field) = (&row.group, &row.field);
        if !seen.knows(group) {
            return Err(ExtractError::new(tree, format!("bindgen cannot see into struct {group}")));
        }
        let value = match field.as_str() {
            SIZE => format!("sizeof(struct {group})"),
            _ if seen.has_field(group, field) => {
                format!("__builtin_offsetof(struct {group}, {field})")
            }
            _ => continue,
        };
        writeln!(questions, "enum {{ {} = {value} }};", enumerator(group, field)).expect("a string takes any text");
    }

    let values = table.rows.iter().fold(builder(tree), |builder, row| builder.allowlist_var(format!("({RESTATED})?{}", row.field)));
    let values = values.allowlist_var(format!("{RESTATED}.*")).allowlist_type("fio_ioengine_flags|fio_ddir");
    let answers = run(tree, values, &questions)?;
    let value = |group: &str, field: &str| match group {
        CONSTANTS => answers.constant(field).or_else(|| answers.constant(&format!("{RESTATED}{field}"))),
        _ => answers.constant(&enumerator(group, field)),
    };
    Ok(table.rows.iter().map(|row| value(&row.group, &row.field)).collect())
}

fn enumerator(group: &str, field: &str) -> String {
    format!("{RESTATED}{group}_{field}")
}

fn builder(tree: &Path) -> bindgen::Builder {
    bindgen::Builder::default()
        .clang_args(FIO_CFLAGS)
        .clang_arg(format!("-I{}", tree.display()))
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .generate_comments(false)
        .layout_tests(false)
}

fn run(tree: &Path, builder: bindgen::Builder, header: &str) -> Result<Bindings, ExtractError> {
    let source = builder
        .header_contents("gpuio-layout.h", header)
        .generate()
        .map_err(|error| ExtractError::new(tree, format!("its headers do not compile: {error}")))?;
    Bindings::parse(&source.to_string()).map_err(|error| ExtractError::new(tree, format!("what bindgen wrote cannot be read: {error}")))
}

/// The version that a fio built from `tree` says it has, without «fio-», by the rules of fio's FIO-VERSION-GEN.
pub fn tree_version(tree: &Path) -> Result<String, ExtractError> {
    require_configured(tree)?;
    let read = |name: &str| fs::read_to_string(tree.join(name)).ok();
    let built = read("FIO-VERSION-FILE").and_then(|text| Some(text.strip_prefix("FIO_VERSION = ")?.trim().to_owned()));
    // A git tree's version is what `git describe` says when it is built; the default below would be wrong for it.
    let default = || match tree.join(".git").exists() {
        true => None,
        false => read("version").map(|text| text.trim().to_owned()).or_else(|| {
            let script = read("FIO-VERSION-GEN")?;
            script.lines().find_map(|line| Some(line.strip_prefix("DEF_VER=")?.trim().to_owned()))
        }),
    };
    let version = built
        .or_else(default)
        .ok_or_else(|| ExtractError::new(tree, "it has no FIO-VERSION-FILE yet: run «make FIO-VERSION-FILE» there"))?;
    Ok(version.trim_start_matches("fio-").to_owned())
}

fn require_configured(tree: &Path) -> Result<(), ExtractError> {
    let missing = |file: &&str| !tree.join(file).is_file();
    match ["fio.h", "config-host.h"].iter().find(|file| missing(file)) {
        None => Ok(()),
        Some(&"fio.h") => Err(ExtractError::new(tree, "it is no fio source tree: it has no fio.h")),
        Some(_) => Err(ExtractError::new(tree, "it is not configured: run ./configure there (it makes config-host.h)")),
    }
}

/// Why no column could be made from a source tree.
#[derive(Debug)]
pub struct ExtractError {
    tree: PathBuf,
    what: String,
}

impl ExtractError {
    fn new(tree: &Path, what: impl Into<String>) -> Self {
        Self { tree: tree.to_owned(), what: what.into() }
    }
}

impl fmt::Display for ExtractError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "fio source tree {}: {}", self.tree.display(), self.what)
    }
}

impl Error for ExtractError {}
