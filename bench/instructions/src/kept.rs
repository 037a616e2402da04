//! The counts that are kept: a file for each architecture in `bench/results/instructions`, which
//! `bench page` reads too.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::{env, fmt, fs, io};

/// By how many per cent a path may become dearer before that is a failure.
pub const LIMIT: f64 = 2.0;

#[derive(Serialize, Deserialize)]
pub struct Counts {
    /// The compiler that they are of.
    pub rustc: String,
    /// In the order of the page.
    pub paths: Vec<Count>,
}

#[derive(Serialize, Deserialize)]
pub struct Count {
    pub name: String,
    /// What takes so many instructions.
    pub once: String,
    pub instructions: f64,
}

impl Counts {
    pub fn of(rustc: String) -> Self {
        Self { rustc, paths: Vec::new() }
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        self.paths.iter().find(|path| path.name == name).map(|path| path.instructions)
    }

    fn file() -> PathBuf {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/instructions");
        directory.join(env::consts::ARCH).with_extension("json")
    }

    /// None if nothing is kept for this architecture.
    pub fn read() -> Result<Option<Self>, String> {
        let file = Self::file();
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|e| format!("{}: {e}", file.display()))?,
        };
        serde_json::from_str(&text).map(Some).map_err(|e| format!("{}: {e}", file.display()))
    }

    pub fn write(&self) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|e| e.to_string())? + "\n";
        fs::write(Self::file(), text).map_err(|e| format!("{}: {e}", Self::file().display()))
    }
}

/// What has become of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is not kept yet.
    New,
    Same,
    /// Less by over the limit: worth keeping, or it may be lost again unnoticed.
    Less,
    /// Less than half: rather is something not counted.
    Missing,
    /// More by over the limit.
    More,
}

impl Verdict {
    pub fn of(was: Option<f64>, now: f64) -> Self {
        let limit = LIMIT / 100.0;
        match was {
            None => Self::New,
            Some(was) if now > was * (1.0 + limit) => Self::More,
            Some(was) if now < was / 2.0 => Self::Missing,
            Some(was) if now < was * (1.0 - limit) => Self::Less,
            Some(_) => Self::Same,
        }
    }

    /// Whether it is an error, unless the counts are to be kept.
    pub fn is_wrong(self) -> bool {
        matches!(self, Self::New | Self::Missing | Self::More)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::New => "NEW",
            Self::Same => "",
            Self::Less => "less",
            Self::Missing => "LESS",
            Self::More => "MORE",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_per_cent_more_are_too_much_half_is_too_little_and_all_are_kept() {
        for (was, now, verdict) in [
            (Some(100.0), 102.0, Verdict::Same),
            (Some(100.0), 102.1, Verdict::More),
            (Some(100.0), 98.0, Verdict::Same),
            (Some(100.0), 97.9, Verdict::Less),
            (Some(100.0), 50.0, Verdict::Less),
            (Some(100.0), 49.9, Verdict::Missing),
            (None, 5.0, Verdict::New),
        ] {
            assert_eq!(Verdict::of(was, now), verdict, "{was:?} {now}");
            assert_eq!(verdict.is_wrong(), !matches!(verdict, Verdict::Same | Verdict::Less));
        }
    }

    #[test]
    fn every_path_is_kept_and_nothing_else() {
        let Some(kept) = Counts::read().unwrap() else {
            return assert_ne!(env::consts::ARCH, "x86_64", "there, something is kept");
        };
        let kept: Vec<_> = kept.paths.iter().map(|path| (path.name.as_str(), path.once.as_str())).collect();
        let paths: Vec<_> = crate::paths::ALL.iter().map(|path| (path.name, path.once)).collect();
        assert_eq!(kept, paths, "`instructions --keep` brings them together");
    }
}
