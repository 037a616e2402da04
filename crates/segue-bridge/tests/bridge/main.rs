//! Segue beside tokio, smol, rayon and futures.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../../examples/round.rs"]
mod program;

mod codec;
mod direct;
mod hosting;
mod hosts;
mod orx_parallel;
mod rayon;
mod round;
mod selects;
mod streams;
mod tokio;
mod waiting;
