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

    /// The number of bytes ahead, behind the first `skipped`, for which the closure says yes. Each
    /// byte is looked at once.
    #[inline(always)]
    fn scan(&mut self, skipped: usize, mut belongs: impl FnMut(u8) -> bool) -> Result<usize, Error> {
        let mut length = skipped;
        loop {
            let rest = &self.ahead()[length..];
            match rest.iter().position(|byte| !belongs(*byte)) {
                Some(at) => return Ok(length + at - skipped),
                None => length += rest.len(),
            }
            if !self.more()? {
                return Ok(length - skipped);
            }
        }
    }

    /// Takes bytes as long as the closure says yes: a slice of the input, without a copy, which may
    /// be empty.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"name: value");
    /// assert_eq!(input.take_while(|byte| byte != b':').unwrap(), b"name");
    /// assert_eq!(input.take_while(|byte| byte != b':').unwrap(), b"");
    /// ```
    #[inline]
    pub fn take_while(&mut self, belongs: impl FnMut(u8) -> bool) -> Result<&[u8], Error> {
        let length = self.scan(0, belongs)?;
        self.advance(length);
        Ok(self.behind(length))
    }

    /// As [`take_while`](Self::take_while), of at least one byte.
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
    #[inline]
    pub fn take_some(&mut self, expected: &'static str, belongs: impl FnMut(u8) -> bool) -> Result<&[u8], Error> {
        let length = self.scan(0, belongs)?;
        if length == 0 {
            return Err(self.unexpected(expected));
        }
        self.advance(length);
        Ok(self.behind(length))
    }

    /// Takes bytes as long as the closure says yes, and forgets them.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"   indented");
    /// input.skip_while(|byte| byte == b' ').unwrap();
    /// assert_eq!(input.position().column, 4);
    /// ```
    #[inline]
    pub fn skip_while(&mut self, belongs: impl FnMut(u8) -> bool) -> Result<(), Error> {
        let length = self.scan(0, belongs)?;
        self.advance(length);
        Ok(())
    }

    /// Takes so many bytes: a slice of the input, without a copy.
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
        self.advance(length);
        Ok(self.behind(length))
    }

    /// The text between two marks, without a copy.
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
    pub fn text(&self, marks: Range<Mark>) -> Result<&str, Error> {
        let begin = marks.start.0;
        std::str::from_utf8(self.slice(marks)).map_err(|error| {
            let valid = begin + error.valid_up_to() as u64;
            self.failure_at(valid, Expected::Named("UTF-8"))
        })
    }

    /// Takes a decimal integer, with a minus if the type has a sign.
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
        let (mut number, mut fits) = (0u64, true);
        let digits = self.scan(sign, |byte| {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return false;
            }
            match number.checked_mul(10).and_then(|tens| tens.checked_add(digit.into())) {
                Some(more) => number = more,
                None => fits = false,
            }
            true
        })?;
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
    /// let numbers: Vec<u32> = input
    ///     .many(|input| {
    ///         input.attempt(|input| {
    ///             let number = input.integer()?;
    ///             input.literal(";").map(|()| number)
    ///         })
    ///     })
    ///     .unwrap();
    /// assert_eq!(numbers, [1, 22, 333]);
    /// ```
    #[inline]
    pub fn many<T, C: Default + Extend<T>>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<Option<T>, Error>,
    ) -> Result<C, Error> {
        let mut elements = C::default();
        loop {
            let begin = self.mark();
            let Some(element) = element(self)? else { return Ok(elements) };
            assert!(self.mark() > begin, "an element that takes no byte would be found for ever");
            elements.extend(Some(element));
        }
    }

    /// Collects elements, at least one, with separators between them: after an element the
    /// separator says whether there is another.
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
    pub fn sep_by<T, C: Default + Extend<T>>(
        &mut self,
        mut separator: impl FnMut(&mut Self) -> Result<bool, Error>,
        mut element: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<C, Error> {
        let mut elements = C::default();
        loop {
            let begin = self.mark();
            elements.extend(Some(element(self)?));
            if !separator(self)? {
                return Ok(elements);
            }
            assert!(self.mark() > begin, "an element and a separator that take no byte would be found for ever");
        }
    }

    /// The first alternative that succeeds; each begins at the cursor.
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
