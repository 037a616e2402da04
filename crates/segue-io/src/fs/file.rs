//! An open file, in std's shape.
//!
//! Used by programs, and by the functions of `fs` that read or write whole files.
//!
//! # The position
//!
//! The position is the kernel's, so that seeks, duplicates and other processes see the same as of
//! std's files. A system call holds a lock on the position, and a flight in a ring does not: of two
//! at the same time, both would move the same bytes. So only a handle flies from the position that
//! is surely the only user: opened here, neither duplicated nor lent as a descriptor since, and
//! borrowed for writing (`&mut File`). The others make the system call, in which they take their
//! turns. `read_at` and `write_at` have no position, and always fly, unless the file has no offsets
//! either.
//!
//! This holds for files of a disk. Those that another party is asked for are read and written on a
//! thread that can be left (`elsewhere`); and streams by readiness ([`Descriptor`]): which of the
//! three a file is ([`Kind`]) is asked once, at its first use.
//!
//! A system call has that lock during its wait for the disk. Meanwhile another call at the
//! position, if only to ask where that is, goes to a thread for blocking calls, so that no worker
//! waits for the lock ([`Visitors`]). Of calls through duplicates a handle knows nothing.

mod traits;

use super::calls::{Plain, SeekEnd, Sync, Truncate, mode_of};
use super::elsewhere::{self, ask, stat};
use super::held::Held;
use super::kind::Kind;
use super::metadata::{FileTimes, Metadata};
use super::place::{Place, Visitors};
use super::system::{self, Course, run};
use super::transfers::{Read, ReadVectored, Write, WriteVectored};
use crate::apart;
use crate::descriptor::bytes::Descriptor;
use crate::system::pauses::Pauses;
use crate::system::sys::until_done;
use crate::system::whole;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use segue_core::WaitsFor;
use std::fs::{Permissions, TryLockError};
use std::io::{self, IoSlice, IoSliceMut, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

/// The longest pause between two attempts at a lock.
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// An open file, as [`std::fs::File`]. Only the fiber waits for the disk.
///
/// Bytes of a disk's file that are in the page cache are read at once, without leaving the worker.
/// Others are fetched in the worker's ring, or by a thread for blocking calls; so are
/// writes. On a plain thread each is a system call.
///
/// A pipe, a terminal, a socket or a counter is read and written as soon as ready; a server's
/// file on a thread that can be left. The kind of a file is found out when the file is first used.
/// Flags of the description are not changed; where they say that nobody waits (`O_NONBLOCK`), a
/// call that would have to wait says `WouldBlock`, as std's do.
///
/// `&File` reads, writes and seeks as well; the position is one for all. Fibers that read or write
/// at the same time take turns, as threads do.
///
/// # Cancellation
///
/// Each operation of a cancelled caller fails with an error that
/// [`Cancelled::caused`](segue_core::Cancelled::caused) knows: *no effect*. A call that the kernel
/// has begun on a disk's file is not broken off, but waited for, and its result is returned; a
/// write that was done in part returns how many bytes were written. A loop over writes, such as
/// [`write_all`](std::io::Write::write_all), *may already have* written a part.
///
/// A read or write of a stream that waits is cut short: bytes that were taken or written are
/// returned. A call on a server's file is interrupted, and left if the server does not react: the
/// call *may already have happened*; but a read by `&mut File`, or from an offset, that was left
/// has no effect, if no earlier call is left.
///
/// Seeks of a disk's file from the start and from where the file is ignore cancellation, and wait
/// only for a read or write that is at the same position; `try_lock` and `unlock` ignore
/// cancellation there, and `try_clone` everywhere.
///
/// # Drop
///
/// The file is closed in place, also while the fiber panics. A server's file, which was used, is
/// closed on a thread, which the fiber waits for, but for a cancelled or panicking fiber. Errors of
/// a close are lost, as with std; [`sync_all`](File::sync_all) has them.
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
    held: Held,
    /// Whether others may have a descriptor of the same description.
    is_shared: AtomicBool,
    /// How a stream is read and written.
    stream: OnceLock<Box<Descriptor>>,
    at_position: Visitors,
}

impl File {
    /// A file that nobody else has.
    pub(super) fn alone(fd: OwnedFd) -> Self {
        Self::alone_of(fd, None)
    }

    /// The same of a kind that is known.
    pub(super) fn alone_of(fd: OwnedFd, kind: Option<Kind>) -> Self {
        Self {
            held: Held::new(fd, kind),
            is_shared: AtomicBool::new(false),
            stream: OnceLock::new(),
            at_position: Visitors::default(),
        }
    }

