//! 1 GiB on its way through three programs, and somebody who has seen enough half-way: no process,
//! no descriptor and no fiber is left.

use segue::process::{self, Child, Command, Stdio};
use segue::{CancelToken, Cancelled, try_scope, yield_now};
use std::io::{self, Read, Write};

const GIB: usize = 1 << 30;

/// A program that writes what it reads. If it is not needed any more, it is killed.
fn cat(input: Stdio) -> io::Result<Child> {
    Ok(process::spawn(Command::new("cat").stdin(input).stdout(Stdio::piped()))?.kill_on_drop(true))
}

/// Sends zeros through, and shows what has come out so far.
fn pipeline(mut show: impl FnMut(usize)) -> io::Result<()> {
    let mut first = cat(Stdio::piped())?;
    let mut second = cat(first.stdout.take().expect("it is piped").into_stdio()?)?;
    let mut third = cat(second.stdout.take().expect("it is piped").into_stdio()?)?;
    let mut input = first.stdin.take().expect("it is piped");
    let mut output = third.stdout.take().expect("it is piped");
    try_scope(|s| {
        let feeds = s.spawn(move || (0..GIB >> 16).try_for_each(|_| input.write_all(&[0; 1 << 16])));
        let (mut piece, mut count) = (vec![0; 1 << 16], 0);
        while let more @ 1.. = output.read(&mut piece)? {
            count += more;
            show(count);
        }
        feeds.join().expect("it does not panic")
    })?;
    Ok(())
}

/// Open descriptors, and children, which are listed with the thread that has started them.
fn left() -> io::Result<(usize, usize)> {
    let lists = std::fs::read_dir("/proc/self/task")?.map(|thread| Ok(thread?.path().join("children")));
    let count = |path| std::fs::read_to_string(path).unwrap_or_default().split_whitespace().count();
    let children = lists.map(|path: io::Result<_>| path.map(count)).sum::<io::Result<_>>()?;
    Ok((std::fs::read_dir("/proc/self/fd")?.count(), children))
}

fn main() -> io::Result<()> {
    segue::runtime().workers(1).run(|| {
        process::status(&mut Command::new("true"))?; // From now on the driver is there, and stays.
        let (before, token) = (left()?, CancelToken::new());
        let ended = token.run(|| {
            pipeline(|count| {
                if count >= GIB / 2 {
                    token.cancel()
                }
            })
        });
        assert!(Cancelled::caused(&ended.expect_err("it was not cancelled")));
        while left()? != before {
            yield_now()?; // The children have been killed; they end in their own time.
        }
        println!("cancelled half-way; open descriptors and children as before: {before:?}");
        Ok(())
    })?
}
