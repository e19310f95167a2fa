//! Packings that say little of themselves: snappy blocks behind their lengths, and Brotli.

#![allow(clippy::unwrap_used)] // Also in functions that only tests call.

mod packing;

use packing::{ahead, inline, memory, pack, pipe, read, trace_like};
use quipu_source::{Codec, ErrorKind};

#[test]
fn chunks_are_recognised_and_give_back_their_bytes() {
    let bytes = trace_like(40_000);
    let packed = pack(Codec::SnappyChunks, &bytes);
    for (source, options) in [(memory(&packed), inline(777)), (pipe(&packed), ahead(65536, 2, 1))] {
        let container = source.container().unwrap();
        assert_eq!(container.codec(), Codec::SnappyChunks);
        let read = read(&container, &options);
        assert!(read.errors.is_empty(), "{:?}", read.errors);
        assert!(read.bytes() == bytes);
    }
}

#[test]
fn brotli_is_read_where_it_is_asked_for() {
    let bytes = trace_like(40_000);
    let packed = pack(Codec::Brotli, &bytes);
    for (source, options) in [(memory(&packed), inline(777)), (pipe(&packed), ahead(65536, 2, 1))] {
        assert_eq!(source.head_as(Codec::Brotli, 100).unwrap(), bytes[..100]);
        let read = read(&source.container_as(Codec::Brotli).unwrap(), &options);
        assert!(read.errors.is_empty(), "{:?}", read.errors);
        assert!(read.bytes() == bytes);
    }
}

#[test]
fn what_lies_before_a_cut_is_delivered_even_within_a_chunk() {
    let bytes = trace_like(400);
    for codec in [Codec::SnappyChunks, Codec::Brotli] {
        let packed = pack(codec, &bytes);
        let mut longest = 0;
        for len in 0..packed.len() {
            let read = read(&memory(&packed[..len]).container_as(codec).unwrap(), &inline(100));
            let kept = read.bytes();
            assert!(bytes.starts_with(&kept), "{codec:?} cut at {len}");
            assert!(kept.len() >= longest, "{codec:?} cut at {len}");
            longest = kept.len();
            assert!(read.errors.iter().all(|error| error.kind() == ErrorKind::Truncated), "{codec:?} {len}");
        }
        assert!(longest > bytes.len() - 1000, "{codec:?}: {longest}");
    }
}

#[test]
fn a_chunk_that_promises_more_than_its_bytes_can_make_is_refused() {
    let packed = [b"at".as_slice(), &7u32.to_le_bytes(), &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0]].concat();
    let read = read(&memory(&packed).container().unwrap(), &inline(100));
    assert_eq!(read.errors[0].kind(), ErrorKind::Malformed);
    let packed = [b"at".as_slice(), &0x03ff_ffff_u32.to_le_bytes(), &[1, 0, 0]].concat();
    let read = packing::read(&memory(&packed).container().unwrap(), &inline(100));
    assert_eq!(read.errors[0].kind(), ErrorKind::Truncated);
}

#[test]
fn the_tail_of_a_file_is_its_last_bytes() {
    assert_eq!(memory(b"abcdef").packed_tail(4).unwrap(), b"cdef");
    assert_eq!(memory(b"ab").packed_tail(4).unwrap(), b"ab");
    assert_eq!(pipe(b"abcdef").packed_tail(4).unwrap(), b"");
}
