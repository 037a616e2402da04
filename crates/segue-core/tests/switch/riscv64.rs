//! The registers of RISC-V of 64 bits, in the convention lp64d.
//!
//! Used by the test of the switch.

#![allow(unsafe_code)] // Assembly.

use std::arch::naked_asm;

use super::Values;

/// Those that a function keeps.
pub const REGISTERS: [&str; 24] = [
    "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "fs0", "fs1", "fs2", "fs3", "fs4", "fs5",
    "fs6", "fs7", "fs8", "fs9", "fs10", "fs11",
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
        // Naked functions are assembled without the target's features.
        ".option arch, +d",
        "addi sp, sp, -208",
        "sd ra, 192(sp)",
        "sd a1, 200(sp)",
        "sd s0, 0(sp)",
        "sd s1, 8(sp)",
        "sd s2, 16(sp)",
        "sd s3, 24(sp)",
        "sd s4, 32(sp)",
        "sd s5, 40(sp)",
        "sd s6, 48(sp)",
        "sd s7, 56(sp)",
        "sd s8, 64(sp)",
        "sd s9, 72(sp)",
        "sd s10, 80(sp)",
        "sd s11, 88(sp)",
        "fsd fs0, 96(sp)",
        "fsd fs1, 104(sp)",
        "fsd fs2, 112(sp)",
        "fsd fs3, 120(sp)",
        "fsd fs4, 128(sp)",
        "fsd fs5, 136(sp)",
        "fsd fs6, 144(sp)",
        "fsd fs7, 152(sp)",
        "fsd fs8, 160(sp)",
        "fsd fs9, 168(sp)",
        "fsd fs10, 176(sp)",
        "fsd fs11, 184(sp)",
        "ld s0, 0(a0)",
        "ld s1, 8(a0)",
        "ld s2, 16(a0)",
        "ld s3, 24(a0)",
        "ld s4, 32(a0)",
        "ld s5, 40(a0)",
        "ld s6, 48(a0)",
        "ld s7, 56(a0)",
        "ld s8, 64(a0)",
        "ld s9, 72(a0)",
        "ld s10, 80(a0)",
        "ld s11, 88(a0)",
        "fld fs0, 96(a0)",
        "fld fs1, 104(a0)",
        "fld fs2, 112(a0)",
        "fld fs3, 120(a0)",
        "fld fs4, 128(a0)",
        "fld fs5, 136(a0)",
        "fld fs6, 144(a0)",
        "fld fs7, 152(a0)",
        "fld fs8, 160(a0)",
        "fld fs9, 168(a0)",
        "fld fs10, 176(a0)",
        "fld fs11, 184(a0)",
        "jalr a2",
        "ld a1, 200(sp)",
        "sd s0, 0(a1)",
        "sd s1, 8(a1)",
        "sd s2, 16(a1)",
        "sd s3, 24(a1)",
        "sd s4, 32(a1)",
        "sd s5, 40(a1)",
        "sd s6, 48(a1)",
        "sd s7, 56(a1)",
        "sd s8, 64(a1)",
        "sd s9, 72(a1)",
        "sd s10, 80(a1)",
        "sd s11, 88(a1)",
        "fsd fs0, 96(a1)",
        "fsd fs1, 104(a1)",
        "fsd fs2, 112(a1)",
        "fsd fs3, 120(a1)",
        "fsd fs4, 128(a1)",
        "fsd fs5, 136(a1)",
        "fsd fs6, 144(a1)",
        "fsd fs7, 152(a1)",
        "fsd fs8, 160(a1)",
        "fsd fs9, 168(a1)",
        "fsd fs10, 176(a1)",
        "fsd fs11, 184(a1)",
        "ld s0, 0(sp)",
        "ld s1, 8(sp)",
        "ld s2, 16(sp)",
        "ld s3, 24(sp)",
        "ld s4, 32(sp)",
        "ld s5, 40(sp)",
        "ld s6, 48(sp)",
        "ld s7, 56(sp)",
        "ld s8, 64(sp)",
        "ld s9, 72(sp)",
        "ld s10, 80(sp)",
        "ld s11, 88(sp)",
        "fld fs0, 96(sp)",
        "fld fs1, 104(sp)",
        "fld fs2, 112(sp)",
        "fld fs3, 120(sp)",
        "fld fs4, 128(sp)",
        "fld fs5, 136(sp)",
        "fld fs6, 144(sp)",
        "fld fs7, 152(sp)",
        "fld fs8, 160(sp)",
        "fld fs9, 168(sp)",
        "fld fs10, 176(sp)",
        "fld fs11, 184(sp)",
        "ld ra, 192(sp)",
        "addi sp, sp, 208",
        "ret",
    )
}

/// One for each register, in their order.
pub const LEAVING_OUT: [unsafe extern "C" fn(); REGISTERS.len()] = leaving_out!(
    [".option arch, +d" "addi sp, sp, -16" "sd ra, 0(sp)" "call {over}" "ld ra, 0(sp)" "addi sp, sp, 16"]
    "li s0, -1"
    "li s1, -1"
    "li s2, -1"
    "li s3, -1"
    "li s4, -1"
    "li s5, -1"
    "li s6, -1"
    "li s7, -1"
    "li s8, -1"
    "li s9, -1"
    "li s10, -1"
    "li s11, -1"
    "fmv.d.x fs0, zero"
    "fmv.d.x fs1, zero"
    "fmv.d.x fs2, zero"
    "fmv.d.x fs3, zero"
    "fmv.d.x fs4, zero"
    "fmv.d.x fs5, zero"
    "fmv.d.x fs6, zero"
    "fmv.d.x fs7, zero"
    "fmv.d.x fs8, zero"
    "fmv.d.x fs9, zero"
    "fmv.d.x fs10, zero"
    "fmv.d.x fs11, zero"
);
