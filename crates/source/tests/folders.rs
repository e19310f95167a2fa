//! Folders: their entries, and thousands of files read at once with few descriptors.
//!
//! Only one test counts the descriptors of the whole process, so it has this test program almost to itself.

use std::path::Path;

use crate::packing::{inline, pack, pack_zip, trace_like};
use quipu_source::{Codec, ErrorKind, MAX_IDLE_DESCRIPTORS, Source};

fn names(sources: &[Source], folder: &Path) -> Vec<String> {
    let names = sources.iter().map(|source| source.path().unwrap().strip_prefix(folder).unwrap());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

#[test]
fn a_folder_lists_its_entries_sorted_by_the_bytes_of_their_paths() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["b", "a.zip", "B", "a", "\u{e9}", "10", "9"] {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    std::fs::create_dir(folder.path().join("aux")).unwrap();
    std::fs::write(folder.path().join("aux/inner"), "inner").unwrap();
    let source = Source::open(folder.path()).unwrap();
    assert!(source.is_folder() && !source.can_seek());
    assert_eq!(source.size_bytes(), None);
    let files = source.files().unwrap();
    assert_eq!(names(&files, folder.path()), ["10", "9", "B", "a", "a.zip", "aux", "b", "\u{e9}"]);
    assert_eq!(files.iter().filter(|file| file.is_folder()).count(), 1);
    assert_eq!(source.child("aux").unwrap().files().unwrap().len(), 1);
    assert_eq!(source.child("aux/inner").unwrap().head(10).unwrap(), b"inner");
    assert!(source.child("nothing").is_none());
    assert_eq!(source.child("b").unwrap().files().unwrap().len(), 1, "a file has itself as its only entry");
}

#[test]
fn a_folder_has_no_bytes_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::open(folder.path()).unwrap();
    for error in
        [source.head(1).unwrap_err(), source.packed_head(1).unwrap_err(), source.container().unwrap_err()]
    {
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert_eq!(error.file(), source.name());
    }
}

#[cfg(unix)]
#[test]
fn links_count_as_what_they_lead_to_and_pipes_are_left_out() {
    use std::os::unix::{fs::symlink, net::UnixListener};
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    std::fs::create_dir(folder.path().join("dir")).unwrap();
    symlink("file", folder.path().join("to-file")).unwrap();
    symlink("dir", folder.path().join("to-dir")).unwrap();
    symlink("nowhere", folder.path().join("to-nowhere")).unwrap();
    let _socket = UnixListener::bind(folder.path().join("socket")).unwrap();
    let files = Source::open(folder.path()).unwrap().files().unwrap();
    assert_eq!(names(&files, folder.path()), ["dir", "file", "to-dir", "to-file", "to-nowhere"]);
    let kinds: Vec<bool> = files.iter().map(Source::is_folder).collect();
    assert_eq!(kinds, [true, false, true, false, false]);
    assert_eq!(files[4].container().unwrap_err().kind(), ErrorKind::Missing);
}

#[cfg(target_os = "linux")]
#[test]
fn thousands_of_files_being_read_at_once_need_few_descriptors() {
    const N_FILES: usize = 3000;
    let n_descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let folder = tempfile::tempdir().unwrap();
    let bytes = trace_like(400);
    let packed = [
        bytes.clone(),
        pack(Codec::Gzip, &bytes),
        pack_zip(&[&bytes[..2400], &bytes[2400..]]),
        pack(Codec::Zstd, &bytes),
    ];
    for at in 0..N_FILES {
        std::fs::write(folder.path().join(format!("{at:04}")), &packed[at % packed.len()]).unwrap();
    }
    let before = n_descriptors();
    let files = Source::open(folder.path()).unwrap().files().unwrap();
    assert_eq!(files.len(), N_FILES);
    let containers: Vec<_> = files.iter().map(|file| file.container().unwrap()).collect();
    let mut streams: Vec<_> = containers
        .iter()
        .map(|container| container.stream(container.all_members(), &inline(600)).unwrap())
        .collect();

    // In each round, each stream delivers one block: all of them are in the middle of their files.
    let mut got = vec![Vec::new(); N_FILES];
    let mut block = Vec::new();
    let mut most = 0;
    loop {
        let mut n_live = 0;
        for (stream, got) in streams.iter_mut().zip(&mut got) {
            if stream.next(&mut block).unwrap().is_some() {
                got.extend_from_slice(&block);
                n_live += 1;
            }
        }
        most = most.max(n_descriptors());
        if n_live == 0 {
            break;
        }
    }
    // The other tests of this program may hold a few.
    assert!(most <= before + MAX_IDLE_DESCRIPTORS + 20, "{most} descriptors, {before} before");
    assert!(got.iter().all(|got| *got == bytes));
    drop(streams);
    assert!(n_descriptors() <= before + 20, "finished streams give their descriptors back");
}
