//! Transactions by their behaviour.

mod bank;
mod profiles;
