//! Files: what std says of the same, what bad days bring, and what becomes of cancelled callers.
#![cfg(target_os = "linux")]
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

mod common;

use common::{everywhere, on_one_worker};
use segue_core::{CancelToken, Cancelled, scope, timeout};
use segue_io::fs::{self, File, NamedTempFile, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

/// A directory of its own, which goes when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("segue-files-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn fifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn is_late<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::TimedOut)
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|byte| (byte % 251) as u8).collect()
}

fn cancelled<T>(call: impl FnOnce() -> io::Result<T>) {
    let token = CancelToken::new();
    token.cancel();
    let error = token.run(call).err().expect("a cancelled caller is refused");
    assert!(Cancelled::caused(&error), "{error}");
}

/// Descriptors that are open: those of files in `dir`.
fn open_in(dir: &Path) -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    fds.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(dir))).count()
}

#[test]
fn what_is_written_is_read_wherever_the_position_is() {
    everywhere(|| {
        let scratch = Scratch::new();
        let mut file = File::options().read(true).write(true).create_new(true).open(scratch.path("a")).unwrap();
        let content = bytes(300_000);
        file.write_all(&content).unwrap();
        assert_eq!(file.stream_position().unwrap(), 300_000);
        file.rewind().unwrap();
        let mut read = Vec::new();
        assert_eq!(file.read_to_end(&mut read).unwrap(), 300_000);
        assert!(read == content);
        assert_eq!(file.read(&mut [0; 9]).unwrap(), 0);
        assert_eq!(file.seek(SeekFrom::End(-10)).unwrap(), 299_990);
        assert_eq!(file.seek(SeekFrom::Current(-10)).unwrap(), 299_980);
        let mut tail = [0; 40];
        assert_eq!(file.read(&mut tail).unwrap(), 20);
        assert_eq!(tail[..20], content[299_980..]);
        assert_eq!(file.seek(SeekFrom::Current(-400_000)).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(file.seek(SeekFrom::Start(u64::MAX)).unwrap_err().kind(), ErrorKind::InvalidInput);
        // With and without room.
        let (mut one, mut two) = ([0; 3], [0; 5]);
        file.seek(SeekFrom::Start(7)).unwrap();
        assert_eq!(file.read_vectored(&mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)]).unwrap(), 8);
        assert_eq!((&one[..], &two[..]), (&content[7..10], &content[10..15]));
        assert_eq!(file.read(&mut []).unwrap(), 0);
        assert_eq!(file.read_vectored(&mut []).unwrap(), 0);
        assert_eq!(file.write(&[]).unwrap(), 0);
        assert_eq!(file.write_vectored(&[]).unwrap(), 0);
        assert_eq!(file.write_vectored(&[IoSlice::new(b"x"), IoSlice::new(b"yz")]).unwrap(), 3);
        assert_eq!(file.stream_position().unwrap(), 18);
        // Positioned, which moves nothing.
        file.write_all_at(b"at", 299_999).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 300_001);
        file.read_exact_at(&mut one[..2], 299_999).unwrap();
        assert_eq!(&one[..2], b"at");
        assert_eq!(file.read_exact_at(&mut [0; 3], 299_999).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(file.read_vectored_at(&mut [IoSliceMut::new(&mut one)], 15).unwrap(), 3);
        assert_eq!(&one, b"xyz");
        assert_eq!(file.write_vectored_at(&[IoSlice::new(b"12"), IoSlice::new(b"3")], 15).unwrap(), 3);
        assert_eq!(file.read_at(&mut one, 1 << 40).unwrap(), 0);
        // The number that the kernel takes for "the position".
        assert_eq!(file.read_at(&mut one, u64::MAX).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(file.write_at(&one, u64::MAX).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(file.stream_position().unwrap(), 18);
        file.set_len(16).unwrap();
        assert_eq!(file.set_len(u64::MAX).unwrap_err().kind(), ErrorKind::InvalidInput);
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        assert_eq!(fs::read(scratch.path("a")).unwrap().len(), 16);
    });
}

#[test]
fn a_read_of_what_is_not_in_memory_waits_for_the_disk() {
    everywhere(|| {
        let scratch = Scratch::new();
        let content = bytes(1 << 20);
        std::fs::write(scratch.path("a"), &content).unwrap();
        let file = File::open(scratch.path("a")).unwrap();
        file.sync_all().unwrap();
        let forget = || rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        forget();
        scope(|s| {
            for fiber in 0..16_usize {
                let (file, content) = (&file, &content);
                s.spawn(move || {
                    for round in 0..16_usize {
                        let at = (fiber * 7919 + round * 65_537) % (content.len() - 5000);
                        let mut read = [0; 5000];
                        file.read_exact_at(&mut read, at as u64).unwrap();
                        assert!(read[..] == content[at..at + 5000]);
                    }
                });
            }
        });
        forget();
        let mut whole = Vec::new();
        File::open(scratch.path("a")).unwrap().read_to_end(&mut whole).unwrap();
        assert!(whole == content);
        forget();
        let mut whole = Vec::new();
        (&file).read_to_end(&mut whole).unwrap();
        assert!(whole == content);
    });
}

/// Many fibers on one file: each byte goes to one of them, and none is written over.
#[test]
fn fibers_that_share_a_position_take_turns() {
    everywhere(|| {
        let scratch = Scratch::new();
        let file = File::options().read(true).write(true).create_new(true).open(scratch.path("a")).unwrap();
        scope(|s| {
            for fiber in 0..8_u8 {
                let file = &file;
                s.spawn(move || (0..25).for_each(|_| (&mut &*file).write_all(&[fiber; 100]).unwrap()));
            }
        });
        let written = std::fs::read(scratch.path("a")).unwrap();
        assert_eq!(written.len(), 8 * 25 * 100);
        assert!(written.chunks(100).all(|record| record.iter().all(|byte| *byte == record[0])));
        // Of two handles that share it, each is borrowed for writing.
        (&file).rewind().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let counts = scope(|s| {
            let readers: Vec<_> = (0..4).map(|_| file.try_clone().unwrap()).collect();
            let read = |mut reader: File| {
                move || {
                    let (mut counts, mut record) = ([0; 8], [0; 100]);
                    while reader.read(&mut record).unwrap() == 100 {
                        counts[record[0] as usize] += 1;
                    }
                    counts
                }
            };
            let readers: Vec<_> = readers.into_iter().map(|reader| s.spawn(read(reader))).collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).reduce(|a, b| std::array::from_fn(|i| a[i] + b[i]))
        });
        assert_eq!(counts, Some([25; 8]));
    });
}

