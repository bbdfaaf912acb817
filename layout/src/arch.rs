//! What changes in the tables from one architecture to another.

use crate::Table;

/// The fields of `thread_data` behind `log_compress_wq`, whose pthread types are 16 bytes larger on aarch64.
const BEHIND_LOG_COMPRESS_WQ: [&str; 9] =
    ["error", "done", "pid", "orig_buffer", "orig_buffer_size", "runstate", "terminate", "io_ops", "io_ops_data"];
const AARCH64_SHIFT: usize = 16;

/// The tables of `arch` (as in `CARGO_CFG_TARGET_ARCH`), made from those of x86_64; `None` for an architecture nobody has measured.
///
/// aarch64 was read from cross-compiled headers of fio 3.33, 3.36 and 3.42.
pub fn for_arch(arch: &str, x86_64: &Table) -> Option<Table> {
    match arch {
        "x86_64" => Some(x86_64.clone()),
        "aarch64" => Some(aarch64(x86_64)),
        _ => None,
    }
}

fn aarch64(x86_64: &Table) -> Table {
    let mut table = x86_64.clone();
    let moved = |group: &str, field: &str| group == "thread_data" && BEHIND_LOG_COMPRESS_WQ.contains(&field);
    for row in table.rows.iter_mut().filter(|row| moved(&row.group, &row.field)) {
        for value in row.values.iter_mut().flatten() {
            *value += AARCH64_SHIFT;
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Table {
        Table::parse(
            "struct\tfield\t3.42\nthread_data\teo\t5000\nthread_data\tpid\t7000\nthread_data\tio_ops_data\t-\nfio_file\terror\t8\n",
        )
        .expect("a valid table")
    }

    #[test]
    fn aarch64_moves_only_what_lies_behind_log_compress_wq_in_thread_data() {
        let table = for_arch("aarch64", &measured()).expect("aarch64 is known");
        let values: Vec<_> = table.rows.iter().map(|row| row.values[0]).collect();
        assert_eq!(values, [Some(5000), Some(7016), None, Some(8)]);
    }

    #[test]
    fn an_architecture_nobody_measured_has_no_table() {
        assert_eq!(for_arch("riscv64", &measured()), None);
        assert_eq!(for_arch("x86_64", &measured()), Some(measured()));
    }
}
