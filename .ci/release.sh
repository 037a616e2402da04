# What is published. Sourced by `run`.

# Whether the listings in docs/api are those of the documentation in a directory.
check_api() {
    local listing crate bad=0
    for crate in crates/*/; do
        crate=$(basename "$crate")
        listing="docs/api/$crate.txt"
        [ -z "${SEGUE_UPDATE_API:-}" ] || awk -v docs="$1/${crate//-/_}" -f .ci/api.awk >"$listing"
        awk -v docs="$1/${crate//-/_}" -f .ci/api.awk | diff -U0 "$listing" - || bad=1
    done
    return $bad
}

# A change of the public interface changes its listing too, so that nobody changes it unawares. Each
# rustdoc writes pages of its own, so the listings name theirs; the pages are written by any.
api() {
    local planted rustdoc
    rustdoc=$(rustdoc --version | cut -d. -f1,2)
    [ -z "${SEGUE_UPDATE_API:-}" ] || echo "$rustdoc" >docs/api/rustdoc
    # All pages anew: what is documented again by itself says other things of what it passes on.
    rm -rf "$target/doc"
    docs
    [ "$rustdoc" = "$(<docs/api/rustdoc)" ] || { not_checked "the listings are of $(<docs/api/rustdoc)" && return 0; }
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    cp -r "$target"/doc/segue* "$planted/"
    sed -i 's/pub fn/pub unsafe fn/' "$planted"/segue_io/net/struct.Listener.html
    check_api "$target/doc" ||
        { echo "error: the public interface has changed; 'SEGUE_UPDATE_API=1 .ci/run api' lists it" && return 1; }
    if SEGUE_UPDATE_API= check_api "$planted" >/dev/null; then
        echo "error: a planted fault was not found: fewer safe functions" && return 1
    fi
}

# Crates that are to be published, whose metadata lacks something.
check_metadata() {
    local lacking
    lacking=$(jq -r '.packages[] | select(.publish != [])
        | [.name, (to_entries[] | select(.key | IN("description", "readme", "rust_version", "license",
            "keywords", "categories")) | select(.value == null or .value == []) | .key)]
        | select(length > 1) | "error: \(.[0]) has no \(.[1:] | join(", "))"' "$1")
    [ -z "$lacking" ] || { echo "$lacking" && return 1; }
}

# Every crate that is to be published can be: it has a README, keywords and the least Rust, and what
# is packaged builds, with the others' packages. Planted: crates that lack something.
packages() {
    local meta="$target/metadata.json" field copy name version
    mkdir -p "$target"
    cargo metadata --no-deps --format-version 1 >"$meta"
    for field in description readme rust_version license keywords categories; do
        if check_metadata <(jq "(.packages[] | select(.name == \"segue-core\")).$field = null" "$meta") >/dev/null; then
            echo "error: a planted fault was not found: no $field" && return 1
        fi
    done
    check_metadata "$meta"
    # There is no address of a repository yet; cargo would warn of it, and of examples. Its own
    # verification takes packages of an earlier run for the others'.
    cargo package --quiet --no-verify --no-metadata --allow-dirty --target-dir "$target" \
        --workspace --exclude bench --exclude ecosystem --exclude examples --exclude semantics 2>&1 | sed '/ignoring example/d'
    copy=$(mktemp -d)
    trap 'rm -rf "$copy"' RETURN
    printf '[workspace]\nresolver = "3"\nmembers = ["segue*"]\n[patch.crates-io]\n' >"$copy/Cargo.toml"
    while read -r name version; do
        tar -xzm -f "$target/package/$name-$version.crate" -C "$copy"
        echo "$name = { path = \"$name-$version\" }" >>"$copy/Cargo.toml"
    done < <(jq -r '.packages[] | select(.publish != []) | "\(.name) \(.version)"' "$meta")
    cp Cargo.lock "$copy/"
    cargo check --manifest-path "$copy/Cargo.toml" --target-dir "$target/packages" --workspace \
        --features segue-bridge/tokio,segue-bridge/rayon,segue-bridge/orx-parallel,segue-bridge/streams
}
