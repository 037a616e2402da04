//! Stacks and the switch between them.
