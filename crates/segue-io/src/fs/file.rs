//! An open file, in std's shape.
//!
//! Used by programs, and by the functions of `fs` that read or write whole files.
//!
//! # The position
//!
//! Is the kernel's, so that seeks, duplicates and other processes see what they see of std's files.
//! A system call holds a lock on it, and a flight in a ring does not: of two at the same time, both
//! would move the same bytes. So only a handle flies from the position that is surely the only
//! user: opened here, neither duplicated nor lent as a descriptor since, and borrowed for writing
//! (`&mut File`). The others make the system call, in which they take their turns. `read_at` and
//! `write_at` have no position, and always fly, unless the file has no offsets either.
//!
//! A system call has that lock for as long as it waits for the disk. Meanwhile another call at the
//! position, if only to ask for it, goes to a thread for blocking calls, so that no worker waits
//! for the lock ([`Visitors`]). Of calls through duplicates a handle knows nothing.

use super::call::run;
use super::calls::{Course, Place, Plain, Read, ReadVectored, SeekEnd, Stat, Sync, Truncate};
use super::calls::{Visitors, Write, WriteVectored};
use super::in_memory::{SMALL, read_now};
use super::{FileTimes, Metadata, OpenOptions};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, Statx, StatxFlags};
use rustix::io::Errno;
use segue_core::{Ended, WaitsFor};
use std::fs::{Permissions, TryLockError};
use std::io::{self, IoSlice, IoSliceMut, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// How long a lock is waited for at most before it is tried again.
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// An open file, as [`std::fs::File`]. What waits for the disk is only the fiber.
///
/// What is in the page cache is read at once, without leaving the worker. What is not is fetched in
/// the worker's ring, or by a thread for blocking calls; so is what is written. On a plain thread
/// each is a system call.
///
/// `&File` reads, writes and seeks as well; the position is one for all. Fibers that read or write
/// at the same time take turns, as threads do.
///
/// # Cancellation
///
/// Each operation of a cancelled caller fails with an error that
/// [`Cancelled::caused`](segue_core::Cancelled::caused) knows: *no effect*. What the kernel has
/// begun it does not break off: it is waited for, and its result is returned; a write that was done
/// in part returns how many bytes were written. A loop over writes, such as
/// [`write_all`](std::io::Write::write_all), *may already have* written a part. Seeks from the
/// start and from where the file is ignore cancellation, and wait only for a read or write that is
/// at the same position; `try_lock`, `unlock` and `try_clone` ignore it and never wait.
///
/// # Drop
///
/// The file is closed in place, also while the fiber panics: on a network's file system that can
/// take its time. Errors of a close are lost, as with std; [`sync_all`](File::sync_all) has them.
///
/// # Examples
///
/// ```
/// use segue_io::fs::{self, File};
/// use std::io::{Read, Seek, Write};
/// use std::os::unix::fs::FileExt;
///
/// let path = std::env::temp_dir().join(format!("segue-file-{}", std::process::id()));
/// let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
/// file.write_all(b"hello")?;
/// file.rewind()?;
/// let mut text = String::new();
/// file.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// let mut middle = [0; 3];
/// file.read_exact_at(&mut middle, 1)?;
/// assert_eq!(&middle, b"ell");
/// fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct File {
    fd: OwnedFd,
    /// Whether others may have a descriptor of the same description.
    is_shared: AtomicBool,
    /// Whether it has offsets, asked at the first use of one: what it is does not change.
    has_offsets: OnceLock<bool>,
    at_position: Visitors,
}

impl File {
    /// A file that nobody else has.
    pub(super) fn alone(fd: OwnedFd) -> Self {
        Self { fd, is_shared: AtomicBool::new(false), has_offsets: OnceLock::new(), at_position: Visitors::default() }
    }

    fn shared(fd: OwnedFd) -> Self {
        Self { is_shared: AtomicBool::new(true), ..Self::alone(fd) }
    }

    /// The descriptor, for a call that is over before the handle is.
    pub(super) fn borrowed(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whoever gets the descriptor may duplicate it. It orders nothing: a handle that is borrowed
    /// for writing is seen by its owner alone, who has seen what came before.
    fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    fn course(&self, place: Place) -> Course<'_> {
        let flies = !matches!(place, Place::At(_)) || *self.has_offsets.get_or_init(|| has_offsets(&self.fd));
        Course::new(place, flies, &self.at_position)
    }

    fn cursor(&mut self) -> Place {
        Place::Cursor { alone: !*self.is_shared.get_mut() }
    }

