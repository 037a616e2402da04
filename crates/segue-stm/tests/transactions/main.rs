//! Transactions by their behaviour.

mod bank;
mod drops_outside;
mod nested;
mod papers;
mod profiles;
mod structures;
mod turn;
mod written_twice;
