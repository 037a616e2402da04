//! Many jobs, of which a bounded number is under way.
//!
//! Used by applications through [`Pool::map`].

use crate::error::RemoteError;
use crate::job::Job;
use crate::pool::Pool;
use segue::WaitError;
use segue::sync::Promise;
use std::collections::VecDeque;
use std::iter::Fuse;

/// The results of many jobs, in their order. Made by [`Pool::map`].
#[must_use = "jobs are submitted as results are asked for"]
pub struct Map<J: Job, I: Iterator<Item = J>> {
    pool: Pool,
    jobs: Fuse<I>,
    at_most: usize,
    flying: VecDeque<Promise<Result<J::Output, RemoteError>>>,
}

impl<J: Job, I: Iterator<Item = J>> Map<J, I> {
    pub(crate) fn new(pool: Pool, jobs: I, at_most: usize) -> Self {
        Self { pool, jobs: jobs.fuse(), at_most: at_most.max(1), flying: VecDeque::new() }
    }
}

impl<J: Job, I: Iterator<Item = J>> Iterator for Map<J, I> {
    type Item = Result<J::Output, RemoteError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.flying.len() < self.at_most {
            let Some(job) = self.jobs.next() else { break };
            self.flying.push_back(self.pool.submit(job));
        }
        Some(match self.flying.pop_front()?.take() {
            Ok(result) => result,
            Err(WaitError::Cancelled(_)) => Err(RemoteError::Cancelled),
            Err(_) => Err(RemoteError::Unavailable("the fibers of the pool have ended".to_owned())),
        })
    }
}

impl<J: Job, I: Iterator<Item = J>> std::fmt::Debug for Map<J, I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Map")
            .field("at_most", &self.at_most)
            .field("flying", &self.flying.len())
            .finish_non_exhaustive()
    }
}
