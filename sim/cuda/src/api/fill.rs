//! Setting memory to a value: bytes, halves and words, in one or two dimensions.

use sim_gpu::abi::{Code, DevicePtr, Handle};
use sim_gpu::fill::Fill;

macro_rules! fills {
    ($($value:ty: $flat:ident $flat_async:ident $pitched:ident $pitched_async:ident;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $flat(to: DevicePtr, value: $value, width: usize) -> Code {
            Fill { to, value: value.to_ne_bytes(), width, pitch: 0, height: 1 }.run(stringify!($flat), None)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $flat_async(to: DevicePtr, value: $value, width: usize, stream: Handle) -> Code {
            Fill { to, value: value.to_ne_bytes(), width, pitch: 0, height: 1 }
                .run(stringify!($flat_async), Some(stream))
        }

        #[unsafe(no_mangle)]
        extern "C" fn $pitched(to: DevicePtr, pitch: usize, value: $value, width: usize, height: usize) -> Code {
            Fill { to, value: value.to_ne_bytes(), width, pitch, height }.run(stringify!($pitched), None)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $pitched_async(
            to: DevicePtr,
            pitch: usize,
            value: $value,
            width: usize,
            height: usize,
            stream: Handle,
        ) -> Code {
            Fill { to, value: value.to_ne_bytes(), width, pitch, height }.run(stringify!($pitched_async), Some(stream))
        }
    )*};
}

fills! {
    u8: cuMemsetD8_v2 cuMemsetD8Async cuMemsetD2D8_v2 cuMemsetD2D8Async;
    u16: cuMemsetD16_v2 cuMemsetD16Async cuMemsetD2D16_v2 cuMemsetD2D16Async;
    u32: cuMemsetD32_v2 cuMemsetD32Async cuMemsetD2D32_v2 cuMemsetD2D32Async;
}
