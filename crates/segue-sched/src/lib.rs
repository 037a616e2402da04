//! The worker loop and the policies that run on it.
