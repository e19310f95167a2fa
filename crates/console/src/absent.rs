//! Advice where there is no file of a given name: it is an address on the web, or differs little from the name of a file.

use quipu::model::Error;
use quipu::model::options::nearest;
use std::error::Error as _;
use std::io;
use std::path::Path;

/// Entries of a folder that are compared with a name; reading more would take longer than the advice is worth.
const MAX_ENTRIES: usize = 10_000;

/// What to do about an error whose cause is that its file does not exist; `None` for other errors, and if there is no advice.
pub(crate) fn advice(error: &Error) -> Option<String> {
    let mut cause = error.source()?;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let is_absent =
        cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::NotFound);
    let name = error.place().file.as_deref().filter(|_| is_absent)?;
    if name.contains("://") {
        return Some(format!(
            "this is an address, not a file: download it, or pipe it in: curl -L {name} | quipu report -"
        ));
    }
    similar(Path::new(name)).map(|near| format!("did you mean `{near}`?"))
}

/// The path of the file in the same folder whose name is nearest to that of `path`.
fn similar(path: &Path) -> Option<String> {
    let wanted = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).ok()?.take(MAX_ENTRIES).flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    // Of equally near names the first counts, whatever the order in the folder.
    names.sort_unstable();
    let near = nearest(wanted, names.iter().map(String::as_str))?;
    Some(path.with_file_name(near).display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice_for(name: &str, kind: io::ErrorKind) -> Option<String> {
        advice(&Error::missing("cannot open").in_file(name).because(io::Error::from(kind)))
    }

    #[test]
    fn the_nearest_name_in_the_folder_is_proposed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["list.trace", "matrix.trace"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let path = |name: &str| folder.path().join(name).display().to_string();
        let near = format!("did you mean `{}`?", path("list.trace"));
        assert_eq!(advice_for(&path("lits.trace"), io::ErrorKind::NotFound), Some(near));
        assert_eq!(advice_for(&path("other.zip"), io::ErrorKind::NotFound), None);
        assert_eq!(advice_for(&path("none/at/all"), io::ErrorKind::NotFound), None);
        // The file exists, and cannot be read for another reason.
        assert_eq!(advice_for(&path("lits.trace"), io::ErrorKind::PermissionDenied), None);
    }

    #[test]
    fn an_address_has_to_be_downloaded() {
        let found = advice_for("https://example.org/a.trace", io::ErrorKind::NotFound).unwrap();
        assert!(found.contains("curl -L https://example.org/a.trace | quipu report -"), "{found}");
    }
}
