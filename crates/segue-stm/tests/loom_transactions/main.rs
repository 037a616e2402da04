//! Models of commits, reads, waits and the end of memory.
#![cfg(loom)]

#[path = "../../../segue-core/tests/models/mod.rs"]
mod models;

mod loom_commit;
mod loom_memory;
mod loom_outside;
mod loom_retry;
mod loom_turn;

use segue_stm::TVar;
use std::hash::{Hash, Hasher};

/// New variables in the order of their addresses. A commit locks in this order, and a model has to
/// do the same in each run.
fn in_order<T: Send + Sync + 'static, const N: usize>(make: impl Fn(usize) -> T) -> [TVar<T>; N] {
    struct Address(u64);
    impl Hasher for Address {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            self.0 = usize::from_ne_bytes(bytes.try_into().expect("an address")) as u64;
        }
    }
    let mut vars = std::array::from_fn(|index| TVar::new(make(index)));
    vars.sort_by_cached_key(|var| {
        let mut address = Address(0);
        var.hash(&mut address);
        address.finish()
    });
    vars
}
