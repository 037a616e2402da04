# What the source has to look like. Sourced by `run`.

# Rust files of a tree, without build directories.
rust_files() { find "$1" -name target -prune -o -name '*.rs' -print; }

# No file over 800 lines; a warning over 500. `unsafe` only where a lint is lifted in the file, with
# its reason.
check_sources() {
    local file lines code bad=0
    while IFS= read -r file; do
        lines=$(wc -l <"$file")
        if [ "$lines" -gt 800 ]; then echo "error: $file has $lines lines; the limit is 800" && bad=1
        elif [ "$lines" -gt 500 ]; then echo "warning: $file has $lines lines; 500 should do"; fi
        # The word in code, not in texts, and not in what follows `//`. Not by a pipe: `sed` would fail
        # where `grep` has found the word before the end.
        code=$(sed 's|"[^"]*"||g; s|//.*||' "$file")
        if grep -qw unsafe <<<"$code" && ! grep -q 'allow(unsafe_code' "$file"; then
            echo "error: $file uses unsafe without allow(unsafe_code)" && bad=1
        fi
    done < <(rust_files "$1")
    return $bad
}

# The gate above must be able to fail: each planted fault has to be found, and a harmless file
# passed.
sources() {
    local planted fault
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    echo 'fn f() {} // unsafe is only mentioned' >"$planted/fine.rs"
    check_sources "$planted"
    for fault in 'fn f() { unsafe { g() } }' "$(seq -f '// %g' 801)"; do
        echo "$fault" >"$planted/fault.rs"
        if check_sources "$planted" >/dev/null; then echo "error: a planted fault was not found: ${fault:0:40}" && return 1; fi
    done
    check_sources .
    if git grep -nE '^(<<<<<<<|>>>>>>>) ' -- . ':!.ci'; then echo "error: marks of a merge" && return 1; fi
}

# A thread-local variable with a destructor is reached by `try_with` alone: it may be gone, in the
# destructors of others. One that is reached in any other way is declared by `plain_thread_local!`
# (or `local!`), where the compiler refuses a type that has a destructor.
check_locals() {
    local file code name uses bad=0
    while IFS= read -r file; do
        # Without comments, in one line, as uses may begin a new one.
        code=$(sed 's|//.*||' "$file" | tr -s '[:space:]' ' ')
        # The macros that declare such variables are no declarations.
        for name in $(sed 's|//.*||' "$file" | awk '
            /macro_rules!/ { next }
            /(^|[^_a-z])(thread_local|local_with_destructor)!/ { inside = 1 }
            inside { print }
            inside && (/^ *[})];?$/ || /(thread_local|destructor)!.*[})];?$/) { inside = 0 }
        ' | grep -oE 'static [A-Z_0-9]+' | cut -d' ' -f2); do
            uses=$(grep -oE "(^|[^A-Z_0-9])$name[^A-Z_0-9].{0,30}" <<<"$code" |
                grep -vE "^.?$name( ?: |[[:space:]]?\.[[:space:]]?try_with\()" || true)
            [ -z "$uses" ] || { echo "error: $file: $name is not reached by try_with:$uses" && bad=1; }
        done
    done < <(find "$@" -name target -prune -o -path '*/src/*.rs' -print)
    return $bad
}

locals() {
    local planted fault
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    mkdir "$planted/src"
    printf '%s\n' 'plain_thread_local! {' '    static PLAIN: Cell<u8> = Cell::new(0);' '}' 'thread_local! {' \
        '    static NAMES: RefCell<String> = RefCell::default(); // NAMES.with is not called' '}' \
        'fn f() { PLAIN.set(1); NAMES' '    .try_with(drop); MY_NAMES.with(drop) }' \
        'local_with_destructor!(static ONE: Own = Own);' 'fn g() { let _ = ONE.try_with(drop); }' >"$planted/src/fine.rs"
    check_locals "$planted"
    for fault in 'NAMES.with(drop)' 'NAMES.set(1)' 'NAMES.with_borrow_mut(drop)' "$(printf 'NAMES\n    .replace(1)')" 'g(&NAMES)'; do
        for macro in thread_local std::thread_local local_with_destructor; do
            printf '%s\n' "$macro! {" '    /// Names.' '    static NAMES: Names = const { Names };' '}' "fn f() { $fault; }" >"$planted/src/fault.rs"
            if check_locals "$planted" >/dev/null; then echo "error: a planted fault was not found: $fault" && return 1; fi
        done
    done
    check_locals crates rayon-patch
}

