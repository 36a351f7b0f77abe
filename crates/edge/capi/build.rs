//! Gives the shared library its name for the dynamic linker: the interface's version, which is the
//! first number of the release.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libgigae.so.{major}");
}
