//! The file systems of a disk and of memory, by their numbers on Linux.
//!
//! Used by `local`, also where that is `posix`'s.

/// The magic numbers: ext, XFS, Btrfs, F2FS, bcachefs, ZFS, FAT, exFAT, NTFS, ISO 9660, UDF, tmpfs,
/// ramfs, overlay, squashfs, EROFS.
const DISKS: [u32; 16] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0xca45_1a4e,
    0x2fc1_2fc1,
    0x4d44,
    0x2011_bab0,
    0x7366_746e,
    0x9660,
    0x1501_3346,
    0x0102_1994,
    0x8584_58f6,
    0x794c_7630,
    0x7371_7368,
    0xe0f5_e1e2,
];

/// Whether a file system of this number asks nobody else.
pub(super) fn is_disk(number: u32) -> bool {
    DISKS.contains(&number)
}