    /// Opens a file for reading.
    ///
    /// # Cancellation
    /// As for [`OpenOptions::open`].
    ///
    /// # Errors
    /// As for [`OpenOptions::open`].
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file for writing; creates it, or empties it.
    ///
    /// # Cancellation
    /// As for [`OpenOptions::open`].
    ///
    /// # Errors
    /// As for [`OpenOptions::open`].
    #[track_caller]
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Creates a file for reading and writing, which must not be there.
    ///
    /// # Cancellation
    /// As for [`OpenOptions::open`].
    ///
    /// # Errors
    /// As for [`OpenOptions::open`].
    #[track_caller]
    pub fn create_new(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// How a file is to be opened. Never waits.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Takes over a file of std's. Never waits, and changes nothing: position and flags stay.
    pub fn from_std(file: std::fs::File) -> Self {
        Self::shared(file.into())
    }

    /// The same file for std. Never waits, and changes nothing.
    pub fn into_std(self) -> std::fs::File {
        self.fd.into()
    }

    /// What is known of the file.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// What the kernel says.
    #[track_caller]
    pub fn metadata(&self) -> io::Result<Metadata> {
        run(Stat::of(self.borrowed())).map(Metadata::new)
    }

    /// Cuts the file, or has it grow by zeros. The position stays.
    ///
    /// # Cancellation
    /// *No effect*. One that has begun is waited for.
    ///
    /// # Errors
    /// What the kernel says; `InvalidInput` for more than it can count.
    #[track_caller]
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        run(Truncate { file: self.borrowed(), length: size })
    }

