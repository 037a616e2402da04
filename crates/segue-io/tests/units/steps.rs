//! The way below a directory without the kernel's watch over it.

use super::*;
use std::os::unix::fs::symlink;

#[test]
fn one_step_after_the_other_leads_below_and_nowhere_else() {
    let dir = std::env::temp_dir().join(format!("segue-steps-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("root/a/b")).unwrap();
    std::fs::write(dir.join("root/a/b/file"), "x").unwrap();
    std::fs::write(dir.join("secret"), "x").unwrap();
    symlink("b", dir.join("root/a/link")).unwrap();
    symlink("../../secret", dir.join("root/a/out")).unwrap();
    let root = std::fs::File::open(dir.join("root")).unwrap();
    let open = |path: &str| step_by_step(root.as_fd(), path.as_bytes()).map(drop);

    for path in ["a", "a/", "a/b/file", "./a//b/./file", ".", "a/b/."] {
        assert_eq!(open(path), Ok(()), "{path}");
    }
    for path in ["..", "a/../a/b/file", "../secret", "/etc/passwd", "/", "a/b/.."] {
        assert_eq!(open(path), Err(Errno::XDEV), "{path}");
    }
    for path in ["a/link", "a/link/file", "a/out", "a/link/"] {
        let error = open(path).unwrap_err();
        assert!(matches!(error, Errno::LOOP | Errno::NOTDIR | Errno::MLINK), "{path}: {error}");
    }
    assert_eq!(open(""), Err(Errno::NOENT));
    assert_eq!(open("a/none"), Err(Errno::NOENT));
    assert_eq!(open("a/b/file/"), Err(Errno::NOTDIR));
    assert_eq!(open("a/b/file/x"), Err(Errno::NOTDIR));
    std::fs::remove_dir_all(&dir).unwrap();
}
