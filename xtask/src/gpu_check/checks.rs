//! What is checked: small verified jobs, and a few seconds of plain reads for their figures.

/// How a job is to end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Good,
    /// Well, and with a file that has no block twice.
    Distinct,
    /// Well or refused: either is an answer.
    Either,
}

pub(super) struct Check {
    pub name: &'static str,
    pub job: &'static str,
    pub expected: Expected,
}

impl Check {
    /// libcufile's stream call launches a kernel, which the simulated driver has not.
    pub fn runs_simulated(&self) -> bool {
        !self.job.contains("gpu_mode=stream")
    }
}

const fn good(name: &'static str, job: &'static str) -> Check {
    Check { name, job, expected: Expected::Good }
}

pub(super) fn all() -> impl Iterator<Item = Check> {
    [
        good("verify sync 4k", "size=4m\nbs=4k\nrw=randwrite\nverify=crc32c\n"),
        good("verify sync 1m", "size=64m\nbs=1m\nrw=write\nverify=md5\n"),
        good("verify sync, mixed blocks", "size=16m\nbssplit=4k/50:64k/30:1m/20\nrw=randwrite\nverify=crc32c\n"),
        good("verify sync, unaligned", "size=1m\nbs=1536\nbs_unaligned=1\ndirect=0\nrw=randwrite\nverify=crc32c\n"),
        good("verify batch 4k x32", "size=16m\nbs=4k\nrw=randwrite\nverify=crc32c\niodepth=32\ngpu_mode=batch\n"),
        good("verify batch, mixed blocks x128", "size=64m\nbssplit=4k/50:64k/30:1m/20\nrw=randwrite\nverify=crc32c\niodepth=128\n"),
        good("verify stream x16", "size=16m\nbssplit=4k/60:64k/40\nrw=randwrite\nverify=crc32c\niodepth=16\ngpu_mode=stream\n"),
        good("verify pool x16", "size=16m\nbssplit=4k/60:64k/40\nrw=randwrite\nverify=crc32c\niodepth=16\ngpu_mode=pool\n"),
        good("verify posix", "size=16m\nbssplit=4k/60:64k/40\nrw=randwrite\nverify=crc32c\ngpu_io=posix\n"),
        good("verify io_uring x16", "size=16m\nbssplit=4k/60:64k/40\nrw=randwrite\nverify=crc32c\niodepth=16\ngpu_io=uring\n"),
        good("verify managed memory", "size=4m\nbs=16k\nrw=randwrite\nverify=crc32c\ngpu_mem=managed\n"),
        good("verify pinned memory x16", "size=4m\nbs=16k\nrw=randwrite\nverify=crc32c\niodepth=16\ngpu_mem=pinned\n"),
        good("verify unregistered", "size=4m\nbs=16k\nrw=randwrite\nverify=crc32c\ngpu_register=0\n"),
        good("verify 4 threads", "size=4m\nbs=16k\nrw=randwrite\nverify=crc32c\nnumjobs=4\nthread=1\niodepth=8\n"),
        good("verify 4 processes", "size=4m\nbs=16k\nrw=randwrite\nverify=crc32c\nnumjobs=4\niodepth=8\n"),
        Check {
            name: "plain writes never repeat a block",
            job: "size=64m\nbs=4k\nrw=randwrite\niodepth=32\n",
            expected: Expected::Distinct,
        },
        Check { name: "direct path", job: "size=4m\nbs=64k\nrw=write\ngpu_require_direct=1\n", expected: Expected::Either },
        good("randread sync 4k", "size=256m\nbs=4k\nrw=randread\ntime_based=1\nruntime=2\n"),
        good("randread batch 4k x32", "size=256m\nbs=4k\nrw=randread\niodepth=32\ntime_based=1\nruntime=2\n"),
        good("randread stream 4k x32", "size=256m\nbs=4k\nrw=randread\niodepth=32\ngpu_mode=stream\ntime_based=1\nruntime=2\n"),
        good("randread io_uring 4k x32", "size=256m\nbs=4k\nrw=randread\niodepth=32\ngpu_io=uring\ntime_based=1\nruntime=2\n"),
        good("read batch 1m x16", "size=256m\nbs=1m\nrw=read\niodepth=16\ntime_based=1\nruntime=2\n"),
        good("read, no GPU, 1m", "size=256m\nbs=1m\nrw=read\ngpu_backend=host\ntime_based=1\nruntime=2\n"),
    ]
    .into_iter()
}