# Comments and prose have at most 100 columns; the script says what is exempt. Tests write two of
# the pages.
columns() {
    local planted fault long
    long=$(printf 'word %.0s' {1..21})
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    printf '%s\n' "/// | $long | cell |" '/// ```' "/// $long" '/// ```' '/// Text.' \
        "fn f() {} // $long" "//! https://${long// /}" >"$planted/fine.rs"
    printf '%s\n' "| $long | cell |" '```text' "$long" '```' "* <https://${long// /}>" \
        "${long%word word }µµµµ" >"$planted/fine.md"
    awk -f .ci/columns.awk "$planted/fine.rs" "$planted/fine.md"
    for fault in "rs    /// $long" "rs //! * $long" "md $long" "md * $long" \
        "rs $(printf '/// ```\n/// let x = 1;\n/// ```\n/// %s' "$long")" \
        "rs $(printf '/// ```\nfn f() {}\n// %s' "$long")" \
        "md $(printf '```\ncode\n```\n%s' "$long")"; do
        echo "${fault#* }" >"$planted/fault.${fault%% *}"
        if awk -f .ci/columns.awk "$planted/fault.${fault%% *}" >/dev/null; then
            echo "error: a planted fault was not found: ${fault:0:40}" && return 1
        fi
    done
    find . -name target -prune -o \( -name '*.rs' -o -name '*.md' \) -not -path ./docs/evidence/http.md \
        -not -path ./docs/evidence/matrix.md -print0 | xargs -0 awk -f .ci/columns.awk
}

# Every operation that can wait says what cancellation does to it.
waits() {
    local planted fault
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    printf '%s\n' '/// Waits.' '///' '/// # Cancellation' '/// *No effect*.' 'pub fn f(' '    &self,' ') -> Result<(), Cancelled> {' '}' >"$planted/fine.rs"
    printf '%s\n' '/// Tries. Never' '/// waits.' '#[inline]' 'pub const fn f() -> Waitable<T> {}' 'pub fn g() -> Option<T>;' >>"$planted/fine.rs"
    awk -f .ci/cancellation.awk "$planted/fine.rs"
    for fault in '-> Result<(), Cancelled> {' '-> io::Result<T>;' '-> Waitable<impl Source<Output = T>> {'; do
        printf '%s\n' '/// Waits.' '#[inline]' 'pub fn f()' "    $fault" >"$planted/fault.rs"
        if awk -f .ci/cancellation.awk "$planted/fault.rs" >/dev/null; then echo "error: a planted fault was not found: $fault" && return 1; fi
    done
    # The crate of stacks knows no waits.
    find crates -path '*/src/*.rs' -not -path 'crates/segue-fiber/*' -print0 | xargs -0 awk -f .ci/cancellation.awk
}

# Vectored calls of the drivers take what `taken_at_once` says, by that name: of nothing but empty
# buffers the kernel makes a call without an effect, which looks like the end. Those of a single
# buffer are exempt.
check_vectored() {
    local calls
    calls='\b(p?readv2?|p?writev2?|recvmsg|sendmsg)\(|opcode::(Readv|Writev)::new\(|= header\('
    ! grep -rnE --include='*.rs' "$calls" "$1" | grep -vE 'taken|IoSlice(Mut)?::new\(|^[^:]*:[0-9]+: *//'
}