#[test]
fn all_flags_and_errors_of_an_open_are_stds() {
    everywhere(|| {
        let (ours, theirs) = (Scratch::new(), Scratch::new());
        for scratch in [&ours, &theirs] {
            std::fs::write(scratch.path("file"), "content").unwrap();
            std::fs::create_dir(scratch.path("dir")).unwrap();
            std::os::unix::fs::symlink("file", scratch.path("link")).unwrap();
            std::os::unix::fs::symlink("loop", scratch.path("loop")).unwrap();
        }
        let names = ["file", "dir", "link", "loop", "none", "file/below", ""];
        for (bits, name) in (0..64).flat_map(|bits| names.map(|name| (bits, name))) {
            let flag = |bit: u32| bits >> bit & 1 == 1;
            let (mut mine, mut stds) = (OpenOptions::new(), std::fs::OpenOptions::new());
            mine.read(flag(0)).write(flag(1)).append(flag(2)).truncate(flag(3)).create(flag(4)).create_new(flag(5));
            stds.read(flag(0)).write(flag(1)).append(flag(2)).truncate(flag(3)).create(flag(4)).create_new(flag(5));
            let path = |scratch: &Scratch| if name.is_empty() { PathBuf::new() } else { scratch.path(name) };
            let mine = mine.open(path(&ours));
            let stds = stds.open(path(&theirs));
            let flags = |fd: OwnedFd| rustix::fs::fcntl_getfl(fd).unwrap();
            match (mine, stds) {
                (Ok(mine), Ok(stds)) => assert_eq!(flags(mine.into()), flags(stds.into()), "{name} {bits:b}"),
                (mine, stds) => {
                    let (mine, stds) = (mine.unwrap_err(), stds.unwrap_err());
                    let kinds = (mine.kind(), mine.raw_os_error());
                    assert_eq!(kinds, (stds.kind(), stds.raw_os_error()), "{name} {bits:b}");
                }
            }
            let content = |scratch: &Scratch| std::fs::read(scratch.path("file")).unwrap();
            assert_eq!(content(&ours), content(&theirs), "{name} {bits:b}");
            for scratch in [&ours, &theirs] {
                if content(scratch) != b"content" {
                    std::fs::write(scratch.path("file"), "content").unwrap();
                }
                let _ = std::fs::remove_file(scratch.path("none"));
            }
        }
        let private = OpenOptions::new().write(true).create_new(true).mode(0o600).open(ours.path("private")).unwrap();
        assert_eq!(private.metadata().unwrap().mode() & 0o7777, 0o600);
        let nofollow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let error = OpenOptions::new().read(true).custom_flags(nofollow).open(ours.path("link")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()));
        // Flags that the kernel does not know are passed over.
        OpenOptions::new().read(true).custom_flags(1 << 29).open(ours.path("file")).unwrap();
        let path = rustix::fs::OFlags::PATH.bits().cast_signed();
        OpenOptions::new().read(true).custom_flags(path).open(ours.path("dir")).unwrap();
    });
}

