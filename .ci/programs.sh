# The programs of the workspace, each for a short while. Sourced by `run`.

# The fuzz targets, without the fuzzer, which is C++.
fuzz() { cargo check --locked --no-default-features --manifest-path fuzz/Cargo.toml --target-dir "$target/fuzz"; }

# The effect handlers against the abstract machine.
semantics() { cargo run --release -p semantics -- --programs 100000; }

# What the README's first command builds, which has at most so many crates. Planted: a limit of ten.
FIRST_COMMAND_CRATES=32
first_command() {
    local command built crates
    command=$(grep -m 1 '^cargo run ' README.md)
    built=$(${command/run/build} --message-format json)
    crates=$(jq -r 'select(.reason == "compiler-artifact").package_id' <<<"$built" | sort -u | wc -l)
    if FIRST_COMMAND_CRATES=10 check_crates "$crates" >/dev/null; then
        echo "error: a planted fault was not found: more than ten crates" && return 1
    fi
    check_crates "$crates"
}

check_crates() {
    echo "the README's first command builds $1 crates"
    [ "$1" -gt 0 ] && [ "$1" -le "$FIRST_COMMAND_CRATES" ] ||
        { echo "error: it builds at most $FIRST_COMMAND_CRATES" && return 1; }
}

# Every example, for a short while, as the tests have built it; the server of the README, which is
# asked to stop, has to do so by itself, and has to report success, with optimisations.
examples() {
    local file name
    cargo build --examples
    first_command
    timeout --preserve-status --signal=TERM --kill-after=20 3 "$target/release/fib_server" --addr 127.0.0.1:0
    for file in examples/*.rs; do
        name=$(basename "$file" .rs)
        echo "-- $name"
        case $name in
        fib_server) ;;
        million*) timeout 120 "$target/debug/examples/$name" 10000 ;;
        round) timeout 120 "$target/debug/examples/$name" 20000 ;;
        *) timeout 120 "$target/debug/examples/$name" ;;
        esac
    done
    command -v chromium >/dev/null || not_checked "pages in a browser: there is no chromium"
    cargo test -p examples --test browser -- --nocapture
}

# The functions of the C library that `segue-unblock` defines, by its sources.
defined_here() {
    grep -rhA1 'unsafe(no_mangle)' crates/segue-unblock/src | grep -oP 'extern "C" fn \K\w+' | sort
}

# Which of these names a program defines itself, by their number.
defines() { nm --defined-only "$1" | awk '$2 ~ /[TW]/ { print $3 }' | grep -cxF -f <(printf '%s\n' "${@:2}") || true; }

# A program with `segue-unblock` defines all of its functions, however it is built; one without it
# none. Planted: a name that nobody defines, and a program that has them where none are to be.
unblock() {
    local names all how program
    mapfile -t names < <(defined_here)
    all=${#names[@]}
    [ "$all" -ge 28 ] || { echo "error: only $all functions are found in the sources" && return 1; }
    for how in debug release lto; do
        case $how in
        debug) cargo build --example blocking_clients && program=$target/debug ;;
        release) cargo build --release -p segue-unblock -p examples --example blocking_clients --example hello && program=$target/release ;;
        lto) CARGO_PROFILE_RELEASE_LTO=fat cargo build --release -p segue-unblock --example blocking_clients \
            --target-dir "$target/lto" && program=$target/lto/release ;;
        esac
        program=$program/examples/blocking_clients
        [ "$(defines "$program" "${names[@]}")" = "$all" ] ||
            { echo "error: the program of $how lacks some of: ${names[*]}" && return 1; }
        [ "$(defines "$program" "${names[@]}" not_defined_by_anybody)" = "$all" ] &&
            [ "$(defines "$program" not_defined_by_anybody)" = 0 ] ||
            { echo "error: a planted fault was not found: a name that nobody defines" && return 1; }
        timeout 120 "$program"
        echo "the program of $how defines all $all functions"
    done
    [ "$(defines "$target/release/examples/hello" "${names[@]}")" = 0 ] ||
        { echo "error: a program without segue-unblock defines its functions" && return 1; }
}

# Published programs and crates of threads with the one line of `segue-std`: taken from the registry,
# changed by the differences in `ports/`, with their own tests; the servers are asked over 10,000
# connections at once. A difference has the one line in each root and one more line at most, and
# stands in the docs as it is. `$target/ports/work/Cargo.lock` is the new lock, if one is wanted.
ports() {
    local planted fault file work=$target/ports/work metadata=$target/ports/metadata
    planted=$(mktemp)
    for fault in "+not on the page" "$(printf '+edition = "2018"\n%.0s' 1 2)"; do
        echo "$fault" >"$planted"
        if check_port "$planted" >/dev/null; then echo "error: a planted fault was not found: ${fault:0:40}" && return 1; fi
    done
    rm "$planted"
    rm -rf "$work" && mkdir -p "$work" && cp -r ports/. "$work"
    sed -i "s|path = \"[./]*/crates/|path = \"$PWD/crates/|" "$work/Cargo.toml" "$work"/editions/*/Cargo.toml
    cargo metadata --format-version 1 --manifest-path "$work/Cargo.toml" >"$metadata"
    for file in ports/*.diff; do
        check_port "$file" || return 1
        port "$(basename "$file" .diff)"
    done
    cp ports/Cargo.lock "$work/" && sed -i 's|^members = .*|members = ["editions/*", "sources/*"]|' "$work/Cargo.toml"
    ported() {
        RUSTFLAGS=--cap-lints=allow cargo "$1" --quiet --manifest-path "$work/Cargo.toml" --workspace \
            --target-dir "$target/ports" "${@:2}"
    }
    ported build --bins --example hello-world --example server
    asked tiny_http hello-world 9975 http
    asked tungstenite server 3012 websocket
    # Those of `threadpool` sleep for some 20 s, side by side. Two of them lean on the machine's speed:
    # one asserts that jobs which were just handed over have not ended, the other that four fibers
    # are in a wait after 100 ms. Both fail now and then, on std's threads as well.
    ported test --lib --tests --features oneshot/std -- --test-threads 16 \
        --skip test_multi_join --skip test_join_wavesurfer
    at_last test_multi_join && at_last test_join_wavesurfer
}

# Runs a test of `threadpool`, up to five times.
at_last() {
    for _ in {1..5}; do ported test -p threadpool --lib -- --exact "test::$1" && return; done
    echo "error: $1 of threadpool fails each time" && return 1
}

# Puts a published crate among the members, with its difference. Of what its tests need, runtimes of
# tasks and the harness of its benchmarks are left out, with the tests that are of tasks.
port() {
    local from to=$work/sources/$1
    from=$(jq -r ".packages[] | select(.name == \"$1\").manifest_path" "$metadata")
    mkdir -p "$to" && cp -r "$(dirname "$from")/." "$to"
    chmod -R u+w "$to" && rm -rf "$to/Cargo.lock" "$to/benches"
    patch -s -p0 -d "$to" <"ports/$1.diff"
    awk '/^\[/ { skips = /dev-dependencies\.(async-std|criterion|tokio)\]$|^\[\[bench\]\]$|^\[profile/ } !skips
        /^\[dev-dependencies\.env_logger\]$/ { print "default-features = false" }' "$to/Cargo.toml" >"$to/changed"
    printf '\n[dependencies.segue-std]\npath = "%s/crates/segue-std"\n' "$PWD" >>"$to/changed"
    mv "$to/changed" "$to/Cargo.toml"
}

# Starts an example of a port, and asks that.
asked() {
    local name=$1 server status=0
    "$target/ports/debug/examples/$2" >"$target/ports/$name.log" 2>&1 &
    server=$!
    timeout 120 "$target/ports/debug/ports" "$3" "$4" 10000 || status=$?
    kill "$server" 2>/dev/null && { wait "$server" || true; }
    [ $status = 0 ] || { tail "$target/ports/$name.log" && echo "error: $name does not serve" && return 1; }
}

# The one line in each root, and one more at most; the page shows them.
check_port() {
    local line more
    more=$(grep '^[+-][^+-]' "$1" | grep -cv 'extern crate segue_std as std;$' || true)
    [ "$more" -le 1 ] || { echo "error: $1 changes $more more lines" && return 1; }
    while IFS= read -r line; do
        grep -qxF -e "$line" docs/porting.md || { echo "error: docs/porting.md lacks a line of $1: $line" && return 1; }
    done < <(grep '^[+-]' "$1" | grep -v '^---')
}

# Blocking crates in fibers, as they are published; and clients of tokio's. By real servers, which the
# tests start and end. Planted: a row of the page without its test, a test without its row, another
# version.
ecosystem() {
    local page=docs/ecosystem.md planted fault io example
    check_ecosystem "$page" ecosystem/tests
    planted=$(mktemp -d)
    cp ecosystem/tests/*.rs "$planted/"
    for fault in 's/`csv_reads_/`csv_writes_/' '/^| csv |/d' '/^| csv |/s/ 1[.]/ 0./'; do
        sed "$fault" "$page" >"$planted/page.md"
        if cmp -s "$page" "$planted/page.md" || check_ecosystem "$planted/page.md" "$planted" >/dev/null; then
            echo "error: a planted fault was not found: $fault" && return 1
        fi
    done
    printf '#[test]\nfn planted() {}\n' >"$planted/planted.rs"
    if check_ecosystem "$page" "$planted" >/dev/null; then echo "error: a planted fault was not found: a test" && return 1; fi
    rm -r "$planted"
    for io in epoll ring; do
        echo "-- SEGUE_IO=$io"
        SEGUE_IO=$io cargo test --quiet -p ecosystem
    done
    for example in ecosystem/examples/*.rs; do
        echo "-- $(basename "$example" .rs)"
        timeout 120 "$target/debug/examples/$(basename "$example" .rs)"
    done
}

# The page's rows of crates and the tests below `$2`: each has the other, and the version is that
# which is built.
check_ecosystem() {
    local crate version bad=0 rows='^[|] [a-z_0-9-]+[^|]* [|] [0-9.]+ [|]'
    diff <(grep -E "$rows" "$1" | sed 's/.*`\([a-z0-9_]*\)`[^`]*$/\1/' | sort) \
        <(grep -hA 3 '^#\[test\]' "$2"/*.rs | sed -n 's/^fn \([a-z0-9_]*\).*/\1/p' | sort) ||
        { echo "error: $1 has other tests than $2" && bad=1; }
    while IFS='|' read -r _ crate version _; do
        crate=${crate%%,*} && crate=${crate// /}
        grep -A 1 -xF "name = \"$crate\"" Cargo.lock | grep -qxF "version = \"${version// /}\"" ||
            { echo "error: $1: $crate is not of version$version" && bad=1; }
    done < <(grep -E "$rows" "$1")
    return $bad
}

# Jobs at a server of NATS, which the tests start and end, among faults that they plant: the tests of
# `cargo test` have the local engine alone.
remote() {
    command -v nats-server >/dev/null || { not_checked "there is no nats-server to hand jobs to" && return 0; }
    cargo clippy -p segue-remote --features nats --all-targets -- -D warnings
    cargo test -p segue-remote --features nats
}

# The harness, and every workload once, quickly. The figures mean nothing; the file has to be sound,
# with ours in it. Then a server among bad clients, which stays as it was. Without optimisations:
# they take four times as long as all the rest.
bench() {
    local json="$target/bench-smoke.json"
    cargo test -p bench
    cargo run -p bench -- run --smoke --json "$json"
    jq -e '[.runs[].rows[]] | length > 0
        and all(.min > 0 and .min <= .median and .median <= .max and .runs >= 1)
        and (group_by([.workload, .variant]) | all(any(.who == "segue" or (.who | startswith("segue,")))))' "$json"
    cargo run -p bench -- soak --short
    cargo run -p bench -- soak web --short
}

# The processor time of a hello world's first build, to that of tokio's: 2.36 on a quiet machine,
# with transactions, 2.90 beside another build; the limit leaves room for noise. Planted: a heavier
# one.
HEAVIEST=3.1
weight() {
    local said ratio
    said=$(tools/weigh) && echo "$said"
    ratio=$(sed -n 's/^ratio: \([0-9.]*\) .*/\1/p' <<<"$said")
    if check_weight 9.99 >/dev/null; then echo "error: a planted fault was not found: a ratio of 9.99" && return 1; fi
    check_weight "$ratio"
}

check_weight() {
    awk -v ratio="$1" -v most="$HEAVIEST" 'BEGIN { exit !(ratio > 0 && ratio <= most) }' ||
        { echo "error: hello world weighs $1 times tokio's; at most $HEAVIEST" && return 1; }
}

# The instructions of the hot paths against those that are kept. Planted: paths with a twentieth
# more work in them.
instructions() {
    local status=0 planted
    cargo test -p instructions
    cargo build --profile counted -p instructions
    "$target/counted/instructions" || status=$?
    [ $status != 3 ] || { not_checked "nothing is kept for this compiler or processor" && return 0; }
    [ $status = 0 ] || return $status
    planted=$("$target/counted/instructions" --planted switch spawn_join answer 2>&1) || status=$?
    echo "$planted"
    [ "$status $(grep -c " MORE " <<<"$planted")" = "1 3" ] ||
        { echo "error: planted faults were not found: paths with more work" && return 1; }
}
