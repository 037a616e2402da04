//! Says which host the target has, and which parts of a platform: `src/platform/mod.rs` has the
//! list.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(threads, unwinds, watches)");
    let of_target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    let (system, processor) = (of_target("OS"), of_target("ARCH"));
    // Other tools than GNU's have other unwinders and other probes of frames.
    let of_gnu = of_target("ENV") == "gnu" && of_target("ABI") != "llvm";
    let asked_for_threads = std::env::var_os("CARGO_FEATURE_THREADS").is_some();
    let has: &[&str] = match (&*system, &*processor) {
        _ if asked_for_threads => &["threads"],
        ("linux", "x86_64" | "aarch64") => &["unwinds", "watches"],
        ("linux", "riscv64") | ("macos" | "freebsd", "x86_64" | "aarch64") => &[],
        ("windows", "x86_64") if of_gnu => &[],
        _ => &["threads"],
    };
    for part in has {
        println!("cargo::rustc-cfg={part}");
    }
}
