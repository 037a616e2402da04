//! The contract between schedulers and everything that waits.
