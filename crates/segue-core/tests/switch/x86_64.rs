//! The registers of x86-64, in the System V calling convention.
//!
//! Used by the test of the switch.

#![allow(unsafe_code)] // Assembly.

use std::arch::naked_asm;

use super::Values;

/// Those that a function keeps.
pub const REGISTERS: [&str; 6] = ["rbx", "rbp", "r12", "r13", "r14", "r15"];

/// Calls `f` with these values in the registers, and tells what they are afterwards. The caller's
/// come back.
///
/// # Safety
///
/// `f` may be called without arguments.
#[unsafe(naked)]
pub unsafe extern "C" fn across(before: &Values, after: &mut Values, f: unsafe extern "C" fn()) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rsi",
        "mov rbx, [rdi + 0]",
        "mov rbp, [rdi + 8]",
        "mov r12, [rdi + 16]",
        "mov r13, [rdi + 24]",
        "mov r14, [rdi + 32]",
        "mov r15, [rdi + 40]",
        "call rdx",
        "pop rsi",
        "mov [rsi + 0], rbx",
        "mov [rsi + 8], rbp",
        "mov [rsi + 16], r12",
        "mov [rsi + 24], r13",
        "mov [rsi + 32], r14",
        "mov [rsi + 40], r15",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// One for each register, in their order.
pub const LEAVING_OUT: [unsafe extern "C" fn(); REGISTERS.len()] = leaving_out!(
    ["sub rsp, 8" "call {over}" "add rsp, 8"]
    "mov rbx, -1"
    "mov rbp, -1"
    "mov r12, -1"
    "mov r13, -1"
    "mov r14, -1"
    "mov r15, -1"
);