    fn shared(fd: OwnedFd) -> Self {
        Self { is_shared: AtomicBool::new(true), ..Self::alone(fd) }
    }

    /// The descriptor, for a call that is over before the handle is.
    pub(super) fn borrowed(&self) -> BorrowedFd<'_> {
        self.held.get().as_fd()
    }

    /// The descriptor, for a call that may be left.
    pub(super) fn handle(&self) -> &Arc<OwnedFd> {
        self.held.get()
    }

    /// Code that gets the descriptor may duplicate it. The store orders nothing: a handle that is
    /// borrowed for writing is seen by its owner alone, which has seen all earlier stores.
    fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn kind(&self) -> Kind {
        self.held.kind()
    }

    /// Whether the file is read and written as those of a disk are, or in place.
    #[inline]
    pub(super) fn is_disk(&self) -> bool {
        self.kind() == Kind::Disk || apart::in_place()
    }

    fn course(&self, place: Place) -> Course<'_> {
        Course::new(place, &self.at_position)
    }

    pub(super) fn cursor(&mut self) -> Place {
        Place::Cursor { alone: !*self.is_shared.get_mut() }
    }

    /// Takes over a file of std's. Never waits, and changes nothing: position and flags stay.
    pub fn from_std(file: std::fs::File) -> Self {
        Self::shared(file.into())
    }

    /// The same file for std. Never waits, and changes nothing.
    ///
    /// # Panics
    /// If a call that was cancelled, and left, still has this file, and there is no other
    /// descriptor to be had.
    pub fn into_std(self) -> std::fs::File {
        self.held.into_owned().into()
    }

    /// The file's metadata.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// The kernel's error.
    #[track_caller]
    pub fn metadata(&self) -> io::Result<Metadata> {
        stat(self.handle()).map(Metadata::new)
    }

    /// Cuts the file, or lengthens the file by zeros. The position stays.
    ///
    /// # Cancellation
    /// *No effect*. One that has begun is waited for.
    ///
    /// # Errors
    /// The kernel's error; `InvalidInput` for more than the kernel can count.
    #[track_caller]
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        if self.is_disk() {
            return run(Truncate { file: self.borrowed(), length: size });
        }
        ask("a change of a file's length", self.handle(), move |file| rustix::fs::ftruncate(file, size))
    }

    /// Sets the file's permissions.
    ///
    /// # Cancellation
    /// *No effect*. One that has begun is waited for.
    ///
    /// # Errors
    /// The kernel's error.
    #[track_caller]
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        let mode = mode_of(permissions.mode());
        self.tell("a file's permissions", move |file| rustix::fs::fchmod(file, mode))
    }

    /// Sets the file's times.
    ///
    /// # Cancellation
    /// *No effect*. One that has begun is waited for.
    ///
    /// # Errors
    /// The kernel's error; `InvalidInput` for times beyond the kernel's numbers.
    #[track_caller]
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        let stamps = times.stamps()?;
        self.tell("a file's times", move |file| rustix::fs::futimens(file, &stamps))
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
    /// The kernel's error, also of earlier writes.
    #[track_caller]
    pub fn sync_all(&self) -> io::Result<()> {
        self.sync(false)
    }

    /// The same, without metadata that are not needed to read the content.
    ///
    /// # Cancellation
    /// *No effect* on the content. One that has begun is waited for.
    ///
    /// # Errors
    /// The kernel's error, also of earlier writes.
    #[track_caller]
    pub fn sync_data(&self) -> io::Result<()> {
        self.sync(true)
    }

    #[track_caller]
    fn sync(&self, data: bool) -> io::Result<()> {
        if self.is_disk() {
            return run(Sync { file: self.borrowed(), data });
        }
        ask("a file to be on its device", self.handle(), move |file| system::sync(file, data))
    }

    /// A call that no ring has.
    #[track_caller]
    fn tell(
        &self,
        waits_for: &'static str,
        mut call: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        if self.is_disk() {
            return run(Plain(|| call(self.borrowed())));
        }
        ask(waits_for, self.handle(), call)
    }

    /// Another handle of the same file, with the same position. Never waits.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.share();
        Ok(Self::shared(self.handle().try_clone()?))
    }

    /// Locks the file against all other locks, of other open files and of other processes too.
    ///
    /// The kernel wakes nobody but a thread that blocks: so a lock that somebody has is tried again
    /// and again, up to 16 ms apart. A waiter has no place in a queue; locks that are held for
    /// long, or by many in turn, want a [`Mutex`](std::sync::Mutex) of the process beside them.
    /// A simulation that comes to a deadlock names the fiber that waits, as for any lock; by its
    /// clock a lock may be seen late, by a sixteenth of the wait so far.
    ///
    /// # Cancellation
    /// *No effect*: the file is not locked. A lock of the other kind that the file had is gone: the
    /// kernel gives that up first.
    ///
    /// # Errors
    /// The kernel's error.
    #[track_caller]
    pub fn lock(&self) -> io::Result<()> {
        self.wait_for_lock(FlockOperation::NonBlockingLockExclusive)
    }

    /// Locks the file against [`lock`](File::lock), in the same way.
    ///
    /// # Cancellation
    /// *No effect*: the file is not locked. A lock of the other kind that the file had is gone: the
    /// kernel gives that up first.
    ///
    /// # Errors
    /// The kernel's error.
    #[track_caller]
    pub fn lock_shared(&self) -> io::Result<()> {
        self.wait_for_lock(FlockOperation::NonBlockingLockShared)
    }

    /// As [`lock`](File::lock), if that is possible now. Never waits, but for a server's answer.
    ///
    /// # Cancellation
    /// *No effect*. Without a server's answer the lock *may already have happened*.
    ///
    /// # Errors
    /// `WouldBlock` if somebody has locked the file; else the kernel's error.
    #[track_caller]
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.attempt_lock(FlockOperation::NonBlockingLockExclusive)
    }

    /// As [`lock_shared`](File::lock_shared), if that is possible now. Never waits, but for a
    /// server's answer.
    ///
    /// # Cancellation
    /// As for [`try_lock`](File::try_lock).
    ///
    /// # Errors
    /// `WouldBlock` if somebody has locked the file; else the kernel's error.
    #[track_caller]
    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.attempt_lock(FlockOperation::NonBlockingLockShared)
    }

    /// Unlocks the file. Never waits, but for a server's answer. The drop of the last
    /// handle of a file unlocks the file, too.
    ///
    /// # Cancellation
    /// As for [`try_lock`](File::try_lock).
    ///
    /// # Errors
    /// The kernel's error.
    #[track_caller]
    pub fn unlock(&self) -> io::Result<()> {
        self.flock(FlockOperation::Unlock)
    }

    #[track_caller]
    fn attempt_lock(&self, operation: FlockOperation) -> Result<(), TryLockError> {
        match self.flock(operation) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(TryLockError::WouldBlock),
            Err(error) => Err(TryLockError::Error(error)),
        }
    }

    /// A server may have to be asked for a lock.
    #[track_caller]
    fn flock(&self, operation: FlockOperation) -> io::Result<()> {
        if self.kind() == Kind::Elsewhere && !apart::in_place() {
            return ask("an answer about a lock", self.handle(), move |file| rustix::fs::flock(file, operation));
        }
        until_done(|| rustix::fs::flock(self.borrowed(), operation))
    }

    #[track_caller]
    fn wait_for_lock(&self, operation: FlockOperation) -> io::Result<()> {
        segue_core::admit()?;
        let (mut pauses, waits_for) = (Pauses::up_to(LONGEST_PAUSE), WaitsFor::new("a lock of a file"));
        loop {
            match self.attempt_lock(operation) {
                Ok(()) => return Ok(()),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => pauses.wait(None, waits_for)?,
            }
        }
    }

    /// Reads into several buffers, from an offset on. The position stays.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// The kernel's error.
    #[track_caller]
    pub fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        self.read_several_from(Place::At(offset), bufs)
    }

    /// Writes from several buffers, from an offset on. The position stays.
    ///
    /// # Cancellation
    /// *No effect*. One that has begun is waited for, and the count of written bytes is returned.
    ///
    /// # Errors
    /// The kernel's error.
    #[track_caller]
    pub fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.write_several_to(Place::At(offset), bufs)
    }

    #[track_caller]
    #[inline]
    fn read_from(&self, place: Place, buf: &mut [u8]) -> io::Result<usize> {
        if self.is_disk() {
            return run(Read { file: self.borrowed(), bufs: buf, course: self.course(place) });
        }
        self.read_others(place, &mut [IoSliceMut::new(buf)])
    }

    #[track_caller]
    fn read_several_from(&self, place: Place, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.is_disk() {
            return run(ReadVectored { file: self.borrowed(), bufs, course: self.course(place) });
        }
        self.read_others(place, bufs)
    }

    #[track_caller]
    fn write_to(&self, place: Place, buf: &[u8]) -> io::Result<usize> {
        if self.is_disk() {
            return run(Write { file: self.borrowed(), bufs: buf, course: self.course(place) });
        }
        self.write_others(place, &[IoSlice::new(buf)])
    }

    #[track_caller]
    fn write_several_to(&self, place: Place, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.is_disk() {
            return run(WriteVectored { file: self.borrowed(), bufs, course: self.course(place) });
        }
        self.write_others(place, bufs)
    }

    /// Reads a file that is not of a disk.
    #[track_caller]
    #[inline(never)]
    fn read_others(&self, place: Place, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.kind() == Kind::Elsewhere || matches!(place, Place::At(_)) {
            return elsewhere::read(self.handle(), place, bufs);
        }
        let (stream, is_patient) = self.stream()?;
        if is_patient { stream.read_vectored(bufs) } else { stream.read_at_once(bufs) }
    }

    /// Writes a file that is not of a disk.
    #[track_caller]
    #[inline(never)]
    fn write_others(&self, place: Place, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.kind() == Kind::Elsewhere || matches!(place, Place::At(_)) {
            return elsewhere::write(self.handle(), place, bufs);
        }
        let (stream, is_patient) = self.stream()?;
        if is_patient { stream.write_vectored(bufs) } else { stream.write_at_once(bufs) }
    }

    /// This stream as a descriptor, and whether its description says that readers wait.
    fn stream(&self) -> io::Result<(&Descriptor, bool)> {
        let is_patient = !rustix::fs::fcntl_getfl(self.borrowed())?.contains(OFlags::NONBLOCK);
        if let Some(stream) = self.stream.get() {
            return Ok((stream, is_patient));
        }
        let made = Box::new(Descriptor::of(self.borrowed())?);
        Ok((self.stream.get_or_init(|| made), is_patient))
    }

    /// How much there is from the position to the end, as far as one can tell.
    fn rest(&self) -> usize {
        if !self.is_disk() {
            return 0;
        }
        let Ok(metadata) = self.metadata() else { return 0 };
        if self.at_position.are_there() {
            return 0;
        }
        let position = rustix::fs::tell(self.borrowed()).unwrap_or(0);
        usize::try_from(metadata.len().saturating_sub(position)).unwrap_or(0)
    }

    /// Appends the bytes up to the end. Bytes that have come before an error stay.
    #[track_caller]
    fn read_rest(&self, place: Place, to: &mut Vec<u8>) -> io::Result<usize> {
        self.read_more(self.rest(), place, to)
    }

    /// Appends the bytes up to the end, probably so many.
    #[track_caller]
    pub(super) fn read_more(&self, rest: usize, place: Place, to: &mut Vec<u8>) -> io::Result<usize> {
        whole::read_to_end(&mut Rest(self, place), rest, to)
    }

    #[track_caller]
    fn read_rest_to_string(&self, place: Place, to: &mut String) -> io::Result<usize> {
        whole::read_to_string(&mut Rest(self, place), to)
    }

    #[track_caller]
    fn seek_to(&self, to: SeekFrom) -> io::Result<u64> {
        if !self.is_disk() {
            let to = match to {
                SeekFrom::Start(at) => rustix::fs::SeekFrom::Start(at),
                SeekFrom::Current(by) => rustix::fs::SeekFrom::Current(by),
                SeekFrom::End(by) => rustix::fs::SeekFrom::End(by),
            };
            return ask("a file's position", self.handle(), move |file| rustix::fs::seek(file, to));
        }
        Ok(match to {
            // As the kernel has it: a number beyond its own is negative.
            SeekFrom::Start(at) if at > i64::MAX.unsigned_abs() => return Err(Errno::INVAL.into()),
            SeekFrom::Start(at) => self.move_to(rustix::fs::SeekFrom::Start(at))?,
            SeekFrom::Current(by) => self.move_to(rustix::fs::SeekFrom::Current(by))?,
            SeekFrom::End(by) => return run(SeekEnd(self.borrowed(), by, &self.at_position)),
        })
    }

    #[track_caller]
    fn move_to(&self, to: rustix::fs::SeekFrom) -> io::Result<u64> {
        let call = || rustix::fs::seek(self.borrowed(), to);
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
