# Relative links of Markdown lead to files and headings that there are, and the page `front` links at most ten pages.
# Given all pages twice: the first reading takes the headings, the second one checks the links.

# The anchor of a heading, as repository hosts make it.
function anchor(text) {
    gsub(/\]\([^)]*\)/, "", text)
    text = tolower(text)
    gsub(/[^a-z0-9 _-]/, "", text)
    gsub(/ /, "-", text)
    return text
}

function exists(path) {
    if (!(path in there)) there[path] = !system("test -e '" path "'")
    return there[path]
}

# Without `.` and `..`.
function plain(path,    parts, n, i, out, depth) {
    n = split(path, parts, "/")
    for (i = 1; i <= n; i++) {
        if (parts[i] == "..") depth--
        else if (parts[i] != "" && parts[i] != ".") out[++depth] = parts[i]
    }
    path = out[1]
    for (i = 2; i <= depth; i++) path = path "/" out[i]
    return path
}

function fault(text) { print "error: " FILENAME ":" FNR ": " text; bad = 1 }

FNR == 1 { fenced = 0; pass[FILENAME]++; page = FILENAME; absolute = page ~ /^\// ? "/" : "" }
/^ *(```|~~~)/ { fenced = !fenced; next }
fenced { next }
pass[page] == 1 {
    if (/^#+ /) {
        sub(/^#+ /, "")
        name = anchor($0)
        headings[page "#" name (seen[page "#" name]++ ? "-" seen[page "#" name] - 1 : "")] = 1
    }
    next
}
{
    text = $0
    gsub(/`[^`]*`/, "", text)
    while (match(text, /\]\([^) ]+\)/)) {
        target = substr(text, RSTART + 2, RLENGTH - 3)
        text = substr(text, RSTART + RLENGTH)
        if (target ~ /^[a-z]+:/) continue
        file = target
        sub(/#.*/, "", file)
        directory = page
        if (!sub(/\/[^\/]*$/, "", directory)) directory = "."
        file = file == "" ? page : absolute plain(directory "/" file)
        if (!exists(file)) fault("there is no " file)
        else if (target ~ /#/ && file ~ /\.md$/ && !((file substr(target, index(target, "#"))) in headings))
            fault("there is no heading " target)
        if (page == front && file ~ /\.md$/ && !linked[file]++ && ++pages > 10) fault("more than ten pages are linked")
    }
}
END { exit bad }
