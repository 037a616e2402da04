//! Schedulers as a whole: how they are started, composed, driven, attacked.

#[path = "../common/mod.rs"]
mod common;

mod attacks;
mod composing;
mod driven;
mod moving;
mod shutting_down;
mod thread_ends;
