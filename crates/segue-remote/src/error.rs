//! Why a job has no output.
//!
//! Used by applications: the error in each promise of a pool.

use crate::engine::EngineError;
use std::error::Error;
use std::fmt;

/// Why a job has no output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteError {
    /// The job has run, and answered with an error of this message. Nobody tries again.
    Failed(String),
    /// The job has panicked, or its workers have died, in so many attempts; or its arguments could
    /// not be read. It is among the [dead letters](crate::Pool::dead_letters).
    GaveUp {
        /// How often the job was given to a worker.
        attempts: u64,
        /// What happened to the last attempt.
        reason: String,
    },
    /// The job was cancelled: by its submitter, or another one with the same key.
    Cancelled,
    /// The [limit](crate::SubmitOptions::limit) was over.
    TimedOut,
    /// No worker has registered this job in this version.
    NoSuchJob {
        /// The name of the job.
        name: String,
        /// The version that was asked for.
        version: u32,
    },
    /// There is neither a result nor the job: the result is older than
    /// [results are kept](crate::Options::keep_results), or there never was such a job, or the
    /// server has lost what it had acknowledged.
    TooOld,
    /// The job was not taken, or its result can't be read: too large, of another version, or
    /// against the settings. The text says which.
    Refused(String),
    /// The engine can't be reached, or has ended.
    Unavailable(String),
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(message) => write!(f, "the job failed: {message}"),
            Self::GaveUp { attempts, reason } => write!(f, "the job was given up after {attempts} attempts: {reason}"),
            Self::Cancelled => f.write_str("the job was cancelled"),
            Self::TimedOut => f.write_str("the job's time was over"),
            Self::NoSuchJob { name, version } => write!(f, "no worker knows the job {name} in version {version}"),
            Self::TooOld => f.write_str("there is no result, and no job: the result is too old, or was lost"),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Unavailable(why) => write!(f, "the pool is not available: {why}"),
        }
    }
}

impl Error for RemoteError {}

impl From<EngineError> for RemoteError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Cancelled(_) => Self::Cancelled,
            EngineError::Refused(why) => Self::Refused(why),
            other => Self::Unavailable(other.to_string()),
        }
    }
}
