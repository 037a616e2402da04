# Formatting, clippy, rustdoc, and the list of names for users' clippy. Sourced by `run`.

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
)

check_disallowed() {
    local said found
    touch "$1/src/lib.rs"
    said=$(cargo clippy --quiet --manifest-path "$1/Cargo.toml" --target-dir "$1/target" 2>&1)
    found=$(grep -c 'use of a disallowed method' <<<"$said" || true)
    if grep -q 'does not refer' <<<"$said" || [ "$found" -ne "$2" ]; then
        echo "$said"
        echo "error: docs/clippy.toml has $2 names, of which $found are found in .ci/blocking.rs"
        return 1
    fi
}

# The documentation of all that there is.
docs() {
    # What is documented already, or will be, is linked to: rustdoc asks for the directory. So what
    # the pages say does not depend on the order in which the crates come.
    local crate
    for crate in crates/*/Cargo.toml; do
        crate=$(basename "${crate%/Cargo.toml}") && mkdir -p "$target/doc/${crate//-/_}"
    done
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps \
        --features segue-bridge/tokio,segue-bridge/rayon,segue-core/conformance
}
