# Reads a test file and says which of its sleeps takes long, or blocks a thread without a reason.
# `virtual` is 1 if the file has a simulator: seconds are virtual there. Prints how many sleeps take
# no time and how many may take some ms; fails if there was something to say. A sleep of a named
# constant is not looked at.
function wrong(what) { printf "%s:%d: %s\n", FILENAME, FNR, what; bad = 1 }

/^[ \t]*\/\// { before = 1; next }
/thread::sleep\(/ && !before { wrong("a thread sleeps here, and no comment above says why") }
{ before = 0 }
match($0, /sleep\(Duration::(MAX|ZERO)|sleep\(Duration::from_[a-z]+\(/) {
    call = substr($0, RSTART, RLENGTH)
    amount = substr($0, RSTART + RLENGTH)
    gsub(/_/, "", amount)
    amount += 0
    if (call ~ /MAX|ZERO/ || (call ~ /secs/ && (virtual || amount >= 1000))) none++
    else if (call ~ /secs/ || (call ~ /millis/ && amount > 60)) wrong("a sleep that takes real time: " call)
    else real++
}
END {
    print none + 0, real + 0
    exit bad
}
