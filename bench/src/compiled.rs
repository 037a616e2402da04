//! Rivals in languages of their own: compiles the programs in `go/`, `ocaml/` and `haskell/` once
//! per run, into temporary directories, and starts one for each variant, Go with as many Ps as the
//! variant has workers, and GHC's with as many capabilities. Used by `rounds`. Where a compiler is
//! not on the PATH, its language takes no part. Go fetches the toolchain that `go/go.mod` names;
//! where it can't, the one that is installed does.

use crate::child;
use crate::measure::Run;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A compiled program, or why there is none.
pub struct Compiled {
    program: Result<TempDir, String>,
    /// What the compiler calls itself.
    pub version: Option<String>,
}

/// All of them.
pub struct Rivals {
    /// The goroutines.
    pub go: Compiled,
    /// The effect handlers: OCaml 5.
    pub ocaml: Compiled,
    /// The transactions: GHC, with the package `stm` that it brings along.
    pub ghc: Compiled,
}

impl Rivals {
    /// Compiles what there are compilers for.
    pub fn build() -> Self {
        Self { go: Compiled::go(), ocaml: Compiled::ocaml(), ghc: Compiled::ghc() }
    }
}

fn source(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(language)
}

impl Compiled {
    fn go() -> Self {
        let go = |toolchain: &str| {
            let mut command = Command::new("go");
            command.current_dir(source("go")).env("GOTOOLCHAIN", toolchain);
            command
        };
        let has = |toolchain: &&str| go(toolchain).arg("version").output().is_ok_and(|out| out.status.success());
        let toolchain = ["auto", "local"].into_iter().find(has).unwrap_or("local");
        Self::build(go(toolchain).arg("version"), |out| {
            let mut command = go(toolchain);
            command.args(["build", "-o"]).arg(out.join("rival")).arg(".");
            Ok(command)
        })
    }

    fn ocaml() -> Self {
        let mut built = Self::build(Command::new("ocamlopt").arg("-version"), |out| {
            // The compiler writes next to the source.
            std::fs::copy(source("ocaml").join("main.ml"), out.join("main.ml")).map_err(|e| e.to_string())?;
            let mut command = Command::new("ocamlopt");
            command.args(["-O3", "-I", "+unix", "unix.cmxa", "main.ml", "-o", "rival"]).current_dir(out);
            Ok(command)
        });
        if built.version.as_deref().is_some_and(|version| version.starts_with(['3', '4'])) {
            built.program = Err("it is older than OCaml 5, which has effect handlers".into());
        }
        built
    }

    fn ghc() -> Self {
        Self::build(Command::new("ghc").arg("--numeric-version"), |out| {
            let mut command = Command::new("ghc");
            command.args(["-O2", "-threaded", "-rtsopts", "-outputdir", ".", "-o", "rival"]).current_dir(out);
            command.arg(source("haskell").join("Main.hs"));
            Ok(command)
        })
    }

    /// Compiles, if there is a compiler. `compile` says how, into the directory that it gets.
    fn build(version: &mut Command, compile: impl FnOnce(&Path) -> Result<Command, String>) -> Self {
        let compiler = version.get_program().display().to_string();
        let version = match version.output() {
            Ok(out) if out.status.success() => String::from_utf8_lossy(&out.stdout).trim().to_owned(),
            Ok(_) => return Self::missing(format!("`{compiler}` does not tell its version")),
            Err(_) => return Self::missing(format!("no `{compiler}` on the PATH")),
        };
        let program = tempfile::tempdir().map_err(|e| format!("no temporary directory: {e}")).and_then(|dir| {
            let built = compile(dir.path())?.output().map_err(|e| format!("`{compiler}` does not start: {e}"))?;
            if built.status.success() {
                Ok(dir)
            } else {
                let said = String::from_utf8_lossy(&built.stderr);
                Err(format!("`{compiler}` fails: {}", said.lines().next().unwrap_or("")))
            }
        });
        Self { program, version: Some(version) }
    }

    fn missing(why: String) -> Self {
        Self { program: Err(why), version: None }
    }

    /// What the compiler is, with its version, if its program takes part.
    pub fn named(&self, language: &str) -> Option<String> {
        let version = self.program.as_ref().ok().and(self.version.as_deref())?;
        let version = version.strip_prefix(&format!("{language} version ")).unwrap_or(version);
        Some(if version.starts_with(language) { version.to_owned() } else { format!("{language} {version}") })
    }

    /// Where the program is.
    pub fn file(&self) -> Result<PathBuf, String> {
        self.program.as_ref().map(|dir| dir.path().join("rival")).map_err(String::clone)
    }

    /// Starts the program for one variant.
    pub fn contestant(&self, workload: &str, args: &[String], workers: usize) -> Result<Run, String> {
        let mut command = Command::new(self.file()?);
        command.arg(workload).args(args).env("GOMAXPROCS", workers.to_string()).env("GHCRTS", format!("-N{workers}"));
        child::start(command)
    }
}
