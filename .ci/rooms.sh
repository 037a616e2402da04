# The rooms of the crates that have some. Sourced by `run`.

# Of each crate, from the lowest room: a file imports from its own room and from those before it. A
# room is a folder, a file of the root, or several of these with commas between. What an import is
# says `rooms.awk`.
ROOMS="segue-core: primitives contract chain timers tree values thread sim wait cancel spawn blocking drivers
    segue-conformance: again probe report watchdog cancelling jobs places queues races sources timers turns unwinding waits suite
    segue-io: system selector ring driver apart descriptor net signal fs process
    segue-fiber: unanswered hosts platform native,threaded,unwatched,config,arena,backtrace,coroutine,outcome,thread_stacks,pool,effect,region,generator passing multi incremental
    segue-sched: recorder worker dump policies run plain join par hosted explore
    segue: error spawn fiber cancel source effect incremental testing select sync channel concurrent on_quit
    segue-std: cancelled time sync thread fs net process os io
    segue-unblock: raw errno mark call buffers descriptor patience transfer sockets bytes sleeps connections messages names several
    segue-parse: error source input tokens
    segue-stm: version snapshot var stop log turn tx commit open outside waits profile attempts atomically structures
    segue-http: config wire tls message trace files routes client connection server listeners websocket
    segue-trace: message story perfetto file spans
    segue-remote: engine error options job current local nats serve watch map pool worker
    segue-load: options link target tally schedule web_socket expected opening connection figures picture report run"

# Says which modules of the crate with this `src` import from later rooms, and which are a circle.
# Fails if one of these is not in the list of circles, which has the name of this crate before each,
# or one of the list is no circle any more.
check_rooms() {
    local crate=$1 src=$2 names=$3 list=$4 files said circles bad=0
    files=$(cd "$src" && find . -name '*.rs' | sed 's|^\./||' | LC_ALL=C sort)
    # shellcheck disable=SC2086 # The files are words.
    said=$(cd "$src" && awk -v rooms="$names" -f "$OLDPWD/.ci/rooms.awk" $files $files | LC_ALL=C sort)
    if grep '^arrow: ' <<<"$said" | sed "s/^arrow:/error: $crate:/"; then bad=1; fi
    circles=$(sed -n 's/^circle: //p' <<<"$said")
    diff <(sed -n "s/^$crate: //p" "$list" | LC_ALL=C sort) <(printf "%s" "${circles:+$circles
}") || { echo "error: these circles of $crate are new (>), or still in the list $list (<)" && bad=1; }
    return $bad
}

# Planted: a room of three files that import from below, in one direction, and their parent, which
# declares and exports them. Then each fault in turn.
rooms() {
    local planted fault crate names
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    mkdir -p "$planted"/{low,middle,high}
    plant() { printf '%b\n' "$2" >"$planted/$1"; }
    plant lib.rs 'mod low;\nmod middle;\nmod high;\npub use high::H;\npub use low::L;'
    plant low/mod.rs 'pub struct L;'
    plant high/mod.rs 'use crate::middle::{a::A, B};\npub struct H(A, B);'
    plant middle/mod.rs 'mod a;\nmod b;\npub(crate) mod c;\npub(crate) use b::B;\npub struct M;'
    plant middle/b.rs 'use crate::low;\nuse super::M;\n//! [crate::high::H]\npub struct B(low::L, crate::L);'
    plant middle/c.rs 'pub struct C;\nmod tests {\n    use super::*;\n}'
    planted_rooms() { check_rooms planted "$planted" "low middle high" "$planted/list"; }
    fine='use super::{B, c};\npub struct A(c::C);'
    plant middle/a.rs "$fine" && : >"$planted/list"
    planted_rooms || { echo "error: rooms without a fault have failed" && return 1; }
    for fault in 'a use crate::high::H;' 'a fn f() -> crate::high::H {}' 'a use crate::{low::L, high::H};' 'a use crate::H;' \
        'a use crate::high as top;' 'a use super::super::high::*;' 'b use super::a::A;' 'b fn f(_: super::a::A) {}' \
        'c use super::B;\nuse crate::middle::{a::{self, A}};' 'c use super::super::middle::a::*;' 'mod mod a;\nmod b;\nmod c;\nuse b::B;\npub struct M(B);' \
        'mod mod a;\nmod b;\nmod c;\npub use b::B;\npub struct M(B);' 'mod mod a;\nmod b;\nmod c;\nfn f(_: b::B) {}\npub struct M;' \
        '../stray pub struct S;'; do
        cp -r "$planted/middle" "$planted/kept"
        plant "middle/${fault%% *}.rs" "${fault#* }"
        if planted_rooms >/dev/null; then echo "error: a planted fault was not found: $fault" && return 1; fi
        rm -rf "$planted/middle" "$planted/stray.rs" && mv "$planted/kept" "$planted/middle"
    done
    # A circle that is in the list, and a line of the list that is none.
    plant middle/b.rs 'use super::a::A;\npub struct B;' && echo 'planted: middle/a middle/b' >"$planted/list"
    planted_rooms || { echo "error: a circle that is in the list has failed" && return 1; }
    plant middle/b.rs 'pub struct B;'
    if planted_rooms >/dev/null; then echo "error: a planted fault was not found: a circle that is no more" && return 1; fi
    fault=0
    while IFS=: read -r crate names; do
        crate=${crate// /}
        check_rooms "$crate" "crates/$crate/src" "$names" .ci/circles.txt || fault=1
    done <<<"$ROOMS"
    grep -v '^#' .ci/circles.txt | awk '{ modules += NF - 1 } END { print modules + 0 " modules in " NR " circles" }'
    return $fault
}
