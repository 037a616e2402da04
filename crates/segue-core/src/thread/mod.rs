//! Plain threads: the default scheduler, how long a thread looks for mail before sleeping, the list
//! of those that sleep, and the caller, which may be a plain thread, and may own a lock.

pub(crate) mod adaptive_spin;
pub(crate) mod here;
pub(crate) mod owners;
pub(crate) mod plain;
pub(crate) mod waiting;
