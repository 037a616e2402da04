//! Concurrency in straight-line code.
