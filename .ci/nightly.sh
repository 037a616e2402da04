# The steps that need nightly Rust. Sourced by `run`.

# Whether nightly Rust with these components can be had. Where it can't, the step is not checked.
nightly() {
    local component installed missing=()
    installed=$(rustup +nightly component list --installed 2>/dev/null || true)
    for component in "$@"; do
        grep -q "^$component" <<<"$installed" || missing+=(-c "$component")
    done
    [ ${#missing[@]} = 0 ] && [ -n "$installed" ] && return
    timeout 300 rustup toolchain install nightly --profile minimal "${missing[@]}" >/dev/null 2>&1 && return
    not_checked "nightly Rust${*:+ with $*} can't be installed here"
    return 1
}

# Runs tests by the parts of their names that follow `--`, each of which has to be in some name. What is
# left out comes last.
filtered() {
    local command=() part listed
    while [ "$1" != -- ]; do command+=("$1") && shift; done
    shift
    listed=$("${command[@]}" -- --list | sed -n 's/: test$//p')
    for part; do
        [[ $part != --* ]] || break
        grep -qF -e "$part" <<<"$listed" || { echo "error: no test has a name with $part" && return 1; }
    done
    "${command[@]}" -- "$@"
}

# The core's behaviour tests, interpreted: aliasing, lifetimes, races. The longest suites are left
# out; they passed by hand. Miri has one processor for all threads of a program: two programs at
# once take about the same time.
miri() {
    nightly miri rust-src || return 0
    if filtered printf "waits::one: test\n" -- waits:: gone:: >/dev/null; then
        echo "error: a planted fault was not found: a part of no name" && return 1
    fi
    # Miri is itself what runs the programs.
    local watch=${!runner}
    unset "$runner"
    at_once miri_choices miri_others
    export "$runner=$watch"
}

# Runs Miri with more flags, and with what follows for Cargo.
interpret() {
    MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks $1" CARGO_TARGET_DIR="$target/miri" \
        cargo +nightly miri test "${@:2}"
}

miri_choices() {
    filtered interpret "" -p segue-core --test waits -- \
        choices:: chained_wakers:: combinators:: cancellation:: tokens:: merges:: nacks::
}

miri_others() {
    filtered interpret "" -p segue-core --test waits --test spawn -- \
        futures:: hostile lying_operations:: wait_queue:: future_sources:: handles:: fiber_locals::
    # Of `effects`: here equal constants lie at several places.
    filtered interpret "" -p segue-fiber --features threads --test handlers -- \
        generators:: incremental:: multi:: effects_ended:: of_two_clauses
    # Of transactions, those without fibers.
    filtered interpret "" -p segue-stm --test memory -- drops::a_ values::a_value values::what values::the_last
    filtered interpret "" -p segue-stm --test transactions -- nested::a_ profiles:: written_twice
    interpret "-Zmiri-many-seeds=0..4" -p segue-sched --features threads --test miri -- miri_hosts::
    # An address is used again as often as can be: so a pointer to what lay there before shows.
    interpret "-Zmiri-many-seeds=0..4 -Zmiri-address-reuse-rate=1.0" -p segue-sched --features threads \
        --test miri -- miri_contexts::
    interpret "-Zmiri-many-seeds=0..2" -p segue-sched --features threads --test miri -- miri_tasks::
    interpret "" -p segue-sched --features threads --test miri -- miri_par::
}

# The core, the schedulers and the structures under the thread sanitizer, on the host with a thread
# for each fiber.
tsan() {
    nightly rust-src || return 0
    local test="cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu"
    export RUSTFLAGS=-Zsanitizer=thread TSAN_OPTIONS=halt_on_error=1 CARGO_TARGET_DIR="$target/tsan"
    # Ten thousand frames are more than the sanitizer's own stack of calls has room for.
    filtered $test -p segue-core --test waits -- futures:: choices:: cancellation:: tokens:: \
        --skip a_tree_ten --skip planted_choices::
    $test -p segue-sched --features threads --test shutdown --test miri
    $test -p segue-sched --features threads --test worker --test run --test tasks -- \
        cancelling:: composing:: orphans::
    filtered $test -p segue --no-default-features --features sched,threads --test sync --test channel --test choice -- \
        mvar mutex:: semaphore:: rwlock:: condvar:: notifications:: latches:: promises:: \
        broadcast watch:: channel:: channel_front:: channel_delivery:: channel_reserve:: select::
    filtered $test -p segue-stm --features segue/threads --test memory --test transactions -- \
        bank:: drops:: lazies:: turn:: values:: waits::
    unset RUSTFLAGS TSAN_OPTIONS CARGO_TARGET_DIR
}

# What callbacks may bring about that are captured in the middle of something, and parallel loops,
# under the address sanitizer, on the same host. What is forgotten there is leaked on purpose.
asan() {
    nightly rust-src || return 0
    local said test="cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu"
    export RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0 CARGO_TARGET_DIR="$target/asan"
    $test -p segue-sched --features threads --test barriers
    $test -p segue-sched --features threads --test miri -- miri_par::
    $test -p segue --no-default-features --features sched,threads --test barriers
    filtered $test -p segue-stm --features segue/threads --test memory --test transactions -- \
        bank:: drops:: drops_outside:: lazies:: papers:: turn:: values:: waits::
    $test -p segue-io --features threads --test barriers
    $test -p segue-bridge --features threads --test barriers
    # It defines what the sanitizer does: one line says so.
    if said=$($test -p segue-unblock --lib 2>&1); then
        echo "error: segue-unblock was built with a sanitizer" && return 1
    fi
    [ "$(grep -c "segue-unblock can't be built with a sanitizer" <<<"$said")" = 1 ] ||
        { echo "$said" && echo "error: segue-unblock does not say in one line that it refuses a sanitizer" && return 1; }
    unset RUSTFLAGS ASAN_OPTIONS CARGO_TARGET_DIR
}

# The published crates with the least versions of what they depend on. Only nightly Cargo can look
# for these; the compiler is the stable one. Planted: a least version that is too low for others.
minimal() {
    nightly || return 0
    local copy lock="cargo +nightly -Z direct-minimal-versions generate-lockfile --quiet"
    copy=$(mktemp -d)
    trap 'rm -rf "$copy"' RETURN
    git ls-files -z --cached --others --exclude-standard |
        tar -c --null --ignore-failed-read --files-from - | tar -x -C "$copy"
    rm "$copy/Cargo.lock"
    sed -i 's|^members = .*|members = ["crates/*"]|; /^default-members/,/^]/d' "$copy/Cargo.toml"
    sed -i.kept 's|^bytes = .*|bytes = "1.0"|' "$copy/crates/segue-http/Cargo.toml"
    if $lock --manifest-path "$copy/Cargo.toml" 2>/dev/null; then
        echo "error: a planted fault was not found: bytes 1.0" && return 1
    fi
    mv "$copy/crates/segue-http/Cargo.toml.kept" "$copy/crates/segue-http/Cargo.toml"
    $lock --manifest-path "$copy/Cargo.toml"
    cargo check --locked --manifest-path "$copy/Cargo.toml" --target-dir "$target/minimal" --workspace \
        --features segue-bridge/tokio,segue-bridge/rayon,segue-bridge/orx-parallel,segue-bridge/streams,segue/lines
}
