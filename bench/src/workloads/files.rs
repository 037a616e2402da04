//! `files`: a tree is walked, small pieces are read, small files are read as a whole, a large file
//! is copied. Wall time. What the programs `du` and `cp` take includes their start.
//!
//! * *Tree walk*: 8,192 files in 272 directories; an operation is an entry, whose metadata are
//!   asked for. All is in memory.
//! * *Small reads*: 4 KiB at drawn places of one file, by 64 flows of control; an operation is one
//!   of them. *Cached*: the file is in memory. *Uncached*: it is driven out of it before, which is
//!   not timed, each place is read once, and the kernel is told not to read ahead.
//! * *Small files*: the files of the tree are opened, read and closed, by 64 flows; an operation is
//!   a file. All is in memory.
//! * *A copy*: of a file that is in memory, to a file that is not there; an operation is a MiB.
//!
//! Everybody has two threads for the flows, and tokio and Segue have those beside them on which
//! they make calls that block; tokio-uring and compio, whose runtimes have one thread, have one.
//! std's pool for reads of the disk has 32 threads, since each of them waits. Not timed: making the
//! files, starting and ending the runtimes.

use super::segue_run;
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload, smoke};
use compio::io::AsyncReadAt;
use rustix::fs::Advice;
use segue::scope;
use std::cell::OnceCell;
use std::fs::File;
use std::io::SeekFrom;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

/// See the file's head.
pub const WORKLOAD: Workload = Workload { name: "files", timed: "a tree, small reads, small files, a copy", variants };

/// How many flows of control read.
const FLOWS: u64 = 64;
const PIECE: u64 = 4096;
/// The bytes of a file of the tree.
const LENGTH: usize = 1000;
const MIB: u64 = 1 << 20;
const THREADS: usize = 2;

/// The files of a run, made when they are first needed.
#[derive(Clone, Default)]
struct Ground(Rc<OnceCell<Files>>);

struct Files {
    dir: TempDir,
    paths: Arc<Vec<PathBuf>>,
    entries: u64,
}

impl Ground {
    fn files(&self) -> &Files {
        self.0.get_or_init(|| {
            let dir = tempfile::tempdir().expect("a directory can be made");
            let (wide, files) = if smoke() { (2, 4) } else { (16, 32) };
            let mut paths = Vec::new();
            for (outer, inner) in (0..wide).flat_map(|outer| (0..wide).map(move |inner| (outer, inner))) {
                let below = dir.path().join(format!("tree/{outer}/{inner}"));
                std::fs::create_dir_all(&below).expect("a directory can be made");
                for file in 0..files {
                    let path = below.join(format!("file-{file}"));
                    std::fs::write(&path, [b'x'; LENGTH]).expect("a file can be written");
                    paths.push(path);
                }
            }
            let large = vec![b'y'; (if smoke() { MIB } else { 64 * MIB }) as usize];
            std::fs::write(dir.path().join("large"), large).expect("a file can be written");
            let large = File::open(dir.path().join("large")).expect("it is there");
            large.sync_all().expect("there is room");
            let entries = wide + wide * wide + paths.len() as u64;
            Files { dir, paths: Arc::new(paths), entries }
        })
    }

    fn tree(&self) -> PathBuf {
        self.files().dir.path().join("tree")
    }

    fn large(&self) -> PathBuf {
        self.files().dir.path().join("large")
    }
}

fn variants() -> Vec<Variant> {
    let ground = Ground::default();
    vec![tree(&ground), reads(&ground, true), reads(&ground, false), whole(&ground), copies(&ground)]
}

fn tokio(main: impl Future<Output = Span>) -> Span {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).build();
    runtime.expect("tokio starts").block_on(main)
}

/// A variant whose contestants are given the ground.
struct Table<'a>(Variant, &'a Ground);

impl Table<'_> {
    fn add(self, who: &'static str, run: impl Fn(&Ground, u64) -> Span + 'static) -> Self {
        let ground = self.1.clone();
        Self(self.0.add(who, move |n| run(&ground, n)), self.1)
    }
}

