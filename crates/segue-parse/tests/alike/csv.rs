//! Tables as text, beside csv.

use super::csv_grammar::{Record, record};
use super::{Grammar, Outcome};
use segue_parse::{Error, Input, Refill};

/// A table.
#[derive(Clone, Copy)]
pub struct Csv;

/// Its records, and their fields.
pub type Table = Vec<Vec<Vec<u8>>>;

impl Grammar for Csv {
    type Value = Table;
    fn parse<S: Refill>(self, input: &mut Input<S>) -> Result<Table, Error> {
        let mut fields = Record::default();
        input.many(|input| Ok(record(input, &mut fields)?.then(|| fields.fields().map(<[u8]>::to_vec).collect())))
    }

    /// That takes quotes in any place.
    fn beside(self, input: &[u8], outcome: &Outcome<Self>) {
        if let Ok((ours, _)) = outcome {
            assert_eq!(*ours, parsed_by_csv(input), "{}", input.escape_ascii());
        }
    }
}

fn parsed_by_csv(input: &[u8]) -> Table {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(input);
    let records = reader.byte_records().map(|record| record.unwrap());
    records.map(|record| record.iter().map(<[u8]>::to_vec).collect()).collect()
}
