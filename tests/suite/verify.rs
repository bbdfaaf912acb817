//! fio's verification in all its forms, and that it fails where the data on disk is wrong.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use crate::harness::{Fio, Report, noise, on_every_fio};

on_every_fio![
    crc32c_is_read_back,
    md5_is_read_back,
    sha256_is_read_back,
    xxhash_is_read_back,
    meta_is_read_back,
    a_pattern_is_read_back,
    a_pattern_with_offsets_is_on_disk,
    a_backlog_is_verified_while_writing_goes_on,
    helper_threads_verify_what_was_read,
    verify_only_reads_what_an_earlier_run_wrote,
    a_second_run_verifies_what_the_first_wrote,
    intervals_smaller_than_a_block_are_verified,
    direct_and_several_units_are_verified,
    overwritten_blocks_are_verified,
    a_mixed_job_is_verified,
    several_loops_are_verified,
    damage_on_disk_fails_the_job,
    damage_on_disk_is_fatal_at_once_where_asked,
    damage_in_one_byte_of_a_pattern_fails_the_job,
    a_file_that_another_program_wrote_is_verified,
    damage_is_counted_where_errors_are_to_be_continued,
    damage_fails_with_helper_threads_too,
];

const EILSEQ: i32 = 84;
const MIB: u64 = 1 << 20;

/// Writes 2 MiB and reads all of it back.
fn read_back(fio: &Fio, how: &str) -> Report {
    let report = fio.job(&format!("filename=f\nsize=2m\nbs=16k\nrw=randwrite\n{how}\n[a]\n")).run();
    report.ok().counts("write", "io_bytes", 2 * MIB).counts("read", "io_bytes", 2 * MIB);
    report
}

