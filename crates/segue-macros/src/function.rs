//! The function that the attribute stands before, and the test that is made of it.
//!
//! Used by the attribute. The attributes of the function go to the test; the function itself, as it
//! is, into its body:
//!
//! ```text
//! #[test] #[ignore] fn name() { fn name() -> Result<..> { .. }  Explore::random(200).command(..).check(name); }
//! ```

use super::{Error, respanned};
use proc_macro::{Delimiter, Group, Span, TokenStream, TokenTree};

/// The test that checks `item` by what `explore` makes.
pub(crate) fn expand(explore: &str, item: TokenStream) -> Result<TokenStream, Error> {
    let mut attributes = TokenStream::new();
    let mut function = Vec::new();
    let mut flags = "--exact";
    let mut tokens = item.into_iter().peekable();
    while let Some(TokenTree::Punct(hash)) =
        tokens.next_if(|token| matches!(token, TokenTree::Punct(p) if p.as_char() == '#'))
    {
        let attribute = tokens.next();
        if let Some(TokenTree::Group(group)) = &attribute {
            let text = group.stream().to_string();
            if text == "test" {
                return Err(Error::new(group.span(), "`segue::test` makes a test by itself: leave `#[test]` out"));
            }
            if text.starts_with("ignore") {
                flags = "--exact --ignored";
            }
        }
        attributes.extend([TokenTree::from(hash)].into_iter().chain(attribute));
    }
    function.extend(tokens);
    let name = name_of(&function)?.clone();

    // `pub`, `pub(crate)`
    let is_visibility = |token: &&TokenTree| match token {
        TokenTree::Ident(word) => word.to_string() == "pub",
        TokenTree::Group(group) => group.delimiter() == Delimiter::Parenthesis,
        _ => false,
    };
    let visibility: Vec<_> = function.iter().take_while(is_visibility).cloned().collect();

    let text = format!(
        "{explore}.command(::std::format!(
            \"cargo test -p {{}} {{}} -- {flags}\",
            ::std::env!(\"CARGO_PKG_NAME\"),
            ::segue::sched::test_name(::std::concat!(::std::module_path!(), \"::{plain}\")),
        )).check({name});",
        plain = name.to_string().trim_start_matches("r#"),
    );
    let call: TokenStream = text.parse().map_err(|_| Error::new(name.span(), "the name can't be used in a call"))?;
    let body: TokenStream = function.into_iter().chain(call).collect();
    let outer: TokenStream = "#[::core::prelude::v1::test]".parse().map_err(|_| Error::new(name.span(), "no test"))?;
    let head: TokenStream = format!("fn {name}()").parse().map_err(|_| Error::new(name.span(), "no function"))?;
    // A search for the test finds the function.
    let head = head.into_iter().map(|token| respanned(token, name.span()));
    let body = TokenTree::from(Group::new(Delimiter::Brace, body));
    Ok(outer.into_iter().chain(attributes).chain(visibility).chain(head).chain([body]).collect())
}

/// The name of a function that can be a test.
fn name_of(function: &[TokenTree]) -> Result<&TokenTree, Error> {
    let words: Vec<String> = function.iter().map(ToString::to_string).collect();
    let no_function = || {
        Error::new(
            function.first().map_or_else(Span::call_site, TokenTree::span),
            "`segue::test` stands before a function",
        )
    };
    let at = words.iter().position(|word| word == "fn").ok_or_else(no_function)?;
    if let Some(index) = words[..at].iter().position(|word| word == "async") {
        return Err(Error::new(
            function[index].span(),
            "a test of Segue is straight-line code: leave `async` out, and wait for futures with `segue::core::wait_future`",
        ));
    }
    let name = function.get(at + 1).ok_or_else(no_function)?;
    match function.get(at + 2) {
        Some(TokenTree::Group(parameters)) if parameters.stream().is_empty() => Ok(name),
        Some(TokenTree::Group(parameters)) => Err(Error::new(parameters.span(), "a test takes no parameters")),
        Some(other) => Err(Error::new(other.span(), "a test has no type parameters")),
        None => Err(no_function()),
    }
}
