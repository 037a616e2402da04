//! Drivers that wait for the kernel, and std-shaped networking on top.
