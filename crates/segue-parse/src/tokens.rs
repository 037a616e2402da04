//! Tokens and combinators: methods of [`Input`].
//!
//! Used by parsers.

use std::ops::Range;

use crate::error::{Error, Expected};
use crate::input::{Input, Mark};
use crate::source::Refill;

impl<S: Refill> Input<S> {
    /// Takes the next byte.
    ///
    /// # Cancellation
    ///
    /// *No effect*: the cursor stays.
    ///
    /// # Errors
    ///
    /// [`Error::End`] if there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"!");
    /// assert_eq!(input.byte().unwrap(), b'!');
    /// assert!(input.byte().is_err());
    /// ```
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Error> {
        match self.peek()? {
            Some(byte) => {
                self.advance(1);
                Ok(byte)
            }
            None => Err(self.unexpected("a byte")),
        }
    }

    /// Takes this text.
    ///
    /// # Cancellation
    ///
    /// *No effect*: the cursor stays.
    ///
    /// # Errors
    ///
    /// [`Error::Unexpected`] or [`Error::End`], at the first byte that differs.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"truth");
    /// let report = input.literal("true").map_err(|error| input.report(error)).unwrap_err();
    /// assert_eq!(report.to_string(), "line 1, column 4: expected `true`, found `t`");
    /// assert_eq!(input.position().offset, 0);
    /// ```
    #[inline(always)]
    pub fn literal(&mut self, text: &'static str) -> Result<(), Error> {
        if self.ahead().starts_with(text.as_bytes()) {
            self.advance(text.len());
            return Ok(());
        }
        self.literal_beyond(text)
    }

    /// The same where bytes are missing, or are others.
    #[cold]
    #[inline(never)]
    fn literal_beyond(&mut self, text: &'static str) -> Result<(), Error> {
        loop {
            let ahead = self.ahead();
            let matched = text.bytes().zip(ahead).take_while(|(wanted, found)| wanted == *found).count();
            if matched == text.len() {
                self.advance(matched);
                return Ok(());
            }
            if matched < ahead.len() || !self.more()? {
                return Err(self.literal_failure(matched, text));
            }
        }
    }

    /// Takes this text if it is there. If not, [reports](Self::report) of errors at this place name
    /// the text.
    ///
    /// # Cancellation
    ///
    /// *No effect*: the cursor stays.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"-1");
    /// assert!(input.accept("-").unwrap());
    /// assert!(!input.accept("-").unwrap());
    /// ```
    #[inline(always)]
    pub fn accept(&mut self, text: &'static str) -> Result<bool, Error> {
        if self.ahead().starts_with(text.as_bytes()) {
            self.advance(text.len());
            return Ok(true);
        }
        self.accept_beyond(text)
    }

    #[cold]
    #[inline(never)]
    fn accept_beyond(&mut self, text: &'static str) -> Result<bool, Error> {
        match self.literal_beyond(text) {
            Err(error) if !error.leaves_alternatives() => Err(error),
            outcome => Ok(outcome.is_ok()),
        }
    }

    /// The number of bytes ahead that `leading` counts, which is given slices of them.
    #[inline(always)]
    fn scan(&mut self, mut leading: impl FnMut(&[u8]) -> usize) -> Result<usize, Error> {
        let length = leading(self.ahead());
        if length < self.ahead().len() { Ok(length) } else { self.scan_on(length, leading) }
    }

    /// The same where all bytes that are there belong, and more may come. None is looked at twice
    /// because another one came late.
    #[cold]
    #[inline(never)]
    fn scan_on(&mut self, mut length: usize, mut leading: impl FnMut(&[u8]) -> usize) -> Result<usize, Error> {
        while length == self.ahead().len() && self.more()? {
            length += leading(&self.ahead()[length..]);
        }
        Ok(length)
    }

    /// Takes bytes as long as the closure says yes: a slice of the input, without a copy, which may
    /// be empty.
    ///
    /// # Cancellation
    ///
    /// *No effect*: the cursor stays.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"name: value");
    /// assert_eq!(input.take_while(|byte| byte != b':').unwrap(), b"name");
    /// assert_eq!(input.take_while(|byte| byte != b':').unwrap(), b"");
    /// ```
    #[inline]
    pub fn take_while(&mut self, mut belongs: impl FnMut(u8) -> bool) -> Result<&[u8], Error> {
        let length = self.scan(|bytes| leading(bytes, &mut belongs))?;
        Ok(self.take_ahead(length))
    }

    /// As [`take_while`](Self::take_while), of at least one byte.
    ///
    /// # Cancellation
    ///
    /// *No effect*: the cursor stays.
    ///
    /// # Errors
    ///
    /// [`Error::Unexpected`] or [`Error::End`] if the first byte does not belong. The name stands
    /// in the report.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"7 up");
    /// let digits = input.take_some("a digit", |byte| byte.is_ascii_digit()).unwrap();
    /// assert_eq!(digits, b"7");
    /// assert!(input.take_some("a digit", |byte| byte.is_ascii_digit()).is_err());
    /// ```
    #[inline(always)]
    pub fn take_some(&mut self, expected: &'static str, mut belongs: impl FnMut(u8) -> bool) -> Result<&[u8], Error> {
        let length = self.scan(|bytes| leading(bytes, &mut belongs))?;
        if length == 0 {
            return Err(self.unexpected(expected));
        }
        Ok(self.take_ahead(length))
    }

