//! The checked-in tables against what was measured another way: every offset of 3.16 … head, read from the DWARF of compiled headers.

use layout::Table;

fn table(text: &str) -> Table {
    Table::parse(text).expect("a checked-in table is valid")
}

fn checked_in() -> Table {
    table(include_str!("../../src/fio/layouts/x86_64.tsv"))
}

fn value(table: &Table, version: &str, group: &str, field: &str) -> Option<usize> {
    let version = table.versions.iter().position(|known| known == version).expect("a known version");
    let row = table.rows.iter().find(|row| (row.group.as_str(), row.field.as_str()) == (group, field));
    row.unwrap_or_else(|| panic!("no row {group}.{field}")).values[version]
}

#[test]
fn every_offset_equals_the_one_read_from_dwarf() {
    let (ours, measured) = (checked_in(), table(include_str!("data/fio-layouts-x86_64.tsv")));
    let versions: Vec<String> = measured.versions.iter().map(|version| version.to_lowercase()).collect();
    assert_eq!(ours.versions, versions);
    let mut compared = 0;
    for row in ours.rows.iter().filter(|row| row.group != "const") {
        for (index, version) in measured.versions.iter().enumerate() {
            let expected = value(&measured, version, &row.group, &row.field);
            assert_eq!(row.values[index], expected, "{}.{} in fio {version}", row.group, row.field);
            compared += 1;
        }
    }
    assert!(compared > 2000, "only {compared} values were compared");
}

#[test]
fn the_ioops_number_alone_does_not_tell_one_layout_from_another() {
    let ours = checked_in();
    let with = |number| -> Vec<&str> {
        let has = |version: &&String| value(&ours, version, "const", "FIO_IOOPS_VERSION") == Some(number);
        ours.versions.iter().filter(has).map(String::as_str).collect()
    };
    assert_eq!(with(31), ["3.30", "3.31", "3.32", "3.33"]);
    assert_eq!(with(36), ["3.38", "3.39"]);
    assert_eq!(with(39), ["3.41", "3.42", "head"]);
}

#[test]
fn flag_bits_from_15_on_moved_by_one_with_3_42() {
    let ours = checked_in();
    for (version, shift) in [("3.31", 16), ("3.41", 16), ("3.42", 17), ("head", 17)] {
        assert_eq!(value(&ours, version, "const", "FIO_ASYNCIO_SETS_ISSUE_TIME"), Some(1 << shift), "{version}");
    }
    assert_eq!(value(&ours, "3.33", "const", "FIO_SKIPPABLE_IOMEM_ALLOC"), None);
    assert_eq!(value(&ours, "3.41", "const", "DDIR_SYNCFS"), None);
    assert_eq!(value(&ours, "3.42", "const", "DDIR_SYNCFS"), Some(6));
}
