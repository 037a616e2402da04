//! Effects, generators, and continuations that run several times.

mod effects;
mod effects_ended;
mod effects_far;
mod generators;
mod incremental;
mod multi;
