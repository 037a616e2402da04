//! Follows several logs, as `tail -F` does, while they grow, are rotated and are truncated. Lines
//! come whole, in order, and none is lost. Each follower waits in the kernel: inotify tells of
//! changes, and its descriptor is waited for as any other.

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use segue::cancel::finishing_source;
use segue::fd::Readiness;
use segue::fs::{self, File, Metadata, OpenOptions};
use segue::sync::{Condvar, Mutex};
use segue::{Cancelled, Either, run, scope};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LINES: usize = 1_000;

/// The lines of a log that have come.
type Lines = (Mutex<Vec<String>>, Condvar);

/// A log as it is open, how much of it was read, and a line of which not all has come.
struct Log {
    file: File,
    read: u64,
    line: Vec<u8>,
}

impl Log {
    /// Reads to the end, and gives out the lines that are whole.
    fn catch_up(&mut self, lines: &Lines) -> io::Result<()> {
        if self.file.metadata()?.len() < self.read {
            // Truncated: what is there now is new.
            self.file.seek(SeekFrom::Start(0))?;
            (self.read, self.line) = (0, Vec::new());
        }
        self.read += self.file.read_to_end(&mut self.line)? as u64;
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            lines.0.lock()?.push(String::from_utf8_lossy(&line[..end]).into_owned());
            lines.1.notify_all();
        }
        Ok(())
    }

    /// Whether another file has this one's name.
    fn is_rotated(&self, path: &Path) -> io::Result<bool> {
        let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
        match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            there => Ok(id(there?) != id(self.file.metadata()?)),
        }
    }
}

fn open(path: &Path) -> io::Result<Log> {
    Ok(Log { file: File::open(path)?, read: 0, line: Vec::new() })
}

/// Follows a log until it is asked to finish, and then to its end.
fn follow(path: &Path, lines: &Lines) -> io::Result<()> {
    let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    let changes = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
    inotify::add_watch(&events, path.parent().unwrap_or(path), changes)?;
    let (changed, mut log, mut asked) = (Readiness::of(&events)?, open(path)?, false);
    loop {
        log.catch_up(lines)?;
        if log.is_rotated(path)? {
            // The rest of the old one, which nobody writes any more.
            log.catch_up(lines)?;
            log = open(path)?;
        } else if asked {
            return Ok(());
        } else if let Either::Left(ready) = changed.readable_source().or(finishing_source()).wait()? {
            // The events are taken first, and then is looked: so no change is missed.
            ready.map(|()| while rustix::io::read(&events, &mut [0; 4096]).is_ok() {})?;
        } else {
            asked = true;
        }
    }
}

/// Writes a log, in torn pieces, rotates it and truncates it.
fn write(path: &Path, read: &Lines) -> io::Result<()> {
    let open = || OpenOptions::new().append(true).create(true).open(path);
    let read_up_to = |count| -> Result<(), Cancelled> {
        drop(read.1.wait_while(read.0.lock()?, |lines| lines.len() < count)?);
        Ok(())
    };
    let mut file = open()?;
    for line in 0..LINES {
        let text = format!("line {line}\n");
        let (begin, end) = text.split_at(line % text.len());
        file.write_all(begin.as_bytes()).and_then(|()| file.write_all(end.as_bytes()))?;
        match line % 50 {
            // Ten lines may be unread yet. Two rotations in one look would lose those between them.
            20 => {
                read_up_to(line - 10)?;
                fs::rename(path, path.with_extension("old"))?;
                file = open()?;
            }
            // Unread lines would be lost, and a file that has grown again looks as before.
            40 => {
                read_up_to(line + 1)?;
                file.set_len(0)?;
            }
            41 => read_up_to(line + 1)?,
            _ => {}
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let folder = std::env::temp_dir().join(format!("segue-logs-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let logs: Vec<(PathBuf, Lines)> = (0..4).map(|log| (folder.join(log.to_string()), Lines::default())).collect();
    logs.iter().try_for_each(|(path, _)| std::fs::write(path, ""))?;
    run(|| {
        scope(|s| {
            let followers: Vec<_> = logs.iter().map(|(path, lines)| s.spawn(|| follow(path, lines))).collect();
            scope(|writers| logs.iter().for_each(|(path, lines)| drop(writers.spawn(|| write(path, lines).unwrap()))));
            s.cancel_soft(Duration::from_secs(60));
            followers.into_iter().for_each(|follower| follower.join().unwrap().unwrap());
        });
    });
    let expected: Vec<_> = (0..LINES).map(|line| format!("line {line}")).collect();
    logs.into_iter().for_each(|(_, lines)| assert!(lines.0.into_inner() == expected, "torn, lost or out of order"));
    println!("four logs of {LINES} lines came whole and in order; each was rotated and truncated 20 times");
    std::fs::remove_dir_all(&folder)
}
