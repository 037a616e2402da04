//! The same random calls through `std::fs` and through `segue_io::fs` have the same results and the
//! same errors, and leave the same files behind.
#![cfg(target_os = "linux")]

mod common;

use common::everywhere;
use std::fmt::Write as _;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        // Marsaglia's xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

const NAMES: [&str; 12] = ["a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/f", "link", "d/link", "none/below", "a/below"];

/// A call and what it is called with.
#[derive(Clone, Debug)]
struct Step {
    call: usize,
    one: &'static str,
    other: &'static str,
    number: usize,
}

/// What a call has said: a text, or the kind and the number of the error.
type Said = Result<String, (io::ErrorKind, Option<i32>)>;

fn said(result: io::Result<String>) -> Said {
    result.map_err(|error| (error.kind(), error.raw_os_error()))
}

/// The same function over one of the two, by the names that both have.
macro_rules! player {
    ($name:ident, $fs:path) => {
        fn $name(root: &Path, step: &Step) -> Said {
            use std::io::{Read, Seek, SeekFrom, Write};
            use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
            use $fs as fs;
            let (one, other) = (root.join(step.one), root.join(step.other));
            let number = step.number;
            let content = || vec![b'a' + (number % 26) as u8; number * 37];
            let text = |bytes: Vec<u8>| format!("{} {:?}", bytes.len(), bytes.iter().take(4).collect::<Vec<_>>());
            let relative = |path: PathBuf| path.strip_prefix(root).unwrap_or(&path).display().to_string();
            let about = |it: fs::Metadata| {
                // The length of a directory is the file system's business.
                let length = if it.is_dir() { 0 } else { it.len() };
                let kinds = (it.is_dir(), it.is_file(), it.is_symlink());
                format!("{kinds:?} {length} {} {:o}", if it.is_dir() { 0 } else { it.nlink() }, it.mode())
            };
            let update = || {
                let mut file = fs::OpenOptions::new().read(true).write(true).open(&one)?;
                let at = file.seek(SeekFrom::Start(number as u64 * 5))?;
                file.write_all(b"up")?;
                file.set_len(at + number as u64)?;
                let end = file.seek(SeekFrom::End(0))?;
                file.seek(SeekFrom::Current(-((end.min(7)) as i64)))?;
                let mut rest = Vec::new();
                file.read_to_end(&mut rest)?;
                file.write_at(b"at", 3)?;
                let mut piece = [0; 9];
                let count = file.read_at(&mut piece, 1)?;
                Ok(format!("{at} {end} {} {count} {piece:?}", text(rest)))
            };
            let append = || {
                let mut file = fs::OpenOptions::new().append(true).create(number % 2 == 0).open(&one)?;
                file.write_all(&content())?;
                Ok(format!("{}", file.stream_position()?))
            };
            let list = || {
                let mut names = Vec::new();
                for entry in fs::read_dir(&one)? {
                    let entry = entry?;
                    let kind = entry.file_type()?;
                    names.push((relative(entry.path()), entry.file_name(), kind.is_dir(), about(entry.metadata()?)));
                }
                names.sort();
                Ok(format!("{names:?}"))
            };
            said(match step.call {
                0 => fs::write(&one, content()).map(|()| String::new()),
                1 => fs::read(&one).map(text),
                2 => fs::read_to_string(&one).map(|string| text(string.into_bytes())),
                3 => fs::File::create_new(&one).map(|_| String::new()),
                4 => update(),
                5 => append(),
                6 => fs::rename(&one, &other).map(|()| String::new()),
                7 => fs::remove_file(&one).map(|()| String::new()),
                8 => fs::remove_dir(&one).map(|()| String::new()),
                9 => fs::remove_dir_all(&one).map(|()| String::new()),
                10 => fs::create_dir(&one).map(|()| String::new()),
                11 => fs::create_dir_all(&one).map(|()| String::new()),
                12 => fs::hard_link(&one, &other).map(|()| String::new()),
                13 => fs::read_link(&one).map(relative),
                14 => fs::metadata(&one).map(about),
                15 => fs::symlink_metadata(&one).map(about),
                16 => fs::exists(&one).map(|there| there.to_string()),
                17 => fs::copy(&one, &other).map(|count| count.to_string()),
                18 => fs::canonicalize(&one).map(relative),
                19 => list(),
                20 => fs::set_permissions(&one, fs::Permissions::from_mode(0o700 + number as u32 % 64))
                    .map(|()| String::new()),
                21 => fs::File::open(&one).and_then(|mut file| file.write(b"x")).map(|count| count.to_string()),
                22 => fs::File::create(&one).and_then(|mut file| file.read(&mut [0])).map(|count| count.to_string()),
                _ => unreachable!("there are so many calls"),
            })
        }
    };
}