    /// Says who may do what with the file.
    ///
    /// # Cancellation
    /// *No effect*. One that has begun is waited for.
    ///
    /// # Errors
    /// What the kernel says.
    #[track_caller]
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        let mode = Mode::from_raw_mode(permissions.mode());
        run(Plain(|| rustix::fs::fchmod(self.borrowed(), mode)))
    }

    /// Sets the file's times.
    ///
    /// # Cancellation
    /// *No effect*. One that has begun is waited for.
    ///
    /// # Errors
    /// What the kernel says; `InvalidInput` for times beyond what it can count.
    #[track_caller]
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        let stamps = times.stamps()?;
        run(Plain(|| rustix::fs::futimens(self.borrowed(), &stamps)))
    }

    /// Sets when the file was written last.
    ///
    /// # Cancellation
    /// *No effect*. One that has begun is waited for.
    ///
    /// # Errors
    /// As for [`set_times`](File::set_times).
    #[track_caller]
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time))
    }

    /// Waits until all that was written is on the device, with the file's metadata.
    ///
    /// # Cancellation
    /// *No effect* on the content. One that has begun is waited for.
    ///
    /// # Errors
    /// What the kernel says, also of writes of before.
    #[track_caller]
    pub fn sync_all(&self) -> io::Result<()> {
        run(Sync { file: self.borrowed(), data: false })
    }

    /// The same, without metadata that are not needed to read the content.
    ///
    /// # Cancellation
    /// *No effect* on the content. One that has begun is waited for.
    ///
    /// # Errors
    /// What the kernel says, also of writes of before.
    #[track_caller]
    pub fn sync_data(&self) -> io::Result<()> {
        run(Sync { file: self.borrowed(), data: true })
    }

    /// Another handle of the same file, with the same position. Never waits.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.share();
        Ok(Self::shared(self.fd.try_clone()?))
    }

    /// Locks the file against all other locks, of other open files and of other processes too.
    ///
    /// The kernel wakes nobody but a thread that blocks: so a lock that somebody has is tried again
    /// and again, up to 16 ms apart. Who waits has no place in a queue; locks that are held for
    /// long, or by many in turn, want a [`Mutex`](std::sync::Mutex) of the process beside them.
    /// A simulation that comes to a deadlock names the fiber that waits, as for any lock; by its
    /// clock a lock may be seen late, by a sixteenth of the time that was waited for it.
    ///
    /// # Cancellation
    /// *No effect*: it is not locked. A lock of the other kind that it had is gone: the kernel
    /// gives that up before it looks.
    ///
    /// # Errors
    /// What the kernel says.
    #[track_caller]
    pub fn lock(&self) -> io::Result<()> {
        self.wait_for_lock(FlockOperation::NonBlockingLockExclusive)
    }

    /// Locks the file against [`lock`](File::lock), in the same way.
    ///
    /// # Cancellation
    /// *No effect*: it is not locked. A lock of the other kind that it had is gone: the kernel
    /// gives that up before it looks.
    ///
    /// # Errors
    /// What the kernel says.
    #[track_caller]
    pub fn lock_shared(&self) -> io::Result<()> {
        self.wait_for_lock(FlockOperation::NonBlockingLockShared)
    }

    /// As [`lock`](File::lock), if that is possible now. Never waits.
    ///
    /// # Errors
    /// `WouldBlock` if somebody has locked it; else what the kernel says.
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.attempt_lock(FlockOperation::NonBlockingLockExclusive)
    }

    /// As [`lock_shared`](File::lock_shared), if that is possible now. Never waits.
    ///
    /// # Errors
    /// `WouldBlock` if somebody has locked it; else what the kernel says.
    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.attempt_lock(FlockOperation::NonBlockingLockShared)
    }

    /// Unlocks the file. Never waits. A file whose last handle is dropped is unlocked, too.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn unlock(&self) -> io::Result<()> {
        Ok(rustix::fs::flock(&self.fd, FlockOperation::Unlock)?)
    }

    fn attempt_lock(&self, operation: FlockOperation) -> Result<(), TryLockError> {
        loop {
            match rustix::fs::flock(&self.fd, operation) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Err(TryLockError::WouldBlock),
                Err(error) => return Err(TryLockError::Error(error.into())),
            }
        }
    }

    #[track_caller]
    fn wait_for_lock(&self, operation: FlockOperation) -> io::Result<()> {
        segue_core::admit()?;
        let (mut pauses, waits_for) = (crate::pauses::Pauses::up_to(LONGEST_PAUSE), WaitsFor::new("a lock of a file"));
        loop {
            match self.attempt_lock(operation) {
                Ok(()) => return Ok(()),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => match pauses.wait(None, waits_for) {
                    Err(Ended::Cancelled(cancelled)) => return Err(cancelled.into()),
                    Ok(()) | Err(Ended::TimedOut) => {}
                },
            }
        }
    }

    /// Reads into several buffers, from an offset on. The position stays.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// What the kernel says.
    #[track_caller]
    pub fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        run(ReadVectored { file: self.borrowed(), to: bufs, course: self.course(Place::At(offset)) })
    }

    /// Writes from several buffers, from an offset on. The position stays.
    ///
    /// # Cancellation
    /// *No effect*. One that has begun is waited for, and what was written is returned.
    ///
    /// # Errors
    /// What the kernel says.
    #[track_caller]
    pub fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        run(WriteVectored { file: self.borrowed(), from: bufs, course: self.course(Place::At(offset)) })
    }

    #[track_caller]
    fn read_from(&self, place: Place, buf: &mut [u8]) -> io::Result<usize> {
        run(Read { file: self.borrowed(), to: buf, course: self.course(place) })
    }

    #[track_caller]
    fn write_to(&self, place: Place, buf: &[u8]) -> io::Result<usize> {
        run(Write { file: self.borrowed(), from: buf, course: self.course(place) })
    }

    /// How much there is from the position to the end, as far as one can tell.
    fn rest(&self) -> usize {
        let Ok(metadata) = self.metadata() else { return 0 };
        if self.at_position.are_there() {
            return 0;
        }
        let position = rustix::fs::tell(&self.fd).unwrap_or(0);
        usize::try_from(metadata.len().saturating_sub(position)).unwrap_or(0)
    }

    /// Appends what comes up to the end. What has come before an error stays.
    #[track_caller]
    fn read_rest(&self, place: Place, to: &mut Vec<u8>) -> io::Result<usize> {
        self.read_more(self.rest(), place, to)
    }

    /// The content of a file that was just opened, without waiting, and has about this length.
    ///
    /// Of a file in memory one call has all: it asks for a byte more than there should be, and does
    /// not get it.
    #[track_caller]
    pub(super) fn read_all(&mut self, length: u64) -> io::Result<Vec<u8>> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (place, mut content) = (self.cursor(), Vec::new());
        if (1..SMALL).contains(&length) {
            content.try_reserve_exact(length + 1)?;
            content.resize(length + 1, 0);
            let read = read_now(self.borrowed(), &mut [IoSliceMut::new(&mut content)], place);
            content.truncate(read.and_then(Result::ok).unwrap_or(0));
            if content.len() == length {
                return Ok(content);
            }
        }
        rustix::io::ioctl_fionbio(&self.fd, false)?;
        self.read_more(length.saturating_sub(content.len()), place, &mut content)?;
        Ok(content)
    }

    /// Appends what comes up to the end, which is probably so much.
    #[track_caller]
    fn read_more(&self, rest: usize, place: Place, to: &mut Vec<u8>) -> io::Result<usize> {
        crate::whole::read_to_end(&mut Rest(self, place), rest, to)
    }

    #[track_caller]
    fn read_rest_to_string(&self, place: Place, to: &mut String) -> io::Result<usize> {
        crate::whole::read_to_string(&mut Rest(self, place), to)
    }

    #[track_caller]
    fn seek_to(&self, to: SeekFrom) -> io::Result<u64> {
        Ok(match to {
            // As the kernel has it: what is beyond its numbers is negative.
            SeekFrom::Start(at) if at > i64::MAX.unsigned_abs() => return Err(Errno::INVAL.into()),
            SeekFrom::Start(at) => self.move_to(rustix::fs::SeekFrom::Start(at))?,
            SeekFrom::Current(by) => self.move_to(rustix::fs::SeekFrom::Current(by))?,
            SeekFrom::End(by) => return run(SeekEnd(self.borrowed(), by, &self.at_position)),
        })
    }

    #[track_caller]
    fn move_to(&self, to: rustix::fs::SeekFrom) -> io::Result<u64> {
        let call = || rustix::fs::seek(&self.fd, to);
        if segue_core::in_fiber() && self.at_position.are_there() {
            return segue_core::shield(|| run(Plain(call)));
        }
        Ok(call()?)
    }
}

