#!/usr/bin/env bash
# Times a program of rayon's with the patch and without it, in turns.
set -euo pipefail
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-../target}/rayon-versus
mkdir -p "$target/plain/src"
cp src/main.rs "$target/plain/src/"
printf '[package]\nname = "plain"\nedition = "2024"\n[workspace]\n[dependencies]\nrayon = "1.12"\n' >"$target/plain/Cargo.toml"
cargo build -q --release --target-dir "$target" --bin rayon-patch
cargo build -q --release --target-dir "$target" --manifest-path "$target/plain/Cargo.toml"
for _ in 1 2 3; do
    echo "-- rayon-core" && "$target/release/plain"
    echo "-- segue" && "$target/release/rayon-patch"
done
