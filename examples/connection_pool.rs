//! A pool of connections, tested under many schedules: one that has a race, which is found and
//! named, and one without, which passes all of them.
//!
//! The same as tests: `crates/segue/tests/sync/connection_pool.rs`.

use segue::sched::Explore;
use segue::sync::{Mutex, Permit, Semaphore};
use segue::{Cancelled, scope, shield};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Connections to something, of which no more than so many may be open.
pub struct Pool {
    free: Semaphore,
    idle: Mutex<Vec<Connection>>,
    order: Order,
}

/// A connection, by its number.
#[derive(Debug)]
pub struct Connection(pub usize);

/// How a connection is given back.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// The permit first. Whoever gets it finds no connection, and opens another.
    PermitFirst,
    /// The connection first.
    ConnectionFirst,
}

/// A connection that is in use. Dropping it gives it back.
pub struct Lease<'p> {
    pool: &'p Pool,
    connection: Option<Connection>,
    permit: Option<Permit<'p>>,
}

impl Pool {
    /// A pool without connections yet.
    pub fn new(most: usize, order: Order) -> Self {
        Self { free: Semaphore::new(most), idle: Mutex::default(), order }
    }

    /// A connection: one that is idle, or a new one; if too many are open, waits for one.
    pub fn get(&self, open: impl FnOnce() -> Connection) -> Result<Lease<'_>, Cancelled> {
        let permit = Some(self.free.acquire()?);
        let idle = self.idle.lock()?.pop();
        Ok(Lease { pool: self, connection: Some(idle.unwrap_or_else(open)), permit })
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if matches!(self.pool.order, Order::PermitFirst) {
            drop(self.permit.take());
        }
        // Also a fiber that was cancelled gives back what it has.
        shield(|| self.pool.idle.lock()).expect("it is shielded").extend(self.connection.take());
    }
}

/// Two fibers share one connection. Fails if more were opened, or if any is lost.
pub fn two_share_one(order: Order) -> Result<(), String> {
    let (pool, opened) = (Pool::new(1, order), AtomicUsize::new(0));
    let open = || Connection(opened.fetch_add(1, SeqCst));
    scope(|s| {
        s.spawn(|| pool.get(open).map(drop));
        s.spawn(|| pool.get(open).map(drop));
    });
    let (opened, free, idle) = (opened.into_inner(), pool.free.available_permits(), pool.idle.into_inner());
    if (opened, free, idle.len()) == (1, 1, 1) {
        Ok(())
    } else {
        Err(format!("{opened} were opened, {free} are free, {idle:?} are idle"))
    }
}

fn main() {
    let found = Explore::random(1_000).run(|| two_share_one(Order::PermitFirst)).expect_err("the race is found");
    println!("found: {found}");

    let explored = Explore::exhaustive(100_000).run(|| two_share_one(Order::ConnectionFirst)).expect("there is none");
    assert!(explored.complete);
    println!("without the race all {} schedules pass", explored.schedules);
}
