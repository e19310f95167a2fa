//! The same bytes come out for all codecs, kinds of sources and block sizes.

use crate::packing::{CODECS, ahead, inline, memory, pack, pack_lz4, pipe, read, trace_like};
use proptest::prelude::*;
use quipu_source::{Codec, ErrorKind, Method, Source};

#[test]
fn every_codec_is_recognised_and_gives_back_its_bytes() {
    let bytes = trace_like(40_000);
    for codec in CODECS {
        let container = memory(&pack(codec, &bytes)).container().unwrap();
        assert_eq!(container.codec(), codec);
        assert!(container.damage().is_empty(), "{codec:?}");
        let read = read(&container, &inline(65536));
        assert!(read.errors.is_empty(), "{codec:?} {:?}", read.errors);
        assert_eq!(read.sound.len(), container.members().len(), "{codec:?}");
        assert!(read.bytes() == bytes, "{codec:?}");
    }
}

#[test]
fn a_file_on_disk_gives_the_same_bytes_as_memory() {
    let bytes = trace_like(300_000);
    let folder = tempfile::tempdir().unwrap();
    for codec in CODECS {
        // The name says nothing, or something wrong.
        let path = folder.path().join(format!("{}.gz", codec.name()));
        std::fs::write(&path, pack(codec, &bytes)).unwrap();
        let container = Source::open(&path).unwrap().container().unwrap();
        assert_eq!(container.codec(), codec);
        let read = read(&container, &inline(100_000));
        assert!(read.errors.is_empty() && read.bytes() == bytes, "{codec:?}");
    }
}

