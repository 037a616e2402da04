# Finds waits of `segue-unblock` that nothing ends. Every loop that asks the kernel again waits, or
# pauses, by `Patience`, which knows the deadline and the cancellation; a loop that ends by itself
# says so in a comment above it, which begins with "Ends:". Waits for readiness are made by
# `Patience` alone, and calls on other threads by `elsewhere`, which a cancellation interrupts.

function at(message) { printf "%s:%d: %s\n", FILENAME, FNR, message; bad = 1 }

FNR == 1 { depth = 0; ends = 0 }

/^ *\/\/ Ends:/ { ends = 1; next }
/^ *\/\// { next }

# A loop that lies in another one counts for both.
/(^|[ =(])(loop|while .*) \{$/ {
    depth++
    match($0, /^ */)
    indent[depth] = RLENGTH
    begun[depth] = FNR
    waits[depth] = ends
}

/(patience|self)\.(wait|pause)\(/ { for (i = 1; i <= depth; i++) waits[i] = 1 }

/^ *\}/ && depth {
    match($0, /^ */)
    if (RLENGTH == indent[depth]) {
        if (!waits[depth]) {
            printf "%s:%d: a loop without a wait that a deadline ends\n", FILENAME, begun[depth]
            bad = 1
        }
        depth--
    }
}

/\.(readable|writable)\(/ && !/\(deadline\)/ { at("a wait for readiness without a deadline") }
/segue_core::blocking\(|Blocking::new\(|block_on\(/ { at("a call on a thread that nothing interrupts: `elsewhere` has one") }

{ ends = 0 }

END { exit bad }
