# The arguments for `unsafe` in Rust files: the comments that begin with `SAFETY:`. Prints each that
# leans on the caller inside of a function that is not `unsafe`, which nobody has to read before a
# call; then how many arguments there are, and how many of at most five words. Fails for the first.
#
# A function begins at its line with `fn` and ends at the brace in the column of that line, as
# rustfmt sets both; a closure belongs to the function around.
function column(line) { match(line, /[^ ]/); return RSTART - 1 }
function conclude(   words, n) {
    if (argument == "") return
    n = split(argument, words, " ")
    all++
    if (n <= 5) { short++; if (list) print FILENAME ":" at ":" argument }
    if (depth > 0 && !is_unsafe[depth] && tolower(argument) ~ /(^|[^a-z])callers?([^a-z]|$)/) {
        print "error: " file ":" at ": an argument leans on the caller of a function that is not unsafe:" argument
        bad = 1
    }
    argument = ""
}
FNR == 1 { conclude(); depth = 0; file = FILENAME }
/^ *\/\// {
    text = $0
    if (text ~ /^ *\/\/ SAFETY:/) {
        conclude()
        sub(/^ *\/\/ SAFETY:/, "", text)
        argument = text " "
        at = FNR
    } else if (argument != "") {
        sub(/^ *\/\/ ?/, "", text)
        argument = argument " " text
    }
    next
}
/\/\/ SAFETY:/ {
    conclude()
    argument = $0
    sub(/.*\/\/ SAFETY:/, "", argument)
    at = FNR
}
{
    conclude()
    if ($0 ~ /^ *(pub(\([a-z: ]+\))? )?(default )?(const )?(async )?(unsafe )?(extern "[^"]*" )?fn [a-z_A-Z0-9]/) {
        while (depth > 0 && indent[depth] >= column($0)) depth--
        if ($0 !~ /[;}]$/) {
            indent[++depth] = column($0)
            is_unsafe[depth] = $0 ~ /unsafe (extern "[^"]*" )?fn /
        }
    } else if ($0 ~ /^ *\}/) while (depth > 0 && indent[depth] >= column($0)) depth--
}
END { conclude(); printf "%d arguments, %d of at most five words\n", all, short; exit bad }
