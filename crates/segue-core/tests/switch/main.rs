//! The switch between stacks keeps each register that a function has to keep.
//!
//! Both sides load all of these registers with values of their own, switch, and look at the
//! registers afterwards. The means of a processor are in its file: `across`, which does that, and a
//! planted fault for each register.

#![cfg(all(
    not(any(miri, loom)),
    any(target_arch = "x86_64", all(unix, any(target_arch = "aarch64", target_arch = "riscv64")))
))]
#![allow(unsafe_code)] // Switches stacks, and looks at registers.

/// Functions that switch over, after which one register has another value: `go` calls
/// `switch_over`, and each change is an instruction.
macro_rules! leaving_out {
    (@body [$($go:literal)*] $change:literal) => {
        std::arch::naked_asm!($($go,)* $change, "ret", over = sym crate::switch_over)
    };
    ($go:tt $($change:literal)*) => {
        [$({
            #[unsafe(naked)]
            unsafe extern "C" fn over() {
                leaving_out!(@body $go $change)
            }
            over
        }),*]
    };
}

#[cfg_attr(all(target_arch = "x86_64", not(windows)), path = "x86_64.rs")]
#[cfg_attr(all(target_arch = "x86_64", windows), path = "x86_64_windows.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
mod processor;

use std::cell::Cell;
use std::ptr;

use processor::{LEAVING_OUT, REGISTERS, across};
use segue_core::switch::{Resting, Root, prepare, switch};

/// What the registers hold, in the order of [`REGISTERS`].
type Values = [u64; REGISTERS.len()];

#[repr(C, align(16))]
struct Memory([u8; 64 * 1024]);

thread_local! {
    /// Where the other side rests.
    static OTHER: Cell<Resting> = const { Cell::new(ptr::null_mut()) };
    static ROOT: Cell<*mut Root> = const { Cell::new(ptr::null_mut()) };
    static THEIRS: Cell<Values> = const { Cell::new([0; _]) };
}

/// Values that no other register and no other side has, in either half.
fn values(side: u64) -> Values {
    std::array::from_fn(|register| {
        let half = side << 16 | (register as u64 + 1);
        // That word of Windows has 32 bits.
        if REGISTERS[register] == "guaranteed" { half } else { half << 32 | half }
    })
}

/// Lets the other side go on; returns when that rests again.
unsafe extern "C" fn switch_over() {
    // SAFETY: the other side rests there, and comes back to the link.
    unsafe { switch(&raw mut (*ROOT.get()).link, OTHER.get()) }
}

/// The other side's: back to the first.
unsafe extern "C" fn switch_back() {
    // SAFETY: the first side rests at the link, and looks for this one only when it goes on.
    unsafe { switch(OTHER.with(Cell::as_ptr), (*ROOT.get()).link) }
}

/// The other side: the registers are its own, also after each turn of the first side.
unsafe extern "C" fn other_side(_: *mut Root) -> ! {
    loop {
        let mut after = [0; _];
        // SAFETY: `switch_back` is a function without arguments.
        unsafe { across(&values(2), &mut after, switch_back) };
        THEIRS.set(after);
    }
}

/// The registers of this side after `over`, which lets the other side go on; and the registers of
/// the other side after its last turn but one.
fn registers_after(over: unsafe extern "C" fn()) -> (Values, Values) {
    let mut memory = Box::new(Memory([0; _]));
    let mut root = Root { link: ptr::null_mut(), entry: other_side };
    let root = &raw mut root;
    ROOT.set(root);
    // SAFETY: the end of the memory is a multiple of 16; the other side needs far less, and never
    // goes on after this function: it owns nothing.
    OTHER.set(unsafe { prepare(memory.0.as_mut_ptr_range().end, root) });
    let mut after = [0; _];
    for _ in 0..2 {
        // SAFETY: the function has no arguments.
        unsafe { across(&values(1), &mut after, over) };
    }
    (after, THEIRS.get())
}

fn differ(after: Values, before: Values) -> Vec<&'static str> {
    let differ = after.iter().zip(before).zip(REGISTERS).filter(|((after, before), _)| **after != *before);
    differ.map(|(_, register)| register).collect()
}

#[test]
fn both_sides_of_a_switch_have_all_their_registers_again() {
    let (ours, theirs) = registers_after(switch_over);
    assert_eq!(differ(ours, values(1)), [""; 0]);
    assert_eq!(differ(theirs, values(2)), [""; 0]);
}

#[test]
fn a_planted_switch_that_leaves_a_register_out_is_found_for_each_register() {
    for (register, over) in REGISTERS.into_iter().zip(LEAVING_OUT) {
        assert_eq!(differ(registers_after(over).0, values(1)), [register]);
    }
}
