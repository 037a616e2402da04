# Rayon on Segue's workers: `rayon-patch`, and rayon's own tests on it. Sourced by `run`.

# What of rayon's and rayon-core's tests is left out, and why.
#
# | test | why |
# | --- | --- |
# | workers_stop, sleeper_stop | they look into rayon-core's registry; `pools_end` in `rayon-patch/core/tests` has the same by the exit handlers |
# | linear_stack_growth | it measures that jobs run on one stack on top of each other; here each has its own |
# | nested_*, mixed_* orders | the order among several scopes, some of whose fibers wait, is the scheduler's |
# | find_last_octillion_flat, find_last_octillion_inclusive | as find_last_octillion, which is run: rayon looks at 2^26 elements one by one, 5 s each |
# | stack_overflow_crash (not taken) | it looks for the signal and message of std; `segue-fiber/tests/overflow.rs` has ours |
RAYON_SKIPPED="find_last_octillion_ linear_stack_growth nested_lifo nested_fifo mixed_lifo mixed_fifo lifo_fifo_order fifo_lifo_order"

# The programs beside it, its own tests, and those of rayon and rayon-core as they are in the
# registry: all of them in one workspace, a copy of `rayon-patch`, so that everything is built once,
# and most of rayon's in one program. To optimise takes longer than it saves.
rayon() {
    local all=$target/rayon/all core rayon test skipped=()
    rm -rf "$all" && mkdir -p "$all/core-tests/src" "$all/core-tests/tests" "$all/rayon-tests/src" "$all/rayon-tests/tests"
    cp -r rayon-patch/{Cargo.toml,Cargo.lock,src,tests,core} "$all/"
    sed -i "s|path = \"[./]*/crates/|path = \"$PWD/crates/|" "$all/Cargo.toml" "$all/core/Cargo.toml"
    core=$(rayon_core_sources)
    rayon=$(source_of rayon rayon-patch/Cargo.toml)
    # Rayon itself, with the tests in it; it stands in for the published one, whose sources it has.
    cp -r "$rayon" "$all/rayon" && chmod -R u+w "$all/rayon" && rm -rf "$all/rayon/Cargo.lock" "$all/rayon/tests"
    sed -i '/^\[\[test\]\]/,/^$/d' "$all/rayon/Cargo.toml"
    sed -i 's|^members = .*|members = ["core", "core-tests", "rayon", "rayon-tests"]|
        s|^rayon-core = .*|&\nrayon = { path = "rayon" }|' "$all/Cargo.toml"
    printf '\n[profile.dev]\ndebug = 0\n' >>"$all/Cargo.toml"
    # Its other tests, in one program, but for those that make the one global pool.
    echo "//! Rayon's tests." | tee "$all/rayon-tests/src/lib.rs" >"$all/rayon-tests/tests/all.rs"
    test_crate rayon-tests 'rayon = "1.12"' 'rand = "0.9"' 'rand_xorshift = "0.4"' >"$all/rayon-tests/Cargo.toml"
    for test in "$rayon"/tests/*.rs; do
        if grep -q build_global "$test"; then
            cp "$test" "$all/rayon-tests/tests/"
        else
            printf '#[path = "%s"]\nmod %s;\n' "$test" "$(basename "$test" .rs | tr - _)" >>"$all/rayon-tests/tests/all.rs"
        fi
    done
    # rayon-core's: each file of tests of its modules becomes a test of ours.
    echo "//! Of rayon-core." >"$all/core-tests/src/lib.rs"
    test_crate core-tests 'rayon-core = "1.13"' 'crossbeam-utils = "0.8"' 'libc = "0.2"' 'rand = "0.9"' \
        'rand_xorshift = "0.4"' 'scoped-tls = "1.0"' >"$all/core-tests/Cargo.toml"
    cp "$core"/tests/{double_init_fail,init_zero_threads,scope_join,scoped_threadpool,simple_panic,use_current_thread}.rs \
        "$all/core-tests/tests/"
    for test in broadcast join scope spawn thread_pool; do
        port_rayon_tests "$core/src/$test/test.rs" >"$all/core-tests/tests/$test.rs"
    done
    for test in $RAYON_SKIPPED; do skipped+=(--skip "$test"); done
    test="cargo test --manifest-path $all/Cargo.toml --target-dir $target/rayon --no-fail-fast"
    export RUSTFLAGS=--cap-lints=allow
    $test --workspace --lib --bins --tests -- "${skipped[@]}"
    $test -p rayon-core --doc
    unset RUSTFLAGS
}

# The manifest of a package of tests with these dependencies.
test_crate() {
    printf '[package]\nname = "%s"\nedition = "2021"\n[dependencies]\n' "$1"
    printf '%s\n' "${@:2}"
}

# Where the registry has the sources of a package that a manifest depends on.
source_of() {
    dirname "$(cargo metadata --format-version 1 --manifest-path "$2" |
        jq -r ".packages[] | select(.name == \"$1\").manifest_path")"
}

# Where the registry has the real rayon-core: asked for from elsewhere, since it is patched.
rayon_core_sources() {
    local fetch=$target/rayon/fetch
    rm -rf "$fetch" && mkdir -p "$fetch/src" && touch "$fetch/src/lib.rs"
    printf '[package]\nname = "fetch"\n[workspace]\n[dependencies]\nrayon-core = "=1.13.0"\n' >"$fetch/Cargo.toml"
    source_of rayon-core "$fetch/Cargo.toml"
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
