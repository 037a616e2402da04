//! The attribute `#[job]`: the type of a job, beside the function that it stands before.
//!
//! Used by the crate `segue-remote`, which documents it. The function stays as it is; its
//! parameters become the fields of a type, whose name is that of the function in camel case:
//!
//! ```text
//! #[job] fn fib(n: u64) -> u64 { .. }
//!
//! fn fib(n: u64) -> u64 { .. }
//! #[derive(..)] struct Fib { n: u64 }
//! impl ::segue_remote::Job for Fib { .. fn run(self) { fib(self.n) } }
//! ```

use super::Error;
use proc_macro::{Delimiter, Span, TokenStream, TokenTree};
use std::iter::Peekable;
use std::vec::IntoIter;

const NAMES: &str = "there are `name`, `version` and `format`";

type Tokens = Peekable<IntoIter<TokenTree>>;

/// The arguments of the attribute, in text.
struct Arguments {
    name: Option<String>,
    version: String,
    format: String,
}

/// The function and its type.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> Result<TokenStream, Error> {
    let arguments = parse(arguments)?;
    let function = Function::of(item.clone())?;
    let text = function.write(&arguments);
    let made: TokenStream =
        text.parse().map_err(|_| Error::new(function.name.span(), "no type can be made of this function"))?;
    Ok(item.into_iter().chain(made).collect())
}

fn parse(tokens: TokenStream) -> Result<Arguments, Error> {
    let mut found = Arguments { name: None, version: "1".to_owned(), format: "::segue_remote::Json".to_owned() };
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for argument in split(tokens) {
        let Some(name) = argument.first() else { continue };
        let (span, word) = (name.span(), name.to_string());
        let value: String = argument.iter().skip(2).cloned().collect::<TokenStream>().to_string();
        if argument.get(1).is_none_or(|equals| equals.to_string() != "=") || value.is_empty() {
            return Err(Error::new(span, format!("`{word}` takes a value: `{word} = ...`; {NAMES}")));
        }
        match word.as_str() {
            "name" => found.name = Some(value),
            "version" => found.version = value,
            "format" => found.format = value,
            _ => return Err(Error::new(span, format!("`{word}` is no argument of `job`; {NAMES}"))),
        }
    }
    Ok(found)
}

