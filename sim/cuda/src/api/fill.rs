//! Setting memory to a value: bytes, halves and words, in one or two dimensions.

use crate::abi::{Code, DevicePtr, Handle, INVALID_VALUE};
use crate::api::copy::on_stream;
use crate::process::act;

/// A fill as the caller named it; `pitch` is in bytes, `width` in values.
struct Fill<const N: usize> {
    to: DevicePtr,
    value: [u8; N],
    width: usize,
    pitch: usize,
    height: usize,
}

impl<const N: usize> Fill<N> {
    /// Bytes from the first to the last touched; an address or pitch off the value's size is refused.
    fn reach(&self) -> Result<usize, Code> {
        let row = self.width.checked_mul(N).ok_or(INVALID_VALUE)?;
        if self.height > 1 && (self.pitch < row || self.pitch % N != 0) || self.to % N as u64 != 0 {
            return Err(INVALID_VALUE);
        }
        self.pitch.checked_mul(self.height - 1).and_then(|rows| rows.checked_add(row)).ok_or(INVALID_VALUE)
    }

    /// Runs the fill at once, or in a stream. Like the driver, a synchronous one has happened for the host when it
    /// returns, which is more than the driver promises.
    fn run(self, name: &str, stream: Option<Handle>) -> Code {
        act(name, |process, line| {
            line.put_address("dst", self.to);
            line.put("width", self.width);
            line.put("pitch", self.pitch);
            line.put("height", self.height);
            let context = process.current()?;
            context.shared().check()?;
            let stream = stream.map(|handle| context.stream(handle)).transpose()?;
            if self.width == 0 || self.height == 0 {
                return Ok(());
            }
            let place = process.ranges().resolve(self.to, self.reach()? as u64)?;
            if place.range.is_none() {
                return Err(INVALID_VALUE);
            }
            let work = move || place.fill(&self.value, self.width, self.pitch, self.height);
            match stream {
                Some(stream) => on_stream(process, &stream, context.barrier(&stream), work),
                None => {
                    context.settle();
                    work();
                    context.shared().check()
                }
            }
        })
    }
}

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
