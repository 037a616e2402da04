# Counts words that point where a noun would name, in the prose of each file: comments of Rust files and the text of
# Markdown, without code. Of 1,000 words at most 2 are "what", 15 "it", and 0.2 "who", "whoever", "whom" or "whose".
# Files with fewer than 300 words are left out. `todo` names the list of files that still fail: the list may only shrink,
# so a file on it that passes has to leave it. Prints how many files are on it, of how many that are measured.

function rate(count) { return 1000 * count / words }

# The judgement of the file that ends here.
function judge(    said) {
    if (!name) return
    files++
    if (words < 300) { left_out++; if (name in listed) fault(name " has fewer than 300 words: take it off the list") }
    else if (rate(what) > 2 || rate(it) > 15 || rate(who) > 0.2) {
        if (name in listed) still++
        else fault(sprintf("%s: of 1,000 words (it has %d) %.1f are what, %.1f it, %.1f who; at most 2, 15 and 0.2 may be",
            name, words, rate(what), rate(it), rate(who)))
    } else if (name in listed) fault(name " passes: take it off the list")
    delete listed[name]
}

function fault(text) { print "error: " text; bad = 1 }

function count(text,    tokens, n, i) {
    gsub(/`[^`]*`/, "x", text)              # Code.
    gsub(/\]\([^)]*\)/, "", text)           # The target of a link.
    gsub(/https?:[^ ]*|[A-Za-z0-9]+(_[A-Za-z0-9]+)+/, "x", text)
    n = split(tolower(text), tokens, /[^a-z']+/)
    for (i = 1; i <= n; i++) {
        if (tokens[i] !~ /[a-z]/) continue
        words++
        sub(/'.*/, "", tokens[i])
        if (tokens[i] == "what") what++
        else if (tokens[i] == "it") it++
        else if (tokens[i] ~ /^(who|whoever|whom|whose)$/) who++
    }
}

BEGIN { while ((getline line < todo) > 0) if (line !~ /^(#|$)/) listed[line] = 1 }

FNR == 1 {
    judge()
    name = FILENAME
    sub(/^\.\//, "", name)
    rust = name ~ /\.rs$/
    words = what = it = who = fenced = 0
}
{
    text = $0
    if (rust) {
        if (!match(text, /^[ \t]*\/\/[\/!]?/)) { fenced = 0; next }
        text = substr(text, RLENGTH + 1)
    }
    if (text ~ /^ *(```|~~~)/) { fenced = !fenced; next }
    if (!fenced && text !~ /^ *\[[^]]*\]: /) count(text)
}
END {
    judge()
    for (name in listed) fault(name " is no file that is measured: take it off the list")
    printf "%d files are still to do, of %d with 300 words or more\n", still, files - left_out
    exit bad
}