    /// Takes bytes as long as the closure says yes, and forgets them.
    ///
    /// # Cancellation
    ///
    /// *No effect*: the cursor stays.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"   indented");
    /// input.skip_while(|byte| byte == b' ').unwrap();
    /// assert_eq!(input.position().column, 4);
    /// ```
    #[inline]
    pub fn skip_while(&mut self, mut belongs: impl FnMut(u8) -> bool) -> Result<(), Error> {
        let length = self.scan(|bytes| leading(bytes, &mut belongs))?;
        self.advance(length);
        Ok(())
    }

    /// As [`skip_while`](Self::skip_while), for runs that are mostly longer than ten bytes: the
    /// closure is asked about sixteen bytes at a time, also about those behind the run. That takes
    /// a fraction of the time if the closure only compares.
    ///
    /// # Cancellation
    ///
    /// *No effect*: the cursor stays.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"\"a string in quotes\"");
    /// input.literal("\"").unwrap();
    /// let begin = input.mark();
    /// input.skip_run(|byte| byte != b'"' && byte != b'\\').unwrap();
    /// assert_eq!(input.slice(begin..input.mark()), b"a string in quotes");
    /// ```
    #[inline]
    pub fn skip_run(&mut self, belongs: impl Fn(u8) -> bool) -> Result<(), Error> {
        let length = self.scan(|bytes| leading_of_many(bytes, &belongs))?;
        self.advance(length);
        Ok(())
    }

    /// Takes so many bytes: a slice of the input, without a copy.
    ///
    /// # Cancellation
    ///
    /// *No effect*: the cursor stays.
    ///
    /// # Errors
    ///
    /// [`Error::End`] if there are fewer.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"\x03abc");
    /// let length = input.byte().unwrap();
    /// assert_eq!(input.take(length.into()).unwrap(), b"abc");
    /// ```
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&[u8], Error> {
        while self.ahead().len() < length {
            if !self.more()? {
                let end = self.mark().0 + self.ahead().len() as u64;
                return Err(self.failure_at(end, Expected::Named("more bytes")));
            }
        }
        Ok(self.take_ahead(length))
    }

    /// The text between two marks, without a copy. Never waits.
    ///
    /// # Errors
    ///
    /// [`Error::Unexpected`] at the first byte that is not of UTF-8.
    ///
    /// # Panics
    ///
    /// For marks before the commit point, and for a range that begins behind its end.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of("n\u{e9}\u{e9}".as_bytes());
    /// let begin = input.mark();
    /// input.take(3).unwrap();
    /// assert_eq!(input.text(begin..input.mark()).unwrap(), "n\u{e9}");
    /// input.take(1).unwrap();
    /// assert_eq!(input.text(begin..input.mark()).unwrap_err().at(), Some(3));
    /// ```
    #[inline]
    pub fn text(&self, marks: Range<Mark>) -> Result<&str, Error> {
        let begin = marks.start.0;
        std::str::from_utf8(self.slice(marks)).map_err(|error| {
            let valid = begin + error.valid_up_to() as u64;
            self.failure_at(valid, Expected::Named("UTF-8"))
        })
    }

    /// Takes a decimal integer, with a minus if the type has a sign.
    ///
    /// # Cancellation
    ///
    /// *No effect*: the cursor stays.
    ///
    /// # Errors
    ///
    /// [`Error::Unexpected`] or [`Error::End`] where a digit is missing, and [`Error::OutOfRange`]
    /// for a number that the type does not have, or that 64 bits do not have.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_parse::{Error, Input};
    ///
    /// assert_eq!(Input::of(b"-128").integer::<i8>().unwrap(), -128);
    /// assert!(matches!(Input::of(b"-129").integer::<i8>(), Err(Error::OutOfRange { .. })));
    /// assert!(matches!(Input::of(b"-1").integer::<u8>(), Err(Error::OutOfRange { .. })));
    /// assert!(matches!(Input::of(b"+1").integer::<u8>(), Err(Error::Unexpected { .. })));
    /// ```
    #[inline]
    pub fn integer<T: TryFrom<i128>>(&mut self) -> Result<T, Error> {
        let sign = usize::from(self.peek()? == Some(b'-'));
        let (mut number, mut fits, mut digits) = (0u64, true, 0);
        loop {
            let Some(byte) = self.ahead().get(sign + digits) else { if self.more()? { continue } else { break } };
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            digits += 1;
            match number.checked_mul(10).and_then(|tens| tens.checked_add(digit.into())) {
                Some(more) => number = more,
                None => fits = false,
            }
        }
        if digits == 0 {
            return Err(self.failure(Mark(self.mark().0 + sign as u64), Expected::Named("an integer")));
        }
        let number = if sign == 1 { -i128::from(number) } else { number.into() };
        match T::try_from(number) {
            Ok(number) if fits => {
                self.advance(sign + digits);
                Ok(number)
            }
            _ => Err(self.out_of_range(self.mark())),
        }
    }

