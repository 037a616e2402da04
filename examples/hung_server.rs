//! A server that hangs, and says why when asked: two fibers of different schedulers hold a lock
//! each and wait for the other's, and a worker is in foreign code, with a fiber and a closure
//! behind it.
//!
//! ```sh
//! cargo run -p examples --example hung_server          # hangs a server, asks, and checks the
//! answer cargo run -p examples --example hung_server serve    # hangs; `kill -QUIT` it, or Ctrl-\
//! ```

use segue::sched::Runtime;
use segue::sync::{Barrier, Mutex, promise};
use segue::{Builder, Cancelled};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{env, thread};

/// What both sides lock, in different orders: that is the mistake.
struct Books {
    accounts: Mutex<Vec<u32>>,
    orders: Mutex<Vec<u32>>,
    /// So that the mistake shows each time.
    both: Barrier,
}

fn transfer(books: &Books) -> Result<(), Cancelled> {
    let mut accounts = books.accounts.lock()?;
    books.both.wait()?;
    let orders = books.orders.lock()?;
    accounts.extend(&*orders);
    Ok(())
}

fn refund(books: &Books) -> Result<(), Cancelled> {
    let mut orders = books.orders.lock()?;
    books.both.wait()?;
    let accounts = books.accounts.lock()?;
    orders.extend(&*accounts);
    Ok(())
}

/// A call that blocks its worker, and knows nothing of fibers.
fn print_report() {
    thread::sleep(Duration::from_secs(100));
}

fn serve() {
    segue::dump_on_quit().expect("a handler for SIGQUIT");
    let pool = |name: &str| Runtime::new().workers(1).name(name).pool().expect("a pool");
    let (payments, shop, reports) = (pool("payments"), pool("shop"), pool("reports"));
    let books = Arc::new(Books { accounts: Mutex::default(), orders: Mutex::default(), both: Barrier::new(2) });
    let (of_payments, of_shop) = (Arc::clone(&books), books);
    let transfer = Builder::new().name("transfer").on(&payments).spawn(move || transfer(&of_payments));
    let refund = Builder::new().name("refund").on(&shop).spawn(move || refund(&of_shop));
    let (month_ends, month) = promise::<()>();
    let (began, begins) = std::sync::mpsc::channel();
    let monthly = Builder::new().name("monthly").on(&reports).spawn(move || {
        began.send(()).expect("somebody listens");
        month.wait().map(drop)
    });
    begins.recv().expect("the fiber has begun");
    let daily = Builder::new().name("daily").on(&reports).spawn(print_report);
    let hourly = Builder::new().name("hourly").on(&reports).spawn(|| ());
    println!("serving");
    drop((transfer.join(), refund.join(), daily.join(), hourly.join()));
    drop((month_ends, monthly.join()));
}

fn main() {
    if env::args().any(|word| word == "serve") {
        return serve();
    }
    let program = env::current_exe().expect("this program has a file");
    let mut server = Command::new(program).arg("serve").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "serving\n");
    let mut errors = BufReader::new(server.stderr.take().unwrap()).lines();
    // It hangs after a moment, and a dump before that has no deadlock: then ask again.
    let dump = loop {
        let asked = Command::new("kill").args(["-QUIT", &server.id().to_string()]).status();
        assert!(asked.expect("there is `kill`").success());
        let lines = errors.by_ref().map(|line| line.expect("the server writes text"));
        let dump: Vec<_> = lines.take_while(|line| line != "segue: end of the dump").collect();
        let dump = dump.join("\n");
        if dump.contains("deadlock") && dump.contains("`daily` runs") {
            break dump;
        }
        thread::yield_now();
    };
    server.kill().unwrap();
    server.wait().unwrap();
    println!("{dump}");

    // The cycle, with both lines and both owners.
    let line_of = |name: &str| {
        let line = dump.lines().find(|line| line.trim_start().starts_with(name));
        line.unwrap_or_else(|| panic!("the dump has no line of {name}"))
    };
    assert!(dump.contains("deadlock: 2 wait for each other"));
    for (name, other, pool) in [("transfer", "refund", "payments"), ("refund", "transfer", "shop")] {
        let line =
            line_of(&format!("fiber `{name}` (worker 0 of `{pool}`) waits for a mutex at examples/hung_server.rs"));
        assert!(line.contains(&format!("that of fiber `{other}`")), "{line}");
    }
    // The foreign call, and those behind it.
    assert!(dump.contains("in one turn, for which all else there waits"));
    assert!(dump.contains("print_report") && dump.contains("std::thread"));
    line_of("fiber `monthly` waits for");
    line_of("a closure `hourly` that has not started, spawned at examples/hung_server.rs");
}