vectored() {
    local planted fault
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    printf '%s\n' '// By `readv(fd, bufs)`.' 'rustix::io::readv(fd, &mut bufs[taken])' \
        'sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary)' >"$planted/fine.rs"
    check_vectored "$planted"
    for fault in 'rustix::io::readv(fd, &mut bufs[..most])' 'preadv2(file, bufs, at, NOWAIT)' \
        'opcode::Writev::new(fd(file), from.as_ptr().cast(), count)' 'let header = header(to.as_ptr(), to.len());'; do
        echo "$fault" >"$planted/fault.rs"
        if check_vectored "$planted" >/dev/null; then echo "error: a planted fault was not found: $fault" && return 1; fi
    done
    check_vectored crates/segue-io/src || { echo "error: these calls do not take what taken_at_once says" && return 1; }
    [ "$(grep -rn --include='*.rs' 'taken_at_once(' crates/segue-io/src | wc -l)" -gt 8 ] ||
        { echo "error: nobody asks taken_at_once" && return 1; }
}

# How tests sleep: in the time of a simulator, until they are cancelled, or for at most 60 ms where
# CONTRIBUTING says that they may.
check_sleeps() {
    local file virtual said none_here real_here bad=0 none=0 real=0
    while IFS= read -r file; do
        virtual=$(grep -cwE 'Sim|Explore|simulated' "$file" || true)
        said=$(awk -v virtual=$((virtual > 0)) -f .ci/sleeps.awk "$file") || { head -n -1 <<<"$said" && bad=1; }
        read -r none_here real_here < <(tail -n 1 <<<"$said")
        none=$((none + none_here)) real=$((real + real_here))
    done < <(find "$1" -path '*/tests/*.rs' -print)
    echo "$none sleeps that take no time, or end by a cancellation; $real of some ms, or in a simulator"
    return $bad
}

sleeps() {
    local planted fault
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    mkdir "$planted/tests"
    printf '%s\n' 'sleep(Duration::MAX);' 'sleep(Duration::from_secs(3_600));' 'sleep(Duration::from_millis(60));' \
        '// A clock.' 'thread::sleep(Duration::from_micros(100));' >"$planted/tests/fine.rs"
    printf '%s\n' 'Sim::new(1);' 'sleep(Duration::from_secs(5));' >"$planted/tests/virtual.rs"
    check_sleeps "$planted" >/dev/null
    for fault in 'thread::sleep(TIME);' 'sleep(Duration::from_secs(5));' 'segue::sleep(Duration::from_millis(1_000));'; do
        echo "$fault" >"$planted/tests/fault.rs"
        if check_sleeps "$planted" >/dev/null; then echo "error: a planted fault was not found: $fault" && return 1; fi
    done
    check_sleeps crates
}