    /// Nothing but the end of the input.
    ///
    /// # Cancellation
    ///
    /// *No effect*: the cursor stays.
    ///
    /// # Errors
    ///
    /// [`Error::Unexpected`] if there is more.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"1 ");
    /// assert_eq!(input.integer::<u8>().unwrap(), 1);
    /// assert_eq!(input.end().unwrap_err().at(), Some(1));
    /// ```
    #[inline]
    pub fn end(&mut self) -> Result<(), Error> {
        match self.peek()? {
            None => Ok(()),
            Some(_) => Err(self.unexpected("the end of the input")),
        }
    }

    /// Collects elements until there is no other.
    ///
    /// # Cancellation
    ///
    /// *May already have happened*: elements that were taken are gone.
    ///
    /// # Panics
    ///
    /// If an element takes no byte: the loop would not end.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_parse::Input;
    ///
    /// let mut input = Input::of(b"1;22;333;x");
    /// let numbers = input
    ///     .many(|input| {
    ///         input.attempt(|input| {
    ///             let number: u32 = input.integer()?;
    ///             input.literal(";").map(|()| number)
    ///         })
    ///     })
    ///     .unwrap();
    /// assert_eq!(numbers, [1, 22, 333]);
    /// ```
    #[inline]
    pub fn many<T>(&mut self, mut element: impl FnMut(&mut Self) -> Result<Option<T>, Error>) -> Result<Vec<T>, Error> {
        let mut elements = Vec::new();
        loop {
            let begin = self.mark();
            let Some(element) = element(self)? else { return Ok(elements) };
            assert!(self.mark() > begin, "an element that takes no byte would be found for ever");
            elements.push(element);
        }
    }

    /// Collects elements, at least one, with separators between them: after an element the
    /// separator says whether there is another.
    ///
    /// # Cancellation
    ///
    /// *May already have happened*: elements that were taken are gone.
    ///
    /// # Panics
    ///
    /// If an element and a separator take no byte: the loop would not end.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_parse::Input;
    ///
    /// let mut input = Input::of(b"127.0.0.1:80");
    /// let numbers: Vec<u8> = input.sep_by(|input| input.accept("."), Input::integer).unwrap();
    /// assert_eq!(numbers, [127, 0, 0, 1]);
    /// ```
    #[inline]
    pub fn sep_by<T>(
        &mut self,
        mut separator: impl FnMut(&mut Self) -> Result<bool, Error>,
        mut element: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut elements = Vec::new();
        loop {
            let begin = self.mark();
            elements.push(element(self)?);
            if !separator(self)? {
                return Ok(elements);
            }
            assert!(self.mark() > begin, "an element and a separator that take no byte would be found for ever");
        }
    }

    /// The first alternative that succeeds; each begins at the cursor.
    ///
    /// # Cancellation
    ///
    /// *May already have happened*: the tokens before the one that waited are taken.
    ///
    /// # Errors
    ///
    /// If all have failed, the error of the one that came farthest. An alternative that has
    /// committed is the last that is tried.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_parse::Input;
    ///
    /// let mut input = Input::of(b"0x1f");
    /// let number = input.first_of([
    ///     |input| {
    ///         input.literal("0x")?;
    ///         let digits = input.take_while(|byte| byte.is_ascii_hexdigit())?;
    ///         Ok(u32::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap())
    ///     },
    ///     |input| input.integer(),
    /// ]);
    /// assert_eq!(number.unwrap(), 31);
    /// ```
    #[allow(clippy::type_complexity)] // A name would hide that these are functions.
    pub fn first_of<T, const N: usize>(
        &mut self,
        alternatives: [fn(&mut Self) -> Result<T, Error>; N],
    ) -> Result<T, Error> {
        const { assert!(N > 0, "no alternatives") };
        let begin = self.mark();
        let mut farthest: Option<Error> = None;
        for alternative in alternatives {
            match alternative(self) {
                Ok(value) => return Ok(value),
                Err(error) => {
                    let error = self.undo(begin, error)?;
                    if farthest.as_ref().is_none_or(|other| other.at() < error.at()) {
                        farthest = Some(error);
                    }
                }
            }
        }
        Err(farthest.expect("there is an alternative"))
    }
}

/// The number of bytes at the begin for which the closure says yes.
#[inline(always)]
fn leading(bytes: &[u8], mut belongs: impl FnMut(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !belongs(*byte)).unwrap_or(bytes.len())
}

/// The same. Sixteen answers are looked at as one number, for which the compiler takes vectors.
#[inline(always)]
fn leading_of_many(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    let mut length = 0;
    while let Some(chunk) = bytes[length..].first_chunk::<16>() {
        let others = u128::from_le_bytes(chunk.map(|byte| u8::from(!belongs(byte))));
        if others != 0 {
            return length + others.trailing_zeros() as usize / 8;
        }
        length += 16;
    }
    length + leading(&bytes[length..], belongs)
}
