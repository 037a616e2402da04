//! What starts fibers and owns them: tasks and their handles, scopes, families, the default
//! runtime.

pub(crate) mod async_task;
pub(crate) mod begin;
pub(crate) mod builder;
pub(crate) mod default_runtime;
pub(crate) mod failure;
pub(crate) mod family;
pub(crate) mod join_error;
pub(crate) mod join_handle;
pub(crate) mod members;
#[cfg_attr(not(debug_assertions), path = "unwatched.rs")]
pub(crate) mod overdue;
pub(crate) mod panic_names;
pub(crate) mod place;
pub(crate) mod ring;
pub(crate) mod scope;
pub(crate) mod spare;
pub(crate) mod task;
pub(crate) mod try_scope;