#[test]
fn a_settled_plain_file_is_mapped_and_gives_the_same_bytes() {
    let bytes = trace_like(1_000_000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plain");
    std::fs::write(&path, &bytes).unwrap();
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(hour_ago).unwrap();
    let container = Source::open(&path).unwrap().container().unwrap();
    for block_bytes in [1 << 16, 196_608, 10_000_001, 20_000_000] {
        let read = read(&container, &inline(block_bytes));
        assert!(read.errors.is_empty() && read.bytes() == bytes, "{block_bytes}");
    }
}

#[test]
fn a_pipe_gives_the_same_bytes_and_its_head_consumes_nothing() {
    let bytes = trace_like(40_000);
    for codec in CODECS {
        let source = pipe(&pack(codec, &bytes));
        assert!(!source.can_seek());
        assert_eq!(source.head(1000).unwrap(), bytes[..1000], "{codec:?}");
        assert_eq!(source.packed_head(4).unwrap(), pack(codec, &bytes)[..4]);
        let container = source.container().unwrap();
        assert_eq!(container.codec(), codec);
        assert_eq!(container.is_indexed(), codec != Codec::Zip);
        assert_eq!(container.size_bytes(), None);
        let read = read(&container, &ahead(10_000, 4, 3));
        assert!(read.errors.is_empty() && read.bytes() == bytes, "{codec:?} {:?}", read.errors);
        assert_eq!(source.head(12).unwrap(), bytes[..12], "the head stays known");
    }
}

#[test]
fn a_pipe_can_be_streamed_once() {
    let container = pipe(b"once").container().unwrap();
    let _first = container.stream(0..1, &inline(10)).unwrap();
    let error = container.stream(0..1, &inline(10)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert_eq!(error.to_string(), "pipe: a pipe can be read only once");
}

#[test]
fn heads_are_inflated_and_no_longer_than_asked() {
    let bytes = trace_like(5000);
    for codec in CODECS {
        let source = memory(&pack(codec, &bytes));
        let first_member = if codec == Codec::Zip { bytes.len() / 3 } else { bytes.len() };
        for n_bytes in [0, 1, 12, 4096, 1_000_000] {
            let head = source.head(n_bytes).unwrap();
            assert!(head == bytes[..n_bytes.min(first_member)], "{codec:?} {n_bytes}");
        }
    }
}

#[test]
fn an_empty_file_is_plain_and_gives_one_empty_block() {
    for source in [memory(b""), pipe(b"")] {
        let container = source.container().unwrap();
        assert_eq!((container.codec(), container.members().len()), (Codec::Plain, 1));
        let read = read(&container, &inline(100));
        assert_eq!((read.blocks.as_slice(), read.sound.as_slice()), ([0].as_slice(), [0].as_slice()));
        assert_eq!(source.head(10).unwrap(), b"");
    }
}

#[test]
fn nothing_packed_is_nothing() {
    for codec in CODECS {
        let container = memory(&pack(codec, b"")).container().unwrap();
        let read = read(&container, &inline(100));
        // The snappy writer writes no identifier without data, so its file is empty and counts as plain.
        assert!(read.errors.is_empty() && read.bytes().is_empty(), "{codec:?} {:?}", read.errors);
    }
}

#[test]
fn blocks_are_full_but_for_the_last_of_each_member() {
    let bytes = trace_like(1000);
    for codec in CODECS {
        for (source, block_bytes) in
            [(memory(&pack(codec, &bytes)), 100), (pipe(&pack(codec, &bytes)), 12_000)]
        {
            let read = read(&source.container().unwrap(), &inline(block_bytes));
            let expected: Vec<usize> =
                read.members.iter().flat_map(|member| member.chunks(block_bytes)).map(<[u8]>::len).collect();
            assert_eq!(read.blocks, expected, "{codec:?}");
        }
    }
}

#[test]
fn members_of_files_that_are_no_archives_describe_the_whole_file() {
    let bytes = trace_like(100);
    for (codec, method, len) in [
        (Codec::Plain, Method::Stored, Some(1200)),
        (Codec::Gzip, Method::Deflate, None),
        (Codec::Zlib, Method::Deflate, None),
        (Codec::Lz4, Method::Lz4, None),
        (Codec::Snappy, Method::Snappy, None),
        (Codec::Zstd, Method::Zstd, None),
    ] {
        let packed = pack(codec, &bytes);
        let container = memory(&packed).container().unwrap();
        let [member] = container.members() else { panic!("one member") };
        assert_eq!((member.method, member.len, member.packed_at), (method, len, 0));
        assert_eq!(member.packed_len, Some(packed.len() as u64));
        assert_eq!(container.size_bytes(), Some(packed.len() as u64));
    }
}

#[test]
fn gzip_members_one_after_another_are_one_stream() {
    let bytes = trace_like(3000);
    let mut packed = Vec::new();
    for part in bytes.chunks(5000) {
        packed.extend(pack(Codec::Gzip, part));
    }
    packed.extend(pack(Codec::Gzip, b""));
    for padding in [0, 1, 2, 1000] {
        packed.resize(packed.len() + padding, 0);
        let read = read(&memory(&packed).container().unwrap(), &inline(777));
        assert!(read.errors.is_empty() && read.bytes() == bytes, "{:?}", read.errors);
    }
}

#[test]
fn gzip_headers_may_have_all_their_fields() {
    let mut gzip = flate2::GzBuilder::new()
        .filename("a name")
        .comment("a comment")
        .extra(vec![7; 300])
        .write(Vec::new(), flate2::Compression::new(1));
    std::io::Write::write_all(&mut gzip, b"data").unwrap();
    let read = read(&memory(&gzip.finish().unwrap()).container().unwrap(), &inline(100));
    assert_eq!((read.bytes().as_slice(), read.errors.len()), (b"data".as_slice(), 0));
}

#[test]
fn lz4_frames_of_either_mode_one_after_another_and_skippable_ones_are_one_stream() {
    use lz4_flex::frame::BlockMode;
    let bytes = trace_like(60_000);
    let (a, b) = bytes.split_at(400_000);
    let skippable = b"\x52\x2a\x4d\x18\x03\0\0\0xyz";
    let packed =
        [skippable, &pack_lz4(a, BlockMode::Linked)[..], skippable, &pack_lz4(b, BlockMode::Independent)]
            .concat();
    let container = memory(&packed).container().unwrap();
    assert_eq!(container.codec(), Codec::Lz4);
    let read = read(&container, &inline(10_000));
    assert!(read.errors.is_empty() && read.bytes() == bytes, "{:?}", read.errors);
}

#[test]
fn lz4_blocks_shorter_than_the_window_keep_their_links() {
    // Flushing after a few bytes makes short blocks, which refer to several blocks before them.
    let bytes = trace_like(20_000);
    let info = lz4_flex::frame::FrameInfo::new()
        .block_mode(lz4_flex::frame::BlockMode::Linked)
        .block_size(lz4_flex::frame::BlockSize::Max64KB);
    let mut out = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    for part in bytes.chunks(9001) {
        std::io::Write::write_all(&mut out, part).unwrap();
        std::io::Write::flush(&mut out).unwrap();
    }
    let packed = out.finish().unwrap();
    let read = read(&memory(&packed).container().unwrap(), &inline(10_000));
    assert!(read.errors.is_empty() && read.bytes() == bytes, "{:?}", read.errors);
}

#[test]
fn zstd_frames_one_after_another_and_skippable_ones_are_one_stream() {
    let bytes = trace_like(60_000);
    let (a, b) = bytes.split_at(400_000);
    let skippable = b"\x52\x2a\x4d\x18\x03\0\0\0xyz";
    let packed =
        [&pack(Codec::Zstd, a)[..], skippable, &zstd::bulk::compress(b, 9).unwrap(), skippable].concat();
    let read = read(&memory(&packed).container().unwrap(), &inline(10_000));
    assert!(read.errors.is_empty() && read.bytes() == bytes, "{:?}", read.errors);
}

#[test]
fn a_zstd_frame_that_ends_with_a_block_is_complete() {
    for len in 995..1005 {
        let packed = zstd::bulk::compress(&trace_like(100)[..len], 3).unwrap();
        let packed = [&packed[..], &packed].concat();
        let read = read(&memory(&packed).container().unwrap(), &inline(1000));
        assert!(read.errors.is_empty() && read.bytes().len() == 2 * len, "{len}: {:?}", read.errors);
    }
}

/// A snappy stream with every legal kind of chunk.
#[test]
fn snappy_chunks_with_and_without_checksum_padding_and_skippable_ones_are_one_stream() {
    let chunk = |kind: u8, body: &[u8]| {
        let len = (body.len() as u32).to_le_bytes();
        [&[kind, len[0], len[1], len[2]], body].concat()
    };
    let packed_block = snap::raw::Encoder::new().compress_vec(b"packed, no checksum; ").unwrap();
    let mut packed = pack(Codec::Snappy, b"with checksum; ");
    packed.extend(chunk(0x02, &packed_block));
    packed.extend(chunk(0xfe, &[0; 1000]));
    packed.extend(chunk(0x03, b"stored, no checksum; "));
    packed.extend(chunk(0x80, b"to be skipped"));
    packed.extend(chunk(0xff, b"sNaPpY"));
    // The masked CRC-32C of this text, from the public definition of both.
    let stored = b"stored";
    let masked = crc32c::crc32c(stored).rotate_right(15).wrapping_add(0xa282_ead8);
    packed.extend(chunk(0x01, &[&masked.to_le_bytes()[..], stored].concat()));
    let read = read(&memory(&packed).container().unwrap(), &inline(1000));
    let text = String::from_utf8(read.bytes()).unwrap();
    assert_eq!(text, "with checksum; packed, no checksum; stored, no checksum; stored");
    assert!(read.errors.is_empty(), "{:?}", read.errors);
}

#[test]
fn a_missing_file_says_so_with_its_name() {
    let error = Source::open("no/such/file".as_ref()).unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Missing, "no/such/file"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_block_size_thread_or_place_gives_the_same_bytes(
        n_records in 0_usize..6000,
        block_bytes in prop_oneof![1_usize..20, 20_usize..100_000],
        blocks in 0_usize..6,
        workers in 1_usize..5,
        codec in prop::sample::select(&CODECS[..]),
    ) {
        let bytes = trace_like(n_records);
        let bytes = &bytes[..bytes.len().min(block_bytes * 2000)];
        let packed = pack(codec, bytes);
        let container = memory(&packed).container().unwrap();
        let inline = read(&container, &inline(block_bytes));
        prop_assert!(inline.errors.is_empty(), "{:?}", inline.errors);
        prop_assert!(inline.bytes() == bytes);
        let ahead = ahead(block_bytes, blocks, workers);
        let threaded = read(&container, &ahead);
        prop_assert_eq!(&threaded.blocks, &inline.blocks);
        prop_assert!(threaded.members == inline.members && threaded.sound == inline.sound);
        let piped = read(&pipe(&packed).container().unwrap(), &ahead);
        prop_assert_eq!(&piped.blocks, &inline.blocks);
        prop_assert!(piped.members == inline.members && piped.sound == inline.sound);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), codec in prop::sample::select(&CODECS[..])) {
        // After a valid beginning, so that the codec is recognised.
        let mut packed = pack(codec, b"beginning");
        packed.truncate(14);
        packed.extend(bytes);
        read(&memory(&packed).container().unwrap(), &inline(64));
        read(&pipe(&packed).container().unwrap(), &inline(64));
    }
}
