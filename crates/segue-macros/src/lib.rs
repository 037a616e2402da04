//! The attribute `segue::test`: a test that is run under many schedules.
//!
//! Used by applications, through `segue`, which documents it. It writes a plain `#[test]` that
//! calls `segue_sched::Explore::check`.
//!
//! * `arguments.rs`: what stands in the parentheses, and what is said of it if it is wrong.
//! * `function.rs`: what it stands before.

mod arguments;
mod function;

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

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
        let punct = |character, spacing| TokenTree::from(Punct::new(character, spacing));
        let message = TokenTree::from(Literal::string(&self.message));
        let mut tokens = vec![
            punct(':', Spacing::Joint),
            punct(':', Spacing::Alone),
            Ident::new("core", self.span).into(),
            punct(':', Spacing::Joint),
            punct(':', Spacing::Alone),
            Ident::new("compile_error", self.span).into(),
            punct('!', Spacing::Alone),
            Group::new(Delimiter::Brace, message.into()).into(),
        ];
        tokens.iter_mut().for_each(|token| token.set_span(self.span));
        tokens.into_iter().collect()
    }
}
