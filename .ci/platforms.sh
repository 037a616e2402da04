# The further targets, tier by tier. Sourced by `run`; docs/platforms.md has the tiers. It takes
# minutes under the emulator, and so is not among the steps of a whole run. It wants Debian's
# packages qemu-user, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, gcc-riscv64-linux-gnu,
# libc6-dev-riscv64-cross, gcc-mingw-w64-x86-64 and wine64.

PORTED="segue-core segue-fiber segue-sched"
CHECKED="x86_64-pc-windows-gnu x86_64-pc-windows-msvc"
# On other Unix systems all crates but `segue-unblock`, which is for Linux.
UNIX_PORTED="$PORTED segue-conformance segue-stm segue-parse segue-macros segue-io segue segue-http segue-std segue-bridge"
UNIX_CHECKED="aarch64-apple-darwin x86_64-apple-darwin x86_64-unknown-freebsd"
# The tests of what other Unix systems do with sockets, files and processes, run on Linux.
PORTABLE_TESTS="net sources files files_like_std directories processes descriptors standard_streams signals passing
    foreign_wait exhausted files_exhausted first_uses pipeline other_parties sending"
# The test programs that run on further targets. The others take minutes under an emulator.
PORTED_TESTS="segue-core switch spawn time
    segue-fiber coroutine handlers effects_hostile overflow grown_stacks abort pool traces
    segue-sched worker hosted"
# And on Linux, however slow.
LINUX_TESTS="$PORTED_TESTS
    segue-io pipeline"
# And where no emulator makes them slow.
FAST_TESTS="$LINUX_TESTS
    segue-io net files directories processes"
# And under Wine, which emulates no processor.
WINE_TESTS="$PORTED_TESTS
    segue-core conformance
    segue-sched conformance
    segue sync channel"
# Not under an emulator: it takes all memory for so many stacks; and a process that shares the
# memory of another one, by which functions get their names in the report of an overflow, has a copy.
NOT_EMULATED="a_hundred_thousand_coroutines_are_suspended_at_once an_overflow_names_the_fiber_and_aborts"

platforms() {
    local system
    if count_passed <<<"test result: ok. 0 passed; 0 failed" >/dev/null; then
        echo "error: a planted fault was not found: a run without tests" && return 1
    fi
    if has_target no-such-target; then
        echo "error: a planted fault was not found: a target that is not there" && return 1
    fi
    sed -i '$d' "$unchecked"
    export CARGO_TARGET_DIR="$target/platforms"
    for system in $CHECKED; do has_target "$system" && checked_on "$system" "$PORTED"; done
    for system in $UNIX_CHECKED; do has_target "$system" && checked_on "$system" "$UNIX_PORTED"; done
    portable_here
    TESTS=$FAST_TESTS tested_on x86_64-unknown-linux-musl cc "$PWD/.ci/watched"
    emulated_on aarch64 aarch64-unknown-linux-gnu
    emulated_on riscv64 riscv64gc-unknown-linux-gnu
    wine_on x86_64-pc-windows-gnu
    unset CARGO_TARGET_DIR
}

# Whether the standard library of a target can be had. Where it can't, the target is not checked.
has_target() {
    grep -qx "$1" <<<"$(rustup target list --installed)" && return
    timeout 300 rustup target add "$1" >/dev/null 2>&1 && return
    not_checked "$1: its standard library can't be installed here"
    return 1
}

# Compiles everything for a target, the tests too, and generates the code of the libraries, in which the
# switch is assembled.
checked_on() {
    local packages
    # shellcheck disable=SC2086 # The names are words.
    packages=$(printf -- '-p %s ' $2)
    # shellcheck disable=SC2086 # The options are words.
    cargo clippy --quiet --target "$1" $packages --all-targets -- -D warnings
    cargo clippy --quiet --target "$1" -p segue --no-default-features --features sched -- -D warnings
    # shellcheck disable=SC2086
    cargo build --quiet --target "$1" $packages
    echo "$1: compiled, without a warning"
}

# Runs the tests of `segue-io` on this machine without all that Linux alone has: its other half, but
# for the selector, which is epoll by way of the crate `polling`.
portable_here() {
    local options said
    # shellcheck disable=SC2086 # The names are words.
    options=$(printf -- '--test %s ' $PORTABLE_TESTS)
    # shellcheck disable=SC2086
    said=$(SEGUE_PORTABLE=1 cargo test -p segue-io $options 2>&1) || { echo "$said" && return 1; }
    echo "as on other Unix systems: $(count_passed <<<"$said") tests of segue-io have passed"
}