#[test]
fn a_path_with_a_nul_is_invalid_everywhere() {
    everywhere(|| {
        let path = "a\0b";
        let outcomes = [
            File::open(path).map(drop),
            File::create(path).map(drop),
            fs::read(path).map(drop),
            fs::write(path, ""),
            fs::copy(path, "/dev/null").map(drop),
            fs::copy("/dev/null", path).map(drop),
            fs::rename(path, "x"),
            fs::rename("x", path),
            fs::remove_file(path),
            fs::remove_dir(path),
            fs::remove_dir_all(path),
            fs::create_dir(path),
            fs::create_dir_all(path),
            fs::read_dir(path).map(drop),
            fs::metadata(path).map(drop),
            fs::symlink_metadata(path).map(drop),
            fs::exists(path).map(drop),
            fs::canonicalize(path).map(drop),
            fs::hard_link(path, "x"),
            fs::symlink(path, "x"),
            fs::read_link(path).map(drop),
            fs::set_permissions(path, fs::Permissions::from_mode(0o0)),
            fs::temp_file_in(path).map(drop),
            NamedTempFile::new_in(path).map(drop),
        ];
        for (number, outcome) in outcomes.into_iter().enumerate() {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::InvalidInput, "number {number}");
        }
    });
}

#[test]
fn a_file_without_a_length_has_a_content() {
    everywhere(|| {
        let scratch = Scratch::new();
        assert_eq!(fs::metadata("/proc/self/status").unwrap().len(), 0);
        let text = fs::read_to_string("/proc/self/limits").unwrap();
        assert_eq!(text, std::fs::read_to_string("/proc/self/limits").unwrap());
        let copied = fs::copy("/proc/self/limits", scratch.path("limits")).unwrap();
        assert_eq!(copied, text.len() as u64);
        assert_eq!(fs::read_to_string(scratch.path("limits")).unwrap(), text);
        assert_eq!(fs::read("/proc/self/cmdline").unwrap(), std::fs::read("/proc/self/cmdline").unwrap());
        let empty = fs::copy("/dev/null", scratch.path("null")).unwrap_err();
        assert_eq!(empty.kind(), std::fs::copy("/dev/null", scratch.path("null")).unwrap_err().kind());
        std::fs::write(scratch.path("empty"), "").unwrap();
        assert_eq!(fs::copy(scratch.path("empty"), scratch.path("empty too")).unwrap(), 0);
        assert_eq!(fs::read(scratch.path("empty too")).unwrap(), b"");
    });
}

#[test]
fn a_whole_file_is_read_whatever_its_length() {
    let scratch = Scratch::new();
    const SMALL: usize = 128 * 1024;
    let lengths = [0, 1, 31, 32, 33, 4095, 4096, 4097, SMALL - 2, SMALL - 1, SMALL, SMALL + 1, 3 * SMALL];
    for length in lengths {
        let path = scratch.path("whole");
        std::fs::write(&path, bytes(length)).unwrap();
        everywhere(|| assert!(fs::read(&path).unwrap() == bytes(length), "{length}"));
    }
    everywhere(|| assert_eq!(fs::read(&scratch.0).unwrap_err().kind(), ErrorKind::IsADirectory));
}

