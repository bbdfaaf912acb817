//! Block sizes of every kind, several files, files larger than any memory.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::harness::{Fio, noise, on_every_fio};

on_every_fio![
    a_split_of_block_sizes_leaves_the_bytes_that_psync_leaves,
    a_range_of_block_sizes_leaves_the_bytes_that_psync_leaves,
    unaligned_block_sizes_leave_the_bytes_that_psync_leaves,
    reads_and_writes_of_different_sizes_leave_the_bytes_that_psync_leaves,
    a_mix_of_block_sizes_is_read_back_verified,
    one_byte_blocks_are_written_in_place,
    blocks_larger_than_the_file_move_nothing,
    every_way_to_serve_several_files_leaves_the_bytes_that_psync_leaves,
    more_files_than_may_be_open_are_all_written,
    named_files_are_all_written,
    a_file_larger_than_any_memory_is_written_at_its_far_end,
    an_offset_and_an_increment_keep_jobs_apart,
    a_size_left_out_means_the_whole_file,
    an_existing_file_that_is_read_stays_the_same_file,
    an_existing_file_that_is_written_in_part_keeps_the_rest,
];

const SEEDED: &str = "allrandrepeat=1\nrandseed=7\nscramble_buffers=0\nrefill_buffers=1\nfilename=f\nsize=2m\n";

fn mix(fio: &Fio, blocks: &str) {
    fio.file("f", &noise(2 << 20));
    fio.same_as_psync(&format!("{SEEDED}{blocks}\n[a]\nrw=randrw\n")).says_nothing();
    fio.same_bytes("f");
}

fn a_split_of_block_sizes_leaves_the_bytes_that_psync_leaves(fio: &Fio) {
    mix(fio, "bssplit=4k/40:16k/40:68k/20");
}

fn a_range_of_block_sizes_leaves_the_bytes_that_psync_leaves(fio: &Fio) {
    mix(fio, "bsrange=512-128k\nblockalign=512");
}

fn unaligned_block_sizes_leave_the_bytes_that_psync_leaves(fio: &Fio) {
    mix(fio, "bsrange=1-9k\nbs_unaligned=1");
}

fn reads_and_writes_of_different_sizes_leave_the_bytes_that_psync_leaves(fio: &Fio) {
    mix(fio, "bs=4k,32k");
}

fn a_mix_of_block_sizes_is_read_back_verified(fio: &Fio) {
    let report = fio.job("filename=f\nsize=4m\nrw=randwrite\nbssplit=4k/50:20k/50\nverify=crc32c\nverify_fatal=1\niodepth=4\n[a]\n").run();
    report.ok().assert(report.sum("read", "io_bytes") == report.sum("write", "io_bytes"), "not all that was written was read back");
}

fn one_byte_blocks_are_written_in_place(fio: &Fio) {
    fio.same_as_psync("filename=f\nsize=777\nbs=1\nbs_unaligned=1\nrw=write\nbuffer_pattern=0x5a\nallrandrepeat=1\n[a]\n");
    assert_eq!(fio.read("f"), vec![0x5a; 777]);
}

fn blocks_larger_than_the_file_move_nothing(fio: &Fio) {
    let text = "filename=f\nsize=4k\nbs=64k\nrw=write\n[a]\n";
    let (ours, theirs) = (fio.job(text).run(), fio.psync(text).run());
    ours.assert(ours.code() == theirs.code(), "the status is not psync's");
    ours.counts("write", "total_ios", theirs.sum("write", "total_ios"));
}

fn every_way_to_serve_several_files_leaves_the_bytes_that_psync_leaves(fio: &Fio) {
    for (n, way) in ["roundrobin:2", "sequential", "random"].iter().enumerate() {
        let text = format!(
            "allrandrepeat=1\nrandseed=7\nscramble_buffers=0\nrefill_buffers=1\nnrfiles=5\nsize=1280k\nfilename_format=w{n}.$filenum\n\
             file_service_type={way}\n[a]\nrw=randwrite\n"
        );
        fio.same_as_psync(&text).counts("write", "io_bytes", 1280 << 10);
        (0..5).for_each(|file| fio.same_bytes(&format!("w{n}.{file}")));
    }
}

fn more_files_than_may_be_open_are_all_written(fio: &Fio) {
    fio.same_as_psync("nrfiles=9\nopenfiles=2\nfilesize=64k\nfilename_format=o.$filenum\nbuffer_pattern=0x77\n[a]\nrw=write\n");
    (0..9).for_each(|file| assert_eq!(fio.read(&format!("o.{file}")), vec![0x77; 64 << 10], "file {file}"));
}

