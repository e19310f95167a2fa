//! Truncated and damaged files: everything before the fault is delivered, then one error says where it is.

use std::io::{Cursor, Read as _};

use crate::packing::{CODECS, Read, ahead, inline, memory, pack, pipe, read, trace_like};
use quipu_source::{Codec, ErrorKind, Source};

fn is_prefix(read: &Read, whole: &Read) -> bool {
    read.members.iter().zip(&whole.members).all(|(part, all)| all.starts_with(part))
        && read.members.len() <= whole.members.len()
}

#[test]
fn a_file_cut_anywhere_gives_what_lies_before_the_cut_and_says_that_it_is_cut() {
    let bytes = trace_like(400);
    for codec in CODECS {
        let packed = pack(codec, &bytes);
        let container = memory(&packed).container().unwrap();
        let whole = read(&container, &inline(1000));
        let data_end =
            container.members().last().map_or(0, |last| last.packed_at + last.packed_len.unwrap()) as usize;
        for len in 0..packed.len() {
            for (source, options) in
                [(memory(&packed[..len]), inline(1000)), (pipe(&packed[..len]), inline(999))]
            {
                let container = source.container().unwrap();
                if container.codec() != codec {
                    assert!(len < 18 && container.codec() == Codec::Plain, "{codec:?} cut at {len}");
                    continue;
                }
                let read = read(&container, &options);
                assert!(is_prefix(&read, &whole), "{codec:?} cut at {len}");
                // Plain files and snappy streams have no end marker that could be missing, and on a pipe all members of an
                // archive have been read when its directory begins.
                let all_read =
                    read.sound.len() == whole.sound.len() && !container.is_indexed() && len > data_end;
                if codec != Codec::Plain && codec != Codec::Snappy && !all_read {
                    let all = [container.damage(), &read.errors].concat();
                    assert!(
                        all.iter().any(|error| error.kind() == ErrorKind::Truncated),
                        "{codec:?} cut at {len}: {all:?}"
                    );
                    assert!(read.errors.len() <= 1, "{codec:?} cut at {len}: {:?}", read.errors);
                }
            }
        }
    }
}

#[test]
fn a_deflate_stream_cut_late_gives_nearly_all_of_its_bytes() {
    let bytes = trace_like(20_000);
    for codec in [Codec::Gzip, Codec::Zlib] {
        let packed = pack(codec, &bytes);
        let read = read(&memory(&packed[..packed.len() - 100]).container().unwrap(), &inline(1000));
        assert!(
            read.bytes().len() > bytes.len() - 3000,
            "{codec:?} gave {} of {}",
            read.bytes().len(),
            bytes.len()
        );
        let [error] = read.errors.as_slice() else { panic!("one error") };
        assert_eq!(error.kind(), ErrorKind::Truncated);
        assert_eq!(error.packed_offset(), Some(packed.len() as u64 - 100));
        assert_eq!(error.offset(), Some(read.bytes().len() as u64));
        assert!(read.sound.is_empty());
    }
}

#[test]
fn whole_blocks_before_a_cut_come_out_of_block_codecs() {
    let bytes = trace_like(60_000);
    for (codec, block_bytes) in [(Codec::Lz4, 64 << 10), (Codec::Snappy, 64 << 10), (Codec::Zstd, 128 << 10)]
    {
        let packed = pack(codec, &bytes);
        let container = memory(&packed[..packed.len() - 40]).container().unwrap();
        let read = read(&container, &inline(1000));
        let got = read.bytes().len();
        assert!(got >= bytes.len() - block_bytes && bytes.starts_with(&read.bytes()), "{codec:?} {got}");
        assert_eq!(read.errors.len(), 1, "{codec:?}");
    }
}