#[test]
fn what_is_no_text_leaves_the_string_as_it_was() {
    everywhere(|| {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("a"), b"ab\xff").unwrap();
        let mut text = "before".to_owned();
        let error = File::open(scratch.path("a")).unwrap().read_to_string(&mut text).unwrap_err();
        assert_eq!((error.kind(), &*text), (ErrorKind::InvalidData, "before"));
        std::fs::write(scratch.path("a"), " after").unwrap();
        File::open(scratch.path("a")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "before after");
    });
}

#[test]
fn metadata_are_stds() {
    everywhere(|| {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("file"), "content").unwrap();
        std::os::unix::fs::symlink("file", scratch.path("link")).unwrap();
        fifo(&scratch.path("pipe"));
        let early = SystemTime::UNIX_EPOCH - Duration::from_millis(1500);
        let file = File::options().write(true).open(scratch.path("file")).unwrap();
        file.set_times(fs::FileTimes::new().set_accessed(early).set_modified(SystemTime::UNIX_EPOCH)).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
        let paths = ["file", "link", "pipe", "."].map(|name| scratch.path(name)).into_iter();
        for path in paths.chain(["/dev/null".into(), "/proc/self/maps".into(), "/".into()]) {
            for (mine, stds) in [
                (fs::metadata(&path).unwrap(), std::fs::metadata(&path).unwrap()),
                (fs::symlink_metadata(&path).unwrap(), std::fs::symlink_metadata(&path).unwrap()),
            ] {
                let (kind, of_std) = (mine.file_type(), stds.file_type());
                assert_eq!((kind.is_dir(), kind.is_file()), (of_std.is_dir(), of_std.is_file()));
                assert_eq!((kind.is_symlink(), kind.is_fifo()), (of_std.is_symlink(), of_std.is_fifo()));
                assert_eq!((kind.is_char_device(), kind.is_block_device()), (of_std.is_char_device(), false));
                assert_eq!((mine.dev(), mine.ino(), mine.mode()), (stds.dev(), stds.ino(), stds.mode()));
                assert_eq!((mine.nlink(), mine.uid(), mine.gid()), (stds.nlink(), stds.uid(), stds.gid()));
                assert_eq!((mine.rdev(), mine.size(), mine.blocks()), (stds.rdev(), stds.size(), stds.blocks()));
                assert_eq!((mine.mtime(), mine.mtime_nsec()), (stds.mtime(), stds.mtime_nsec()));
                assert_eq!((mine.ctime(), mine.ctime_nsec()), (stds.ctime(), stds.ctime_nsec()));
                assert_eq!((mine.blksize(), mine.permissions()), (stds.blksize(), stds.permissions()));
                assert_eq!(mine.modified().unwrap(), stds.modified().unwrap());
                // Neither all C libraries say when a file was created, nor all systems.
                if cfg!(all(linux, not(target_env = "musl"))) {
                    assert_eq!(mine.created().ok(), stds.created().ok());
                }
            }
        }
        assert_eq!(file.metadata().unwrap().accessed().unwrap(), early);
        assert_eq!(fs::metadata(scratch.path("file")).unwrap().permissions().mode() & 0o7777, 0o640);
        fs::set_permissions(scratch.path("link"), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o600);
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(5)).unwrap();
        assert_eq!(file.metadata().unwrap().mtime(), 5);
    });
}

#[test]
fn a_lock_is_waited_for_and_a_cancelled_waiter_has_none() {
    everywhere(|| {
        let scratch = Scratch::new();
        let open = || File::options().write(true).create(true).truncate(false).open(scratch.path("lock")).unwrap();
        let (one, other) = (open(), open());
        one.lock().unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        assert!(is_late(timeout(Duration::from_millis(3), || other.lock())));
        cancelled(|| other.lock());
        scope(|s| {
            let waits = s.spawn(|| other.lock_shared());
            segue_core::yield_now().unwrap();
            one.unlock().unwrap();
            waits.join().unwrap().unwrap();
        });
        one.lock_shared().unwrap();
        one.try_lock_shared().unwrap();
        assert!(matches!(one.try_lock(), Err(TryLockError::WouldBlock)));
        // To lock in the other way, it has given up what it had.
        one.lock_shared().unwrap();
        assert!(is_late(timeout(Duration::from_millis(3), || one.lock())));
        other.try_lock().unwrap();
    });
}

