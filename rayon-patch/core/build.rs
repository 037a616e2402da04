//! Nothing to do: a crate that `links` has to have this file.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
}
