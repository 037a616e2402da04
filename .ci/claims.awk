# Reads docs/evidence/claims.md and says what in it is not so: a file, function, heading, case or step that
# there is not, a row that is not a row, a claim that is shown by nothing, counts that are wrong.
# Run from the root of the workspace; fails if there is one.
function wrong(what) { printf "%s:%d: %s\n", FILENAME, line, what; bad = 1 }

function exists(path) {
    if (!(path in there)) there[path] = !system("test -e '" path "'")
    return there[path]
}

# Whether code has a function.
function has_function(path, name,    text) {
    if (!(path in read)) {
        while ((getline text < path) > 0)
            if (match(text, /fn [a-z0-9_]+/)) functions[path, substr(text, RSTART + 3, RLENGTH - 3)] = 1
        close(path)
        read[path] = 1
    }
    return (path, name) in functions
}

# Whether a page has a heading, or a paragraph with a bold lead, that begins so.
function has_heading(path, words,    text, found) {
    while ((getline text < path) > 0) if (sub(/^(#+ |\*\*)/, "", text) && index(text, words) == 1) found = 1
    close(path)
    return found
}

function is_case(name) {
    if (!(name in cases)) cases[name] = !system("grep -rqw 'fn " name "' crates/segue-conformance/src")
    return cases[name]
}

function is_step(name) {
    if (!(name in steps)) steps[name] = !system("grep -q '^" name "()' .ci/*.sh .ci/run")
    return steps[name]
}

# What a part of the last column names, after a semicolon each.
function part(text,    path, n, i, names) {
    while (match(text, /\(cases? [^)]*\)/)) {
        n = split(substr(text, RSTART, RLENGTH), names, "`")
        for (i = 2; i <= n; i += 2) if (!is_case(names[i])) wrong("no case `" names[i] "` in the conformance suite")
        text = substr(text, 1, RSTART - 1) substr(text, RSTART + RLENGTH)
    }
    gsub(/ ?\([^()]*\)/, "", text)
    sub(/ +$/, "", text)
    while (match(text, /(crates|docs|examples|bench|ecosystem|semantics|tools|\.ci)\/[A-Za-z0-9_.\/-]*[A-Za-z0-9_]|(README|CONTRIBUTING|CHANGELOG)\.md/)) {
        path = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        shown++
        if (!exists(path)) { wrong("no file " path); continue }
        if (text ~ /^, "/) {
            split(text, names, "\"")
            if (!has_heading(path, names[2])) wrong(path " has no heading \"" names[2] "\"")
        } else if (text ~ /^, step `/) {
            split(text, names, "`")
            if (!is_step(names[2])) wrong(".ci/run has no step `" names[2] "`")
        } else if (path ~ /\.rs$/ && sub(/^: /, "", text)) {
            n = split(text, names, ", ")
            for (i = 1; i <= n; i++) if (!has_function(path, names[i])) wrong(path " has no function `" names[i] "`")
            return
        }
    }
}

{ line = FNR; lines[$0] = 1 }

/^\| [TRSEG]-/ {
    if (split($0, column, " [|] ") != 5 || column[3] !~ /^[a-f]$/ || column[4] !~ /^(yes|part|no)$/) {
        wrong("a row has a number, a claim, a kind, a status and what shows it")
        next
    }
    id = substr(column[1], 3)
    if (id in seen) wrong(id " stands on line " seen[id] " already")
    seen[id] = FNR
    count[substr(id, 1, 1), column[4]]++
    count["all", column[4]]++
    shown = 0
    sub(/ *\|$/, "", column[5])
    n = split(column[5], parts, "; *")
    for (i = 1; i <= n; i++) part(parts[i])
    if (column[4] != "no" && !shown) wrong(id " is shown by nothing")
}

END {
    n = split("T R S E G all", papers, " ")
    for (i = 1; i <= n; i++) {
        p = papers[i]
        row = sprintf("| %s | %d | %d | %d | %d |", p, count[p, "yes"], count[p, "part"], count[p, "no"],
            count[p, "yes"] + count[p, "part"] + count[p, "no"])
        if (!(row in lines)) { line = FNR; wrong("the counts should have the row " row) }
    }
    exit bad
}