#[test]
fn a_named_pipe_is_opened_when_its_other_end_is() {
    everywhere(|| {
        let scratch = Scratch::new();
        fifo(&scratch.path("pipe"));
        let text = scope(|s| {
            let reads = s.spawn(|| fs::read_to_string(scratch.path("pipe")).unwrap());
            segue_core::yield_now().unwrap();
            let mut writer = File::options().write(true).open(scratch.path("pipe")).unwrap();
            writer.write_all(b"through").unwrap();
            drop(writer);
            reads.join().unwrap()
        });
        assert_eq!(text, "through");
        // The writer first: it waits as well.
        let text = scope(|s| {
            let writes = s.spawn(|| fs::write(scratch.path("pipe"), "back").unwrap());
            segue_core::yield_now().unwrap();
            let text = fs::read_to_string(scratch.path("pipe")).unwrap();
            writes.join().unwrap();
            text
        });
        assert_eq!(text, "back");
    });
}

#[test]
fn files_of_std_are_taken_over_and_handed_on_as_they_are() {
    everywhere(|| {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("a"), "0123456789").unwrap();
        let mut theirs = std::fs::File::open(scratch.path("a")).unwrap();
        theirs.read_exact(&mut [0; 2]).unwrap();
        let mut duplicate = theirs.try_clone().unwrap();
        let mut ours = File::from_std(theirs);
        let mut two = [0; 2];
        ours.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"23");
        duplicate.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"45");
        let mut again = ours.try_clone().unwrap();
        again.read_exact(&mut two).unwrap();
        let mut back = ours.into_std();
        back.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"89");
        let fd = OwnedFd::from(File::from(OwnedFd::from(back)));
        assert!(!rustix::fs::fcntl_getfl(&fd).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
        let opened = File::open(scratch.path("a")).unwrap();
        let flags = rustix::fs::fcntl_getfl(opened.as_fd()).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "{flags:?}");
        assert!(rustix::io::fcntl_getfd(&opened).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        let output = std::process::Command::new("cat").stdin(opened).output().unwrap();
        assert_eq!(output.stdout, b"0123456789");
    });
}

#[test]
fn a_full_device_and_a_limit_are_errors_and_short_writes_say_how_short() {
    everywhere(|| {
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(full.write(b"x").unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(full.write_all(&[0; 9]).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(full.write_at(b"x", 9).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(fs::write("/dev/full", "x").unwrap_err().kind(), ErrorKind::StorageFull);
        let read_only = File::open("/dev/full").unwrap();
        let error = (&read_only).write(b"x").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::BADF.raw_os_error()));
        let dir = File::open("/").unwrap();
        assert_eq!((&dir).read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::IsADirectory);
    });
}

#[test]
fn a_cancelled_caller_has_no_effect_and_leaks_nothing() {
    everywhere(|| {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("a"), "content").unwrap();
        let mut file = File::options().read(true).write(true).open(scratch.path("a")).unwrap();
        let before = open_in(&scratch.0);
        cancelled(|| File::open(scratch.path("a")));
        cancelled(|| File::create(scratch.path("a")));
        cancelled(|| file.read(&mut [0; 4]));
        cancelled(|| file.write(b"x"));
        cancelled(|| file.read_at(&mut [0; 4], 0));
        cancelled(|| file.write_at(b"x", 0));
        cancelled(|| file.metadata());
        cancelled(|| file.set_len(0));
        cancelled(|| file.sync_all());
        cancelled(|| file.set_permissions(fs::Permissions::from_mode(0o0)));
        cancelled(|| fs::read(scratch.path("a")));
        cancelled(|| fs::write(scratch.path("a"), ""));
        cancelled(|| fs::copy(scratch.path("a"), scratch.path("b")));
        cancelled(|| fs::rename(scratch.path("a"), scratch.path("b")));
        cancelled(|| fs::hard_link(scratch.path("a"), scratch.path("b")));
        cancelled(|| fs::symlink("a", scratch.path("b")));
        cancelled(|| fs::create_dir(scratch.path("b")));
        cancelled(|| fs::create_dir_all(scratch.path("b/c")));
        cancelled(|| fs::remove_file(scratch.path("a")));
        cancelled(|| fs::remove_dir_all(&scratch.0));
        cancelled(|| fs::read_dir(&scratch.0));
        cancelled(|| fs::metadata(scratch.path("a")));
        cancelled(|| fs::exists(scratch.path("a")));
        cancelled(|| fs::canonicalize(scratch.path("a")));
        cancelled(|| fs::read_link(scratch.path("a")));
        cancelled(|| fs::temp_file_in(&scratch.0));
        cancelled(|| NamedTempFile::new_in(&scratch.0));
        assert_eq!(open_in(&scratch.0), before);
        assert_eq!(file.stream_position().unwrap(), 0);
        let names: Vec<_> = std::fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!((names, std::fs::read(scratch.path("a")).unwrap()), (vec!["a".into()], b"content".to_vec()));
        assert_ne!(file.metadata().unwrap().mode() & 0o777, 0);
    });
}

