//! An HTTP/1.1 server in direct style.
