//! What a trace makes of backtraces. A part of `explore/trace.rs`, which it sees from inside.

use super::*;

#[test]
fn a_place_is_the_innermost_call_of_the_program_and_the_outermost_operation() {
    let ours = format!("{}/segue/src/sync/mutex.rs:3:4", crates());
    let stack = [
        "   0:     0x55d0 - segue_core::preempt::preemption_point",
        "   1:     0x55d1 - <segue::sync::mutex::MutexGuard<T> as core::ops::drop::Drop>::drop::h94d079fe3e657d9c",
        &format!("                               at {ours}"),
        "   2:     0x55d2 - core::ptr::drop_in_place<segue::sync::mutex::MutexGuard<u32>>",
        "                               at /rustc/12/library/core/src/ptr/mod.rs:5:6",
        "   3:     0x55d3 - pool::take::{{closure}}",
        "                               at /home/pool/src/lib.rs:34:9",
        "   4:     0x55d4 - segue_core::contract::job::run",
    ];
    assert_eq!(place_in(&stack.join("\n")), "/home/pool/src/lib.rs:34:9, unlock of a mutex");
    let bare = "   0:     0x1 - segue_core::scope::Scope<'_,'_>::spawn\n   1:     0x2 - pool::main\n";
    assert_eq!(place_in(bare), "pool::main, `Scope::spawn`");
    let point = "   0:     0x1 - segue_core::preempt::preemption_point\n   1:     0x2 - pool::main\n";
    assert_eq!(place_in(point), "pool::main, a preemption point");
}
