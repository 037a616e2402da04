//! Plain threads: the default scheduler, how long a thread looks for mail before it sleeps, and the
//! caller, which may be one.

pub(crate) mod adaptive_spin;
pub(crate) mod here;
pub(crate) mod plain;
