//! Sources that are neither files nor memory: bytes that another file carries, and virtual folders of them.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::container::{Member, Method};
use crate::source::Source;

/// Bytes that can be read at any offset.
pub trait Content: Send + Sync {
    /// Number of bytes.
    fn len_bytes(&self) -> u64;

    /// Reads some bytes from offset `at` on; returns 0 at the end.
    ///
    /// # Errors
    /// If they cannot be read.
    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize>;

    /// Number of bytes on disk that carry them; `None` if unknown.
    fn disk_bytes(&self) -> Option<u64> {
        None
    }

    /// Offset at which bytes can be read again if the one at `at` cannot: the next that does not depend on it.
    fn next_readable(&self, at: u64) -> Option<u64> {
        let _ = at;
        None
    }

    /// Information in the carrying file about the bytes from this offset on, which a reader needs if it has lost those before
    /// it. Its meaning is up to the writer and the reader of the bytes.
    fn said_at(&self, at: u64) -> Option<Vec<u8>> {
        let _ = at;
        None
    }

    /// Metadata under this name about the bytes, for facts about reading them that the bytes do not show.
    fn said(&self, name: &str) -> Option<&str> {
        let _ = name;
        None
    }

    /// Damage of the carrying file that is known before these bytes are read: they, or the metadata about them, may be
    /// incomplete.
    fn damage(&self) -> Option<&CarrierDamage> {
        None
    }

    /// The members of an archive, if the bytes are those of its members one after the other; otherwise empty.
    fn parts(&self) -> &[ContentPart] {
        &[]
    }
}

/// Damage of a carrying file that makes carried bytes unreadable. [`Content::read_at`] returns it as the cause of an error of
/// kind `InvalidData`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarrierDamage {
    /// Name of the carrying file.
    pub file: String,
    /// Offset of the damage in that file.
    pub offset: Option<u64>,
    /// Offset in that file of the next sound data, if there is any.
    pub next: Option<u64>,
    /// The rule of the carrying file's format that is violated.
    pub rule: &'static str,
    /// What was expected and what was found.
    pub what: String,
    /// Number of lost records, if the carrying file states it.
    pub records: Option<u64>,
    /// Number of lost bytes of the carried file, if known.
    pub bytes: Option<u64>,
    /// Whether the lost bytes are not part of the records, so that no record is lost.
    pub is_beside: bool,
}

impl fmt::Display for CarrierDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for CarrierDamage {}

impl CarrierDamage {
    /// Wraps this as the cause of a failed read.
    pub fn into_io(self) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, self)
    }

    /// The damage that caused a failed read, if it was that of a carrying file.
    pub fn of(cause: &io::Error) -> Option<&CarrierDamage> {
        cause.get_ref()?.downcast_ref()
    }
}

/// A member of an archive, stored uncompressed in a [`Content`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentPart {
    /// Its name.
    pub name: String,
    /// Number of bytes.
    pub len: u64,
    /// CRC-32 of its bytes, if known.
    pub crc32: Option<u32>,
}

/// The members of a content, as members of an archive.
pub(crate) fn members(content: &dyn Content) -> Vec<Member> {
    let mut at = 0_u64;
    let member = |part: &ContentPart| {
        let packed_at = at;
        at = at.saturating_add(part.len);
        Member {
            name: part.name.clone(),
            packed_at,
            packed_len: Some(part.len),
            len: Some(part.len),
            crc32: part.crc32,
            method: Method::Stored,
            refusal: None,
        }
    };
    content.parts().iter().map(member).collect()
}

/// Entries with names relative to a folder.
type Entries = Vec<(String, Arc<dyn Content>)>;

