# Formatting, clippy, rustdoc, the list of names for users' clippy, and what the compiler says of
# users' mistakes. Sourced by `run`.

fmt() { cargo fmt --all --check; }
clippy() {
    cargo clippy --workspace --all-targets -- -D warnings
    disallowed
}

# The list of what blocks, for users' clippy: each name in it is one, and is found where it is used.
disallowed() (
    crate=$(mktemp -d)
    trap 'rm -rf "$crate"' EXIT
    mkdir "$crate/src" && cp .ci/blocking.rs "$crate/src/lib.rs" && cp docs/clippy.toml "$crate/"
    printf '[package]\nname = "blocking"\nedition = "2024"\n[workspace]\n' >"$crate/Cargo.toml"
    # A name that there is not has to be told, else the count below says nothing of the others.
    sed 's/thread::sleep"/thread::doze"/' docs/clippy.toml >"$crate/clippy.toml"
    names=$(grep -c 'path = ' docs/clippy.toml)
    if check_disallowed "$crate" "$names" >/dev/null; then echo "error: a planted fault was not found: thread::doze" && exit 1; fi
    cp docs/clippy.toml "$crate/"
    check_disallowed "$crate" "$names"
    # With the one line of segue-std the names are Segue's, but for `spin_loop` and 18 calls to the disk.
    printf '[dependencies]\nsegue-std = { path = "%s/crates/segue-std" }\n' "$PWD" >>"$crate/Cargo.toml"
    cp Cargo.lock "$crate/" && sed -i 's/^use std::net::/extern crate segue_std as std;\n&/' "$crate/src/lib.rs"
    check_disallowed "$crate" 19
)

check_disallowed() {
    local said found
    touch "$1/src/lib.rs"
    said=$(cargo clippy --quiet --manifest-path "$1/Cargo.toml" --target-dir "$target/blocking" 2>&1)
    found=$(grep -c 'use of a disallowed method' <<<"$said" || true)
    if grep -q 'does not refer' <<<"$said" || [ "$found" -ne "$2" ]; then
        echo "$said"
        echo "error: of docs/clippy.toml $2 names were to be found in .ci/blocking.rs, and not $found"
        return 1
    fi
}

# What the compiler says of users' mistakes: each sentence of .ci/mistakes.rs and .ci/attributes.rs,
# of its line, and nothing of the lines that have none. Not by trybuild: the whole of what is said of
# a missing trait lists who has it, and changes with each compiler.
mistakes() (
    crate=$(mktemp -d)
    trap 'rm -rf "$crate"' EXIT
    mkdir "$crate/src" && cp Cargo.lock "$crate/"
    printf '[package]\nname = "mistakes"\nedition = "2024"\n[workspace]\n[dependencies]\nsegue = { path = "%s" }\n' \
        "$PWD/crates/segue" >"$crate/Cargo.toml"
    # Planted: a sentence that nobody says, a mistake that nobody expects, and none where one is
    # expected.
    for fault in 's/~ not a source/~ not a sauce/' 's|//~ is not a future|//|; /remove the `.await`/d' \
        's/or(second.take())/or(second.take_source())/'; do
        sed "$fault" .ci/mistakes.rs >"$crate/src/lib.rs"
        cmp -s .ci/mistakes.rs "$crate/src/lib.rs" && echo "error: nothing to plant: $fault" && exit 1
        if check_mistakes "$crate" mistakes >/dev/null; then echo "error: a planted fault was not found: $fault" && exit 1; fi
    done
    for fault in mistakes attributes; do
        cp ".ci/$fault.rs" "$crate/src/lib.rs"
        check_mistakes "$crate" "$fault"
    done
)

check_mistakes() {
    local said line number=0 sentence expected=() found=0 bad=0
    said=$(cargo check --quiet --message-format json --manifest-path "$1/Cargo.toml" --target-dir "$target/mistakes" \
        2>"$1/stderr" || true)
    # What is said of the crate's own lines, each with the line's number before it: that of the call,
    # if it is said of what a macro of ours has made.
    said=$(jq -r 'def own: if .file_name == "src/lib.rs" or .expansion == null then . else .expansion.span | own end;
        select(.reason == "compiler-message" and .target.name == "mistakes") | .message
        | (first(.spans[] | select(.is_primary)) | own | .line_start | tostring) as $line
        | .rendered | split("\n")[] | $line + " " + .' <<<"$said")
    while IFS= read -r line; do
        number=$((number + 1))
        if [[ $line == *"//~ "* ]]; then
            expected+=("${line#*//~ }")
        elif [ ${#expected[@]} -gt 0 ]; then
            for sentence in "${expected[@]}"; do
                found=$((found + 1))
                grep "^$number " <<<"$said" | grep -qF -- "$sentence" ||
                    { echo "error: of .ci/$2.rs:$number it is not said: $sentence" && bad=1; }
            done
            expected=()
        elif grep "^$number " <<<"$said"; then
            echo "error: nothing was to be said of .ci/$2.rs:$number" && bad=1
        fi
    done <"$1/src/lib.rs"
    [ "$found" -gt 0 ] || { echo "error: no sentence was looked for" && return 1; }
    [ $bad = 0 ] || cat "$1/stderr"
    echo "$found sentences looked for"
    return $bad
}

# The documentation of all that there is.
docs() {
    # What is documented already, or will be, is linked to: rustdoc asks for the directory. So what
    # the pages say does not depend on the order in which the crates come. One at a time, since cargo
    # takes a crate's directory away before it documents that.
    local crate
    for crate in crates/*/Cargo.toml; do
        crate=$(basename "${crate%/Cargo.toml}") && mkdir -p "$target/doc/${crate//-/_}"
    done
    RUSTDOCFLAGS="-D warnings" cargo doc --jobs 1 --workspace --no-deps \
        --features segue-bridge/tokio,segue-bridge/rayon,segue-bridge/orx-parallel,segue-bridge/streams,segue-remote/nats
}
