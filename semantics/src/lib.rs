//! What effect handlers mean: an abstract machine that can be read and run, and the check that
//! Segue's runtime means the same.
//!
//! For those who want to know exactly what a program with handlers does, and for CI, which runs
//! random programs on both. Not published.
//!
//! ```
//! use semantics::check::differ;
//! use semantics::machine::{Mode, run};
//! use semantics::runtime::{Options, Style};
//! use semantics::syntax::*;
//!
//! // match (match perform A 1 with { return x -> x }) + 1 with { return x -> x | effect A x k -> continue k (x + 40) }
//! let inner = handle(perform("A", int(1)), Handler::identity());
//! let answer = resume(var("k"), arith(Op::Add, var("x"), int(40)));
//! let e = program(handle(arith(Op::Add, inner, int(1)), Handler::identity().effect("A", "x", "k", answer)));
//!
//! let on_the_machine = run(&e, Mode::Segue, 1000);
//! assert_eq!(on_the_machine.observed.to_string(), "value 42; 0 abandoned; [effect A 1, resume 41]");
//! let on_the_runtime = differ(&e, &on_the_machine, Options { style: Style::Plain, fault: None });
//! assert_eq!(on_the_runtime, None);
//! ```
//!
//! # In which order to read it
//!
//! | | |
//! | --- | --- |
//! | [`syntax`] | the programs |
//! | [`machine`], [`machine::config`] | the machine, and what Segue has otherwise than the paper |
//! | `machine/admin.rs`, `c.rs`, `ocaml.rs`, `segue.rs` | one function for each rule, with the rule |
//! | `tests/machine/machine_examples.rs` | the paper's examples |
//! | [`observe`] | what is compared, and what becomes of continuations that nobody resumes |
//! | [`runtime`], [`foreign`] | the same programs with real handlers, stacks and frames of C |
//! | [`generate`], [`shrink`], [`check`] | random programs, smaller programs, and the comparison |
//!
//! `cargo run --release -p semantics -- --programs N --seed S` checks the programs of N seeds from
//! S on. A program on which machine and runtime differ is made smaller and printed with its seed,
//! which replays it.

pub mod check;
pub mod foreign;
pub mod generate;
pub mod list;
pub mod machine;
pub mod observe;
pub mod runtime;
pub mod shrink;
pub mod syntax;
