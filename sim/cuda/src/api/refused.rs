//! Functions that libcufile looks up and will not load without, and that a simulation cannot do: each returns 801.

use sim_gpu::abi::{Code, NOT_SUPPORTED};

macro_rules! refused {
    ($($name:ident)*) => {$(
        /// Takes whatever the real function takes and looks at none of it.
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> Code {
            NOT_SUPPORTED
        }
    )*};
}

refused! {
    cuIpcGetEventHandle cuIpcOpenEventHandle cuIpcGetMemHandle cuIpcOpenMemHandle_v2 cuIpcCloseMemHandle
    cuStreamWaitValue32 cuStreamWaitValue32_v2 cuStreamWriteValue32 cuStreamWriteValue32_v2
    cuMemGetHandleForAddressRange
}
