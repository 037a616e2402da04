//! SQLite by rusqlite, which blocks in C: each call goes through `segue::blocking`, and the worker
//! runs other fibers meanwhile.

use rusqlite::Connection;
use segue::blocking;
use segue::sync::Latch;
use std::error::Error;
use std::time::Duration;
use std::{env, fs, process};

const FIBERS: usize = 40;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let path = env::temp_dir().join(format!("segue-sqlite-{}", process::id()));
    let open = || {
        let connection = Connection::open(&path)?;
        connection.busy_timeout(Duration::from_secs(60))?;
        connection.execute_batch("PRAGMA synchronous = OFF")?;
        Ok::<_, rusqlite::Error>(connection)
    };
    let all_ask = Latch::new(FIBERS);
    let count = segue::runtime().workers(1).run(|| {
        let holder = blocking(|| {
            let connection = open()?;
            connection.execute_batch("CREATE TABLE visits (visitor INTEGER); BEGIN IMMEDIATE")?;
            Ok::<_, rusqlite::Error>(connection)
        })??;
        let visit = |visitor: usize| {
            all_ask.count_down(1);
            // Waits in SQLite until the file is free.
            blocking(|| open()?.execute("INSERT INTO visits VALUES (?1)", [visitor as i64]))?
                .map_err(Box::<dyn Error + Send + Sync>::from)
        };
        let count = segue::try_scope(|s| {
            let visit = &visit;
            let fibers: Vec<_> = (0..FIBERS).map(|visitor| s.spawn(move || visit(visitor))).collect();
            // They wait for the file, and this fiber has its turn all the same.
            all_ask.wait()?;
            blocking(move || holder.execute_batch("COMMIT"))??;
            for fiber in fibers {
                fiber.join()??;
            }
            let count = "SELECT count(*), sum(visitor) FROM visits";
            Ok::<_, Box<dyn Error + Send + Sync>>(blocking(|| {
                open()?.query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?)))
            })??)
        })?;
        Ok::<_, Box<dyn Error + Send + Sync>>(count)
    })??;
    fs::remove_file(&path)?;
    assert_eq!(count, (FIBERS as i64, (FIBERS * (FIBERS - 1) / 2) as i64));
    println!("{FIBERS} fibers have visited one file");
    Ok(())
}