fn tree(ground: &Ground) -> Variant {
    let walks = |walk: fn(&Path) -> u64| {
        move |ground: &Ground, n: u64| {
            let (tree, files) = (ground.tree(), ground.files());
            let rounds = n.div_ceil(files.entries);
            let mut watch = None;
            // Once before it counts.
            for round in 0..=rounds {
                if round == 1 {
                    watch = Some(Stopwatch::start());
                }
                assert_eq!(walk(&tree), (files.paths.len() * LENGTH) as u64);
            }
            watch.expect("there is a round").stop(rounds * files.entries)
        }
    };
    let table = Table(Variant::new("tree walk, cached", "entry", THREADS), ground);
    table
        .add(SEGUE, move |ground, n| segue_run(THREADS, || walks(segue_walk)(ground, n)))
        .add("std, 2 threads", walks(std_walk))
        .add("tokio", move |ground, n| {
            let (tree, entries) = (ground.tree(), ground.files().entries);
            tokio(async move {
                let rounds = n.div_ceil(entries);
                tokio_walk(tree.clone()).await;
                let watch = Stopwatch::start();
                for _ in 0..rounds {
                    tokio_walk(tree.clone()).await;
                }
                watch.stop(rounds * entries)
            })
        })
        .add("du", |ground, n| {
            let (tree, entries) = (ground.tree(), ground.files().entries);
            let rounds = n.div_ceil(entries);
            let watch = Stopwatch::start();
            for _ in 0..rounds {
                let output = Command::new("du").args(["-s", "--apparent-size"]).arg(&tree).output();
                assert!(output.expect("du starts").status.success());
            }
            watch.stop(rounds * entries)
        })
        .0
        .absent("tokio-uring", "has no directories")
        .absent("compio", "has no directories")
}

fn segue_walk(dir: &Path) -> u64 {
    let total = AtomicU64::new(0);
    scope(|s| {
        for entry in segue::fs::read_dir(dir).expect("it is there") {
            let entry = entry.expect("it can be read");
            let metadata = entry.metadata().expect("it is there");
            if metadata.is_dir() {
                let total = &total;
                s.spawn(move || total.fetch_add(segue_walk(&entry.path()), Relaxed));
            } else {
                total.fetch_add(metadata.len(), Relaxed);
            }
        }
    });
    total.into_inner()
}

/// Threads that share a stack of directories.
fn std_walk(dir: &Path) -> u64 {
    struct Shared {
        stack: Vec<PathBuf>,
        unfinished: usize,
    }
    let shared = Mutex::new(Shared { stack: vec![dir.to_owned()], unfinished: 1 });
    let (changed, total) = (Condvar::new(), AtomicU64::new(0));
    let work = || {
        let mut state = shared.lock().expect("nobody panics");
        while state.unfinished > 0 {
            let Some(dir) = state.stack.pop() else {
                state = changed.wait(state).expect("nobody panics");
                continue;
            };
            drop(state);
            let mut below = Vec::new();
            for entry in std::fs::read_dir(dir).expect("it is there") {
                let entry = entry.expect("it can be read");
                let metadata = entry.metadata().expect("it is there");
                if metadata.is_dir() {
                    below.push(entry.path());
                } else {
                    total.fetch_add(metadata.len(), Relaxed);
                }
            }
            state = shared.lock().expect("nobody panics");
            state.unfinished += below.len();
            state.unfinished -= 1;
            state.stack.append(&mut below);
            changed.notify_all();
        }
    };
    std::thread::scope(|s| {
        (1..THREADS).for_each(|_| drop(s.spawn(work)));
        work();
    });
    total.into_inner()
}

fn tokio_walk(dir: PathBuf) -> std::pin::Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        let (mut below, mut total) = (tokio::task::JoinSet::new(), 0);
        let mut entries = tokio::fs::read_dir(dir).await.expect("it is there");
        while let Some(entry) = entries.next_entry().await.expect("it can be read") {
            let metadata = entry.metadata().await.expect("it is there");
            if metadata.is_dir() {
                below.spawn(tokio_walk(entry.path()));
            } else {
                total += metadata.len();
            }
        }
        total + below.join_all().await.into_iter().sum::<u64>()
    })
}

/// Where the reads are: each place once, in an order that jumps.
#[derive(Clone, Copy)]
struct Places {
    pages: u64,
    reads: u64,
}

impl Places {
    /// Those of a flow: a run of them, which goes all over the file. With every 64th of them a flow
    /// would keep to a 64th of the file, which its processor then has in its caches.
    fn of(self, flow: u64) -> impl Iterator<Item = u64> + Send {
        let from = |flow: u64| flow * self.reads / FLOWS;
        (from(flow)..from(flow + 1)).map(move |read| read * 7919 % self.pages * PIECE)
    }
}

/// The large file for random reads, and the reads of a round. If they are not to find anything in
/// memory, it is driven out.
fn prepare(ground: &Ground, n: u64, cached: bool) -> (File, Places, u64) {
    let file = File::open(ground.large()).expect("it is there");
    let pages = file.metadata().expect("it is there").len() / PIECE;
    let reads = if cached { n } else { n.min(pages) }.max(FLOWS);
    let rounds = if cached { 1 } else { n.div_ceil(reads) };
    rustix::fs::fadvise(&file, 0, None, Advice::Random).expect("it can be told");
    (file, Places { pages, reads }, rounds)
}

