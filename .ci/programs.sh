# The programs of the workspace, each for a short while. Sourced by `run`.

# The effect handlers against the abstract machine.
semantics() { cargo run --release -p semantics -- --programs 100000; }

# Every example, for a short while. A server is told to stop, has to do so by itself, and has to
# report success.
examples() {
    local file name
    cargo build --release -p segue -p segue-bridge -p segue-sched --examples
    for file in examples/*.rs; do
        name=$(basename "$file" .rs)
        echo "-- $name"
        case $name in
        *server) timeout --preserve-status --signal=TERM --kill-after=20 3 "$target/release/examples/$name" --addr 127.0.0.1:0 ;;
        million*) timeout 120 "$target/release/examples/$name" 10000 ;;
        *) timeout 120 "$target/release/examples/$name" ;;
        esac
    done
}

# The harness, and every workload once, quickly. The figures mean nothing; the file has to be sound,
# with ours in it. Then a server among bad clients, which stays as it was.
bench() {
    local json="$target/bench-smoke.json"
    cargo test -p bench
    cargo run --release -p bench -- run --smoke --json "$json"
    jq -e '[.runs[].rows[]] | length > 0
        and all(.min > 0 and .min <= .median and .median <= .max and .runs >= 3)
        and (group_by([.workload, .variant]) | all(any(.who == "segue" or (.who | startswith("segue,")))))' "$json"
    cargo run --release -p bench -- soak --short
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
