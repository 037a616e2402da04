//! Functions with a name, whose arguments can be serialised.
//!
//! Used by applications, by the attribute `#[job]`; by the pool, which writes arguments and reads
//! outputs, and by the workers, which do the reverse.

use crate::engine::Kind;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error;

/// A function with a name, as a value that has its arguments. Most are written by
/// [`#[job]`](macro@crate::job).
///
/// # Examples
///
/// ```
/// use segue_remote::{Job, Json};
/// use serde::{Deserialize, Serialize};
/// use std::error::Error;
///
/// #[derive(Serialize, Deserialize)]
/// struct Square(u32);
///
/// impl Job for Square {
///     const NAME: &'static str = "square";
///     const VERSION: u32 = 1;
///     type Output = u32;
///     type Format = Json;
///
///     fn run(self) -> Result<u32, Box<dyn Error + Send + Sync>> {
///         self.0.checked_mul(self.0).ok_or_else(|| "too large".into())
///     }
/// }
///
/// let fibers = segue::runtime().workers(1).pool()?;
/// let pool = segue_remote::Pool::local(&fibers);
/// assert_eq!(pool.submit(Square(12)).take()?, Ok(144));
/// # Ok::<(), Box<dyn Error>>(())
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The name: up to 64 letters, digits, `-` and `_`. The workers' word for this function.
    const NAME: &'static str;
    /// The version. A change of the arguments, the output or the meaning is a new one; workers of
    /// both may run side by side.
    const VERSION: u32;
    /// The output.
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// The bytes of arguments and output: [`Json`], or one of the program's own.
    type Format: Format;

    /// Does the work, in a fiber of a worker, under a token that is cancelled if nobody wants the
    /// result any more. May run more than once; [`current`](crate::current()) has the job's id, a
    /// key for others to know a repetition by.
    ///
    /// # Errors
    /// Any: its message is the submitter's [`RemoteError::Failed`](crate::RemoteError::Failed). To
    /// be tried again, panic.
    fn run(self) -> Result<Self::Output, Box<dyn Error + Send + Sync>>;
}

/// The kind of a job.
pub(crate) fn kind_of<J: Job>() -> Kind {
    Kind::new(J::NAME, J::VERSION)
}

/// How arguments and outputs are written as bytes.
///
/// # Examples
///
/// A format of a program that has a serialiser of its own (here it is JSON with line breaks):
///
/// ```
/// use segue_remote::{Format, job};
/// use serde::{Serialize, de::DeserializeOwned};
///
/// pub struct Pretty;
///
/// impl Format for Pretty {
///     const NAME: &'static str = "pretty";
///
///     fn write<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
///         serde_json::to_vec_pretty(value).map_err(|error| error.to_string())
///     }
///
///     fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
///         serde_json::from_slice(bytes).map_err(|error| error.to_string())
///     }
/// }
///
/// #[job(format = Pretty)]
/// fn twice(text: String) -> String {
///     text.repeat(2)
/// }
///
/// let fibers = segue::runtime().workers(1).pool()?;
/// let pool = segue_remote::Pool::local(&fibers);
/// assert_eq!(pool.submit(Twice { text: "ha".to_owned() }).take()?, Ok("haha".to_owned()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Format {
    /// The name, which travels with the arguments: a worker of another format refuses them.
    const NAME: &'static str;

    /// The bytes of a value.
    ///
    /// # Errors
    /// A sentence that says which value can't be written.
    fn write<T: Serialize>(value: &T) -> Result<Vec<u8>, String>;

    /// The value of these bytes.
    ///
    /// # Errors
    /// A sentence that says where the bytes are wrong.
    fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String>;
}

/// JSON, the format by default.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl Format for Json {
    const NAME: &'static str = "json";

    fn write<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
        serde_json::to_vec(value).map_err(|error| error.to_string())
    }

    fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }
}

/// The output and the error of a function that `#[job]` stands before: for the code that it writes.
#[doc(hidden)]
pub trait Answer {
    /// The output.
    type Output;

    /// The output, or the boxed error.
    fn answer(self) -> Result<Self::Output, Box<dyn Error + Send + Sync>>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> Answer for Result<T, E> {
    type Output = T;

    fn answer(self) -> Result<T, Box<dyn Error + Send + Sync>> {
        self.map_err(Into::into)
    }
}
