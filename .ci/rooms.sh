# The rooms of the crates that have some. Sourced by `run`.

# Of each crate, from the lowest room: a file imports from its own room and from those before it.
# The suites of conformance stand above all, and import from the root as a user does.
ROOMS="segue-core: primitives contract chain timers tree values thread sim wait cancel spawn blocking drivers
    segue-sched: worker join policies run par hosted explore
    segue-io: system selector ring driver apart descriptor net signal fs process"

# No file of the rooms under `$1` imports from a room after its own. Nor from the root, which hides
# the room, nor by `{` at once, which this could not read. What the rooms are is said by the rest.
check_rooms() {
    local src=$1 room later found bad=0
    shift
    while [ $# -gt 0 ]; do
        room=$1 && shift
        [ -d "$src/$room" ] || { echo "error: there is no room $src/$room" && bad=1; }
        later=$(IFS='|' && echo "$*")
        # Code, not comments: an import from later rooms; or one that names no room.
        found=$(find "$src/$room" -name '*.rs' -exec grep -HnE "crate::(${later:-nothing later}|\{|[A-Za-z_]+[^a-z_:A-Z])" {} + |
            grep -vE '^[^:]*:[0-9]+: *//|^[^:]*:[0-9]+:.*//.*crate::|\$crate' || true)
        [ -z "$found" ] || { echo "$found" && echo "error: $room imports from a later room, or from the root" && bad=1; }
    done
    return $bad
}

rooms() {
    local planted fault crate names
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    mkdir "$planted"/{low,middle,high}
    printf '%s\n' 'use crate::low::A;' '//! [crate::high::B]' 'use crate::middle::C;' >"$planted/middle/fine.rs"
    check_rooms "$planted" low middle high
    for fault in 'use crate::high::B;' 'let b = crate::high::b();' 'use crate::{low::A, high::B};' 'use crate::B;'; do
        echo "$fault" >"$planted/middle/fault.rs"
        if check_rooms "$planted" low middle high >/dev/null; then echo "error: a planted fault was not found: $fault" && return 1; fi
    done
    while IFS=: read -r crate names; do
        # shellcheck disable=SC2086 # The names are words.
        check_rooms "crates/${crate// /}/src" $names || return 1
    done <<<"$ROOMS"
}
