//! Refuses a build with a sanitizer: its runtime defines the same names of the C library, and would
//! not see what goes past them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if flags.contains("sanitizer=") || std::env::var_os("CARGO_CFG_SANITIZE").is_some() {
        println!(
            "cargo::error=segue-unblock can't be built with a sanitizer, which defines the same functions of the C \
             library: leave it out of this build"
        );
    }
}
