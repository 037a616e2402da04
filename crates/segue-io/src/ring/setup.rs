//! How a ring is made, on kernels of any age; and what it says where none can be had.
//!
//! Used by `LazyRing` at the first op that could fly.

use super::queues::Queues;
use io_uring::{IoUring, Parameters, Probe, opcode};
use std::io::{self, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set when the system does not let this process have rings: there is no use in asking again.
static DENIED: AtomicBool = AtomicBool::new(false);

/// Which opcodes a kernel has, by their numbers. All that are used here are below 64.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opcodes(u64);

impl Opcodes {
    #[inline]
    pub(super) fn has(self, code: u8) -> bool {
        self.0 & 1 << (code & 63) != 0
    }

    #[must_use]
    #[inline]
    pub(super) fn with(self, code: u8) -> Self {
        Self(self.0 | 1 << (code & 63))
    }

    #[must_use]
    pub(super) fn without(self, code: u8) -> Self {
        Self(self.0 & !(1 << (code & 63)))
    }
}

/// What can be done without: the newest first. What is left is what Linux 5.19 has, the first that
/// can cancel all at once.
///
/// One issuer and deferred task running: completions are made when the worker asks for them, on its
/// own thread, and never interrupt it.
const SETUPS: [fn(&mut io_uring::Builder); 3] = [
    |builder| _ = deferred(builder).setup_no_sqarray(),
    |builder| _ = deferred(builder),
    |builder| _ = builder.setup_submit_all().setup_coop_taskrun().setup_taskrun_flag(),
];

fn deferred(builder: &mut io_uring::Builder) -> &mut io_uring::Builder {
    builder.setup_submit_all().setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag()
}

/// With it all at once, a round of a thousand connections takes four calls.
pub(super) const ENTRIES: u16 = 256;

/// Completions beyond these wait in the kernel until there is room.
const COMPLETIONS: u32 = 4096;

/// A ring for so many submissions at a time, and what it can do.
fn make(entries: u16) -> io::Result<(Queues, Opcodes)> {
    let completions = if entries == ENTRIES { COMPLETIONS } else { u32::from(entries) * 2 };
    let mut result = Err(io::ErrorKind::Unsupported.into());
    for setup in SETUPS {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_clamp().setup_cqsize(completions);
        setup(&mut builder);
        #[cfg(test)]
        tests::begin_disabled(&mut builder);
        result = builder.build(u32::from(entries));
        match &result {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            _ => break,
        }
    }
    let ring = result?;
    #[cfg(test)]
    tests::restrict(&ring)?;
    let opcodes = probe(&ring)?;
    Ok((Queues::new(ring), opcodes))
}

/// What a ring can do; an error if it can't do what every ring has to.
fn probe(ring: &IoUring) -> io::Result<Opcodes> {
    let has_all = |params: &Parameters| {
        params.is_feature_ext_arg() && params.is_feature_nodrop() && params.is_feature_fast_poll()
    };
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let opcodes = (0..64).filter(|code| probe.is_supported(*code)).fold(0, |mask, code| mask | 1 << code);
    let opcodes = Opcodes(opcodes);
    // Making sockets came with Linux 5.19, and tells that it is one.
    let needed = [opcode::AsyncCancel::CODE, opcode::PollAdd::CODE, opcode::Socket::CODE];
    if has_all(ring.params()) && needed.iter().all(|code| opcodes.has(*code)) {
        Ok(opcodes)
    } else {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel's rings are too old"))
    }
}

/// A ring, if one can be had. If not, one line says so, once in a process.
pub(super) fn ring(entries: u16) -> Option<(Queues, Opcodes)> {
    if DENIED.load(Ordering::Relaxed) {
        return None;
    }
    match make(entries) {
        Ok(made) => Some(made),
        Err(error) => {
            // Of memory or descriptors there may be enough another time.
            let may_pass = matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::EMFILE | libc::ENFILE));
            DENIED.store(!may_pass, Ordering::Relaxed);
            tell(&error);
            None
        }
    }
}

/// Not by `eprintln`, which panics at a closed stream.
#[cold]
fn tell(error: &io::Error) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let (why, way) = ("segue: no io_uring can be had here", "SEGUE_IO=epoll does not ask for it");
        let _ = writeln!(io::stderr(), "{why} ({error}): sockets are waited for by epoll; {way}");
    });
}

#[cfg(test)]
#[path = "../../tests/units/setup.rs"]
pub(super) mod tests;
