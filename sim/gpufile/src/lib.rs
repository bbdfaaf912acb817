//! The simulated libcufile and libhipfile, but for their names and the few rules in which they differ (see `vendor`). Tests only.
//!
//! Bytes move between the file and device memory through the process's own GPU runtime, by way of a bounce buffer and a
//! stream of the library's own: like the real libraries it does not wait for the caller's streams. hipFile moves what
//! it can by amdgpu's file call instead.
//!
//! Where the real ones are lenient and the caller wrong, these are strict: a driver that was not opened is not opened
//! by the way (5001), and a base that is neither registered nor the start of an allocation is refused (5024).
//!
//! Environment, read once a process. «Transfer» is one read or write of any kind, counted from 1 in the order of
//! submission; `N[!][:CODE]` fails from the N-th on, with `!` the N-th only, with CODE instead of the usual code.
//!
//! | `GPUIO_SIM_CUFILE_…`, `GPUIO_SIM_HIPFILE_…` | default | meaning |
//! |---|---|---|
//! | `VERSION` | 1200 | what `cuFileGetVersion` answers; hipFile has no such knob |
//! | `INSTANT` | 0 | 1: transfers succeed at once, nothing is checked and no byte moves |
//! | `DELAY_US` | none | how long transfers take, a list used in turn (`1000,1000,10000`); they overlap |
//! | `FAIL_IO` | never | transfer that fails: a positive code is an errno (with -1; usual EIO), a negative one is returned as it is (`3!:-5030`) |
//! | `SHORT_EVERY`, `SHORT_BYTES` | never, 4096 | every n-th transfer moves at most so many bytes, and at most half, but one |
//! | `STUCK` | never | transfer that never ends |
//! | `ALIGN` | 1 | a size or offset that is no multiple of this fails with EINVAL |
//! | `FAIL_OPEN` `FAIL_HANDLE` `FAIL_BUF` `FAIL_SETUP` `FAIL_SUBMIT` `FAIL_STATUS` `FAIL_ASYNC` `FAIL_STREAM` | never | the call of that name that fails with CODE (usual 5030) |
//! | `DRIVER_CODE` | 0 | the driver's code that stands beside a 5011 of those knobs |
//! | `BAR` | none | device bytes that can be registered at a time; more fails with 5036 |
//! | `COMPAT` | 0 | 1: the properties name no kind of storage with a direct path, as the real library does without one; else NVMe |
//! | `BATCH_MAX` | 128 | most entries of a batch that works |
//! | `BATCH_LIMIT` | `BATCH_MAX` | most entries that `cuFileBatchIOSetUp` accepts; with more than `BATCH_MAX` every entry fails |
//! | `BATCH_FAIL` | none | list of entries, counted from 1 over all batches, that fail |
//! | `BATCH_FAIL_CODE` | EIO | how: as in `FAIL_IO` |
//! | `BATCH_LOSES` | 0 | 1: as the real library in compatibility mode: a failed entry makes `GetStatus` fail (5044) and all other entries of the batch are forgotten |
//! | `POOLED` | 0 | an entry of which a size or an offset is no multiple of this is for the library's threads, and as with the real library for CUDA 13 its event is only told while the batch's latest submission had such an entry |
//! | `SLABS` | none | bounce buffers of each size (4 KiB, 1 MiB, 16 MiB): an entry holds one until its event is fetched; `cuFileBatchIOSubmit` blocks while there is none, for ever if it must |
//! | `ASYNC_MAX` | none | stream operations in flight; those beyond end with -5 |
//! | `BATCH_WORKS` | 1; hipFile 0 | 0: a batch is accepted and never done, and asking for it fails with 5030 |
//! | `NO_FAST_PATH` | none | errno with which hipFile's direct path refuses every transfer; of ENODEV and EREMOTEIO it falls back by itself |
//! | `THREADS` | 4 | threads that serve batches |

pub mod api;
pub mod batch;
mod exports;
#[doc(hidden)]
pub mod instant;
mod knobs;
mod library;
mod scheduler;
pub mod slabs;
pub mod stream;
mod transfer;
pub mod vendor;

pub use library::{call, enter, status};
