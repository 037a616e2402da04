# Prints each public function that may wait and whose docs say neither what cancellation does (a
# section `# Cancellation`) nor that it never waits (in these words); fails if there is one. A
# function may wait if its result can be a cancellation, or an I/O error, or is something to be
# waited for.
FNR == 1 { docs = ""; signature = ""; tests = 0 }
/^#\[cfg\(test\)\]/ { tests = 1 }
/^[ \t]*\/\/\// { sub(/^[ \t]*\/\/\//, ""); docs = docs $0; next }
/^[ \t]*(#\[|\/\/)/ { next }
{
    if (signature == "" && $0 ~ /^[ \t]*pub (const )?(unsafe )?fn /) { signature = $0; line = FNR }
    else if (signature != "") signature = signature " " $0
    if (signature != "") {
        if (signature !~ /[{;]/) next
        result = signature
        sub(/[{;].*/, "", result)
        if (result ~ /->/) sub(/.*->/, "", result); else result = ""
        if (!tests && result ~ /(Cancelled|Error|Ended)>|Waitable<|io::Result</ && docs !~ /# Cancellation|[Nn]ever waits/) {
            name = signature
            sub(/.*fn /, "", name); sub(/[(<].*/, "", name)
            printf "%s:%d: the docs of `%s` say neither what cancellation does (# Cancellation) nor that it never waits\n", FILENAME, line, name
            bad = 1
        }
    }
    docs = ""; signature = ""
}
END { exit bad }