fn make_ready(file: &File, cached: bool) {
    if cached {
        let mut piece = vec![0; MIB as usize];
        let mut at = 0;
        while let Ok(count @ 1..) = file.read_at(&mut piece, at) {
            at += count as u64;
        }
    } else {
        rustix::fs::fadvise(file, 0, None, Advice::DontNeed).expect("it can be told");
    }
}

fn check(piece: &[u8]) {
    assert!(piece.len() == PIECE as usize && piece[0] == b'y');
}

fn reads(ground: &Ground, cached: bool) -> Variant {
    /// All rounds of a contestant, which gets its file and places.
    fn rounds(ground: &Ground, n: u64, cached: bool, mut run: impl FnMut(&File, Places)) -> Span {
        let (file, places, rounds) = prepare(ground, n, cached);
        let round = |_| {
            make_ready(&file, cached);
            let watch = Stopwatch::start();
            run(&file, places);
            watch.stop(places.reads)
        };
        (0..rounds).map(round).reduce(Span::and).expect("there is a round")
    }

    let name = format!("small reads, {}", if cached { "cached" } else { "uncached" });
    let on_threads = move |threads: usize| {
        move |ground: &Ground, n: u64| {
            rounds(ground, n, cached, |file, places| {
                let next = AtomicU64::new(0);
                let work = || {
                    let mut piece = [0; PIECE as usize];
                    loop {
                        let flow = next.fetch_add(1, Relaxed);
                        if flow >= FLOWS {
                            return;
                        }
                        for at in places.of(flow) {
                            file.read_exact_at(&mut piece, at).expect("it can be read");
                            check(&piece);
                        }
                    }
                };
                std::thread::scope(|s| {
                    (1..threads).for_each(|_| drop(s.spawn(work)));
                    work();
                });
            })
        }
    };
    let table = Table(Variant::new(name, "read", THREADS), ground)
        .add(SEGUE, move |ground, n| {
            segue_run(THREADS, || {
                rounds(ground, n, cached, |file, places| {
                    let file = &segue::fs::File::from_std(file.try_clone().expect("there are descriptors"));
                    scope(|s| {
                        for flow in 0..FLOWS {
                            s.spawn(move || {
                                let mut piece = [0; PIECE as usize];
                                for at in places.of(flow) {
                                    file.read_exact_at(&mut piece, at).expect("it can be read");
                                    check(&piece);
                                }
                            });
                        }
                    });
                })
            })
        })
        .add("tokio", move |ground, n| {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).build();
            let runtime = runtime.expect("tokio starts");
            rounds(ground, n, cached, |_file, places| {
                let path = ground.large();
                runtime.block_on(async move {
                    let mut flows = tokio::task::JoinSet::new();
                    for flow in 0..FLOWS {
                        let path = path.clone();
                        flows.spawn(async move {
                            // A position for each.
                            let mut file = tokio::fs::File::open(path).await.expect("it is there");
                            let mut piece = [0; PIECE as usize];
                            for at in places.of(flow) {
                                file.seek(SeekFrom::Start(at)).await.expect("it can be read");
                                file.read_exact(&mut piece).await.expect("it can be read");
                                check(&piece);
                            }
                        });
                    }
                    flows.join_all().await;
                });
            })
        })
        .add("tokio-uring", move |ground, n| {
            rounds(ground, n, cached, |file, places| {
                let file = file.try_clone().expect("there are descriptors");
                tokio_uring::start(async move {
                    let file = Rc::new(tokio_uring::fs::File::from_std(file));
                    let flow = |flow| {
                        let file = Rc::clone(&file);
                        tokio_uring::spawn(async move {
                            let mut piece = vec![0; PIECE as usize];
                            for at in places.of(flow) {
                                let (count, back) = file.read_at(piece, at).await;
                                check(&back[..count.expect("it can be read")]);
                                piece = back;
                            }
                        })
                    };
                    let flows: Vec<_> = (0..FLOWS).map(flow).collect();
                    for flow in flows {
                        flow.await.expect("nobody panics");
                    }
                });
            })
        })
        .add("compio", move |ground, n| {
            let runtime = compio::runtime::Runtime::new().expect("compio starts");
            rounds(ground, n, cached, |_file, places| {
                let path = ground.large();
                runtime.block_on(async move {
                    let file = Rc::new(compio::fs::File::open(path).await.expect("it is there"));
                    let flow = |flow| {
                        let file = Rc::clone(&file);
                        compio::runtime::spawn(async move {
                            let mut piece = Vec::with_capacity(PIECE as usize);
                            for at in places.of(flow) {
                                let compio::buf::BufResult(count, back) = file.read_at(piece, at).await;
                                check(&back[..count.expect("it can be read")]);
                                piece = back;
                                piece.clear();
                            }
                        })
                    };
                    let flows: Vec<_> = (0..FLOWS).map(flow).collect();
                    for flow in flows {
                        let _ = flow.await;
                    }
                });
            })
        });
    if cached { table.add("std, 2 threads", on_threads(2)).0 } else { table.add("std, 32 threads", on_threads(32)).0 }
}

