//! In a release build nobody watches the scopes that wait. `overdue.rs` has the other case.

use crate::tree::context::Context;
use std::panic::Location;
use std::sync::Arc;

#[inline(always)]
pub(super) fn watch(_context: &Arc<Context>, _at: &'static Location<'static>, _is_lost: fn() -> bool) {}
