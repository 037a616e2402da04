//! Transactions by their behaviour.

mod bank;
