//! Small programs for Miri and the thread sanitizer.

mod miri_contexts;
mod miri_hosts;
mod miri_par;
mod miri_tasks;