fn whole(ground: &Ground) -> Variant {
    /// A flow's part of the files.
    fn part(paths: &[PathBuf], reads: u64, flow: u64) -> impl Iterator<Item = &PathBuf> {
        (flow..reads).step_by(FLOWS as usize).map(|read| &paths[read as usize % paths.len()])
    }

    fn check(content: &[u8]) {
        assert!(content.len() == LENGTH && content[0] == b'x');
    }

    let table = Table(Variant::new("small files, cached", "file", THREADS), ground)
        .add(SEGUE, |ground, n| {
            let paths = &ground.files().paths;
            segue_run(THREADS, || {
                let watch = Stopwatch::start();
                scope(|s| {
                    for flow in 0..FLOWS {
                        s.spawn(move || {
                            part(paths, n, flow).for_each(|path| check(&segue::fs::read(path).expect("it is there")));
                        });
                    }
                });
                watch.stop(n)
            })
        })
        .add("std, 2 threads", |ground, n| {
            let paths = &ground.files().paths;
            let next = AtomicUsize::new(0);
            let work = || {
                loop {
                    let flow = next.fetch_add(1, Relaxed) as u64;
                    if flow >= FLOWS {
                        return;
                    }
                    part(paths, n, flow).for_each(|path| check(&std::fs::read(path).expect("it is there")));
                }
            };
            let watch = Stopwatch::start();
            std::thread::scope(|s| {
                (1..THREADS).for_each(|_| drop(s.spawn(work)));
                work();
            });
            watch.stop(n)
        })
        .add("tokio", |ground, n| {
            let paths = Arc::clone(&ground.files().paths);
            tokio(async move {
                let watch = Stopwatch::start();
                let mut flows = tokio::task::JoinSet::new();
                for flow in 0..FLOWS {
                    let paths = Arc::clone(&paths);
                    flows.spawn(async move {
                        for path in part(&paths, n, flow) {
                            check(&tokio::fs::read(path).await.expect("it is there"));
                        }
                    });
                }
                flows.join_all().await;
                watch.stop(n)
            })
        });
    table
        .add("compio", |ground, n| {
            let paths = Arc::clone(&ground.files().paths);
            compio::runtime::Runtime::new().expect("compio starts").block_on(async move {
                let watch = Stopwatch::start();
                let flow = |flow| {
                    let paths = Arc::clone(&paths);
                    compio::runtime::spawn(async move {
                        for path in part(&paths, n, flow) {
                            check(&compio::fs::read(path).await.expect("it is there"));
                        }
                    })
                };
                let flows: Vec<_> = (0..FLOWS).map(flow).collect();
                for flow in flows {
                    let _ = flow.await;
                }
                watch.stop(n)
            })
        })
        .0
}

fn copies(ground: &Ground) -> Variant {
    /// All rounds of a contestant, which copies once.
    fn rounds(ground: &Ground, n: u64, mut copy: impl FnMut(&Path, &Path)) -> Span {
        let (from, to) = (ground.large(), ground.files().dir.path().join("copy"));
        make_ready(&File::open(&from).expect("it is there"), true);
        let length = std::fs::metadata(&from).expect("it is there").len();
        let round = |_| {
            let watch = Stopwatch::start();
            copy(&from, &to);
            let span = watch.stop(length / MIB);
            assert_eq!(std::fs::metadata(&to).expect("it was copied").len(), length);
            std::fs::remove_file(&to).expect("it was copied");
            span
        };
        (0..n.div_ceil(length / MIB)).map(round).reduce(Span::and).expect("there is a round")
    }

    Table(Variant::new("a copy", "MiB", THREADS), ground)
        .add(SEGUE, |ground, n| {
            segue_run(THREADS, || {
                rounds(ground, n, |from, to| {
                    segue::fs::copy(from, to).expect("there is room");
                })
            })
        })
        .add("std", |ground, n| {
            rounds(ground, n, |from, to| {
                std::fs::copy(from, to).expect("there is room");
            })
        })
        .add("tokio", |ground, n| {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).build();
            let runtime = runtime.expect("tokio starts");
            rounds(ground, n, |from, to| {
                let copied = runtime.block_on(tokio::fs::copy(from.to_owned(), to.to_owned()));
                copied.expect("there is room");
            })
        })
        .add("cp", |ground, n| {
            rounds(ground, n, |from, to| {
                // A copy, and no reference to what is there.
                let status = Command::new("cp").arg("--reflink=never").args([from, to]).status();
                assert!(status.expect("cp starts").success());
            })
        })
        .0
}