# Runs the tests for a Linux on another processor by QEMU, and two servers. With less address space its
# tables of pages are small, and so are the reservations for stacks.
emulated_on() {
    local lib=/usr/$1-linux-gnu
    TESTS=$LINUX_TESTS tested_on "$2" "$1-linux-gnu-gcc" "$PWD/.ci/watched qemu-$1 -R 0x400000000 -L $lib" "qemu-$1" $NOT_EMULATED
    servers_on "$2" "$1-linux-gnu-gcc" "qemu-$1" -R 0x400000000 -L "$lib"
}

# Runs the tests for Windows by Wine, with a directory of Windows of its own. What a process of Windows
# starts is one, too, and needs no runner.
wine_on() {
    local wine gcc=x86_64-w64-mingw32-gcc
    wine=$(command -v wine64 || command -v wine || echo wine64)
    if ! command -v "$wine" >/dev/null || ! command -v $gcc >/dev/null; then
        not_checked "$1: there is no wine64, or no $gcc"
        return
    fi
    export WINEPREFIX=$target/wine WINEDEBUG=-all
    mkdir -p "$WINEPREFIX"
    "$wine" wineboot --init >/dev/null 2>&1
    $gcc -O2 -shared -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" .ci/wine.c -ladvapi32
    # Each stack takes three of the mappings that Linux has for Wine.
    TESTS=$WINE_TESTS tested_on "$1" $gcc "$PWD/.ci/watched $wine" true a_hundred_thousand_coroutines_are_suspended_at_once
    "$wine" wineboot --kill >/dev/null 2>&1
    unset WINEPREFIX WINEDEBUG
}

# Runs these TESTS for a target: with a linker, a runner, a program that the runner needs, and tests to
# be left out.
tested_on() {
    local system=$1 linker=$2 runner=$3 emulator=${4:-true} skip="${*:5}" package name options said number
    has_target "$system" || return 0
    if ! command -v "$linker" >/dev/null || ! command -v "$emulator" >/dev/null; then
        not_checked "$system: there is no $linker, or no $emulator"
        return
    fi
    name=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$system")
    export "${name}_LINKER=$linker" "${name}_RUNNER=$runner" SEGUE_RUNNER=${runner#* }
    export SEGUE_SMALL=1
    [ "$emulator" != true ] || unset SEGUE_RUNNER SEGUE_SMALL
    # The names are words.
    [ -z "$skip" ] || skip="--skip ${skip// / --skip }"
    while read -r package options <&3; do
        options=$(printf -- '--test %s ' $options)
        # Without sockets.
        [ "$package" != segue ] || options+="--no-default-features --features sched"
        # shellcheck disable=SC2086
        said=$(cargo test --target "$system" -p "$package" $options -- $skip 2>&1) || { echo "$said" && return 1; }
        number=$(count_passed <<<"$said") || { echo "error: no test of $package has run on $system" && return 1; }
        echo "$system: $number tests of $package have passed"
    done 3<<<"$TESTS"
    unset "${name}_LINKER" "${name}_RUNNER" SEGUE_RUNNER SEGUE_SMALL
}

# The Fibonacci server, asked by curl, and the chat, which has clients of its own: for a target, with a
# linker, and the program that runs them.
servers_on() {
    local name listens said server built="$CARGO_TARGET_DIR/$1/debug"
    has_target "$1" || return 0
    if ! command -v "$2" >/dev/null || ! command -v "$3" >/dev/null || ! command -v curl >/dev/null; then
        not_checked "$1: there is no $2, no $3, or no curl, for servers"
        return
    fi
    name=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$1")
    env "${name}_LINKER=$2" cargo build --quiet --target "$1" -p examples --bin fib_server --example chat
    listens=$(mktemp)
    .ci/watched "${@:3}" "$built/fib_server" --addr 127.0.0.1:0 >"$listens" &
    server=$!
    # Until the server has said where, or has ended.
    while kill -0 "$server" 2>/dev/null && ! grep -q listening "$listens"; do sleep 0.2; done
    said=$(curl -sS --max-time 60 "$(sed -n 's/^listening on \(http[^,]*\),.*/\1/p' "$listens")/fib/20") || true
    rm "$listens"
    # A child of the watcher.
    pkill -INT -P "$server" || true
    wait "$server"
    [ "$said" = 6765 ] || { echo "error: on $1 the Fibonacci server says '$said'" && return 1; }
    .ci/watched "${@:3}" "$built/examples/chat"
    echo "$1: the Fibonacci server and the chat have run"
}

# Of what Cargo has said, the number of tests that have passed. None is an error.
count_passed() { awk '/^test result: ok/ { passed += $4 } END { print passed + 0; exit !passed }'; }
