//! Gives the library the name that its users look for, and keeps it loaded once loaded: its threads outlive a dlclose.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libhipfile.so.0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
