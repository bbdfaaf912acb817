//! As for version 7; the source is the same without what that one added.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cfg=rocm6");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libamdhip64.so.6");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