const CALLS: usize = 23;

player!(theirs, std::fs);
player!(ours, segue_io::fs);

/// A symbolic link is made by functions of different modules.
fn link(root: &Path, step: &Step, make: impl FnOnce(&str, PathBuf) -> io::Result<()>) -> Said {
    said(make(step.one, root.join(step.other)).map(|()| String::new()))
}

/// All that is there.
fn picture(root: &Path) -> String {
    fn draw(dir: &Path, root: &Path, picture: &mut String) {
        let mut entries: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            let kind = path.symlink_metadata().unwrap().file_type();
            let content = if kind.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            writeln!(picture, "{} {kind:?} {content:?}", path.strip_prefix(root).unwrap().display()).unwrap();
            if kind.is_dir() {
                draw(&path, root, picture);
            }
        }
    }
    let mut picture = String::new();
    draw(root, root, &mut picture);
    picture
}

#[test]
fn random_calls_have_stds_results_and_errors_and_effects() {
    static SEED: AtomicUsize = AtomicUsize::new(1);
    let outcomes: [AtomicUsize; CALLS + 1] = [const { AtomicUsize::new(0) }; CALLS + 1];
    everywhere(|| {
        let seed = SEED.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("segue-like-{}-{seed}", std::process::id()));
        let roots = [root.join("ours"), root.join("theirs")];
        roots.iter().for_each(|root| std::fs::create_dir_all(root).unwrap());
        let mut random = Random((seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut steps = Vec::new();
        for number in 0..400 {
            let name = |random: &mut Random| NAMES[random.below(NAMES.len())];
            let (one, other) = (name(&mut random), name(&mut random));
            let step = Step { call: random.below(CALLS + 1), one, other, number: number % 60 };
            steps.push(step.clone());
            let said = if step.call == CALLS {
                [
                    link(&roots[0], &step, |to, path| segue_io::fs::symlink(to, path)),
                    link(&roots[1], &step, |to, path| std::os::unix::fs::symlink(to, path)),
                ]
            } else {
                [ours(&roots[0], &step), theirs(&roots[1], &step)]
            };
            assert_eq!(said[0], said[1], "seed {seed}, after {:#?}", &steps[steps.len().saturating_sub(20)..]);
            assert_eq!(picture(&roots[0]), picture(&roots[1]), "seed {seed}, after {step:?}");
            outcomes[step.call].fetch_or(1 << usize::from(said[0].is_err()), Ordering::Relaxed);
        }
        std::fs::remove_dir_all(&root).unwrap();
    });
    // Each call has succeeded, and has failed. Whether something is there can be told nearly
    // always.
    for (call, outcome) in outcomes.iter().enumerate() {
        let outcome = outcome.load(Ordering::Relaxed);
        assert!(outcome == 3 || (call == 16 && outcome & 1 == 1) || [21, 22].contains(&call), "{call}: {outcome:b}");
    }
}

/// More empty buffers than a call takes are no end.
#[test]
fn empty_buffers_before_the_first_with_room_are_passed_over() {
    everywhere(|| {
        let mut file = segue_io::fs::temp_file().unwrap();
        let mut slices = vec![IoSlice::new(&[]); 1500];
        slices.push(IoSlice::new(b"text"));
        assert_eq!(file.write_vectored(&slices).unwrap(), 4);
        assert_eq!((&file).write_vectored(&slices).unwrap(), 4);
        assert_eq!(file.write_vectored_at(&slices, 8).unwrap(), 4);
        file.rewind().unwrap();
        let read = |read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>| {
            let mut room = [0; 4];
            let mut slices: Vec<_> = (0..1500).map(|_| IoSliceMut::new(&mut [])).collect();
            slices.push(IoSliceMut::new(&mut room));
            assert_eq!(read(&mut slices).unwrap(), 4);
            assert_eq!(&room, b"text");
        };
        read(&mut |slices| file.read_vectored(slices));
        read(&mut |slices| (&file).read_vectored(slices));
        read(&mut |slices| file.read_vectored_at(slices, 8));
        // Not in memory.
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        read(&mut |slices| file.read_vectored_at(slices, 4));
    });
}
