//! Which file systems answer from memory what they have there: those that ask nobody else.
//!
//! Asked by `calls` before it looks at metadata on a worker. A server somewhere may take its time
//! also for what is in the kernel's caches, or be a program on this very worker.
//!
//! # The idea
//!
//! The number of its mount names the file system; no other one ever gets it (since Linux 6.8).
//! Before, the number of the device does, which may come again when something else is mounted. It
//! is asked once what kind it is, on a thread for blocking calls, and the answer is kept in a small
//! table. What does not fit there counts as foreign: then nothing but the way differs.
//!
//! Each entry is one word, written once; it says all that it says by itself, so that the accesses
//! are relaxed. Two threads that ask at once may both write.

use rustix::fs::{FsWord, Statx, StatxFlags};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

static TABLE: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];

/// Asks for the number of a mount that is given to no other. rustix has no name for it.
pub(super) const ONE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// An entry is a mount or a device, this bit, and whether it is local.
const KNOWN: u64 = 1 << 63;
const LOCAL: u64 = 1 << 62;

/// The magic numbers: ext, XFS, Btrfs, F2FS, bcachefs, ZFS, tmpfs, ramfs, overlay, squashfs, EROFS,
/// proc and sysfs.
const LOCALS: [u32; 13] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0xca45_1a4e,
    0x2fc1_2fc1,
    0x0102_1994,
    0x8584_58f6,
    0x794c_7630,
    0x7371_7368,
    0xe0f5_e1e2,
    0x9fa0,
    0x6265_6572,
];

/// A mount's number begins above 2³¹ and is counted up; those of devices have 12 and 20 bits.
fn place(stat: &Statx) -> u64 {
    let is_mount = StatxFlags::from_bits_retain(stat.stx_mask).contains(ONE_MOUNT);
    let device = u64::from(stat.stx_dev_major) << 20 | u64::from(stat.stx_dev_minor);
    KNOWN | if is_mount { stat.stx_mnt_id & !LOCAL } else { device }
}

/// Whether what was found there lies on such a file system. The first time, the caller may wait for
/// the answer of `fd`, which is of there.
pub(super) fn is_local(stat: &Statx, fd: BorrowedFd<'_>) -> bool {
    let place = place(stat);
    for entry in &TABLE {
        let mut known = entry.load(Ordering::Relaxed);
        if known == 0 {
            let Ok(Ok(kind)) = segue_core::blocking(|| rustix::fs::fstatfs(fd)) else { return false };
            known = place | if is_kind_local(kind.f_type) { LOCAL } else { 0 };
            entry.store(known, Ordering::Relaxed);
        }
        if known & !LOCAL == place {
            return known & LOCAL != 0;
        }
    }
    false
}

fn is_kind_local(kind: FsWord) -> bool {
    LOCALS.contains(&(kind as u32))
}
