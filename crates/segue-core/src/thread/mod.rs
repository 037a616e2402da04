//! Plain threads: the default scheduler, how long a thread looks for mail before sleeping, and the
//! caller, which may be a plain thread.

pub(crate) mod adaptive_spin;
pub(crate) mod here;
pub(crate) mod plain;