# No wait of a call of the C library's is without an end.
deadlines() {
    local planted fault
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    printf '%s\n' 'fn f() {' '    let failed = loop {' '        match attempt() {' '            Err(error) => patience.wait(half)?,' \
        '        }' '    };' '    // Ends: there are so many.' '    while let Some(next) = list.next() {' '        look(next);' \
        '    }' '    file.readable(deadline);' '}' >"$planted/fine.rs"
    awk -f .ci/deadlines.awk "$planted/fine.rs"
    for fault in '    loop {\n        attempt();\n    }' '    while is_ready(fd) {\n        attempt();\n    }' \
        '    let a = loop {\n        loop {\n            patience.pause(at)?;\n        }\n    };\n    loop {\n    }' \
        '    file.readable(None);' '    segue_core::blocking(write);'; do
        printf "fn f() {\n$fault\n}\n" >"$planted/fault.rs"
        if awk -f .ci/deadlines.awk "$planted/fault.rs" >/dev/null; then echo "error: a planted fault was not found: $fault" && return 1; fi
    done
    awk -f .ci/deadlines.awk crates/segue-unblock/src/*.rs
}

# The files that some files are read with, by their imports and so on.
closure() {
    # shellcheck disable=SC2046,SC2086 # The names are words.
    awk -v start="$1" -f .ci/closure.awk $1 $(git ls-files 'crates/segue-'{core,fiber,sched}'/src/*.rs')
}

# The contract, with nothing above it, in at most so many lines; and the plain scheduler with all
# that it imports. Takes the files of the contract, and the scheduler.
check_reading() {
    local lines above files
    lines=$(xargs cat <<<"$1" | wc -l)
    above=$(closure "$1" | grep -v '^crates/segue-core/src/primitives/' | grep -vxFf <(xargs -n 1 <<<"$1") || true)
    [ -z "$above" ] || { echo "error: the contract is read with" $above && return 1; }
    echo "the contract: $(wc -w <<<"$1") files, $lines lines"
    [ "$lines" -le "$CONTRACT_LINES" ] || { echo "error: it has at most $CONTRACT_LINES lines" && return 1; }
    files=$(closure "$2")
    lines=$(xargs cat <<<"$files" | wc -l)
    echo "the plain scheduler, with all that it imports: $(wc -l <<<"$files") files, $lines lines"
    [ "$lines" -le "$READING_LINES" ] || { echo "error: it has at most $READING_LINES lines" && return 1; }
}

# The limits may only fall. Nearly all of the second is read for four functions of `run`.
CONTRACT_LINES=1500
READING_LINES=26000
reading() {
    local planted contract plain=crates/segue-sched/src/plain.rs
    contract=$(git ls-files 'crates/segue-core/src/contract/*.rs')
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    mkdir -p "$planted/crates/segue-core/src/contract"
    echo 'use crate::tree::context::Context;' >"$planted/crates/segue-core/src/contract/above.rs"
    if check_reading "$contract $planted/crates/segue-core/src/contract/above.rs" $plain >/dev/null; then
        echo "error: a planted fault was not found: a file of the contract that imports from above" && return 1
    fi
    if CONTRACT_LINES=1000 check_reading "$contract" $plain >/dev/null; then
        echo "error: a planted fault was not found: too many lines of the contract" && return 1
    fi
    if READING_LINES=1000 check_reading "$contract" $plain >/dev/null; then
        echo "error: a planted fault was not found: too many lines behind the plain scheduler" && return 1
    fi
    check_reading "$contract" $plain
}

# Arguments for `unsafe`: none leans on the caller of a function that is safe to call, and few have
# at most five words. The limit may only fall.
SHORT_ARGUMENTS=269
check_arguments() {
    local said
    said=$(find "$1" -path '*/src/*.rs' -print0 | xargs -0 awk -f .ci/arguments.awk) || { echo "$said" && return 1; }
    echo "$said"
    [ "$(awk '{ print $3 }' <<<"$said")" -le "$SHORT_ARGUMENTS" ] ||
        { echo "error: at most $SHORT_ARGUMENTS arguments have at most five words: say which facts they rest on" && return 1; }
}

arguments() {
    local planted fault
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    mkdir "$planted/src"
    printf '%s\n' 'unsafe fn f() {' '    // SAFETY: as the caller promises, in each of its calls.' '    let g = || unsafe { g() };' '}' \
        'pub(crate) unsafe extern "C" fn g() {' '    // SAFETY: the caller has' '    // the lock of it.' '    unsafe { h() }' '}' \
        'fn h() {' '    // SAFETY: the calling fiber is inside of it.' '    unsafe { i() }' '}' \
        '// SAFETY: the caller of its functions keeps it in place.' 'unsafe impl Send for S {}' >"$planted/src/fine.rs"
    SHORT_ARGUMENTS=0 check_arguments "$planted" >/dev/null
    for fault in '// SAFETY: the caller has the lock.' '// SAFETY: it is there until it is dropped,\n    // by each of its callers.' \
        'let x = unsafe { g() }; // SAFETY: as the caller promises.' 'unsafe fn inner() {\n    }\n    // SAFETY: it is the caller'"'"'s.'; do
        printf "fn f(\n    at: usize,\n) {\n    $fault\n    unsafe { g() }\n}\n" >"$planted/src/fault.rs"
        if check_arguments "$planted" >/dev/null; then echo "error: a planted fault was not found: $fault" && return 1; fi
    done
    printf '%s\n' 'fn f() {' '    // SAFETY: it is in place.' '    unsafe { g() }' '}' >"$planted/src/fault.rs"
    if SHORT_ARGUMENTS=0 check_arguments "$planted" >/dev/null; then echo "error: a planted fault was not found: a short argument" && return 1; fi
    check_arguments crates
}
