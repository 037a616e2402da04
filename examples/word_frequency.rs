//! The words of a tree of files, counted: a fiber for each directory, and each reads its files.
//! What waits for the disk is only the fiber.
//!
//! ```sh
//! cargo run --release --example word_frequency -- DIRECTORY
//! ```

use segue::fs::{self, NamedTempFile};
use segue::sync::Mutex;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

type Counts = HashMap<String, usize>;

/// Counts what is below a directory. The first error of a file or directory ends it all.
fn count(dir: &Path, total: &Mutex<Counts>) -> io::Result<()> {
    segue::try_scope(|s| {
        let mut below = Vec::new();
        let mut counts = Counts::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                below.push(s.spawn(move || count(&entry.path(), total)));
            } else if kind.is_file() {
                let text = fs::read(entry.path())?;
                for word in text.split(|byte| !byte.is_ascii_alphabetic()).filter(|word| word.len() > 3) {
                    *counts.entry(String::from_utf8_lossy(word).to_lowercase()).or_default() += 1;
                }
            }
        }
        {
            let mut total = total.lock()?;
            for (word, count) in counts {
                *total.entry(word).or_default() += count;
            }
        }
        below.into_iter().try_for_each(|below| below.join().expect("a fiber here does not panic"))
    })?;
    Ok(())
}

/// A tree to count, if none was named.
fn planted(root: &Path) -> io::Result<()> {
    for dir in 0..20 {
        let dir = root.join(format!("dir-{dir}/below"));
        fs::create_dir_all(&dir)?;
        (0..10).try_for_each(|file| fs::write(dir.join(format!("{file}")), "often, often, and seldom"))?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let named = std::env::args_os().nth(1).map(PathBuf::from);
    segue::run(|| {
        let root = match &named {
            Some(root) => root.clone(),
            None => {
                let root = std::env::temp_dir().join(format!("segue-words-{}", std::process::id()));
                planted(&root)?;
                root
            }
        };
        let total = Mutex::new(Counts::new());
        count(&root, &total)?;
        let mut counts: Vec<_> = total.into_inner().into_iter().map(|(word, count)| (count, word)).collect();
        counts.sort_by(|a, b| b.cmp(a));

        // The result is there as a whole, or not at all.
        let report = std::env::temp_dir().join(format!("segue-words-{}.txt", std::process::id()));
        let mut new = NamedTempFile::new_in(std::env::temp_dir())?;
        for (count, word) in counts.iter().take(10) {
            println!("{count:8} {word}");
            writeln!(new.as_file_mut(), "{count} {word}")?;
        }
        new.persist(&report)?;
        if named.is_none() {
            assert_eq!(fs::read_to_string(&report)?, "400 often\n200 seldom\n");
            fs::remove_dir_all(&root)?;
        }
        fs::remove_file(&report)
    })
}
