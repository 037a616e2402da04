//! Who waits for the children that nobody else will wait for.
//!
//! Used when a `Child` is dropped while its process runs: else that would be a zombie when it ends,
//! for as long as this process lives.
//!
//! # The idea
//!
//! One thread polls what the abandoned children become readable by, and looks at those that have.
//! It is started for the first of them and ends with the last. It is a plain thread with a plain
//! `poll`, since a child may be dropped where there is no scheduler, or while one ends. So each
//! child is asked about once, however many others there are; a poll goes through all of them, as
//! the kernel does for those that have ended meanwhile together.
//!
//! **States**: `bell` is there exactly while a thread watches. All of it changes under the lock;
//! the thread ends under it too, so a child is either seen by that thread or starts another. **The
//! race to fear**: a child that is added while the thread is on its way into `poll`. The bell is
//! rung after the adding, and stays readable.

use super::exit::Exit;
use crate::driver::bell::Bell;
use crate::system::fork::Birth;
use rustix::event::{PollFd, PollFlags};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

struct Orphans {
    list: Vec<Arc<Exit>>,
    /// Of the thread that watches them, and the process that it is in.
    bell: Option<(Birth, Arc<Bell>)>,
}

static ORPHANS: Mutex<Orphans> = Mutex::new(Orphans { list: Vec::new(), bell: None });

fn orphans() -> MutexGuard<'static, Orphans> {
    ORPHANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sees to it that a child is waited for. If there is no thread or no descriptor to be had, that is
/// tried again with the next one.
pub(super) fn adopt(exit: Arc<Exit>) {
    let mut orphans = orphans();
    if orphans.bell.as_ref().is_some_and(|(birth, _)| !birth.is_here()) {
        // The child of a fork: these are its parent's.
        (orphans.bell, orphans.list) = (None, Vec::new());
    }
    orphans.list.push(exit);
    if let Some((_, bell)) = &orphans.bell {
        bell.ring();
        return;
    }
    let Ok(bell) = Bell::new().map(Arc::new) else { return };
    let threads = Arc::clone(&bell);
    let started = std::thread::Builder::new().name("segue-reaper".to_owned()).spawn(move || watch(&threads));
    orphans.bell = started.is_ok().then(|| (Birth::now(), bell));
}

fn watch(bell: &Bell) {
    // Those that were watched, and whether there is something to be seen of each. They come first
    // in the list: nobody else takes one out.
    let mut news: Vec<bool> = Vec::new();
    loop {
        let mut orphans = orphans();
        let mut news_of_each = news.drain(..);
        orphans.list.retain(|exit| !news_of_each.next().unwrap_or(true) || matches!(exit.look(), Ok(None)));
        drop(news_of_each);
        if orphans.list.is_empty() {
            *orphans = Orphans { list: Vec::new(), bell: None };
            return;
        }
        let watched = orphans.list.clone();
        drop(orphans);
        let mut fds = vec![PollFd::new(bell, PollFlags::IN)];
        fds.extend(watched.iter().map(|exit| PollFd::new(&**exit, PollFlags::IN)));
        // If it was interrupted, or fails, nothing tells them apart.
        let polled = rustix::event::poll(&mut fds, None).is_ok();
        news.extend(fds[1..].iter().map(|fd| !polled || !fd.revents().is_empty()));
        bell.hear();
    }
}
