//! Says which parts of the system the crate uses: those of Linux alone, or those that all Unix
//! systems have.
//!
//! `linux` stands for io_uring, epoll, eventfd, and calls on files that must not wait; `pidfds` for
//! descriptors of processes. With the environment's variable `SEGUE_PORTABLE` a build goes without,
//! on Linux too: for tests, which ask for the feature `polling`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SEGUE_PORTABLE");
    println!("cargo::rustc-check-cfg=cfg(linux, pidfds)");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let is_portable = std::env::var_os("SEGUE_PORTABLE").is_some();
    let has: &[&str] = match &*system {
        _ if is_portable => &[],
        "linux" => &["linux", "pidfds"],
        "android" => &["linux"],
        _ => &[],
    };
    for part in has {
        println!("cargo::rustc-cfg={part}");
    }
}
