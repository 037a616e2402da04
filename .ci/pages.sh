# What the pages say. Sourced by `run`.

# The ledger of the papers' claims names nothing that there is not. Each planted fault is found.
claims() {
    local page=docs/evidence/claims.md planted fault
    awk -f .ci/claims.awk "$page"
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' RETURN
    for fault in 's/: a_cancelled_caller_takes_nothing_even_if_it_is_there/: a_cancelled_caller_takes_all/' \
        's/crates\/segue\/tests\/recursion.rs/crates\/segue\/tests\/recursing.rs/' \
        's/"Not there yet"/"Not yet there"/' 's/^| T-2.5.1 |/| T-2.5.2 |/' 's/`a_yield_comes_back`/`a_yield_goes`/' \
        's/^\(| T-2.5.1 .*| \)yes |.*/\1yes | nothing |/' 's/^\(| T-2.5.1 .*| \)yes |/\1no |/'; do
        sed "$fault" "$page" >"$planted/claims.md"
        if cmp -s "$page" "$planted/claims.md" || awk -f .ci/claims.awk "$planted/claims.md" >/dev/null; then
            echo "error: a planted fault was not found: $fault" && return 1
        fi
    done
}
