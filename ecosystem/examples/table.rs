//! CSV through a pipe: one fiber writes a table by the crate csv, another reads it record by record
//! and adds up. The pipe holds 64 KiB, so that each waits for the other many times.

use segue::pipe::pipe;
use std::error::Error;

const ROWS: u64 = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let (reader, writer) = pipe()?;
    let sum = segue::runtime().workers(1).run(|| {
        segue::try_scope(|s| {
            let writes = s.spawn(move || {
                let mut table = csv::Writer::from_writer(writer);
                table.write_record(["number", "text"])?;
                (0..ROWS).try_for_each(|n| table.serialize((n, format!("row \"{n}\", with a comma"))))?;
                Ok::<_, csv::Error>(table.flush()?)
            });
            let mut sum = 0;
            for row in csv::Reader::from_reader(reader).deserialize() {
                let (number, text): (u64, String) = row?;
                assert_eq!(text, format!("row \"{number}\", with a comma"));
                sum += number;
            }
            writes.join().expect("it does not panic")?;
            Ok::<_, csv::Error>(sum)
        })
    })??;
    assert_eq!(sum, ROWS * (ROWS - 1) / 2);
    println!("{ROWS} rows went through a pipe");
    Ok(())
}