/// The tokens between commas; those between `<` and `>` stay together.
fn split(tokens: Vec<TokenTree>) -> Vec<Vec<TokenTree>> {
    let (mut parts, mut depth, mut before) = (vec![Vec::new()], 0_usize, ' ');
    for token in tokens {
        let sign = match &token {
            TokenTree::Punct(punct) => punct.as_char(),
            _ => ' ',
        };
        match sign {
            '<' => depth += 1,
            '>' if before != '-' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(Vec::new());
                before = sign;
                continue;
            }
            _ => {}
        }
        before = sign;
        if let Some(part) = parts.last_mut() {
            part.push(token);
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// What the type is made of.
struct Function {
    docs: String,
    visibility: String,
    name: TokenTree,
    /// Names and types.
    parameters: Vec<(String, String)>,
    output: String,
    /// Whether the output's type is called `Result`.
    can_fail: bool,
}

impl Function {
    fn of(item: TokenStream) -> Result<Self, Error> {
        let mut tokens: Tokens = item.into_iter().collect::<Vec<_>>().into_iter().peekable();
        let docs = docs(&mut tokens);
        let mut visibility = String::new();
        let name = loop {
            let Some(token) = tokens.next() else {
                return Err(Error::new(Span::call_site(), "`job` stands before a function"));
            };
            match token.to_string().as_str() {
                "fn" => break tokens.next().ok_or_else(|| Error::new(token.span(), "a function without a name"))?,
                "async" => {
                    return Err(Error::new(
                        token.span(),
                        "a job is straight-line code: leave `async` out, and wait for futures with `segue::wait_future`",
                    ));
                }
                "struct" | "enum" | "impl" | "trait" | "mod" | "const" | "unsafe" | "extern" => {
                    return Err(Error::new(token.span(), "`job` stands before a plain function"));
                }
                word => visibility.push_str(word),
            }
        };
        let parameters = match tokens.next() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
                split(group.stream().into_iter().collect()).into_iter().map(parameter).collect::<Result<_, _>>()?
            }
            _ => return Err(Error::new(name.span(), "a job has no type parameters: workers look it up by its name")),
        };
        let mut output: Vec<TokenTree> = tokens.collect();
        output.pop(); // The body.
        let output = output.get(2..).unwrap_or_default();
        if let Some(word) = output.iter().find(|token| token.to_string() == "where") {
            return Err(Error::new(word.span(), "a job has no type parameters: workers look it up by its name"));
        }
        let head: Vec<String> = output.iter().map(ToString::to_string).take_while(|word| word != "<").collect();
        let can_fail = head.last().is_some_and(|word| word == "Result");
        let output = match output.iter().cloned().collect::<TokenStream>().to_string() {
            none if none.is_empty() => "()".to_owned(),
            some => some,
        };
        Ok(Self { docs, visibility, name, parameters, output, can_fail })
    }

    fn write(&self, arguments: &Arguments) -> String {
        let Self { docs, visibility, parameters, output, .. } = self;
        let Arguments { name, version, format } = arguments;
        let function = self.name.to_string();
        let plain = function.trim_start_matches("r#");
        let job = camel(plain);
        let name = name.clone().unwrap_or_else(|| format!("{plain:?}"));
        let fields: String = parameters
            .iter()
            .map(|(name, of)| format!("#[doc = \"The argument `{name}`.\"] {visibility} {name}: {of},"))
            .collect();
        let values: String = parameters.iter().map(|(name, _)| format!("self.{name},")).collect();
        let (output, call) = if self.can_fail {
            let answer = format!("<{output} as ::segue_remote::Answer>");
            (format!("{answer}::Output"), format!("::segue_remote::Answer::answer({function}({values}))"))
        } else {
            (output.clone(), format!("::core::result::Result::Ok({function}({values}))"))
        };
        format!(
            "{docs}
            #[derive(Clone, Debug, ::segue_remote::serde::Serialize, ::segue_remote::serde::Deserialize)]
            #[serde(crate = \"::segue_remote::serde\")]
            {visibility} struct {job} {{ {fields} }}
            impl ::segue_remote::Job for {job} {{
                const NAME: &'static str = {name};
                const VERSION: u32 = {version};
                type Output = {output};
                type Format = {format};
                #[allow(clippy::unit_arg)]
                fn run(self) -> ::core::result::Result<
                    Self::Output,
                    ::std::boxed::Box<dyn ::std::error::Error + ::core::marker::Send + ::core::marker::Sync>,
                > {{ {call} }}
            }}"
        )
    }
}

/// Takes the attributes, and yields those that document.
fn docs(tokens: &mut Tokens) -> String {
    let mut docs = String::new();
    while tokens.peek().is_some_and(|token| token.to_string() == "#") {
        let (hash, group) = (tokens.next(), tokens.next());
        let attribute: TokenStream = hash.into_iter().chain(group).collect();
        let text = attribute.to_string();
        if text.replace(' ', "").starts_with("#[doc") {
            docs.push_str(&text);
            docs.push('\n');
        }
    }
    docs
}

/// The name and the type of a parameter.
fn parameter(tokens: Vec<TokenTree>) -> Result<(String, String), Error> {
    let is_mut = tokens.first().is_some_and(|token| token.to_string() == "mut");
    let mut tokens = tokens.into_iter().skip(usize::from(is_mut));
    let (name, colon) = (tokens.next(), tokens.next());
    let span = name.as_ref().map_or_else(Span::call_site, TokenTree::span);
    let (Some(TokenTree::Ident(name)), Some(TokenTree::Punct(colon))) = (name, colon) else {
        return Err(Error::new(span, "a parameter of a job is a name and a type"));
    };
    let rest: Vec<TokenTree> = tokens.collect();
    if colon.as_char() != ':' {
        return Err(Error::new(span, "a parameter of a job is a name and a type"));
    }
    if rest.first().is_some_and(|token| token.to_string() == "&") {
        return Err(Error::new(
            span,
            "a job owns its arguments, which travel: take `String` for `&str`, `Vec` for a slice",
        ));
    }
    Ok((name.to_string(), rest.into_iter().collect::<TokenStream>().to_string()))
}

/// `k_nucleotide` as `KNucleotide`.
fn camel(name: &str) -> String {
    let mut camel = String::new();
    for word in name.split('_') {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}
