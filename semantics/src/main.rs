//! Checks the runtime of effect handlers against the abstract machine, on random programs.
//!
//! Used by CI, and by hand for more programs than that.

use std::process::ExitCode;
use std::time::Instant;

use lexopt::{Arg, Parser, ValueExt};
use segue_fiber::leaked_stacks;
use semantics::check::{SIZE, check};
use semantics::runtime::{Options, Style};

const USAGE: &str = "usage: semantics [--programs N] [--seed S] [--size NODES] [--each]

Runs N random programs (100000) on the abstract machine and on the runtime, which have to agree.
The programs are those of the seeds from S (0) on. NODES (60) says how large they get, roughly.
Prints what they did; or the first on which the two differ, made smaller, and how to replay it.
With --each it prints every seed before its program runs: for when the process dies of one.";

struct Arguments {
    programs: u64,
    seed: u64,
    size: usize,
    each: bool,
}

fn arguments(mut parser: Parser) -> Result<Option<Arguments>, lexopt::Error> {
    let mut given = Arguments { programs: 100_000, seed: 0, size: SIZE, each: false };
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("programs") => given.programs = parser.value()?.parse()?,
            Arg::Long("seed") => given.seed = parser.value()?.parse()?,
            Arg::Long("size") => given.size = parser.value()?.parse()?,
            Arg::Long("each") => given.each = true,
            Arg::Long("help") | Arg::Short('h') => return Ok(None),
            _ => return Err(argument.unexpected()),
        }
    }
    if given.programs == 0 {
        return Err("--programs 0 checks nothing; give at least 1".into());
    }
    if given.size == 0 {
        return Err("--size 0 leaves no program; give at least 1".into());
    }
    Ok(Some(given))
}

fn main() -> ExitCode {
    let given = match arguments(Parser::from_env()) {
        Ok(Some(given)) => given,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    for style in Style::ALL {
        let started = Instant::now();
        let before = |seed| {
            if given.each {
                println!("seed {seed}");
            }
        };
        match check(given.seed, given.programs, given.size, Options { style, fault: None }, before) {
            Ok(statistics) => {
                // The second time the programs do the same.
                if style == Style::Plain {
                    print!("{statistics}");
                }
                println!("seeds {} and on, {style}: {:.1} s", given.seed, started.elapsed().as_secs_f64());
            }
            Err(disagreement) => {
                eprintln!("{style}: {disagreement} --size {}", given.size);
                return ExitCode::FAILURE;
            }
        }
    }
    let leaked = leaked_stacks();
    if leaked > 0 {
        eprintln!("error: all programs agree, but {leaked} stacks were leaked; find one by fewer --programs");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
