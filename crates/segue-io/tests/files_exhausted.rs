//! Files where there is no room, no descriptor, or a limit. Alone in its process, whose limits it
//! lowers.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "ignores a signal")]

mod common;

use common::everywhere;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use segue_io::fs::{self, File, NamedTempFile};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

fn limit(resource: Resource, current: Option<u64>) {
    setrlimit(resource, Rlimit { current, ..getrlimit(resource) }).unwrap();
}

#[test]
fn what_has_no_room_is_told_and_what_was_written_is_counted() {
    // SAFETY: nothing is called then; a write beyond the limit is to be an error.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let dir = std::env::temp_dir().join(format!("segue-exhausted-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    a_limit_of_a_files_length(&dir);
    a_full_disk(&dir);
    no_descriptor(&dir);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A write that reaches the limit is short, and the next one is refused.
fn a_limit_of_a_files_length(dir: &std::path::Path) {
    let before = getrlimit(Resource::Fsize).current;
    limit(Resource::Fsize, Some(100_000));
    everywhere(|| {
        let path = dir.join("long");
        let mut file = File::create(&path).unwrap();
        assert_eq!(file.write(&vec![1; 150_000]).unwrap(), 100_000);
        assert_eq!(file.write(b"x").unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(file.write_at(b"xyz", 99_999).unwrap(), 1);
        assert_eq!(file.set_len(100_001).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(fs::write(&path, vec![1; 150_000]).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(fs::metadata(&path).unwrap().len(), 100_000);
        std::fs::remove_file(&path).unwrap();
    });
    limit(Resource::Fsize, before);
}

/// A small file system, where one may be mounted.
fn a_full_disk(dir: &std::path::Path) {
    let disk = dir.join("disk");
    std::fs::create_dir(&disk).unwrap();
    if let Err(error) = mount("tmpfs", &disk, "tmpfs", MountFlags::empty(), Some(c"size=256k")) {
        assert_eq!(error, rustix::io::Errno::PERM);
        return;
    }
    let full = || {
        let mut file = File::create(disk.join("a")).unwrap();
        let mut written = 0;
        let error = loop {
            match file.write(&[3; 100_000]) {
                Ok(count) => written += count as u64,
                Err(error) => break error,
            }
        };
        assert_eq!((error.kind(), file.metadata().unwrap().len()), (ErrorKind::StorageFull, written));
        assert!(written >= 200_000, "{written}");
        assert_eq!(fs::copy(disk.join("a"), disk.join("b")).unwrap_err().kind(), ErrorKind::StorageFull);
        let mut named = NamedTempFile::new_in(&disk).unwrap();
        assert_eq!(named.as_file_mut().write_all(b"x").unwrap_err().kind(), ErrorKind::StorageFull);
        drop(named);
        fs::remove_file(disk.join("b")).unwrap();
        file.set_len(0).unwrap();
        fs::write(disk.join("b"), "there is room again").unwrap();
        fs::remove_file(disk.join("a")).unwrap();
        assert_eq!(fs::read_dir(&disk).unwrap().count(), 1);
    };
    // A test that fails has to leave no mount behind.
    let outcome = std::panic::catch_unwind(|| everywhere(full));
    unmount(&disk, UnmountFlags::DETACH).unwrap();
    outcome.unwrap();
}

fn take_all(any: impl AsFd) -> Vec<OwnedFd> {
    let mut taken = Vec::new();
    while let Ok(fd) = any.as_fd().try_clone_to_owned() {
        taken.push(fd);
    }
    taken
}

/// What needs a descriptor is refused, and what needs none goes on.
fn no_descriptor(dir: &std::path::Path) {
    let before = getrlimit(Resource::Nofile).current;
    limit(Resource::Nofile, Some(256));
    let path = dir.join("a");
    std::fs::write(&path, "content").unwrap();
    everywhere(|| {
        let is_lack = |error: std::io::Error| error.raw_os_error() == Some(libc::EMFILE);
        let mut file = File::open(&path).unwrap();
        // The ring and the threads are there before there is no descriptor for them.
        fs::symlink_metadata(&path).unwrap();
        segue_core::blocking(|| ()).unwrap();
        let taken = take_all(std::io::stderr());
        assert!(is_lack(File::open(&path).unwrap_err()));
        assert!(is_lack(File::create(dir.join("b")).unwrap_err()));
        assert!(is_lack(fs::read(&path).unwrap_err()));
        assert!(is_lack(fs::read_dir(dir).unwrap_err()));
        assert!(is_lack(fs::copy(&path, dir.join("b")).unwrap_err()));
        assert!(is_lack(fs::temp_file_in(dir).unwrap_err()));
        assert!(is_lack(file.try_clone().unwrap_err()));
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!((&*text, fs::metadata(&path).unwrap().len()), ("content", 7));
        fs::rename(&path, dir.join("c")).unwrap();
        fs::rename(dir.join("c"), &path).unwrap();
        drop(taken);
        fs::read(&path).unwrap();
    });
    limit(Resource::Nofile, before);
}
