# The tests on stable Rust. Sourced by `run`.

# The README's command, taken from there so that the two cannot differ.
tests() {
    local said
    # Planted: a program that hangs.
    if said=$(SEGUE_LIMIT=1 .ci/watched sleep 100 2>&1) || ! grep -q '^== process .*sleep 100' <<<"$said"; then
        echo "$said" && echo "error: a program that hangs was not reported" && return 1
    fi
    grep -qx 'cargo test' README.md || { echo "error: README.md has no line 'cargo test'"; return 1; }
    cargo test
}

# The tests of the crates with changes since the last commit, or in that commit if there are none.
changed() {
    local crates
    crates=$({ git diff --no-renames --name-only HEAD -- crates
        git ls-files --others --exclude-standard crates; } | cut -d/ -f2 | sort -u)
    [ -n "$crates" ] || crates=$(git diff --no-renames --name-only HEAD~1 -- crates | cut -d/ -f2 | sort -u)
    [ -n "$crates" ] || { echo "no crate has changed" && return; }
    # shellcheck disable=SC2046 # The options are words.
    cargo test --quiet $(printf -- '-p %s ' $crates) --lib --tests
}

# What does I/O, on the driver that `cargo test` has not taken: that takes a ring, where there is one.
drivers() {
    local said
    said=$(cargo test --test ring -- --nocapture fly_and 2>&1) && grep -q '^running 1 test' <<<"$said" ||
        { echo "$said" && return 1; }
    command -v redis-server >/dev/null || not_checked "there is no redis-server for a published client to ask"
    ! grep -q "no rings can be had here" <<<"$said" || not_checked "the ring's driver: this system has no io_uring for us"
    said=$(cargo test --test other_parties -- --nocapture interrupted 2>&1) || { echo "$said" && return 1; }
    ! grep -q "no file system of a server can be had here" <<<"$said" ||
        not_checked "files of a server that is silent: /dev/fuse is not for us, or we can't mount"
    SEGUE_SENDS=turns programs_of segue-io
    SEGUE_IO=epoll programs_of segue-io segue-std segue-http segue-bridge segue-unblock
}

# Runs the test programs of these packages as `cargo test` has built them: for a choice of packages
# Cargo would build them once more, with the features that these alone ask for.
programs_of() {
    local built package programs directory program
    built=$(cargo test --tests --no-run --quiet --message-format json)
    if test_programs no-such-package <<<"$built" >/dev/null; then
        echo "error: a planted fault was not found: a package that is not there" && return 1
    fi
    for package; do
        programs=$(test_programs "$package" <<<"$built")
        while read -r directory program <&3; do
            (cd "$directory" && CARGO_MANIFEST_DIR=$directory "${!runner}" "$program" --quiet) ||
                { echo "error: $program of $package failed" && return 1; }
        done 3<<<"$programs"
    done
}

# Of Cargo's messages, the test programs of a package with their directories: one and the unit tests.
test_programs() {
    local found
    found=$(jq -r "select(.reason == \"compiler-artifact\" and .executable and .profile.test)
        | select(.package_id | test(\"[/#]$1[@#]\"))
        | \"\(.manifest_path | rtrimstr(\"/Cargo.toml\")) \(.executable)\"")
    [ "$(grep -c . <<<"$found")" -ge 2 ] || { echo "error: $1 has no test programs" && return 1; }
    echo "$found"
}

# Without default features `segue` stands on `segue-core` and nothing else.
core_alone() {
    local tree
    tree=$(cargo tree -p segue --no-default-features -e normal --prefix none | cut -d' ' -f1 | sort -u | xargs)
    [ "$tree" = "segue segue-core" ] || { echo "error: segue without default features depends on: $tree"; return 1; }
    cargo build -p segue --no-default-features
    cargo test -p segue --no-default-features
}

# Model checks of the source that ships, in a target directory of their own, as the flag rebuilds
# everything.
loom() {
    local crate
    for crate in segue-core segue-sched segue-stm; do
        RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$target/loom" cargo test --release -p "$crate" --test 'loom_*'
    done
}

# The host with a thread for each fiber. Examples of the docs show on which threads fibers run,
# which are others there.
threads() {
    cargo test -p segue-fiber -p segue-sched --features segue-fiber/threads,segue-sched/threads --tests
}
