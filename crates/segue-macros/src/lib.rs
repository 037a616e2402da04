//! The attributes `segue::test`, a test that is run under many schedules, and `segue_remote::job`.
//!
//! Used by applications, through `segue` and `segue-remote`, which document them. The first writes
//! a plain `#[test]` that calls `segue_sched::Explore::check`.
//!
//! * `arguments.rs`: what stands in the parentheses, and what is said of it if it is wrong.
//! * `function.rs`: what it stands before.
//! * `job.rs`: a function that others run, with the type of its arguments.

mod arguments;
mod function;
mod job;

use proc_macro::{Span, TokenStream, TokenTree};

/// Runs a test under many schedules. See `segue::test`.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    with_item(arguments::parse(arguments).and_then(|explore| function::expand(&explore, item.clone())), item)
}

/// Makes a job of a function, for `segue-remote`: a type, whose fields are the parameters, with the
/// function's name in camel case.
///
/// | argument | meaning | by default |
/// | --- | --- | --- |
/// | `name = "..."` | the name by which workers know the job | the function's |
/// | `version = N` | the version of its arguments, output and meaning | 1 |
/// | `format = Type` | how arguments and output are written as bytes | `segue_remote::Json` |
///
/// The type has the function's visibility and documentation, and derives `Clone`, `Debug` and
/// serde's traits, which all parameters need. A function whose return type is called `Result` fails
/// by its error: anything that `Box<dyn Error + Send + Sync>` can be made from.
#[proc_macro_attribute]
pub fn job(arguments: TokenStream, item: TokenStream) -> TokenStream {
    with_item(job::expand(arguments, item.clone()), item)
}

/// The function stays, so that nothing else is reported because it is missing.
fn with_item(expanded: Result<TokenStream, Error>, item: TokenStream) -> TokenStream {
    expanded.unwrap_or_else(|error| {
        let mut tokens = error.into_tokens();
        tokens.extend(item);
        tokens
    })
}

/// Something that is wrong, and where.
struct Error {
    span: Span,
    message: String,
}

impl Error {
    fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }

    /// `::core::compile_error! { "..." }`, at the place of the error.
    fn into_tokens(self) -> TokenStream {
        let text = format!("::core::compile_error! {{ {:?} }}", self.message);
        let tokens: TokenStream = text.parse().expect("a macro call with a string");
        tokens.into_iter().map(|token| respanned(token, self.span)).collect()
    }
}

/// The token as if it stood there.
fn respanned(mut token: TokenTree, span: Span) -> TokenTree {
    token.set_span(span);
    token
}
