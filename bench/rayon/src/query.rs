//! A query over columns, in the steps that a library of data frames runs on rayon. Used by `main`.
//!
//! ```text
//! SELECT region, week, sum(amount), max(amount), count(*)
//! FROM orders JOIN customers USING (customer)
//! WHERE day < 300
//! GROUP BY region, week ORDER BY sum(amount) DESC
//! ```
//!
//! The rows that the filter keeps are selected; the smaller side of the join becomes hash tables,
//! one for each part of the keys; the rows are looked up in pieces; each piece is grouped by
//! itself, and groups are merged; what comes out is sorted.

use crate::Program;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;

const ORDERS: u32 = 1_000_000;
/// One of four is asked for in vain.
const CUSTOMERS: u32 = 15_000;
const ASKED: u32 = 20_000;
const PARTS: usize = 16;
/// Rows that are looked up at a time.
const PIECE: usize = 16_384;

/// Orders and customers, column by column.
struct Tables {
    /// Of an order.
    customer: Vec<u32>,
    day: Vec<u16>,
    amount: Vec<u64>,
    /// Of a customer, whose number is the place.
    region: Vec<u16>,
}

/// What is known of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Group {
    sum: u64,
    max: u64,
    count: u64,
}

/// A region and a week.
type Key = (u16, u16);

/// A hash is the key times a large odd number.
#[derive(Default)]
struct Times(u64);

impl Hasher for Times {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }
}

type Table<K, V> = HashMap<K, V, BuildHasherDefault<Times>>;

impl Group {
    fn add(&mut self, amount: u64) {
        self.merge(Self { sum: amount, max: amount, count: 1 });
    }

    fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.count += other.count;
    }
}

/// The query, with the number of its rows.
pub fn program() -> (u64, Program) {
    let tables = Tables::new();
    let expected = tables.one_by_one();
    (ORDERS.into(), Box::new(move || assert_eq!(black_box(&tables).query(), expected)))
}

impl Tables {
    fn new() -> Self {
        let mut state = 7_u64;
        let mut draw = |below: u32| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            ((state >> 32) * u64::from(below) >> 32) as u32
        };
        Self {
            customer: (0..ORDERS).map(|_| draw(ASKED)).collect(),
            day: (0..ORDERS).map(|_| draw(365) as u16).collect(),
            amount: (0..ORDERS).map(|_| draw(100_000).into()).collect(),
            region: (0..CUSTOMERS).map(|_| draw(20) as u16).collect(),
        }
    }

    fn query(&self) -> Vec<(Key, Group)> {
        let rows: Vec<u32> = (0..ORDERS).into_par_iter().filter(|row| self.day[*row as usize] < 300).collect();
        let regions: Vec<Table<u32, u16>> = (0..PARTS).into_par_iter().map(|part| self.regions(part)).collect();
        let groups =
            rows.par_chunks(PIECE).map(|rows| self.grouped(rows, &regions)).reduce(Table::default, |one, two| {
                let (mut one, two) = if one.len() >= two.len() { (one, two) } else { (two, one) };
                two.into_iter().for_each(|(key, group)| one.entry(key).or_default().merge(group));
                one
            });
        let mut groups: Vec<_> = groups.into_par_iter().collect();
        groups.par_sort_unstable_by_key(in_order);
        groups
    }

    /// The hash table of one part of the customers.
    fn regions(&self, part: usize) -> Table<u32, u16> {
        let all = (0..CUSTOMERS).zip(&self.region);
        all.filter(|(customer, _)| part_of(*customer) == part).map(|(customer, region)| (customer, *region)).collect()
    }

    /// The groups of some rows, for whose customers there is a region.
    fn grouped(&self, rows: &[u32], regions: &[Table<u32, u16>]) -> Table<Key, Group> {
        let mut groups = Table::<Key, Group>::default();
        for row in rows.iter().map(|row| *row as usize) {
            let customer = self.customer[row];
            if let Some(region) = regions[part_of(customer)].get(&customer) {
                groups.entry((*region, self.day[row] / 7)).or_default().add(self.amount[row]);
            }
        }
        groups
    }

    /// The same by a plain loop.
    fn one_by_one(&self) -> Vec<(Key, Group)> {
        let mut groups = BTreeMap::<Key, Group>::new();
        for row in 0..ORDERS as usize {
            let region = self.region.get(self.customer[row] as usize);
            if let Some(region) = region.filter(|_| self.day[row] < 300) {
                groups.entry((*region, self.day[row] / 7)).or_default().add(self.amount[row]);
            }
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(in_order);
        groups
    }
}

fn part_of(customer: u32) -> usize {
    customer as usize % PARTS
}

/// The greatest sum first; of equal ones, by the key.
fn in_order((key, group): &(Key, Group)) -> (std::cmp::Reverse<u64>, Key) {
    (std::cmp::Reverse(group.sum), *key)
}
