# The public interface of a crate as text, from what rustdoc wrote: run with -v docs=DIRECTORY of
# the crate. A line for each item, public method, field and variant, and each trait that a type has,
# Send and Sync included. Items of other crates that are exported here are a line each.
function slurp(file,    line, text) {
    text = ""
    while ((getline line < file) > 0) text = text line "\n"
    close(file)
    return text
}

# The text of HTML: without tags, as Rust.
function plain(html) {
    gsub(/<span class="comment">\/\* private fields \*\/<\/span>/, "..", html)
    gsub(/<span class="comment">[^<]*<\/span>/, "", html)
    gsub(/<[^>]*>/, "", html)
    gsub(/&lt;/, "<", html); gsub(/&gt;/, ">", html); gsub(/&quot;/, "\"", html)
    gsub(/&#39;/, "'", html); gsub(/&nbsp;|\302\240/, " ", html); gsub(/&amp;/, "\\&", html)
    return html
}

function in_line(html) {
    gsub(/<div class="where">/, " ", html)
    html = plain(html)
    gsub(/[ \n]+/, " ", html)
    sub(/ $/, "", html)
    return html
}

# What stands between two marks in a text; the rest goes into `rest`.
function between(text, from, to,    at) {
    at = index(text, from)
    if (!at) { rest = ""; return "" }
    text = substr(text, at + length(from))
    at = index(text, to)
    rest = substr(text, at + length(to))
    return substr(text, 1, at - 1)
}

function declaration(text,    n, i, lines, line) {
    n = split(plain(text), lines, "\n")
    for (i = 1; i <= n; i++) {
        line = lines[i]
        sub(/ +$/, "", line)
        if (line !~ /^ *(\/\/.*)?$/) print line
    }
}

# Headings of implementations, and the public methods below each.
function implementations(text, only,    heading) {
    while (match(text, /<h[34] class="code-header">/)) {
        is_method = substr(text, RSTART + 2, 1) == "4"
        text = substr(text, RSTART + RLENGTH)
        heading = in_line(substr(text, 1, index(text, "</h") - 1))
        if (is_method && heading !~ /^pub /) continue
        if (only != "" && heading !~ only) continue
        print (is_method ? "        " : "    ") heading
    }
}

function item(name, kind, html,    text, parts, origin, marks, i) {
    text = slurp(docs "/" html)
    match(text, /class="src" href="[^"]*"/)
    split(substr(text, RSTART, RLENGTH), parts, "/src/")
    origin = parts[2]
    sub(/\/.*/, "", origin)
    if (origin != "" && origin != crate) { print "use " origin ": " kind " " name; return }
    print kind " " name
    declaration(between(text, "item-decl\"><code>", "</code></pre>"))
    # Each of these sections begins with its own mark and ends where the next one does.
    split("\"implementations\"|\"trait-implementations\"|\"synthetic-implementations\"|\"blanket-implementations\"|\"implementors\"|\"foreign-impls\"", marks, "|")
    for (i in marks) gsub("<h2 id=" marks[i], "\001&", text)
    n = split(text, parts, "\001")
    for (i = 2; i <= n; i++) {
        if (parts[i] ~ /^<h2 id="(implementations|trait-implementations|foreign-impls)"/) implementations(parts[i], "")
        if (parts[i] ~ /^<h2 id="synthetic-implementations"/) implementations(parts[i], "^impl.* !?(Send|Sync) for ")
    }
}

BEGIN {
    crate = docs
    sub(/.*\//, "", crate)
    all = slurp(docs "/all.html")
    sub(/.*<h1>List of all items<\/h1>/, "", all)
    while (match(all, /<li><a href="[^"]*">/)) {
        html = substr(all, RSTART + 13, RLENGTH - 15)
        all = substr(all, RSTART + RLENGTH)
        kind = html
        sub(/.*\//, "", kind)
        sub(/\..*/, "", kind)
        name = in_line(substr(all, 1, index(all, "<") - 1))
        item(name, kind, html)
    }
}