/// Changes one byte behind fio's back.
fn damage(fio: &Fio, offset: u64) {
    let file = OpenOptions::new().read(true).write(true).open(fio.path("f")).expect("the file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("a byte");
    file.write_all_at(&[byte[0] ^ 0x10], offset).expect("a byte");
}

fn crc32c_is_read_back(fio: &Fio) {
    read_back(fio, "verify=crc32c").says_nothing();
}

fn md5_is_read_back(fio: &Fio) {
    read_back(fio, "verify=md5").says_nothing();
}

fn sha256_is_read_back(fio: &Fio) {
    read_back(fio, "verify=sha256").says_nothing();
}

fn xxhash_is_read_back(fio: &Fio) {
    read_back(fio, "verify=xxhash").says_nothing();
}

fn meta_is_read_back(fio: &Fio) {
    read_back(fio, "verify=meta").says_nothing();
}

fn a_pattern_is_read_back(fio: &Fio) {
    read_back(fio, "verify=pattern\nverify_pattern=0xdeadbeef").says_nothing();
    assert!(fio.read("f").chunks(4).all(|word| word == [0xde, 0xad, 0xbe, 0xef]));
}

fn a_pattern_with_offsets_is_on_disk(fio: &Fio) {
    // %o is the offset of the block that it stands in.
    read_back(fio, "verify=pattern\nverify_pattern=%o").says_nothing();
    let bytes = fio.read("f");
    let offset_at = |n: usize| u64::from_le_bytes(bytes[n..n + 8].try_into().expect("8 bytes"));
    for block in (0..bytes.len()).step_by(16 << 10) {
        assert_eq!(offset_at(block), block as u64);
    }
}

fn a_backlog_is_verified_while_writing_goes_on(fio: &Fio) {
    read_back(fio, "verify=crc32c\nverify_backlog=16\nverify_backlog_batch=8");
}

fn helper_threads_verify_what_was_read(fio: &Fio) {
    read_back(fio, "verify=crc32c\nverify_async=2\niodepth=8");
}

fn verify_only_reads_what_an_earlier_run_wrote(fio: &Fio) {
    let job = |more: &str| format!("filename=f\nsize=1m\nrw=write\nverify=crc32c\ndo_verify=0\nallrandrepeat=1\n{more}\n[a]\n");
    fio.job(&job("")).run().ok().counts("read", "io_bytes", 0);
    let before = fio.sha256("f");
    let report = fio.job(&job("verify_only=1").replace("do_verify=0\n", "")).run();
    report.ok().assert(report.sum("read", "io_bytes") == MIB, "not all was read");
    assert_eq!(fio.sha256("f"), before, "verify_only has written");
}

fn a_second_run_verifies_what_the_first_wrote(fio: &Fio) {
    fio.job("filename=f\nsize=1m\nbs=8k\nrw=write\nverify=md5\ndo_verify=0\n[a]\n").run().ok().counts("read", "io_bytes", 0);
    fio.job("filename=f\nsize=1m\nbs=8k\nrw=read\nverify=md5\n[a]\n").run().ok().counts("read", "io_bytes", MIB);
    // The file is fio's own format: psync reads it as well.
    fio.psync("filename=../f\nsize=1m\nbs=8k\nrw=read\nverify=md5\n[a]\n").run().ok().counts("read", "io_bytes", MIB);
}

fn intervals_smaller_than_a_block_are_verified(fio: &Fio) {
    read_back(fio, "verify=crc32c\nverify_interval=512");
}

fn direct_and_several_units_are_verified(fio: &Fio) {
    read_back(fio, "verify=crc32c\ndirect=1\niodepth=32\niodepth_batch=8\niodepth_batch_complete_min=4\niodepth_batch_complete_max=16");
}

fn overwritten_blocks_are_verified(fio: &Fio) {
    fio.job("filename=f\nsize=1m\nio_size=3m\nbs=4k\nrw=randwrite\nnorandommap=1\nverify=crc32c\n[a]\n").run().ok().says_nothing();
}

fn a_mixed_job_is_verified(fio: &Fio) {
    let report = fio.job("filename=f\nsize=2m\nrw=randrw\nverify=crc32c\n[a]\n").run();
    report.ok().assert(report.sum("read", "io_bytes") > 0 && report.sum("write", "io_bytes") > 0, "one direction is missing");
}

fn several_loops_are_verified(fio: &Fio) {
    fio.job("filename=f\nsize=512k\nrw=randwrite\nverify=crc32c\nloops=3\n[a]\n").run().ok().counts("write", "io_bytes", 3 * MIB / 2);
}

fn write_then_damage(fio: &Fio) {
    fio.job("filename=f\nsize=1m\nbs=16k\nrw=write\nverify=crc32c\ndo_verify=0\n[a]\n").run().ok();
    damage(fio, 300_000);
}

fn damage_on_disk_fails_the_job(fio: &Fio) {
    write_then_damage(fio);
    let report = fio.job("filename=f\nsize=1m\nbs=16k\nrw=read\nverify=crc32c\n[a]\n").run();
    report.fails_with(EILSEQ);
}

fn damage_on_disk_is_fatal_at_once_where_asked(fio: &Fio) {
    write_then_damage(fio);
    let report = fio.job("filename=f\nsize=1m\nbs=16k\nrw=read\nverify=crc32c\nverify_fatal=1\n[a]\n").run();
    report.fails_with(EILSEQ);
    report.assert(report.sum("read", "io_bytes") <= 320_000, "reading went on behind the damage");
}

fn damage_in_one_byte_of_a_pattern_fails_the_job(fio: &Fio) {
    read_back(fio, "verify=pattern\nverify_pattern=0x11");
    let again = "filename=f\nsize=2m\nbs=16k\nrw=randread\nverify=pattern\nverify_pattern=0x11\n[a]\n";
    fio.job(again).run().ok();
    damage(fio, 2 * MIB - 1);
    fio.job(again).run().fails_with(EILSEQ);
}

fn a_file_that_another_program_wrote_is_verified(fio: &Fio) {
    fio.file("f", &[0xc3; 1 << 20]);
    let read = "filename=f\nbs=64k\nrw=randread\nverify=pattern\nverify_pattern=0xc3\niodepth=4\n[a]\n";
    fio.job(read).run().ok().counts("read", "io_bytes", MIB);
    fio.file("f", &noise(1 << 20));
    fio.job(read).run().fails_with(EILSEQ);
}

fn damage_is_counted_where_errors_are_to_be_continued(fio: &Fio) {
    write_then_damage(fio);
    let text = "filename=f\nsize=1m\nbs=16k\nrw=read\nverify=crc32c\ncontinue_on_error=verify\n[a]\n";
    let ours = fio.job(text).run();
    std::fs::copy(fio.path("f"), fio.yardstick().join("f")).expect("a copy");
    let theirs = fio.psync(text).run();
    ours.assert(ours.code() == theirs.code(), "the status is not psync's");
    for count in ["error", "total_err", "first_error"] {
        ours.assert(ours.jobs()[0][count] == theirs.jobs()[0][count], &format!("{count} is not psync's"));
    }
    ours.assert(ours.jobs()[0]["total_err"] == 1, "not one error");
    ours.counts("read", "io_bytes", theirs.sum("read", "io_bytes"));
}

fn damage_fails_with_helper_threads_too(fio: &Fio) {
    write_then_damage(fio);
    fio.job("filename=f\nsize=1m\nbs=16k\nrw=read\nverify=crc32c\nverify_async=2\n[a]\n").run().fails_with(EILSEQ);
}
