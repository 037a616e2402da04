//! Go as a rival: compiles the program in `go/` once per run, into a temporary directory, and starts it once per
//! variant with as many Ps as the variant has workers. Where no `go` is on the PATH, Go takes no part.

use crate::child;
use crate::measure::Run;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The compiled Go program, or why there is none.
pub struct Go {
    program: Result<TempDir, String>,
    /// What `go version` said.
    pub version: Option<String>,
}

impl Go {
    /// Compiles, if there is a compiler.
    pub fn build() -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("go");
        let version = match Command::new("go").arg("version").current_dir(&source).output() {
            Ok(out) if out.status.success() => String::from_utf8_lossy(&out.stdout).trim().to_owned(),
            Ok(_) => return Self::missing("`go version` fails"),
            Err(_) => return Self::missing("no `go` on the PATH"),
        };
        let program = tempfile::tempdir().map_err(|e| format!("no temporary directory: {e}")).and_then(|dir| {
            let built = Command::new("go")
                .args(["build", "-o"])
                .arg(dir.path().join("rival"))
                .arg(".")
                .current_dir(&source)
                .output()
                .map_err(|e| format!("`go build` does not start: {e}"))?;
            if built.status.success() {
                Ok(dir)
            } else {
                let said = String::from_utf8_lossy(&built.stderr);
                Err(format!("`go build` fails: {}", said.lines().next().unwrap_or("")))
            }
        });
        Self { program, version: Some(version) }
    }

    fn missing(why: &str) -> Self {
        Self { program: Err(why.to_owned()), version: None }
    }

    /// Starts the Go program for one variant.
    pub fn contestant(&self, workload: &str, args: &[String], workers: usize) -> Result<Run, String> {
        let dir = self.program.as_ref().map_err(String::clone)?;
        let mut command = Command::new(dir.path().join("rival"));
        command.arg(workload).args(args).env("GOMAXPROCS", workers.to_string());
        child::start(command)
    }
}
