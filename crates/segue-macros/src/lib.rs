//! The attribute `segue::test`: a test that is run under many schedules.
//!
//! Used by applications, through `segue`, which documents it. It writes a plain `#[test]` that
//! calls `segue_sched::Explore::check`.
//!
//! * `arguments.rs`: what stands in the parentheses, and what is said of it if it is wrong.
//! * `function.rs`: what it stands before.

mod arguments;
mod function;

use proc_macro::{Span, TokenStream, TokenTree};

/// Runs a test under many schedules. See `segue::test`.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = arguments::parse(arguments).and_then(|explore| function::expand(&explore, item.clone()));
    expanded.unwrap_or_else(|error| {
        // The function stays, so that nothing else is reported because it is missing.
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
