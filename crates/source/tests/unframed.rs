//! Packings without framing or magic bytes: snappy blocks preceded by their lengths, and Brotli.

use crate::packing;
use crate::packing::{ahead, inline, memory, pack, pipe, read, trace_like};
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

/// A file of several chunks, each of 1 MiB; also returns its plain bytes, and the offsets of the chunks.
fn chunked(n_chunks: u32) -> (Vec<u8>, Vec<u8>, Vec<usize>) {
    let bytes: Vec<u8> = (0..n_chunks << 18)
        .flat_map(|i| [(i / 7) as u8, (i.wrapping_mul(i) % 11) as u8, b'a', b'a'])
        .collect();
    let (mut file, mut starts) = (b"at".to_vec(), Vec::new());
    for part in bytes.chunks(1 << 20) {
        let block = snap::raw::Encoder::new().compress_vec(part).unwrap();
        starts.push(file.len());
        file.extend((block.len() as u32).to_le_bytes());
        file.extend(block);
    }
    (file, bytes, starts)
}

#[test]
fn what_lies_before_a_fault_within_a_chunk_is_delivered() {
    let (file, bytes, starts) = chunked(3);
    for chunk in 0..3 {
        // Elements that copy from before the beginning, about two thirds into the chunk.
        let mut damaged = file.clone();
        let at = starts[chunk] + starts[1] * 2 / 3;
        damaged[at..at + 64].fill(0xff);
        let read = read(&memory(&damaged).container().unwrap(), &inline(70_000));
        let kept = read.bytes();
        let error = &read.errors[0];
        assert_eq!((read.errors.len(), error.kind()), (1, ErrorKind::Malformed));
        // The fault is after the delivered bytes, and names its chunk.
        assert_eq!(error.offset(), Some(kept.len() as u64));
        assert_eq!(error.packed_offset(), Some(starts[chunk] as u64));
        let n_good = kept.iter().zip(&bytes).take_while(|(one, other)| one == other).count();
        assert!(n_good > (chunk << 20) + (400 << 10), "chunk {chunk}: {n_good}");
        assert!(kept.len() <= (chunk + 1) << 20, "chunk {chunk}: {}", kept.len());
    }
}

#[test]
fn a_chunk_with_a_bad_length_is_delivered_and_nothing_behind_it() {
    let (file, bytes, starts) = chunked(2);
    for len in [0x7fff_ffff_u32, 0x00ff_ffff, 0x7f00_0000] {
        let mut damaged = file.clone();
        damaged[starts[0]..starts[0] + 4].copy_from_slice(&len.to_le_bytes());
        let container = memory(&damaged).container_as(Codec::SnappyChunks).unwrap();
        let read = read(&container, &inline(70_000));
        assert!(read.bytes() == bytes[..1 << 20], "{len:#x}: {}", read.bytes().len());
        assert_eq!(read.errors.len(), 1, "{len:#x}");
        assert_eq!(read.errors[0].packed_offset(), Some(2), "{len:#x}");
    }
}

#[test]
fn what_lies_before_a_fault_within_brotli_is_delivered() {
    let bytes: Vec<u8> = trace_like(20_000);
    let packed = pack(Codec::Brotli, &bytes);
    let kept = |packed: &[u8], block_bytes| {
        let read = read(&memory(packed).container_as(Codec::Brotli).unwrap(), &inline(block_bytes));
        (read.bytes(), read.errors.first().map(quipu_source::Error::kind))
    };
    let mut n_noticed = 0;
    for i in 1..40 {
        let at = packed.len() * i / 40;
        let mut damaged = packed.clone();
        damaged[at] ^= 0x10;
        let (whole_before, _) = kept(&packed[..at], 70_000);
        let (found, error) = kept(&damaged, 70_000);
        let n_good = found.iter().zip(&bytes).take_while(|(one, other)| one == other).count();
        assert!(n_good >= whole_before.len(), "{at}: {n_good} of {}", whole_before.len());
        assert_eq!((found, error), kept(&damaged, 333), "{at}");
        n_noticed += usize::from(error == Some(ErrorKind::Malformed));
    }
    assert!(n_noticed > 10, "{n_noticed}");
}

#[test]
fn a_chunk_whose_length_is_too_small_is_delivered() {
    let (file, bytes, starts) = chunked(3);
    for chunk in 0..3 {
        let start = starts[chunk];
        let stated = u32::from_le_bytes(file[start..start + 4].try_into().unwrap());
        for len in [0, 1, 100, stated / 2, stated - 1] {
            let mut damaged = file.clone();
            damaged[start..start + 4].copy_from_slice(&len.to_le_bytes());
            let read = read(&memory(&damaged).container_as(Codec::SnappyChunks).unwrap(), &inline(70_000));
            assert!(read.bytes() == bytes[..(chunk + 1) << 20], "{chunk}, {len}: {}", read.bytes().len());
            let error = &read.errors[0];
            assert_eq!((read.errors.len(), error.kind()), (1, ErrorKind::Malformed), "{chunk}, {len}");
            assert_eq!(error.packed_offset(), Some(start as u64), "{chunk}, {len}");
            let what = format!(
                "the length of chunk `{chunk}` is wrong: it says `{len}` bytes, and takes `{stated}`"
            );
            assert!(error.to_string().contains(&what), "{error}");
        }
    }
    // The end of the data, followed by bytes that are not a block.
    for behind in [&[0; 4][..], &[0; 400], &[0, 0, 0, 0, 0xff, 0xff, 3, 1, 2, 3], &[0, 0, 0, 0, b'q']] {
        let ended = [&file, behind].concat();
        let read = read(&memory(&ended).container().unwrap(), &inline(70_000));
        assert!(read.bytes() == bytes && read.errors.is_empty(), "{:?}", read.errors);
    }
}

#[test]
fn a_fault_is_told_with_the_same_place_wherever_reading_began() {
    let (mut file, bytes, starts) = chunked(4);
    file[starts[2] + 5000..starts[2] + 5064].fill(0xff);
    let container = memory(&file).container().unwrap();
    let read = read(&container, &inline(70_000));
    let mut stream = container.stream_at(starts[1] as u64, &inline(70_000)).unwrap();
    let mut block = Vec::new();
    let error = loop {
        if let Err(error) = stream.next(&mut block) {
            break error;
        }
    };
    assert_eq!(error.to_string(), read.errors[0].to_string());
    assert_eq!(error.offset(), Some(read.bytes().len() as u64));
    assert!(error.to_string().contains("chunk `2`") && read.bytes().len() < bytes.len(), "{error}");
}
