//! The registers of x86-64, in the calling convention of Windows, and the bounds of the stack in
//! the thread's block.
//!
//! Used by the test of the switch.

#![allow(unsafe_code)] // Assembly.

use std::arch::naked_asm;

use super::Values;

/// Those that a function keeps; of the vector registers both halves.
#[rustfmt::skip]
pub const REGISTERS: [&str; 33] = [
    "rbx", "rbp", "rdi", "rsi", "r12", "r13", "r14", "r15",
    "xmm6 low", "xmm6 high", "xmm7 low", "xmm7 high", "xmm8 low", "xmm8 high", "xmm9 low", "xmm9 high", "xmm10 low", "xmm10 high",
    "xmm11 low", "xmm11 high", "xmm12 low", "xmm12 high", "xmm13 low", "xmm13 high", "xmm14 low", "xmm14 high", "xmm15 low", "xmm15 high",
    "base", "limit", "lowest", "guaranteed", "handlers",
];

/// Calls `f` with these values in the registers, and tells what they are afterwards. The caller's
/// come back. Nothing may throw meanwhile: the bounds of the stack are no addresses.
///
/// # Safety
///
/// `f` may be called without arguments, and does not throw.
#[unsafe(naked)]
pub unsafe extern "C" fn across(before: &Values, after: &mut Values, f: unsafe extern "C" fn()) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push rdi",
        "push rsi",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push qword ptr gs:[0x08]",
        "push qword ptr gs:[0x10]",
        "push qword ptr gs:[0x1478]",
        "mov eax, gs:[0x1748]",
        "push rax",
        "push qword ptr gs:[0x00]",
        "sub rsp, 208",
        "movups [rsp + 32], xmm6",
        "movups [rsp + 48], xmm7",
        "movups [rsp + 64], xmm8",
        "movups [rsp + 80], xmm9",
        "movups [rsp + 96], xmm10",
        "movups [rsp + 112], xmm11",
        "movups [rsp + 128], xmm12",
        "movups [rsp + 144], xmm13",
        "movups [rsp + 160], xmm14",
        "movups [rsp + 176], xmm15",
        "mov [rsp + 192], rdx",
        "movups xmm6, [rcx + 64]",
        "movups xmm7, [rcx + 80]",
        "movups xmm8, [rcx + 96]",
        "movups xmm9, [rcx + 112]",
        "movups xmm10, [rcx + 128]",
        "movups xmm11, [rcx + 144]",
        "movups xmm12, [rcx + 160]",
        "movups xmm13, [rcx + 176]",
        "movups xmm14, [rcx + 192]",
        "movups xmm15, [rcx + 208]",
        "mov r10, r8",
        "mov rax, [rcx + 224]",
        "mov gs:[0x08], rax",
        "mov rax, [rcx + 232]",
        "mov gs:[0x10], rax",
        "mov rax, [rcx + 240]",
        "mov gs:[0x1478], rax",
        "mov rax, [rcx + 248]",
        "mov gs:[0x1748], eax",
        "mov rax, [rcx + 256]",
        "mov gs:[0x00], rax",
        "mov rbx, [rcx + 0]",
        "mov rbp, [rcx + 8]",
        "mov rdi, [rcx + 16]",
        "mov rsi, [rcx + 24]",
        "mov r12, [rcx + 32]",
        "mov r13, [rcx + 40]",
        "mov r14, [rcx + 48]",
        "mov r15, [rcx + 56]",
        "call r10",
        "mov rcx, [rsp + 192]",
        "mov [rcx + 0], rbx",
        "mov [rcx + 8], rbp",
        "mov [rcx + 16], rdi",
        "mov [rcx + 24], rsi",
        "mov [rcx + 32], r12",
        "mov [rcx + 40], r13",
        "mov [rcx + 48], r14",
        "mov [rcx + 56], r15",
        "movups [rcx + 64], xmm6",
        "movups [rcx + 80], xmm7",
        "movups [rcx + 96], xmm8",
        "movups [rcx + 112], xmm9",
        "movups [rcx + 128], xmm10",
        "movups [rcx + 144], xmm11",
        "movups [rcx + 160], xmm12",
        "movups [rcx + 176], xmm13",
        "movups [rcx + 192], xmm14",
        "movups [rcx + 208], xmm15",
        "mov rax, gs:[0x08]",
        "mov [rcx + 224], rax",
        "mov rax, gs:[0x10]",
        "mov [rcx + 232], rax",
        "mov rax, gs:[0x1478]",
        "mov [rcx + 240], rax",
        "mov eax, gs:[0x1748]",
        "mov [rcx + 248], rax",
        "mov rax, gs:[0x00]",
        "mov [rcx + 256], rax",
        "movups xmm6, [rsp + 32]",
        "movups xmm7, [rsp + 48]",
        "movups xmm8, [rsp + 64]",
        "movups xmm9, [rsp + 80]",
        "movups xmm10, [rsp + 96]",
        "movups xmm11, [rsp + 112]",
        "movups xmm12, [rsp + 128]",
        "movups xmm13, [rsp + 144]",
        "movups xmm14, [rsp + 160]",
        "movups xmm15, [rsp + 176]",
        "add rsp, 208",
        "pop qword ptr gs:[0x00]",
        "pop rax",
        "mov gs:[0x1748], eax",
        "pop qword ptr gs:[0x1478]",
        "pop qword ptr gs:[0x10]",
        "pop qword ptr gs:[0x08]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// One for each register, in their order.
pub const LEAVING_OUT: [unsafe extern "C" fn(); REGISTERS.len()] = leaving_out!(
    ["sub rsp, 40" "call {over}" "add rsp, 40" "pcmpeqd xmm5, xmm5" "mov eax, -1"]
    "mov rbx, -1"
    "mov rbp, -1"
    "mov rdi, -1"
    "mov rsi, -1"
    "mov r12, -1"
    "mov r13, -1"
    "mov r14, -1"
    "mov r15, -1"
    "movsd xmm6, xmm5"
    "movlhps xmm6, xmm5"
    "movsd xmm7, xmm5"
    "movlhps xmm7, xmm5"
    "movsd xmm8, xmm5"
    "movlhps xmm8, xmm5"
    "movsd xmm9, xmm5"
    "movlhps xmm9, xmm5"
    "movsd xmm10, xmm5"
    "movlhps xmm10, xmm5"
    "movsd xmm11, xmm5"
    "movlhps xmm11, xmm5"
    "movsd xmm12, xmm5"
    "movlhps xmm12, xmm5"
    "movsd xmm13, xmm5"
    "movlhps xmm13, xmm5"
    "movsd xmm14, xmm5"
    "movlhps xmm14, xmm5"
    "movsd xmm15, xmm5"
    "movlhps xmm15, xmm5"
    "mov gs:[0x08], rax"
    "mov gs:[0x10], rax"
    "mov gs:[0x1478], rax"
    "mov gs:[0x1748], eax"
    "mov gs:[0x00], rax"
);
