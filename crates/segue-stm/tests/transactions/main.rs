//! Transactions by their behaviour.

mod bank;
mod nested;
mod profiles;
