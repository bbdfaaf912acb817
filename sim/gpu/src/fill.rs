//! Setting memory to a value of any size, in one or two dimensions.

use crate::abi::{Code, DevicePtr, Handle, INVALID_VALUE};
use crate::copy::on_stream;
use crate::process::act;

/// A fill as the caller named it; `pitch` is in bytes, `width` in values.
pub struct Fill<const N: usize> {
    pub to: DevicePtr,
    pub value: [u8; N],
    pub width: usize,
    pub pitch: usize,
    pub height: usize,
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
    pub fn run(self, name: &str, stream: Option<Handle>) -> Code {
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
                Some(stream) => on_stream(process, &stream, context.barrier(&stream), false, work),
                None => {
                    context.settle();
                    work();
                    context.shared().check()
                }
            }
        })
    }
}
