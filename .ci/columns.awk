# Comment lines of Rust files and prose of Markdown have at most 100 columns. Exempt: table rows; blocks between
# fences, and what a drawing or an example indents by four; a line that is one word, such as a link.
function width(text) {
    # Characters also where awk counts bytes.
    gsub(/[\300-\367][\200-\277]+/, "x", text)
    return length(text)
}
FNR == 1 { fenced = 0; rust = FILENAME ~ /\.rs$/ }
{
    text = $0
    if (rust) {
        if (text !~ /^[ \t]*\/\//) { fenced = 0; next }
        sub(/^[ \t]*\/\/[\/!]? ?/, "", text)
    }
    if (text ~ /^ *(```|~~~)/) { fenced = !fenced; next }
    if (fenced || text ~ /^ *\|/ || text ~ /^    / || width($0) <= 100) next
    sub(/^ *([*-] |[0-9]+\. |\[[^]]*\]: )?/, "", text)
    if (text !~ / /) next
    print "error: " FILENAME ":" FNR " has " width($0) " columns of comment or prose; the limit is 100"
    bad = 1
}
END { exit bad }
