//! Grammars and tokens: the outcome does not depend on how bytes come, and is that of the crates
//! that their fields trust.

#[path = "../grammars/csv.rs"]
mod csv_grammar;
#[path = "../grammars/http.rs"]
mod http_grammar;
#[path = "../grammars/json.rs"]
mod json_grammar;
#[path = "../grammars/resp.rs"]
mod resp_grammar;

mod bad_input;
mod csv;
mod http;
mod json;
mod readers;
mod resp;
mod splits;
