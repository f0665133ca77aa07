//! Sets `cfg(loom)` for this package alone. By `RUSTFLAGS` it would reach its dependencies too.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rustc-cfg=loom");
    println!("cargo::rerun-if-changed=build.rs");
}
