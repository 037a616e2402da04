# The files that some files are read with: those that they import from, and theirs, within the
# crates whose sources are given. Prints each once.
#
#   awk -v start=crates/segue-sched/src/plain.rs -f .ci/closure.awk crates/{a,b}/src/**.rs
#
# An import leads to the file of its path; where the path ends in a name that a `mod.rs` or `lib.rs`
# re-exports, to the file below that defines the name. Unit tests and comments do not count.

# "crates/segue-core/src/wait/mod.rs" is module "segue_core::wait".
function module_of(path,    parts, name) {
    split(path, parts, "/src/")
    name = parts[1]
    sub(/.*\//, "", name)
    gsub(/-/, "_", name)
    path = parts[2]
    sub(/\.rs$/, "", path)
    if (path == "lib") return name
    sub(/\/mod$/, "", path)
    gsub(/\//, "::", path)
    return name "::" path
}

# Takes the paths of a tree of imports apart: `a::{b, c::{d}}`.
function expand(tree,    at, depth, i, c, head, part) {
    gsub(/[ \n]+as [A-Za-z_]+/, "", tree)
    gsub(/[ \n]/, "", tree)
    at = index(tree, "{")
    if (at == 0) {
        if (tree != "") paths[++count] = tree
        return
    }
    head = substr(tree, 1, at - 1)
    tree = substr(tree, at + 1, length(tree) - at - 1)
    for (i = 1; i <= length(tree); i++) {
        c = substr(tree, i, 1)
        if (c == "{") depth++
        if (c == "}") depth--
        if (c == "," && depth == 0) {
            expand(head part)
            part = ""
        } else part = part c
    }
    if (part != "") expand(head part)
}

# The file of a path that begins with the name of a crate; "" for none of ours.
function file_of(path,    parts, n, i, prefix, found, name) {
    n = split(path, parts, "::")
    prefix = parts[1]
    if (!(prefix in files)) return ""
    found = prefix
    for (i = 2; i <= n && (prefix "::" parts[i]) in files; i++) found = prefix = prefix "::" parts[i]
    if (files[found] !~ /(lib|mod)\.rs$/) return files[found]
    # The last name, where it is defined: below the module that was found, if anywhere.
    name = parts[n]
    if (i <= n && (parts[1], name) in defined) return defined[parts[1], name]
    return found == parts[1] ? "" : files[found]
}

function visit(path,    i, n, list, text, name, own, parent, to) {
    if (path in seen) return
    seen[path] = 1
    print path
    own = module_of(path)
    name = own
    sub(/::.*/, "", name)
    parent = own
    sub(/::[^:]*$/, "", parent)
    count = 0
    text = code[path]
    while (match(text, /(^|[^A-Za-z_])use [^;]*;/)) {
        list = substr(text, RSTART, RLENGTH - 1)
        text = substr(text, RSTART + RLENGTH)
        sub(/^.*use /, "", list)
        expand(list)
    }
    text = code[path]
    while (match(text, /(crate|super|segue_[a-z]+)(::[A-Za-z_]+)+/)) {
        paths[++count] = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
    }
    n = count
    for (i = 1; i <= n; i++) {
        list = paths[i]
        sub(/^crate::/, name "::", list)
        sub(/^self::/, own "::", list)
        sub(/^super::/, parent "::", list)
        sub(/::self$/, "", list)
        to = file_of(list)
        if (to != "") next_of[path, i] = to
    }
    for (i = 1; i <= n; i++) if ((path, i) in next_of) visit(next_of[path, i])
}

FNR == 1 {
    files[module_of(FILENAME)] = FILENAME
    tests = 0
}
/^#\[cfg\(.*test/ { tests = 1 }
tests { next }
{
    line = $0
    sub(/(^|[^:])\/\/.*/, "", line)
    code[FILENAME] = code[FILENAME] line "\n"
    if (match(line, /pub(\([a-z]+\))? (unsafe |const |async )*(struct|enum|trait|fn|type|static|const) [A-Za-z_]+/)) {
        name = substr(line, RSTART, RLENGTH)
        sub(/.* /, "", name)
        crate = module_of(FILENAME)
        sub(/::.*/, "", crate)
        # Methods are indented.
        if (line ~ /^pub/ && !((crate, name) in defined)) defined[crate, name] = FILENAME
    }
}
END {
    starts = split(start, list_of_starts, " ")
    for (s = 1; s <= starts; s++) visit(list_of_starts[s])
}
