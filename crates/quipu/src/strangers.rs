//! Files that are often opened in the place of a trace: which kind they are, and what to do with them.

/// Number of first bytes that are examined. A tar archive names itself after 257 bytes.
pub(crate) const HEAD_BYTES: usize = 512;

/// A kind of files that begin alike.
struct Kind {
    /// Offset of the bytes that tell.
    at: usize,
    magic: &'static [u8],
    /// A sentence with `PATH` for the path of the file.
    advice: &'static str,
}

const ELF: &[u8] = b"\x7fELF";
/// Offset of the type of an ELF file, and the type of core dumps; the other byte of it is 0 in either byte order.
const ELF_TYPE: std::ops::Range<usize> = 16..18;
const CORE: u8 = 4;

const WEB_PAGE: &str =
    "this is a web page, perhaps of an error, in the place of a file that was to be downloaded";
const KINDS: &[Kind] = &[
    Kind {
        at: 0,
        magic: ELF,
        advice: "this is a program or library: `quipu record -- PATH` makes a trace of a program",
    },
    Kind {
        at: 257,
        magic: b"ustar",
        advice: "this is a tar archive: unpack it with `tar xf PATH`, and open a trace that was in it",
    },
    Kind {
        at: 0,
        magic: b"PERFILE2",
        advice: "this has the samples of perf, and a trace has everything: `quipu record` makes one",
    },
    Kind {
        at: 0,
        magic: b"version https://git-lfs",
        advice: "this only points to a file that Git LFS stores: `git lfs pull` brings the file itself",
    },
    Kind { at: 0, magic: b"<!DOCTYPE html", advice: WEB_PAGE },
    Kind { at: 0, magic: b"<!doctype html", advice: WEB_PAGE },
    Kind { at: 0, magic: b"<html", advice: WEB_PAGE },
];

/// What a file that begins with `head` is, and what to do with it; `None` if its kind is unknown.
pub(crate) fn advice(head: &[u8], path: &str) -> Option<String> {
    if head.is_empty() {
        return Some("nothing was written to it: did the tracer fail, or is it still running?".to_owned());
    }
    if head.starts_with(ELF) && head.get(ELF_TYPE).is_some_and(|kind| kind.contains(&CORE)) {
        return Some(
            "this is a core dump, one moment of a program: `quipu record` makes a trace of it all".to_owned(),
        );
    }
    let kind =
        KINDS.iter().find(|kind| head.get(kind.at..).is_some_and(|rest| rest.starts_with(kind.magic)))?;
    Some(kind.advice.replace("PATH", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_kinds_of_files_have_their_advice() {
        let mut tar = vec![0; HEAD_BYTES];
        tar[257..262].copy_from_slice(b"ustar");
        let elf = |kind: u8| [ELF, &[2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, kind, 0, 62, 0]].concat();
        for (head, expected) in [
            (&elf(3)[..], Some("`quipu record -- a.bin`")),
            (&elf(CORE)[..], Some("core dump")),
            (&tar[..], Some("`tar xf a.bin`")),
            (&b"version https://git-lfs.github.com/spec/v1\n"[..], Some("git lfs pull")),
            (&b"<html><body>404"[..], Some("web page")),
            (&b""[..], Some("nothing was written")),
            (&b"anything else"[..], None),
        ] {
            let found = advice(head, "a.bin");
            assert_eq!(found.is_some(), expected.is_some(), "{head:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{head:?}");
        }
    }
}
