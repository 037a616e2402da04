# Reads which modules of a crate name which others. Arguments: the sources below the crate's `src`, by
# paths that begin there, twice. Prints `arrow: ..` for each import that runs against the order of
# `rooms`, and `circle: ..` for each circle of modules, in their order.
#
# `rooms` are the folders and files of the root, from the lowest room on; a comma stands between
# several that are one room. A module imports from the rooms before its own, and from its own.
#
# A module is a file: `worker/group` is `worker/group.rs` or `worker/group/mod.rs`. A module names
# another one by a path that begins with `crate`, `super`, `self` or the name of a child, in a `use`
# or in its code. The path is followed as the compiler does: through modules, and through names that
# a module on the way imports or exports (`use super::Name` leads to the file that has `Name`, also
# if `mod.rs` or the root exports that). A path ends at the first name that is no module: the module
# that has this name is named. A `*` names all that its module has and exports. A `mod` names
# nothing; nor does a `pub use`, unless the code of the same file uses that name: a parent may
# declare and export its children. Modules in braces belong to their file. Not seen: calls of
# methods, `$crate` of macros, comments and their links.

# The module that a path of the directory tree is; "" is the root.
function module_of(path) {
    sub(/\.rs$/, "", path); sub(/(^|\/)mod$/, "", path)
    return path == "lib" || path == "main" ? "" : path
}
function below(module, name) { return module == "" ? name : module "/" name }
function parent(module) { return module ~ /\// ? substr(module, 1, match(module, /\/[^\/]*$/) - 1) : "" }

# Notes that the scope imports or exports a name, which stands for a path; and, in the second pass,
# what a `use` names.
function import(scope, path, name, exports) {
    if (pass == 1) {
        if (name == "*") globs[scope] = globs[scope] " " path
        else if (name != "_") {
            names[scope, name] = names[scope, name] " " path
            if (exports) exported[scope, name] = 1
        }
    } else if (!exports) follow(scope, path, 0)
}

# The paths in the tree of a `use`.
function expand(scope, prefix, tree, exports,   depth, at, begin, c, head) {
    gsub(/^[ ]+|[ ]+$/, "", tree)
    if (tree == "") return
    # Several, with commas between them.
    depth = 0; begin = 1
    for (at = 1; at <= length(tree); at++) {
        c = substr(tree, at, 1)
        if (c == "{") depth++
        else if (c == "}") depth--
        else if (c == "," && depth == 0) {
            expand(scope, prefix, substr(tree, begin, at - begin), exports)
            begin = at + 1
        }
    }
    if (begin > 1) { expand(scope, prefix, substr(tree, begin), exports); return }
    if ((at = index(tree, "{")) > 0) {
        head = substr(tree, 1, at - 1)
        sub(/::$/, "", head)
        if (head != "") prefix = prefix == "" ? head : prefix "::" head
        expand(scope, prefix, substr(tree, at + 1, length(tree) - at - 1), exports)
        return
    }
    head = tree
    if (match(tree, / as /)) { head = substr(tree, 1, RSTART - 1); tree = substr(tree, RSTART + 4) }
    else if (tree != "self") sub(/^.*::/, "", tree)
    if (head == "self" && prefix != "") {
        head = prefix
        if (tree == "self") { tree = prefix; sub(/^.*::/, "", tree) }
    } else if (prefix != "") head = prefix "::" head
    import(scope, head, tree, exports)
}

# Follows a path from a scope, and notes the module at its end.
function follow(scope, path, depth,   parts, n, at, module, name, also, targets, t, rest) {
    if (depth > 12) return
    sub(/^::.*/, "", path)
    n = split(path, parts, "::")
    if (n == 0) return
    at = 1
    if (parts[1] == "crate") { module = ""; at = 2 }
    else if (parts[1] == "self") { module = scope; at = 2 }
    else if (parts[1] == "super") {
        module = scope
        while (at <= n && parts[at] == "super") { module = parent(module); at++ }
    }
    else if ((below(scope, parts[1]) in file) || ((scope, parts[1]) in names && depth < 4)) module = scope
    else return
    for (; at <= n; at++) {
        name = parts[at]
        if (name == "*") {
            note(module)
            t = split(globs[module], targets, " ")
            for (also = 1; also <= t; also++) follow(module, targets[also] "::*", depth + 2)
            for (also in exported) {
                split(also, targets, SUBSEP)
                if (targets[1] == module) follow_name(module, targets[2], "", depth + 2)
            }
            return
        }
        if (below(module, name) in file) { module = below(module, name); continue }
        if ((module, name) in names) {
            rest = ""
            for (at++; at <= n; at++) rest = rest "::" parts[at]
            follow_name(module, name, rest, depth + 1)
            return
        }
        break
    }
    note(module)
}
function follow_name(module, name, rest, depth,   targets, t, which) {
    t = split(names[module, name], targets, " ")
    for (which = 1; which <= t; which++) {
        # A macro that is exported by its own name.
        if (targets[which] == name) note(module)
        else follow(module, targets[which] rest, depth)
    }
}
function note(module) {
    if (file[module] != here) edge[here, file[module]] = FNR
}

FNR == 1 {
    if (!(FILENAME in seen)) { seen[FILENAME] = 1; pass = 1 } else pass = 2
    scope = module_of(FILENAME)
    here = scope == "" ? "lib" : scope
    if (pass == 1) { file[scope] = here; node[++nodes] = here }
    deep = 0; statement = ""; path = ""
}
{
    if ($0 ~ /^[ ]*\/\//) next
    line = $0
    sub(/[ ]\/\/.*/, "", line)
    if (statement == "" && match(line, /^[ ]*(pub(\([a-z :]+\))? )?(use|mod) /)) {
        word = substr(line, 1, RLENGTH)
        if (word ~ /mod $/) {
            name = line
            sub(/^.*mod /, "", name)
            if (name ~ /^[a-z_0-9]+ \{$/) {
                sub(/ \{$/, "", name)
                indent[++deep] = substr(line, 1, match(line, /[^ ]/) - 1)
                scope = below(scope, name)
                if (pass == 1) file[scope] = here
                next
            }
            if (name ~ /^[a-z_0-9]+;/ && path != "" && pass == 1) {
                sub(/;.*/, "", name)
                gsub(/\//, "::", path)
                names[scope, name] = names[scope, name] " crate::" path
            }
            path = ""
            next
        }
        exports = word ~ /^[ ]*pub/
        statement = substr(line, RLENGTH + 1)
    } else if (statement != "") statement = statement line
    if (statement != "") {
        if (statement ~ /;/) {
            sub(/;.*/, "", statement)
            gsub(/[ ]+/, " ", statement)
            expand(scope, "", statement, exports)
            statement = ""
        }
        next
    }
    if (match(line, /#\[path = "[a-z_\/]+\.rs"\]/)) path = module_of(substr(line, RSTART + 10, RLENGTH - 12))
    else if (line !~ /^[ ]*#\[/) path = ""
    if (deep > 0 && line == indent[deep] "}") { deep--; scope = parent(scope); next }
    if (pass == 1) next
    # Names that this file exports and uses.
    gsub(/pub\(in [a-z:]+\)/, "pub", line)
    rest = line
    while (match(rest, /[A-Za-z_][A-Za-z_0-9]*(::[A-Za-z_][A-Za-z_0-9]*)*/)) {
        before = RSTART > 1 ? substr(rest, RSTART - 1, 1) : " "
        word = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (before ~ /[$.:]/) continue
        first = word
        sub(/::.*/, "", first)
        if (first == "crate" || first == "super" || first == "self") { if (first != word) follow(scope, word, 0) }
        else if (first != word && (below(scope, first) in file)) follow(scope, word, 0)
        else if ((scope, first) in exported) follow(scope, word, 0)
    }
}

# All that a module reaches.
function reach(from, at,   to) {
    for (to = 1; to <= nodes; to++)
        if ((at, node[to]) in edge && !((from, node[to]) in reached)) {
            reached[from, node[to]] = 1
            reach(from, node[to])
        }
}
function room(module) { sub(/\/.*/, "", module); return module in floor ? floor[module] : 0 }
END {
    n = split(rooms, words, " ")
    for (at = 1; at <= n; at++) {
        m = split(words[at], parts, ",")
        for (also = 1; also <= m; also++) { floor[parts[also]] = at; wanted[parts[also]] = 1 }
    }
    for (n = 1; n <= nodes; n++) {
        first = node[n]
        sub(/\/.*/, "", first)
        delete wanted[first]
        if (first != "lib" && !room(first)) print "arrow: " node[n] " is in no room"
    }
    for (name in wanted) print "arrow: there is no room " name
    for (pair in edge) {
        split(pair, ends, SUBSEP)
        if (all) print ends[1] " -> " ends[2]
        if (ends[1] == "lib") continue
        if (ends[2] == "lib") print "arrow: " ends[1] ":" edge[pair] " imports what the root has"
        else if (room(ends[1]) < room(ends[2])) print "arrow: " ends[1] ":" edge[pair] " imports from a later room: " ends[2]
    }
    for (n = 1; n <= nodes; n++) reach(node[n], node[n])
    for (n = 1; n <= nodes; n++) {
        if (node[n] in told || !((node[n], node[n]) in reached)) continue
        circle = "circle:"
        for (m = 1; m <= nodes; m++)
            if ((node[n], node[m]) in reached && (node[m], node[n]) in reached) {
                circle = circle " " node[m]
                told[node[m]] = 1
            }
        print circle
    }
}
