//! Golden files: a text must equal the whole file.

use crate::diff::diff;
use std::path::Path;

/// Panics with the difference if `actual` is not the content of the file. With `BLESS=1` in the environment, writes the file
/// instead, for a person to review.
///
/// # Panics
/// If the text differs, or the file cannot be read or written.
pub fn assert_golden(path: impl AsRef<Path>, actual: &str) {
    let bless = std::env::var_os("BLESS").is_some_and(|value| value == "1");
    if let Err(message) = compare(path.as_ref(), actual, bless) {
        panic!("{message}");
    }
}

fn compare(path: &Path, actual: &str, bless: bool) -> Result<(), String> {
    let shown = path.display();
    let expected = std::fs::read_to_string(path);
    if bless {
        if expected.is_ok_and(|expected| expected == actual) {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, actual));
        return written.map_err(|error| format!("{shown} cannot be written: {error}"));
    }
    let expected =
        expected.map_err(|error| format!("{shown} cannot be read: {error} (`BLESS=1` would write it)"))?;
    match diff(&expected, actual) {
        None => Ok(()),
        Some(diff) => Err(format!("{shown} expects something else (`BLESS=1` accepts what is new):\n{diff}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_golden_is_written_when_blessed_and_compared_whole_otherwise() {
        let folder = std::env::temp_dir().join(format!("quipu-golden-{}", std::process::id()));
        let path = folder.join("deep/golden.txt");
        assert!(compare(&path, "one\n", false).unwrap_err().contains("cannot be read"));
        assert_eq!(compare(&path, "one\n", true), Ok(()));
        assert_eq!(compare(&path, "one\n", false), Ok(()));
        let message = compare(&path, "two\n", false).unwrap_err();
        assert!(message.ends_with("\n-    1 one\n+    1 two\n"), "{message}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
