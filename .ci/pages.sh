# What the pages say. Sourced by `run`.

# The ledger of the papers' claims names nothing that there is not. Each planted fault is found.
claims() {
    local page=docs/evidence/claims.md planted fault
    awk -f .ci/claims.awk "$page"
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    for fault in 's/: a_cancelled_caller_takes_nothing_even_if_it_is_there/: a_cancelled_caller_takes_all/' \
        's/crates\/segue\/tests\/fibers\/recursion.rs/crates\/segue\/tests\/fibers\/recursing.rs/' \
        's/"Not there yet"/"Not yet there"/' 's/^| T-2.5.1 |/| T-2.5.2 |/' 's/`a_yield_comes_back`/`a_yield_goes`/' \
        's/^\(| T-2.5.1 .*| \)yes |.*/\1yes | nothing |/' 's/^\(| T-2.5.1 .*| \)yes |/\1no |/'; do
        sed "$fault" "$page" >"$planted/claims.md"
        if cmp -s "$page" "$planted/claims.md" || awk -f .ci/claims.awk "$planted/claims.md" >/dev/null; then
            echo "error: a planted fault was not found: $fault" && return 1
        fi
    done
}

# Every relative link of a page leads somewhere, and the README links at most ten pages.
check_links() { awk -v front="$1" -f .ci/links.awk "${@:2}" "${@:2}"; }

links() {
    local planted fault
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    mkdir "$planted/docs"
    printf '%s\n' '# Two words, `three`' '# The same' '# The same' >"$planted/docs/page.md"
    printf '%s\n' '[a](docs/page.md#two-words-three) [b](docs) [c](#own) `[d](none.md)`' '```' '[e](none.md)' '```' \
        '[f](https://host/none.md), [g](docs/../docs/page.md#the-same-1)' '# Own' >"$planted/README.md"
    check_links "$planted/README.md" "$planted/README.md" "$planted/docs/page.md"
    for fault in '[a](none.md)' '[a](#none)' '[a](docs/page.md#the-same-2)' "$(printf '[a](docs/%s.md) ' {1..11})"; do
        touch "$planted/docs/"{1..11}.md
        echo "$fault" >"$planted/README.md"
        if check_links "$planted/README.md" "$planted/README.md" "$planted/docs/"*.md >/dev/null; then
            echo "error: a planted fault was not found: ${fault:0:40}" && return 1
        fi
    done
    # shellcheck disable=SC2046 # The names are words.
    check_links README.md $(git ls-files '*.md')
}

# The files whose prose is measured.
prose() { git ls-files 'crates/*/src/*.rs' 'examples/*.rs' 'docs/*.md' README.md CONTRIBUTING.md CHANGELOG.md; }

# Prose names things again rather than pointing at them; the script says how that is measured. The
# list .ci/words.todo has the files that do not yet: it may only shrink, and `WORDS_LEFT` with it.
# After a rename, `words_todo` writes the list anew.
WORDS_LEFT=0
words() {
    local planted fault good bad_line
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    good=$(printf 'This fiber waits, and the waiter leaves the queue. %.0s' {1..40})
    # 360 words; code, targets of links and names with underscores are none.
    printf '%s\n' "/// $good" '/// ```' "/// what it is, and who it is" '/// ```' 'let it = what;' \
        '/// `what` [text](what/it) what_it_is' >"$planted/fine.rs"
    printf '%s\n' "$good" '```text' 'what it is, and who it is' '```' >"$planted/fine.md"
    printf '%s\n' 'What is it? Who knows what it is?' >"$planted/short.md"
    : >"$planted/none"
    measure() { awk -v todo="$planted/${1:-none}" -f .ci/words.awk "$planted"/*.{md,rs} >"$planted/said"; }
    measure || { cat "$planted/said" && echo "error: a harmless file was not passed" && return 1; }
    for fault in 'What what.' 'It waits, it goes, it runs, it ends, it is, it was.' 'Whoever waits.' 'A fiber whose end has come.'; do
        printf '%s\n' "/// $good $fault" >"$planted/fault.rs"
        if measure; then echo "error: a planted fault was not found: $fault" && return 1; fi
        # A file on the list is passed.
        printf '%s\n' "# Still to do." "$planted/fault.rs" >"$planted/todo"
        measure todo || { cat "$planted/said" && echo "error: a file on the list was not passed" && return 1; }
    done
    for fault in fine.rs short.md gone.rs; do
        echo "$planted/$fault" >>"$planted/todo"
        if measure todo || ! grep -q 'take it off the list' "$planted/said"; then
            echo "error: a planted fault was not found: $fault on the list" && return 1
        fi
        printf '%s\n' "$planted/fault.rs" >"$planted/todo"
    done
    [ "$(grep -c '^[^#]' .ci/words.todo)" -le "$WORDS_LEFT" ] ||
        { echo "error: .ci/words.todo has more than $WORDS_LEFT files; the list may only shrink" && return 1; }
    prose | xargs awk -v todo=.ci/words.todo -f .ci/words.awk
}

# Writes the list of the files that do not pass.
words_todo() {
    { echo "# Files whose prose is still to be mended, of \`.ci/run words\`: take off what passes, add nothing."
      prose | xargs awk -f .ci/words.awk | sed -n 's/^error: \([^ ]*\): of .*/\1/p' | sort; } >"$1.new" && mv "$1.new" "$1"
}
