//! Transactions by their behaviour.

mod bank;
mod classics;
mod common;
mod drops_outside;
mod lazies;
mod nested;
mod papers;
mod profiles;
mod random;
mod structures;
mod turn;
mod waits;
mod written_twice;