fn named_files_are_all_written(fio: &Fio) {
    fio.job("filename=x:y:z\nsize=192k\nbuffer_pattern=0x31\n[a]\nrw=randwrite\n").run().ok();
    ["x", "y", "z"].iter().for_each(|name| assert_eq!(fio.read(name), vec![0x31; 64 << 10], "{name}"));
}

fn a_file_larger_than_any_memory_is_written_at_its_far_end(fio: &Fio) {
    const TIB: u64 = 1 << 40;
    let file = File::create(fio.path("f")).expect("a file");
    file.set_len(2 * TIB).expect("a sparse file of 2 TiB");
    fio.job("filename=f\noffset=1536g\nsize=1m\nbs=128k\nrw=randwrite\nbuffer_pattern=0xabcd\nverify=crc32c\nverify_only=0\n[v]\n")
        .run()
        .ok();
    fio.job("filename=f\noffset=1792g\nsize=1m\nbs=128k\nrw=randwrite\nbuffer_pattern=0xabcd\n[a]\n").run().ok();
    let mut file = File::open(fio.path("f")).expect("the file");
    let mut bytes = vec![0; (1 << 20) + 2];
    file.seek(SeekFrom::Start(2 * TIB - TIB / 4 - 1)).expect("a place");
    file.read_exact(&mut bytes).expect("its bytes");
    assert_eq!((bytes[0], bytes[bytes.len() - 1]), (0, 0), "written outside the range");
    assert!(bytes[1..=1 << 20].chunks(2).all(|pair| pair == [0xab, 0xcd]));
    // Random reads over the whole file meet offsets beyond 32 bits.
    fio.job("filename=f\nrw=randread\nbs=4k\nnumber_ios=200\nnorandommap=1\n[a]\n").run().ok().counts("read", "total_ios", 200);
    assert_eq!(file.metadata().expect("the file").len(), 2 * TIB);
}

fn an_offset_and_an_increment_keep_jobs_apart(fio: &Fio) {
    fio.file("f", &[0; 1 << 20]);
    fio.job("filename=f\noffset=256k\noffset_increment=256k\nsize=128k\nnumjobs=2\nbuffer_pattern=0x99\nrw=write\n[a]\n").run().ok();
    let bytes = fio.read("f");
    let expected = |n: usize| if matches!(n >> 17, 2 | 4) { 0x99 } else { 0 };
    assert!(bytes.iter().enumerate().all(|(n, &byte)| byte == expected(n)));
}

fn a_size_left_out_means_the_whole_file(fio: &Fio) {
    fio.file("f", &noise(1 << 20));
    fio.same_as_psync("filename=f\nbs=32k\nrw=read\n[a]\n").counts("read", "io_bytes", 1 << 20);
    fio.same_as_psync("filename=f\nbs=32k\nrw=randwrite\nbuffer_pattern=0x42\n[a]\n").counts("write", "io_bytes", 1 << 20);
    assert_eq!(fio.read("f"), vec![0x42; 1 << 20]);
}

fn an_existing_file_that_is_read_stays_the_same_file(fio: &Fio) {
    fio.file("f", &noise(1 << 20));
    let (sum, before) = (fio.sha256("f"), std::fs::metadata(fio.path("f")).expect("the file"));
    for size in ["", "size=1m\n", "size=512k\n"] {
        fio.job(&format!("filename=f\n{size}rw=randread\n[a]\n")).run().ok();
        let after = std::fs::metadata(fio.path("f")).expect("the file");
        assert_eq!((after.ino(), after.mtime_nsec(), after.len()), (before.ino(), before.mtime_nsec(), before.len()), "with «{size}»");
        assert_eq!(fio.sha256("f"), sum, "with «{size}»");
    }
}

fn an_existing_file_that_is_written_in_part_keeps_the_rest(fio: &Fio) {
    let content = noise(1 << 20);
    fio.file("f", &content);
    let inode = std::fs::metadata(fio.path("f")).expect("the file").ino();
    fio.job("filename=f\noffset=64k\nsize=64k\nrw=write\nbuffer_pattern=0x42\n[a]\n").run().ok();
    let file = File::open(fio.path("f")).expect("the file");
    assert_eq!(file.metadata().expect("the file").ino(), inode);
    let mut bytes = vec![0; 1 << 20];
    file.read_exact_at(&mut bytes, 0).expect("its bytes");
    let mut expected = content;
    expected[64 << 10..128 << 10].fill(0x42);
    assert!(bytes == expected, "bytes outside the range were changed, or the range was not written");
}