/// Callers that are cancelled while their calls are under way: each call has happened or has not,
/// and says which.
#[test]
fn a_caller_that_is_cancelled_meanwhile_knows_what_has_happened() {
    everywhere(|| {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("a"), bytes(500_000)).unwrap();
        let before = open_in(&scratch.0);
        for round in 0..30_u32 {
            let token = CancelToken::new();
            let (dir, made) = (scratch.path("dir"), scratch.path("made"));
            scope(|s| {
                let work = s.spawn(|| {
                    token.run(|| {
                        let file = File::open(scratch.path("a"));
                        if let Ok(file) = &file {
                            rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
                            let mut piece = [0; 3000];
                            if file.read_exact_at(&mut piece, u64::from(round) * 5000).is_ok() {
                                assert_eq!(piece[0], (u64::from(round) * 5000 % 251) as u8);
                            }
                        }
                        (fs::create_dir(&dir), File::create_new(&made).map(drop))
                    })
                });
                for _ in 0..round % 10 {
                    segue_core::yield_now().unwrap();
                }
                token.cancel();
                let (created, opened) = work.join().unwrap();
                for (path, outcome) in [(&dir, created), (&made, opened)] {
                    assert_eq!(path.exists(), outcome.is_ok());
                    assert!(outcome.as_ref().err().is_none_or(Cancelled::caused), "{outcome:?}");
                }
            });
            let _ = (std::fs::remove_dir(&dir), std::fs::remove_file(&made));
            assert_eq!(open_in(&scratch.0), before, "round {round}: a descriptor is left");
        }
    });
}

#[test]
fn a_read_of_a_pipe_that_was_opened_as_a_file_is_cut_short() {
    for backend in common::BACKENDS {
        on_one_worker(backend, || {
            let scratch = Scratch::new();
            fifo(&scratch.path("pipe"));
            let mut both = File::options().read(true).write(true).open(scratch.path("pipe")).unwrap();
            assert!(is_late(timeout(Duration::from_millis(3), || both.read(&mut [0; 4]))));
            both.write_all(b"ab").unwrap();
            assert_eq!(both.read(&mut [0; 4]).unwrap(), 2);
        });
    }
}

