//! Rings whose opcodes are restricted, and the set of opcodes. Part of `ring/setup.rs`.

use super::*;
use std::cell::Cell;

segue_core::plain_thread_local! {
    /// Whether the rings of this thread are denied an opcode by the kernel.
    pub(crate) static RESTRICTED: Cell<bool> = Cell::new(false);
}

pub(super) fn begin_disabled(builder: &mut io_uring::Builder) {
    if RESTRICTED.get() {
        builder.setup_r_disabled();
    }
}

/// All but receives are allowed.
pub(super) fn restrict(ring: &IoUring) -> io::Result<()> {
    if !RESTRICTED.get() {
        return Ok(());
    }
    let codes = [opcode::Send::CODE, opcode::AsyncCancel::CODE, opcode::PollAdd::CODE];
    let mut allowed = Vec::from(codes.map(io_uring::register::Restriction::sqe_op));
    allowed.push(io_uring::register::Restriction::sqe_flags_allowed(u8::MAX));
    allowed.extend([PROBES, RING_FDS].map(io_uring::register::Restriction::register_op));
    ring.submitter().register_restrictions(&mut allowed)?;
    ring.submitter().register_enable_rings()
}

/// `IORING_REGISTER_PROBE` and `IORING_REGISTER_RING_FDS`.
const PROBES: u8 = 8;
const RING_FDS: u8 = 20;

#[test]
fn an_opcode_that_is_taken_away_is_gone_and_no_other() {
    let all = Opcodes(u64::MAX);
    assert!(all.has(opcode::Recv::CODE) && all.has(opcode::Send::CODE));
    let fewer = all.without(opcode::Recv::CODE);
    assert!(!fewer.has(opcode::Recv::CODE) && fewer.has(opcode::Send::CODE));
}
