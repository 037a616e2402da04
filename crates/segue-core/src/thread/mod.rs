//! Plain threads: the default scheduler, and how long a thread looks for mail before it sleeps.

pub(crate) mod adaptive_spin;
pub(crate) mod plain;