/// A file as a stream from such a place on.
struct Rest<'a>(&'a File, Place);

impl io::Read for Rest<'_> {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_from(self.1, buf)
    }

    #[track_caller]
    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        self.0.read_rest(self.1, buf)
    }
}

/// std's trait, for what has no position. See the type's section on cancellation.
impl FileExt for File {
    #[track_caller]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_from(Place::At(offset), buf)
    }

    #[track_caller]
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.write_to(Place::At(offset), buf)
    }
}

/// Whether this is surely a file with offsets. What is nothing of the kind says so to the call.
fn has_offsets(fd: &OwnedFd) -> bool {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let kind = |stat: Statx| FileType::from_raw_mode(stat.stx_mode.into());
    rustix::fs::statx(fd, c"", flags, StatxFlags::TYPE)
        .is_ok_and(|stat| matches!(kind(stat), FileType::RegularFile | FileType::BlockDevice))
}

/// The position of a handle that others may have, too.
const SHARED: Place = Place::Cursor { alone: false };

/// Each of std's traits, for a handle that is borrowed for writing and for one that is not: with
/// the position that each may use.
macro_rules! streams {
    ($($name:ty, $file:ident => $place:expr;)*) => {$(
        /// See the type's section on cancellation.
        impl io::Read for $name {
            #[track_caller]
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                let $file = self;
                let place = $place;
                $file.read_from(place, buf)
            }

            #[track_caller]
            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                let $file = self;
                let place = $place;
                run(ReadVectored { file: $file.borrowed(), to: bufs, course: $file.course(place) })
            }

            crate::whole::read_exact!();

            #[track_caller]
            fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
                let $file = self;
                let place = $place;
                $file.read_rest(place, buf)
            }

            #[track_caller]
            fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
                let $file = self;
                let place = $place;
                $file.read_rest_to_string(place, buf)
            }
        }

        /// See the type's section on cancellation. There is no buffer, and so a flush does nothing.
        impl io::Write for $name {
            #[track_caller]
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                let $file = self;
                let place = $place;
                $file.write_to(place, buf)
            }

            #[track_caller]
            fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                let $file = self;
                let place = $place;
                run(WriteVectored { file: $file.borrowed(), from: bufs, course: $file.course(place) })
            }

            crate::whole::write_all!();

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        /// See the type's section on cancellation.
        impl Seek for $name {
            #[track_caller]
            fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
                self.seek_to(pos)
            }
        }
    )*};
}

streams! {
    File, file => file.cursor();
    &File, file => SHARED;
}

/// Others can have the position from now on.
impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.share();
        self.fd.as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.share();
        self.fd.as_raw_fd()
    }
}

impl IntoRawFd for File {
    fn into_raw_fd(self) -> RawFd {
        self.fd.into_raw_fd()
    }
}

/// Takes a descriptor over as it is.
impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> Self {
        Self::shared(fd)
    }
}

impl From<File> for OwnedFd {
    fn from(file: File) -> Self {
        file.fd
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> Self {
        Self::from_std(file)
    }
}

impl From<File> for std::fs::File {
    fn from(file: File) -> Self {
        file.into_std()
    }
}

/// A child to be reads or writes the file.
impl From<File> for std::process::Stdio {
    fn from(file: File) -> Self {
        file.fd.into()
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("fd", &self.fd.as_raw_fd()).finish()
    }
}
