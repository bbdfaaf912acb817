//! The tables as Rust source: a struct for each of fio's structs, and one static a version.

use crate::{Row, Table};
use std::fmt::{self, Write};

/// fio's struct, the type made from its rows, and the field of `Table` that holds it.
const GROUPS: [(&str, &str, &str); 6] = [
    ("ioengine_ops", "IoengineOps", "ops"),
    ("thread_data", "ThreadData", "td"),
    ("thread_options", "ThreadOptions", "opts"),
    ("io_u", "IoU", "io_u"),
    ("fio_file", "FioFile", "file"),
    ("const", "Const", "consts"),
];
const DERIVES: &str =
    "#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]\n#[allow(dead_code, reason = \"the tables hold all that was measured\")]\n";

/// Source for `include!`: the types, `Table`, and `TABLES`, oldest first.
///
/// `types` decides what the types look like (a field that some version lacks is an `Option`), `tables` what `TABLES` holds;
/// they have the same rows. The error names a field that a version lacks although its type says it is always there.
pub fn rust_source(types: &Table, tables: &Table) -> Result<String, String> {
    let mut source = String::new();
    write_types(&mut source, types).and_then(|()| write_tables(&mut source, types, tables)).map_err(|error| error.to_string())?;
    match missing(types, tables) {
        Some(what) => Err(what),
        None => Ok(source),
    }
}

fn write_types(out: &mut String, types: &Table) -> fmt::Result {
    for (group, type_name, _) in GROUPS {
        let what = match group {
            "const" => "Values of fio's macros and enumerators.".to_owned(),
            _ => format!("Bytes from the start of fio's `struct {group}`."),
        };
        writeln!(out, "/// {what}\n{DERIVES}pub struct {type_name} {{")?;
        for row in rows_of(types, group) {
            let kind = if is_optional(row) { "Option<usize>" } else { "usize" };
            writeln!(out, "    pub {}: {kind},", field_name(&row.field))?;
        }
        writeln!(out, "}}")?;
    }
    writeln!(out, "/// One layout of fio.\n{DERIVES}pub struct Table {{")?;
    writeln!(out, "    /// As `fio --version` says, without «fio-»; `head` for the development head.")?;
    writeln!(out, "    pub version: &'static str,")?;
    for (_, type_name, member) in GROUPS {
        writeln!(out, "    pub {member}: {type_name},")?;
    }
    writeln!(out, "}}")
}

fn write_tables(out: &mut String, types: &Table, tables: &Table) -> fmt::Result {
    writeln!(out, "/// Every known layout, oldest first.\npub static TABLES: &[Table] = &[")?;
    for (index, version) in tables.versions.iter().enumerate() {
        writeln!(out, "    Table {{\n        version: {version:?},")?;
        for (group, type_name, member) in GROUPS {
            writeln!(out, "        {member}: {type_name} {{")?;
            for (kind, row) in rows_of(types, group).zip(rows_of(tables, group)) {
                let value = match (row.values[index], is_optional(kind)) {
                    (Some(value), false) => value.to_string(),
                    (value, _) => format!("{value:?}"),
                };
                writeln!(out, "            {}: {value},", field_name(&row.field))?;
            }
            writeln!(out, "        }},")?;
        }
        writeln!(out, "    }},")?;
    }
    writeln!(out, "];")
}

fn missing(types: &Table, tables: &Table) -> Option<String> {
    types.rows.iter().zip(&tables.rows).filter(|(kind, _)| !is_optional(kind)).find_map(|(_, row)| {
        let index = row.values.iter().position(Option::is_none)?;
        Some(format!("fio {} has no {}.{}, which every known version has", tables.versions[index], row.group, row.field))
    })
}

fn rows_of<'a>(table: &'a Table, group: &'a str) -> impl Iterator<Item = &'a Row> {
    table.rows.iter().filter(move |row| row.group == group)
}

fn is_optional(row: &Row) -> bool {
    row.values.iter().any(Option::is_none)
}

fn field_name(field: &str) -> String {
    match field {
        "__sizeof__" => "size".to_owned(),
        _ => field.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        Table::parse(text).expect("a valid table")
    }

    #[test]
    fn a_field_that_one_version_lacks_is_an_option_in_all() {
        let both = table("struct\tfield\t3.40\t3.41\nioengine_ops\tcancel\t112\t-\nioengine_ops\t__sizeof__\t8\t9\n");
        let source = rust_source(&both, &both).expect("a source");
        for line in ["pub cancel: Option<usize>,", "pub size: usize,", "cancel: Some(112),", "cancel: None,", "size: 9,"] {
            assert!(source.contains(line), "{line} is not in\n{source}");
        }
    }

    #[test]
    fn a_tree_without_a_field_that_all_others_have_is_refused() {
        let types = table("struct\tfield\t3.40\nio_u\tfile\t32\n");
        let forked = table("struct\tfield\tmine\nio_u\tfile\t-\n");
        let refusal = rust_source(&types, &forked).expect_err("file is missing");
        assert_eq!(refusal, "fio mine has no io_u.file, which every known version has");
    }
}
