//! The C functions, by the names that a library gives them.

/// Exports every function that the libraries have alike, under names of a vendor.
#[macro_export]
macro_rules! exports {
    ($vendor:path, $($role:ident: $name:ident),* $(,)?) => { $($crate::export!($vendor, $role $name);)* };
}

/// One function of [`exports!`].
#[doc(hidden)]
#[macro_export]
macro_rules! export {
    ($v:path, driver_open $n:ident) => { $crate::export!(@ $v, api::driver_open $n() -> $crate::export!(@status)); };
    ($v:path, driver_close $n:ident) => { $crate::export!(@ $v, api::driver_close $n() -> $crate::export!(@status)); };
    ($v:path, use_count $n:ident) => { $crate::export!(@ $v, api::use_count $n() -> i64); };
    ($v:path, properties $n:ident) => {
        $crate::export!(@ $v, api::properties $n(to: *mut sim_common::cufile::Properties) -> $crate::export!(@status));
    };
    ($v:path, handle_register $n:ident) => {
        $crate::export!(
            @ $v, api::handle_register $n(to: *mut usize, file: *const sim_common::cufile::Descriptor) -> $crate::export!(@status)
        );
    };
    ($v:path, handle_deregister $n:ident) => { $crate::export!(@ $v, api::handle_deregister $n(handle: usize) -> ()); };
    ($v:path, buf_register $n:ident) => {
        $crate::export!(@ $v, api::buf_register $n(base: *const c_void, size: usize, flags: c_int) -> $crate::export!(@status));
    };
    ($v:path, buf_deregister $n:ident) => {
        $crate::export!(@ $v, api::buf_deregister $n(base: *const c_void) -> $crate::export!(@status));
    };
    ($v:path, read $n:ident) => {
        $crate::export!(@blocking $v, read $n(file: usize, base: *mut c_void, size: usize, from: i64, to: i64));
    };
    ($v:path, write $n:ident) => {
        $crate::export!(@blocking $v, write $n(file: usize, base: *const c_void, size: usize, to: i64, from: i64));
    };
    ($v:path, stream_register $n:ident) => {
        $crate::export!(@ $v, api::stream_register $n(stream: usize, flags: u32) -> $crate::export!(@status));
    };
    ($v:path, stream_deregister $n:ident) => {
        $crate::export!(@ $v, api::stream_deregister $n(stream: usize) -> $crate::export!(@status));
    };
    ($v:path, read_async $n:ident) => { $crate::export!(@async $v, stream::read_async $n); };
    ($v:path, write_async $n:ident) => { $crate::export!(@async $v, stream::write_async $n); };
    ($v:path, batch_set_up $n:ident) => {
        $crate::export!(@ $v, batch::batch_set_up $n(to: *mut usize, room: u32) -> $crate::export!(@status));
    };
    ($v:path, batch_submit $n:ident) => {
        $crate::export!(
            @ $v, batch::batch_submit $n(batch: usize, count: u32, entries: *mut sim_common::cufile::Entry, flags: u32)
                -> $crate::export!(@status)
        );
    };
    ($v:path, batch_status $n:ident) => {
        $crate::export!(
            @ $v, batch::batch_status $n(
                batch: usize, least: u32, count: *mut u32, events: *mut sim_common::cufile::Event, wait: *const libc::timespec
            ) -> $crate::export!(@status)
        );
    };
    ($v:path, batch_cancel $n:ident) => { $crate::export!(@ $v, batch::batch_cancel $n(batch: usize) -> $crate::export!(@status)); };
    ($v:path, batch_destroy $n:ident) => { $crate::export!(@ $v, batch::batch_destroy $n(batch: usize) -> ()); };
    ($v:path, set_poll_mode $n:ident) => { $crate::export!(@set $v, $n(_poll: bool, _size: usize)); };
    ($v:path, set_max_direct_size $n:ident) => { $crate::export!(@set $v, $n(_size: usize)); };
    ($v:path, set_max_cache_size $n:ident) => { $crate::export!(@set $v, $n(_size: usize)); };
    ($v:path, set_max_pinned_size $n:ident) => { $crate::export!(@set $v, $n(_size: usize)); };
    (@blocking $v:path, $call:ident $n:ident($file:ident: usize, $base:ident: $memory:ty, $size:ident: usize, $a:ident: i64, $b:ident: i64)) => {
        #[unsafe(no_mangle)]
        extern "C" fn $n($file: usize, $base: $memory, $size: usize, $a: i64, $b: i64) -> isize {
            #[inline(never)]
            fn call($file: usize, $base: $memory, $size: usize, $a: i64, $b: i64) -> isize {
                $crate::enter(&$v);
                $crate::api::$call($file, $base, $size, $a, $b)
            }
            // Asked before anything else: a benchmark on it is to see its engine alone.
            if $crate::instant::is_on() { $size as isize } else { call($file, $base, $size, $a, $b) }
        }
    };
    (@status) => { sim_common::cufile::Status };
    (@async $v:path, $module:ident::$call:ident $n:ident) => {
        $crate::export!(
            @ $v, $module::$call $n(
                file: usize, base: *mut c_void, size: *const usize, at: *const i64, offset: *const i64, done: *mut isize, stream: usize
            ) -> $crate::export!(@status)
        );
    };
    (@set $v:path, $n:ident($($argument:ident: $type:ty),*)) => {
        #[unsafe(no_mangle)]
        extern "C" fn $n($($argument: $type),*) -> $crate::export!(@status) {
            $crate::enter(&$v);
            $crate::api::set(stringify!($n).trim_start_matches($v.prefix))
        }
    };
    (@ $v:path, $module:ident::$call:ident $n:ident($($argument:ident: $type:ty),*) -> $result:ty) => {
        /// # Safety
        /// As the vendor's header has it: pointers are null, or valid for what the function is told to read or write there.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $n($($argument: $type),*) -> $result {
            $crate::enter(&$v);
            #[allow(unused_unsafe, reason = "not every function follows a pointer")]
            // SAFETY: this function's own contract.
            unsafe {
                $crate::$module::$call($($argument),*)
            }
        }
    };
}
