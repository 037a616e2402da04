# Rayon on Segue's workers: `rayon-patch`, and rayon's own tests on it. Sourced by `run`.

# What of rayon's and rayon-core's tests is left out, and why.
#
# | test | why |
# | --- | --- |
# | workers_stop, sleeper_stop | they look into rayon-core's registry; `pools_end` in `rayon-patch/core/tests` has the same by the exit handlers |
# | linear_stack_growth | it measures that jobs run on one stack on top of each other; here each has its own |
# | nested_*, mixed_* orders | the order among several scopes, some of whose fibers wait, is the scheduler's |
# | stack_overflow_crash (not taken) | it looks for the signal and message of std; `segue-fiber/tests/overflow.rs` has ours |
RAYON_SKIPPED="linear_stack_growth nested_lifo nested_fifo mixed_lifo mixed_fifo lifo_fifo_order fifo_lifo_order"

# The programs beside it, its own tests, and those of rayon and rayon-core as they are in the
# registry.
rayon() {
    local from to=$target/rayon skipped=()
    cargo test --manifest-path rayon-patch/Cargo.toml --workspace --target-dir "$to"
    cargo metadata --format-version 1 --manifest-path rayon-patch/Cargo.toml >"$to/metadata"
    # rayon-core's: each file of tests of its modules becomes a test of ours.
    from=$(rayon_core_sources "$to")
    rm -rf "$to/core-tests" && mkdir -p "$to/core-tests/tests" "$to/core-tests/src"
    echo "//! Of rayon-core." >"$to/core-tests/src/lib.rs"
    cat >"$to/core-tests/Cargo.toml" <<END
[package]
name = "core-tests"
edition = "2021"
[workspace]
[dependencies]
rayon-core = { path = "$PWD/rayon-patch/core" }
[dev-dependencies]
crossbeam-utils = "0.8"
libc = "0.2"
rand = "0.9"
rand_xorshift = "0.4"
scoped-tls = "1.0"
END
    cp "$from"/tests/{double_init_fail,init_zero_threads,scope_join,scoped_threadpool,simple_panic,use_current_thread}.rs \
        "$to/core-tests/tests/"
    for module in broadcast join scope spawn thread_pool; do
        port_rayon_tests "$from/src/$module/test.rs" >"$to/core-tests/tests/$module.rs"
    done
    for test in $RAYON_SKIPPED; do skipped+=(--skip "$test"); done
    RUSTFLAGS=--cap-lints=allow cargo test --manifest-path "$to/core-tests/Cargo.toml" --target-dir "$to" \
        --no-fail-fast -- "${skipped[@]}"
    # Rayon's own, which know nothing of what is below.
    from=$(jq -r '.packages[] | select(.name == "rayon").manifest_path' "$to/metadata")
    rm -rf "$to/rayon-tests" && cp -r "$(dirname "$from")" "$to/rayon-tests"
    chmod -R u+w "$to/rayon-tests" && rm -f "$to/rayon-tests/Cargo.lock"
    printf '\n[workspace]\n[patch.crates-io]\nrayon-core = { path = "%s/rayon-patch/core" }\n' "$PWD" >>"$to/rayon-tests/Cargo.toml"
    RUSTFLAGS=--cap-lints=allow CARGO_PROFILE_DEV_DEBUG=0 cargo test --manifest-path "$to/rayon-tests/Cargo.toml" \
        --target-dir "$to" --no-fail-fast --lib --tests
}

# Where the registry has the real rayon-core: asked for under another name, since it is patched.
rayon_core_sources() {
    rm -rf "$1/fetch" && mkdir -p "$1/fetch/src" && touch "$1/fetch/src/lib.rs"
    printf '[package]\nname = "fetch"\n[workspace]\n[dependencies]\nrayon-core = "=1.13.0"\n' >"$1/fetch/Cargo.toml"
    dirname "$(cargo metadata --format-version 1 --manifest-path "$1/fetch/Cargo.toml" |
        jq -r '.packages[] | select(.name == "rayon-core").manifest_path')"
}

# A file of tests of a module of rayon-core's, as a test of a crate that uses it: what it calls of the
# crate's insides is written beside it, and two tests that look into them are left out.
port_rayon_tests() {
    cat <<'END'
#[allow(unused)]
mod inside {
    pub use rayon_core::*;
    pub mod unwind {
        pub fn halt_unwinding<R>(f: impl FnOnce() -> R) -> std::thread::Result<R> {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(f))
        }
    }
    pub mod registry {
        pub fn in_worker<R: Send>(op: impl FnOnce(&(), bool) -> R + Send) -> R {
            rayon_core::scope(|_| op(&(), false))
        }
    }
}
END
    # The modules' own heads would stand too late here.
    awk '/^#!\[cfg\(test\)\]/ || /^\/\/!/ { next }
        # Attributes wait for their function.
        /^#\[/ { held = held $0 "\n"; next }
        /^fn (workers_stop|sleeper_stop)\(/ { held = ""; skip = 1 }
        !skip { printf "%s", held; held = ""; print }
        skip && /^}/ { skip = 0 }' "$1" | sed "s/^use super::/use crate::/; s/\bcrate::/crate::inside::/g"
}