/// Sorts entries with relative names (`trace/a`, `b`) into virtual folders; returns the direct entries, sorted by name.
pub(crate) fn folder(name: &str, entries: Entries) -> Vec<Source> {
    let mut folders: Vec<(String, Entries)> = Vec::new();
    let mut all = Vec::new();
    for (entry, content) in entries {
        match entry.split_once('/') {
            None => all.push(Source::of_content(format!("{name}/{entry}"), content)),
            Some((folder, rest)) => match folders.iter_mut().find(|(known, _)| known == folder) {
                Some((_, inside)) => inside.push((rest.to_owned(), content)),
                None => folders.push((folder.to_owned(), vec![(rest.to_owned(), content)])),
            },
        }
    }
    all.extend(
        folders.into_iter().map(|(folder, inside)| Source::of_tree(format!("{name}/{folder}"), inside)),
    );
    all.sort_by(|a, b| a.name().as_bytes().cmp(b.name().as_bytes()));
    all
}

/// A content with a `Debug` form.
#[derive(Clone)]
pub(crate) struct Held(pub(crate) Arc<dyn Content>);

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Content").field(&self.0.len_bytes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ahead, StreamOptions};

    struct Letters(Vec<ContentPart>);

    impl Content for Letters {
        fn len_bytes(&self) -> u64 {
            26
        }
        fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
            let left = 26_usize.saturating_sub(at as usize).min(out.len()).min(5);
            (0..left).for_each(|n| out[n] = b'a' + at as u8 + n as u8);
            Ok(left)
        }
        fn parts(&self) -> &[ContentPart] {
            &self.0
        }
    }

    fn read(source: &Source) -> Vec<(u32, String)> {
        let container = source.container().unwrap();
        let options = StreamOptions { ahead: Ahead::Inline, ..StreamOptions::default() };
        let mut stream = container.stream(container.all_members(), &options).unwrap();
        let (mut block, mut all) = (Vec::new(), Vec::new());
        while let Some(at) = stream.next(&mut block).unwrap() {
            all.push((at.member, String::from_utf8(block.clone()).unwrap()));
        }
        all
    }

    #[test]
    fn contents_are_files_archives_and_folders() {
        let plain = Source::of_content("letters", Arc::new(Letters(Vec::new())));
        assert_eq!(read(&plain), [(0, "abcdefghijklmnopqrstuvwxyz".to_owned())]);
        assert_eq!((plain.head(3).unwrap(), plain.size_bytes()), (b"abc".to_vec(), Some(26)));
        let part = |name: &str, len, crc32| ContentPart { name: name.to_owned(), len, crc32 };
        let parts = vec![part("x", 3, None), part("y", 23, Some(0xdead_beef))];
        let archive = Source::of_content("letters.zip", Arc::new(Letters(parts)));
        assert_eq!(archive.container().unwrap().members()[1].name, "y");
        assert_eq!(archive.head(3).unwrap(), b"abc");
        let container = archive.container().unwrap();
        let options = StreamOptions { ahead: Ahead::Inline, ..StreamOptions::default() };
        let mut stream = container.stream(0..1, &options).unwrap();
        let mut block = Vec::new();
        assert!(stream.next(&mut block).unwrap().is_some_and(|at| at.last));
        assert_eq!(block, b"abc");
        let mut stream = container.stream(1..2, &options).unwrap();
        let mut is_refused = false;
        while !is_refused {
            match stream.next(&mut block) {
                Ok(None) => break,
                Ok(Some(_)) => {}
                Err(_) => is_refused = true,
            }
        }
        assert!(is_refused, "a wrong checksum");
        let content = || Arc::new(Letters(Vec::new())) as Arc<dyn Content>;
        let tree = Source::of_tree("t", vec![("b/c".to_owned(), content()), ("a".to_owned(), content())]);
        assert!(tree.is_folder());
        let names: Vec<String> = tree.files().unwrap().iter().map(|file| file.name().to_owned()).collect();
        assert_eq!(names, ["t/a", "t/b"]);
        assert_eq!(tree.child("b/c").unwrap().size_bytes(), Some(26));
        assert!(tree.child("b/d").is_none());
    }
}
