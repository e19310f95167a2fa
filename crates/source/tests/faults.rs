//! Failures of the system while a file is read: a failing disk, a file that is truncated by another process.

use quipu_source::{Error, ErrorKind, Source, StreamOptions};
use std::fs::File;
use std::io::{self, Read, Write};
use std::time::{Duration, SystemTime};

const FILE_BYTES: usize = 6 << 20;

/// Reads a source to its end and calls `after_first` after the first block. Returns the number of bytes and the error.
fn read_all(source: &Source, after_first: impl FnOnce()) -> (u64, Option<Error>) {
    let container = source.container().unwrap();
    let mut stream = container.stream(container.all_members(), &StreamOptions::default()).unwrap();
    let (mut n_bytes, mut block, mut after_first) = (0, Vec::new(), Some(after_first));
    loop {
        match stream.next(&mut block) {
            Ok(Some(_)) => n_bytes += block.len() as u64,
            Ok(None) => return (n_bytes, None),
            Err(error) => return (n_bytes, Some(error)),
        }
        if let Some(work) = after_first.take() {
            work();
        }
    }
}

#[test]
fn a_file_that_is_cut_while_it_is_read_gives_an_error_and_no_shorter_trace() {
    // Files that have not been written to for a while are mapped; others are read.
    for age in [0, 3600] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plain");
        let mut file = File::create(&path).unwrap();
        file.write_all(&vec![b'x'; FILE_BYTES]).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        let source = Source::open(&path).unwrap();
        // The place is on a border of blocks of any size.
        let (n_bytes, error) = read_all(&source, || file.set_len(2 << 20).unwrap());
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let text = format!("{error}: {}", std::error::Error::source(&error).unwrap());
        assert!(text.contains("plain") && text.contains("the file was cut while it was read"), "{text}");
        assert!(n_bytes <= 4 << 20, "{n_bytes}");
    }
}

/// Delivers this many bytes, then the error of a failing disk.
struct Failing(usize);

impl Read for Failing {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::from_raw_os_error(5));
        }
        let n_bytes = out.len().min(self.0);
        out[..n_bytes].fill(b'x');
        self.0 -= n_bytes;
        Ok(n_bytes)
    }
}

#[test]
fn a_disk_that_fails_in_the_middle_is_an_error_after_all_before_it() {
    let (n_bytes, error) = read_all(&Source::from_reader("disk", Failing(3 << 20)), || ());
    let error = error.unwrap();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Io, "disk"));
    assert!(n_bytes > (2 << 20) && n_bytes <= 3 << 20, "{n_bytes}");
}
