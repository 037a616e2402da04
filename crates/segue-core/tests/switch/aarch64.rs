//! The registers of AArch64, in the convention of its procedure call standard.
//!
//! Used by the test of the switch.

#![allow(unsafe_code)] // Assembly.

use std::arch::naked_asm;

use super::Values;

/// Those that a function keeps; of the vector registers, their lower halves.
pub const REGISTERS: [&str; 19] = [
    "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "d8", "d9", "d10", "d11", "d12",
    "d13", "d14", "d15",
];

/// Calls `f` with these values in the registers, and tells what they are afterwards. The caller's
/// come back.
///
/// # Safety
///
/// `f` may be called without arguments.
#[unsafe(naked)]
pub unsafe extern "C" fn across(before: &Values, after: &mut Values, f: unsafe extern "C" fn()) {
    naked_asm!(
        "sub sp, sp, #176",
        "str x30, [sp, #160]",
        "str x1, [sp, #168]",
        "str x19, [sp, #0]",
        "str x20, [sp, #8]",
        "str x21, [sp, #16]",
        "str x22, [sp, #24]",
        "str x23, [sp, #32]",
        "str x24, [sp, #40]",
        "str x25, [sp, #48]",
        "str x26, [sp, #56]",
        "str x27, [sp, #64]",
        "str x28, [sp, #72]",
        "str x29, [sp, #80]",
        "str d8, [sp, #88]",
        "str d9, [sp, #96]",
        "str d10, [sp, #104]",
        "str d11, [sp, #112]",
        "str d12, [sp, #120]",
        "str d13, [sp, #128]",
        "str d14, [sp, #136]",
        "str d15, [sp, #144]",
        "ldr x19, [x0, #0]",
        "ldr x20, [x0, #8]",
        "ldr x21, [x0, #16]",
        "ldr x22, [x0, #24]",
        "ldr x23, [x0, #32]",
        "ldr x24, [x0, #40]",
        "ldr x25, [x0, #48]",
        "ldr x26, [x0, #56]",
        "ldr x27, [x0, #64]",
        "ldr x28, [x0, #72]",
        "ldr x29, [x0, #80]",
        "ldr d8, [x0, #88]",
        "ldr d9, [x0, #96]",
        "ldr d10, [x0, #104]",
        "ldr d11, [x0, #112]",
        "ldr d12, [x0, #120]",
        "ldr d13, [x0, #128]",
        "ldr d14, [x0, #136]",
        "ldr d15, [x0, #144]",
        "blr x2",
        "ldr x1, [sp, #168]",
        "str x19, [x1, #0]",
        "str x20, [x1, #8]",
        "str x21, [x1, #16]",
        "str x22, [x1, #24]",
        "str x23, [x1, #32]",
        "str x24, [x1, #40]",
        "str x25, [x1, #48]",
        "str x26, [x1, #56]",
        "str x27, [x1, #64]",
        "str x28, [x1, #72]",
        "str x29, [x1, #80]",
        "str d8, [x1, #88]",
        "str d9, [x1, #96]",
        "str d10, [x1, #104]",
        "str d11, [x1, #112]",
        "str d12, [x1, #120]",
        "str d13, [x1, #128]",
        "str d14, [x1, #136]",
        "str d15, [x1, #144]",
        "ldr x19, [sp, #0]",
        "ldr x20, [sp, #8]",
        "ldr x21, [sp, #16]",
        "ldr x22, [sp, #24]",
        "ldr x23, [sp, #32]",
        "ldr x24, [sp, #40]",
        "ldr x25, [sp, #48]",
        "ldr x26, [sp, #56]",
        "ldr x27, [sp, #64]",
        "ldr x28, [sp, #72]",
        "ldr x29, [sp, #80]",
        "ldr d8, [sp, #88]",
        "ldr d9, [sp, #96]",
        "ldr d10, [sp, #104]",
        "ldr d11, [sp, #112]",
        "ldr d12, [sp, #120]",
        "ldr d13, [sp, #128]",
        "ldr d14, [sp, #136]",
        "ldr d15, [sp, #144]",
        "ldr x30, [sp, #160]",
        "add sp, sp, #176",
        "ret",
    )
}

/// One for each register, in their order.
pub const LEAVING_OUT: [unsafe extern "C" fn(); REGISTERS.len()] = leaving_out!(
    ["str x30, [sp, #-16]!" "bl {over}" "ldr x30, [sp], #16"]
    "mov x19, #-1"
    "mov x20, #-1"
    "mov x21, #-1"
    "mov x22, #-1"
    "mov x23, #-1"
    "mov x24, #-1"
    "mov x25, #-1"
    "mov x26, #-1"
    "mov x27, #-1"
    "mov x28, #-1"
    "mov x29, #-1"
    "fmov d8, #1.0"
    "fmov d9, #1.0"
    "fmov d10, #1.0"
    "fmov d11, #1.0"
    "fmov d12, #1.0"
    "fmov d13, #1.0"
    "fmov d14, #1.0"
    "fmov d15, #1.0"
);
