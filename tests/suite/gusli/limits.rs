//! What the library has only so much of: requests in flight, ranges of memory, room for a configuration.

use super::on_the_real_library;

on_the_real_library![
    a_depth_beyond_the_devices_limit_is_said_and_kept_to_it,
    jobs_that_exceed_a_devices_limit_together_are_not_failed,
    twenty_four_jobs_share_one_range_of_memory,
    a_configuration_that_is_too_long_is_refused,
    forked_jobs_have_a_configuration_each,
    devices_without_anything_behind_them_are_used_one_at_a_time,
];

mod run {
    use super::super::{Gusli, MIB};

    pub fn a_depth_beyond_the_devices_limit_is_said_and_kept_to_it(gusli: &Gusli) {
        for manner in ["", "gpu_wait=block\n", "gusli_sgl=1\niodepth_batch_submit=8\n"] {
            let text =
                format!("thread=1\nfilename=f\nsize=1m\nrw=randrw\nbs=4k\niodepth=32\nverify=crc32c\ngusli_max_inflight=4\n{manner}[a]\n");
            let report = gusli.job(&text).run();
            report.ok().says("f takes 4 requests at a time: iodepth=32 acts as 4 there");
        }
        // What the library has itself for a device that never answers is 4, too.
        let text = "filename=b\ngusli_device=b:x:/none\nsize=64k\nbs=4k\nrw=read\niodepth=8\ncontinue_on_error=all\n[a]\n";
        let report = gusli.job(text).run();
        report.assert(report.lines()[0] == "/none takes 4 requests at a time: iodepth=8 acts as 4 there", "the limit is not said");
    }

    pub fn jobs_that_exceed_a_devices_limit_together_are_not_failed(gusli: &Gusli) {
        for manner in ["", "gpu_wait=block\n", "gusli_sgl=1\niodepth_batch_submit=4\n"] {
            let text = format!(
                "thread=1\nnumjobs=4\nfilename=f\nsize=4m\noffset_increment=1m\nio_size=1m\nrw=randwrite\nbs=4k\niodepth=4\nverify=crc32c\n\
                 gusli_max_inflight=4\n{manner}[a]\nsize=1m\n"
            );
            gusli.job(&text).run().ok().says_nothing().counts("read", "io_bytes", 4 * MIB);
        }
    }

    pub fn twenty_four_jobs_share_one_range_of_memory(gusli: &Gusli) {
        let text = "thread=1\nnumjobs=24\nfilename=f\nsize=6m\noffset_increment=256k\nrw=randwrite\nbssplit=4k/50:64k/50\niodepth=8\nverify=crc32c\n\
                    [a]\nsize=256k\n";
        gusli.job(text).run().ok().says_nothing().counts("read", "io_bytes", 6 * MIB);
    }

    pub fn a_configuration_that_is_too_long_is_refused(gusli: &Gusli) {
        let text = "nrfiles=40\nsize=4m\nrw=write\nbs=4k\nfilename_format=a-longer-name-for-a-file.$jobnum.$filenum\n[a]\n";
        let report = gusli.job(text).run();
        report.refused().says_one_with(&["40 devices need a configuration of ", "the library reads 1023 at most", "thread=0"]);
    }

    pub fn forked_jobs_have_a_configuration_each(gusli: &Gusli) {
        let text = "numjobs=40\nsize=64k\nrw=write\nbs=4k\nverify=crc32c\nfilename_format=a-longer-name-for-a-file.$jobnum\n[a]\n";
        let report = gusli.job(&format!("thread=1\n{text}")).run();
        report.assert(report.code() == Some(40), "not all jobs have failed");
        gusli.job(&format!("thread=0\n{text}")).run().ok().says_nothing().counts("read", "io_bytes", 40 << 16);
    }

    pub fn devices_without_anything_behind_them_are_used_one_at_a_time(gusli: &Gusli) {
        let text = "thread=1\ngusli_device=b:x:/none,s:s:/none\nsize=64k\nrw=read\n[a]\nfilename=b\n[b]\nfilename=s\n";
        let report = gusli.job(text).run();
        report.assert(report.code() == Some(2), "not both jobs have failed");
        report.assert(
            report.lines().iter().all(|line| line.contains("cannot tell two devices of the types x and s apart")),
            "the reason is not said",
        );
    }
}
