//! Transactions by their behaviour.

mod bank;
mod nested;
mod papers;
mod profiles;
mod structures;
mod written_twice;
