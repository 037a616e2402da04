#!/usr/bin/env bash
# Builds `bench` of an older commit and of this tree in several layouts of the machine code, for
# `bench versus`: where functions and loops happen to lie moves a figure by more than a tenth, and
# that is no difference between the commits. Each layout aligns other things, so that the code of
# both lies elsewhere.
#
# Usage: bench/layouts.sh COMMIT DIRECTORY; then the last line that this prints. Afterwards
# `git worktree remove DIRECTORY/tree-COMMIT`.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: bench/layouts.sh COMMIT DIRECTORY" >&2 && exit 2; }
directory=$(mkdir -p "$2" && cd "$2" && pwd)
cd "$(dirname "$0")/.."
commit=$(git rev-parse --short "$1")
tree=$directory/tree-$commit
[ -d "$tree" ] || git worktree add --detach "$tree" "$commit"

layouts=(
    "plain|"
    "functions|-Cllvm-args=-align-all-functions=6"
    "blocks|-Cllvm-args=-align-all-nofallthru-blocks=5"
    "units|-Ccodegen-units=1"
)

# build TREE PREFIX
build() {
    local layout
    for layout in "${layouts[@]}"; do
        local program=$directory/$2-${layout%%|*}
        # What was built of the older commit stays; this tree may have changed.
        [ ! -e "$program" ] || [ "$2" = after ] || continue
        (cd "$1" && CARGO_TARGET_DIR=$directory/target RUSTFLAGS=${layout#*|} cargo build --release -p bench)
        cp "$directory/target/release/bench" "$program"
    done
}

build "$tree" "$commit"
build . after
command=("$directory/after-plain" versus "$commit" "$directory/$commit-plain")
for layout in "${layouts[@]:1}"; do
    command+=(--layout "$directory/$commit-${layout%%|*}" "$directory/after-${layout%%|*}")
done
echo "${command[*]}"