/// A ring would move bytes at the position instead, and would wait.
#[test]
fn what_has_no_offsets_says_so_and_what_must_not_block_does_not() {
    everywhere(|| {
        let scratch = Scratch::new();
        fifo(&scratch.path("pipe"));
        let mut both = File::options().read(true).write(true).open(scratch.path("pipe")).unwrap();
        both.write_all(b"content").unwrap();
        let room = &mut [0; 16];
        let refused = [
            both.read_at(room, 0),
            both.write_at(b"more", 0),
            both.read_vectored_at(&mut [IoSliceMut::new(room)], 0),
            both.write_vectored_at(&[IoSlice::new(b"more")], 0),
        ];
        assert!(refused.map(|it| it.unwrap_err().kind()).iter().all(|kind| *kind == ErrorKind::NotSeekable));
        assert_eq!(both.read(room).unwrap(), 7, "bytes were moved");
        for path in [scratch.path("pipe"), "/dev/ptmx".into()] {
            let does_not_block = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            let mut silent = File::options().read(true).write(true).custom_flags(does_not_block).open(path).unwrap();
            assert_eq!(silent.read(room).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
    });
}

/// The read has the position's lock in the kernel until it is over.
#[test]
fn who_comes_to_a_position_during_a_long_read_does_not_block_the_worker() {
    const LENGTH: u64 = 64 << 20;
    for backend in [common::BEST, segue_io::Backend::Native] {
        let visits: [fn(&File) -> u64; 2] =
            [|mut file| file.stream_position().unwrap(), |mut file| file.read(&mut [0]).unwrap() as u64];
        for visit in visits {
            // Now and then the read may be over before anybody comes.
            let others_have_run = (0..20).any(|_| on_one_worker(backend, || beside_a_long_read(LENGTH, visit)));
            assert!(others_have_run, "the worker was blocked until the read was over");
        }
    }
}

/// Visits a position until a read of the same is over, or another fiber has run during a visit.
fn beside_a_long_read(length: u64, visit: fn(&File) -> u64) -> bool {
    let scratch = Scratch::new();
    let made = std::fs::File::create(scratch.path("a")).unwrap();
    made.set_len(length).unwrap();
    let file = File::open(scratch.path("a")).unwrap();
    let (turns, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut met = false;
    scope(|s| {
        let reader = s.spawn(|| (&file).read(&mut vec![0; length as usize]).unwrap());
        s.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                turns.fetch_add(1, Ordering::Relaxed);
                segue_core::yield_now().unwrap();
            }
        });
        segue_core::yield_now().unwrap();
        while !reader.is_finished() && !met {
            let before = turns.load(Ordering::Relaxed);
            visit(&file);
            met = turns.load(Ordering::Relaxed) > before;
            if !met {
                segue_core::yield_now().unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
    met
}

/// Neither does the worker copy what is in memory, nor make room for all of a file at once.
#[test]
fn a_large_transfer_leaves_the_worker_to_others() {
    const LENGTH: usize = 32 << 20;
    fn turns_beside(transfer: impl FnOnce() + Send) -> usize {
        let (turns, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        scope(|s| {
            s.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    turns.fetch_add(1, Ordering::Relaxed);
                    segue_core::yield_now().unwrap();
                }
            });
            segue_core::yield_now().unwrap();
            turns.store(0, Ordering::Relaxed);
            transfer();
            is_over.store(true, Ordering::Relaxed);
        });
        turns.into_inner()
    }
    for backend in [common::BEST, segue_io::Backend::Native] {
        on_one_worker(backend, || {
            let scratch = Scratch::new();
            std::fs::write(scratch.path("a"), vec![1; LENGTH]).unwrap();
            let mut file = File::options().read(true).write(true).open(scratch.path("a")).unwrap();
            let mut room = vec![0; LENGTH];
            // A thread of the kernel's may be over before this one goes on.
            let others_have_run =
                |transfer: &mut (dyn FnMut() + Send)| (0..20).any(|_| turns_beside(&mut *transfer) > 100);
            assert!(others_have_run(&mut || assert_eq!(file.read_at(&mut room, 0).unwrap(), LENGTH)));
            assert!(others_have_run(&mut || assert_eq!(file.write_at(&room, 0).unwrap(), LENGTH)));
            let several = || [IoSlice::new(&room[..9]), IoSlice::new(&room[9..])];
            assert!(others_have_run(&mut || assert_eq!(file.write_vectored_at(&several(), 0).unwrap(), LENGTH)));
            let turns = turns_beside(|| {
                file.rewind().unwrap();
                assert_eq!(file.read_to_end(&mut Vec::new()).unwrap(), LENGTH);
            });
            assert!(turns >= 32, "{turns} turns beside a read of 32 MiB");
        });
    }
}

struct DropsFile(Option<File>);

impl Drop for DropsFile {
    fn drop(&mut self) {
        let mut file = self.0.take().unwrap();
        file.write_all(b"last words").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "last words");
    }
}

#[test]
fn a_file_is_written_and_closed_also_while_a_fiber_panics() {
    everywhere(|| {
        let scratch = Scratch::new();
        let path = scratch.path("a");
        let outcome = std::panic::catch_unwind(|| {
            let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
            let _last = DropsFile(Some(file));
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(outcome.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"last words");
        assert_eq!(open_in(&scratch.0), 0);
    });
}

#[test]
fn temporary_files_have_no_name_or_lose_it() {
    everywhere(|| {
        let scratch = Scratch::new();
        let names = || std::fs::read_dir(&scratch.0).unwrap().count();
        let mut nameless = fs::temp_file_in(&scratch.0).unwrap();
        nameless.write_all(b"text").unwrap();
        assert_eq!((names(), nameless.metadata().unwrap().len()), (0, 4));
        let mut named = NamedTempFile::new_in(&scratch.0).unwrap();
        named.as_file_mut().write_all(b"text").unwrap();
        assert_eq!((names(), fs::read(named.path()).unwrap()), (1, b"text".to_vec()));
        assert_eq!(named.as_file().metadata().unwrap().mode() & 0o777, 0o600);
        drop(named);
        assert_eq!(names(), 0);
        let kept = NamedTempFile::new_in(&scratch.0).unwrap().keep().1;
        assert!(fs::exists(&kept).unwrap());
        NamedTempFile::new_in(&scratch.0).unwrap().persist(&kept).unwrap();
        assert_eq!(names(), 1);
        let nowhere = NamedTempFile::new_in(&scratch.0).unwrap().persist(scratch.path("none/below")).unwrap_err();
        assert_eq!((nowhere.kind(), names()), (ErrorKind::NotFound, 1));
        assert_eq!(fs::temp_file_in(scratch.path("none")).unwrap_err().kind(), ErrorKind::NotFound);
        // It is removed also if the program goes elsewhere.
        for here in ["", ".", "src/.."] {
            let named = NamedTempFile::new_in(here).unwrap();
            assert!(named.path().is_absolute() && named.path().exists());
        }
        // Where files without names are not known.
        let proc = fs::temp_file_in("/proc").unwrap_err();
        assert!(!Cancelled::caused(&proc));
        fs::temp_file().unwrap().write_all(b"x").unwrap();
    });
}

#[test]
fn a_descriptor_that_others_have_is_not_flown_with() {
    everywhere(|| {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("a"), bytes(200_000)).unwrap();
        let mut ours = File::open(scratch.path("a")).unwrap();
        let mut theirs = std::fs::File::from(ours.as_fd().try_clone_to_owned().unwrap());
        assert!(ours.as_raw_fd() >= 0);
        let (mut first, mut second) = (vec![0; 150_000], vec![0; 150_000]);
        let total = scope(|s| {
            let reads = s.spawn(|| ours.read(&mut first).unwrap());
            let count = theirs.read(&mut second).unwrap();
            count + reads.join().unwrap()
        });
        assert_eq!(total, 200_000, "the same bytes were read twice, or some were passed over");
    });
}

/// The other end may be a fiber of this very worker's.
#[test]
fn a_fiber_that_panics_can_not_wait_for_the_other_end_of_a_pipe() {
    struct Opens<'a>(&'a OpenOptions, PathBuf, &'a mut Option<io::Result<File>>);
    impl Drop for Opens<'_> {
        fn drop(&mut self) {
            *self.2 = Some(self.0.open(&self.1));
        }
    }
    for backend in common::BACKENDS {
        on_one_worker(backend, || {
            let scratch = Scratch::new();
            let path = scratch.path("pipe");
            fifo(&path);
            for options in [OpenOptions::new().read(true), OpenOptions::new().write(true)] {
                let mut opened = None;
                let opens = Opens(options, path.clone(), &mut opened);
                let panics = std::panic::AssertUnwindSafe(move || {
                    let _opens = opens;
                    panic!("on purpose");
                });
                std::panic::catch_unwind(panics).unwrap_err();
                let error = opened.unwrap().expect_err("there is no other end");
                assert!(Cancelled::caused(&error), "{error}");
            }
        });
    }
}