#[test]
fn a_changed_byte_anywhere_never_goes_unnoticed_and_never_panics() {
    let bytes = trace_like(300);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for codec in CODECS {
        let packed = pack(codec, &bytes);
        for _ in 0..2000 {
            let mut damaged = packed.clone();
            let at = random(damaged.len());
            damaged[at] ^= 1 + random(255) as u8;
            for source in [memory(&damaged), pipe(&damaged)] {
                let container = source.container().unwrap();
                let read = read(&container, &inline(1 + random(2000)));
                // Plain bytes have no checksum, and a snappy chunk may turn into a skippable one.
                let checked = ![Codec::Plain, Codec::Snappy].contains(&codec) && container.codec() == codec;
                let noticed = !read.errors.is_empty() || !container.damage().is_empty();
                assert!(!checked || noticed || read.bytes() == bytes, "{codec:?}, byte {at}");
            }
        }
    }
}

#[test]
fn reading_ahead_reports_the_same_faults_as_reading_inline() {
    let bytes = trace_like(300);
    for codec in CODECS {
        let packed = pack(codec, &bytes);
        for at in (0..packed.len()).step_by(7) {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x55;
            // A separate container for each read: a second read of the same one knows what the first has found.
            let container = || memory(&damaged).container().unwrap();
            let (inline, threaded) =
                (read(&container(), &inline(500)), read(&container(), &ahead(500, 6, 2)));
            assert_eq!(threaded.members, inline.members, "{codec:?}, byte {at}");
            assert_eq!(threaded.sound, inline.sound, "{codec:?}, byte {at}");
            let text = |read: &Read| read.errors.iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(text(&threaded), text(&inline), "{codec:?}, byte {at}");
        }
    }
}

#[test]
fn a_wrong_checksum_is_reported_behind_the_data_that_it_is_about() {
    let bytes = trace_like(1000);
    let from_end = [(Codec::Gzip, 8), (Codec::Zlib, 1), (Codec::Lz4, 1), (Codec::Zstd, 1)];
    for (codec, from_end) in from_end {
        let mut packed = pack(codec, &bytes);
        let at = packed.len() - from_end;
        packed[at] ^= 1;
        for source in [memory(&packed), pipe(&packed)] {
            let read = read(&source.container().unwrap(), &inline(5000));
            assert!(read.bytes() == bytes, "{codec:?}");
            assert_eq!((read.errors.len(), read.sound.len()), (1, 0), "{codec:?} {:?}", read.errors);
            assert_eq!(read.errors[0].kind(), ErrorKind::Malformed, "{codec:?}");
            assert_eq!(read.errors[0].offset(), Some(bytes.len() as u64), "{codec:?}");
        }
    }
    // A second read delivers nothing for which no checksum vouches.
    for (codec, from_end) in from_end {
        let packed = [pack(codec, &bytes), pack(codec, &bytes)].concat();
        let has_frames = codec != Codec::Zlib;
        let (mut packed, mut n_good) =
            if has_frames { (packed, bytes.len()) } else { (pack(codec, &bytes), 0) };
        // These LZ4 blocks have their own checksums, which vouch for all of them.
        let is_vouched = codec == Codec::Lz4;
        if is_vouched {
            n_good = 2 * bytes.len();
        }
        let n_damaged = u64::from(!is_vouched);
        let all = [&bytes[..], &bytes[..]].concat();
        let at = packed.len() - from_end;
        packed[at] ^= 1;
        let container = memory(&packed).container().unwrap();
        container.deliver_sound_only();
        let options = inline(500);
        let first = read(&container, &options);
        assert_eq!((first.errors.len(), container.n_delivered_damaged()), (1, n_damaged), "{codec:?}");
        assert_eq!(container.good_until(0), Some(n_good as u64), "{codec:?}");
        for options in [options, inline(1 << 20), ahead(700, 4, 1)] {
            let again = read(&container, &options);
            assert!(again.bytes() == all[..n_good], "{codec:?}");
            assert_eq!(again.errors[0].what(), first.errors[0].what(), "{codec:?}");
            assert_eq!(container.n_delivered_damaged(), n_damaged, "{codec:?}");
        }
    }
    // The checksum of the first snappy chunk is after the identifier and the chunk's header.
    let mut packed = pack(Codec::Snappy, &bytes);
    packed[14] ^= 1;
    let read = read(&memory(&packed).container().unwrap(), &inline(5000));
    assert!(read.bytes().is_empty() && read.errors.len() == 1);
    assert!(
        read.errors[0].to_string().starts_with("memory: offset 0x0 (packed offset 0xe): masked CRC-32C of")
    );
}

