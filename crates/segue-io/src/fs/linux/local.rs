//! Which file systems ask nobody else: those of a disk, of memory, and of the kernel's own.
//!
//! Asked by everything in `fs` before a worker makes a call that another party might delay. A
//! server somewhere may take its time also for data in the kernel's caches, or be a program on
//! this very worker.
//!
//! # The three
//!
//! | [`Home`] | names, metadata and entries | content |
//! | --- | --- | --- |
//! | `Disk` | from memory, or from a disk that answers soon | likewise |
//! | `Kernel` | the kernel makes them up, at once | may wait for anybody: for an event, a device, another program's memory |
//! | `Elsewhere` | asks a server, or is not known | likewise |
//!
//! A file system that is not in the lists is elsewhere: then nothing but the way differs. An
//! overlay counts as a disk, since its root is that of nearly every container; of its layers, which
//! may lie on a server, the kernel tells nobody. So do network block devices with a file system on
//! them: these wait in the kernel's block layer, as for any disk.
//!
//! # The table
//!
//! The number of its mount names the file system; no other one ever gets that (since Linux 6.8).
//! Before, the number of the device does, which may come again when something else is mounted. A
//! file system is asked once for its kind, on a thread that can be left, as the answer may come
//! from a server. The answer is kept in a small table. A file system without room there is
//! elsewhere.
//!
//! Each entry is one word, written once, which says all by itself, so that the accesses
//! are relaxed. Two threads that ask at once may both write.

use super::disks::is_disk;
use crate::apart::{self, Patience};
use rustix::fs::{FsWord, Mode, OFlags, Statx, StatxFlags};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

static TABLE: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];

/// Asks for the number of a mount that is given to no other. rustix has no name for this flag.
pub(in crate::fs) const ONE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// The fields that std asks for.
pub(in crate::fs) const ASKED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// The parties that a file system depends on. See the file's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fs) enum Home {
    Disk,
    Kernel,
    Elsewhere,
}

/// An entry is a mount or a device, this bit, and the home.
const KNOWN: u64 = 1 << 63;
const DISK: u64 = 1 << 62;
const KERNEL: u64 = 1 << 61;

/// proc, sysfs, both of control groups, terminals; pipes, sockets, and files without any name.
const KERNELS: [u32; 8] =
    [0x9fa0, 0x6265_6572, 0x0027_e0eb, 0x6367_7270, 0x1cd1, 0x5049_5045, 0x534f_434b, 0x0904_1934];

impl Home {
    fn of_kind(kind: FsWord) -> Self {
        let magic = kind as u32;
        if is_disk(magic) {
            Self::Disk
        } else if KERNELS.contains(&magic) {
            Self::Kernel
        } else {
            Self::Elsewhere
        }
    }

    fn bits(self) -> u64 {
        match self {
            Self::Disk => DISK,
            Self::Kernel => KERNEL,
            Self::Elsewhere => 0,
        }
    }

    fn of_bits(entry: u64) -> Self {
        match entry & (DISK | KERNEL) {
            DISK => Self::Disk,
            KERNEL => Self::Kernel,
            _ => Self::Elsewhere,
        }
    }
}

/// A mount's number begins above 2³¹ and is counted up; those of devices have 12 and 20 bits.
fn place(stat: &Statx) -> u64 {
    let is_mount = StatxFlags::from_bits_retain(stat.stx_mask).contains(ONE_MOUNT);
    let device = u64::from(stat.stx_dev_major) << 20 | u64::from(stat.stx_dev_minor);
    KNOWN | if is_mount { stat.stx_mnt_id & !(DISK | KERNEL) } else { device }
}

/// A descriptor of the same, for a thread that may be left. To close a duplicate of one that is
/// open would give up the process's record locks.
fn again(fd: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::open(format!("/proc/self/fd/{}", fd.as_raw_fd()), flags, Mode::empty())
        .or_else(|_| rustix::io::fcntl_dupfd_cloexec(fd, 0))
}

/// Where that was found. The first time, the caller waits for the answer of `fd`, which is of
/// there; after a cancellation that is not known yet: `None`.
pub(in crate::fs) fn home(stat: &Statx, fd: BorrowedFd<'_>) -> Option<Home> {
    let place = place(stat);
    for entry in &TABLE {
        let mut known = entry.load(Ordering::Relaxed);
        if known == 0 {
            let fd = again(fd).ok()?;
            let ask = move || rustix::fs::fstatfs(&fd);
            let kind = apart::run("a file system's kind", Patience::Server, ask).ok()?;
            known = place | Home::of_kind(kind.f_type).bits();
            entry.store(known, Ordering::Relaxed);
        }
        if known & !(DISK | KERNEL) == place {
            return Some(Home::of_bits(known));
        }
    }
    Some(Home::Elsewhere)
}