#[test]
fn bytes_behind_the_end_are_reported_behind_the_data() {
    for codec in [Codec::Gzip, Codec::Zlib, Codec::Lz4, Codec::Snappy, Codec::Zstd] {
        let mut packed = pack(codec, b"data of some length");
        let end = packed.len() as u64;
        packed.extend(b"garbage of some length");
        let read = read(&memory(&packed).container().unwrap(), &inline(7));
        assert_eq!(read.bytes(), b"data of some length", "{codec:?}");
        let [error] = read.errors.as_slice() else { panic!("one error, {codec:?}: {:?}", read.errors) };
        assert_eq!(error.kind(), ErrorKind::Malformed, "{codec:?}");
        assert!(error.packed_offset().is_some_and(|at| at.abs_diff(end) <= 9), "{codec:?}: {error}");
    }
}

#[test]
fn a_zstd_frame_that_wants_a_huge_window_meets_a_limit() {
    // Magic, a descriptor without content size, and a window of 2^41 bytes.
    let packed = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8][..], &[0; 64]].concat();
    let read = read(&memory(&packed).container().unwrap(), &inline(100));
    assert_eq!(read.errors.len(), 1);
    assert_eq!(read.errors[0].kind(), ErrorKind::Limit, "{}", read.errors[0]);
}

#[test]
fn preset_dictionaries_are_unsupported() {
    // An LZ4 frame header with the dictionary flag and a correct header checksum.
    let described = [0x61, 0x40, 1, 2, 3, 4];
    let check = (xxhash_rust::xxh32::xxh32(&described, 0) >> 8) as u8;
    let packed = [&[0x04, 0x22, 0x4d, 0x18][..], &described, &[check, 0, 0, 0, 0]].concat();
    let read = read(&memory(&packed).container().unwrap(), &inline(100));
    assert_eq!(read.errors[0].kind(), ErrorKind::Unsupported, "{}", read.errors[0]);
}

#[test]
fn a_failing_reader_ends_the_stream_with_its_own_error() {
    struct Fails;
    impl std::io::Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the cable was pulled"))
        }
    }
    for codec in CODECS {
        let packed = pack(codec, &trace_like(2000));
        let source =
            Source::from_reader("line", Cursor::new(packed[..packed.len() / 2].to_vec()).chain(Fails));
        let container = source.container().unwrap();
        let read = read(&container, &ahead(100, 2, 1));
        let [error] = read.errors.as_slice() else { panic!("one error, {codec:?}: {:?}", read.errors) };
        assert_eq!(error.kind(), ErrorKind::Io, "{codec:?}");
        assert!(error.to_string().ends_with("cannot read: the cable was pulled"), "{error}");
    }
}

#[test]
fn a_file_that_shrinks_after_it_was_opened_is_an_io_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shrinks");
    std::fs::write(&path, trace_like(1000)).unwrap();
    let container = Source::open(&path).unwrap().container().unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(1200).unwrap();
    let read = read(&container, &inline(1000));
    // Nothing of the block that contains the new end is delivered.
    assert!((1000..=1200).contains(&read.bytes().len()), "{}", read.bytes().len());
    assert_eq!(read.errors.len(), 1);
    assert_eq!(read.errors[0].kind(), ErrorKind::Io);
}

#[test]
fn a_file_that_is_replaced_after_it_was_opened_is_an_io_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replaced");
    std::fs::write(&path, trace_like(1000)).unwrap();
    let container = Source::open(&path).unwrap().container().unwrap();
    let other = folder.path().join("other");
    std::fs::write(&other, trace_like(1000)).unwrap();
    std::fs::rename(&other, &path).unwrap();
    let read = read(&container, &inline(1000));
    assert_eq!(read.errors[0].kind(), ErrorKind::Io);
    assert!(read.bytes().is_empty());
}
