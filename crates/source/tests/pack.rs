//! Packed bytes come back unchanged, through our own reader and through those of others, for any number of threads.

// Helpers of a test may panic like the test itself.

use crate::packing::{memory, read, trace_like};
use proptest::prelude::*;
use quipu_source::{Codec, PackOptions, Packer, Packing, Pool, StreamOptions};
use std::io::{Cursor, Read};

/// Packs members with writes of `step` bytes.
fn pack(options: &PackOptions, n_threads: usize, members: &[&[u8]], step: usize) -> Vec<u8> {
    let pool = Pool::new(n_threads).unwrap();
    let mut packer = Packer::new(Cursor::new(Vec::new()), &pool, options);
    for (i, member) in members.iter().enumerate() {
        packer.member(&format!("chunk.{i:08}")).unwrap();
        member.chunks(step.max(1)).for_each(|bytes| packer.write(bytes).unwrap());
    }
    let (out, packed) = packer.finish().unwrap();
    let out = out.into_inner();
    assert_eq!(packed.packed_bytes, out.len() as u64);
    assert_eq!(packed.bytes, members.iter().map(|member| member.len() as u64).sum::<u64>());
    out
}

fn codec(packing: Packing) -> Codec {
    match packing {
        Packing::Plain => Codec::Plain,
        Packing::Zip => Codec::Zip,
        Packing::Gzip => Codec::Gzip,
        Packing::Lz4 => Codec::Lz4,
        Packing::Snappy => Codec::Snappy,
        Packing::Zstd => Codec::Zstd,
    }
}

fn check(options: &PackOptions, members: &[&[u8]]) {
    let packed = pack(options, 2, members, 100_000);
    let container = memory(&packed).container().unwrap();
    assert_eq!(container.codec(), codec(options.packing), "{options:?}");
    let read = read(&container, &StreamOptions::default());
    assert!(read.errors.is_empty(), "{options:?}: {:?}", read.errors);
    assert!(read.bytes() == members.concat(), "{options:?}: other bytes");
    if options.packing == Packing::Zip {
        let lens: Vec<usize> = read.members.iter().map(Vec::len).collect();
        assert_eq!(lens, members.iter().map(|member| member.len()).collect::<Vec<_>>());
        assert_eq!(container.damage().len(), 0);
    }
}

/// Sizes around those at which blocks and members are cut.
const SIZES: [usize; 9] =
    [0, 1, 12, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 4 << 20, (4 << 20) + (1 << 20) + 12];

#[test]
fn what_is_packed_comes_back_whatever_its_size() {
    let bytes = trace_like(SIZES[8] / 12 + 1);
    for packing in Packing::ALL {
        for size in SIZES.into_iter().filter(|size| packing != Packing::Plain || *size > 0) {
            check(&PackOptions::new(packing), &[&bytes[..size]]);
        }
    }
}

#[test]
fn members_are_kept_apart() {
    let bytes = trace_like(700_000);
    check(&PackOptions::new(Packing::Zip), &[&bytes[..5_000_000], &[], &bytes[12..24], &bytes[..4_200_000]]);
}

#[test]
fn every_level_comes_back() {
    let bytes = trace_like(50_000);
    for packing in [Packing::Zip, Packing::Gzip, Packing::Zstd] {
        for level in packing.levels().unwrap() {
            check(&PackOptions { packing, level: Some(level) }, &[&bytes]);
        }
    }
}

#[test]
fn bytes_that_do_not_shrink_come_back() {
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..3 << 20)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    for packing in Packing::ALL {
        check(&PackOptions::new(packing), &[&noise]);
        check(&PackOptions::new(packing), &[&noise, &noise[1..]]);
    }
}

#[test]
fn the_number_of_threads_and_the_size_of_writes_change_no_byte() {
    let bytes = trace_like(800_000);
    let members: [&[u8]; 3] = [&bytes, &bytes[..1000], &bytes[..2_000_000]];
    for packing in Packing::ALL {
        let options = PackOptions::new(packing);
        let expected = pack(&options, 1, &members, usize::MAX);
        for (n_threads, step) in [(1, 4096), (2, 12), (5, 1_000_003)] {
            assert!(
                pack(&options, n_threads, &members, step) == expected,
                "{packing:?}, {n_threads} threads"
            );
        }
    }
}

#[test]
fn the_readers_of_others_find_the_same() {
    let bytes = trace_like(600_000);
    let packed = |packing| pack(&PackOptions::new(packing), 2, &[&bytes], 4096);
    let all = |mut reader: Box<dyn Read>| {
        let mut out = Vec::new();
        reader.read_to_end(&mut out).unwrap();
        out
    };
    let gzip = Cursor::new(packed(Packing::Gzip));
    assert!(all(Box::new(flate2::read::MultiGzDecoder::new(gzip))) == bytes);
    assert!(all(Box::new(lz4_flex::frame::FrameDecoder::new(Cursor::new(packed(Packing::Lz4))))) == bytes);
    assert!(all(Box::new(snap::read::FrameDecoder::new(Cursor::new(packed(Packing::Snappy))))) == bytes);
    assert!(
        all(Box::new(zstd::stream::read::Decoder::new(Cursor::new(packed(Packing::Zstd))).unwrap())) == bytes
    );
    let small = &bytes[..1200];
    let archive = pack(&PackOptions::new(Packing::Zip), 2, &[&bytes, small], 4096);
    let mut archive = zip::ZipArchive::new(Cursor::new(archive)).unwrap();
    assert_eq!(archive.len(), 2);
    for (i, expected) in [&bytes[..], small].into_iter().enumerate() {
        let mut member = archive.by_index(i).unwrap();
        assert_eq!(member.name().unwrap(), format!("chunk.{i:08}"));
        let mut out = Vec::new();
        member.read_to_end(&mut out).unwrap();
        assert!(out == expected);
    }
}

#[test]
fn an_archive_without_its_directory_still_gives_its_members() {
    let bytes = trace_like(500_000);
    let packed = pack(&PackOptions::new(Packing::Zip), 2, &[&bytes, &bytes[..120]], 4096);
    let end = packed.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    let read = read(&memory(&packed[..end]).container().unwrap(), &StreamOptions::default());
    assert!(read.members == [bytes.clone(), bytes[..120].to_vec()]);
}

#[test]
fn an_archive_wants_a_member_first() {
    let pool = Pool::new(1).unwrap();
    let mut packer = Packer::new(Cursor::new(Vec::new()), &pool, &PackOptions::new(Packing::Zip));
    assert_eq!(packer.write(b"x").unwrap_err().kind(), quipu_source::ErrorKind::Usage);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_bytes_come_back(
        bytes in proptest::collection::vec(any::<u8>(), 1..20_000),
        repeat in 1_usize..200,
        which in 0_usize..6,
        step in 1_usize..70_000,
    ) {
        let bytes = bytes.repeat(repeat);
        let options = PackOptions::new(Packing::ALL[which]);
        let packed = pack(&options, 2, &[&bytes], step);
        // Bytes that happen to look packed cannot be distinguished from packed ones.
        prop_assume!(options.packing != Packing::Plain || Codec::of(&packed) == Codec::Plain);
        let read = read(&memory(&packed).container().unwrap(), &StreamOptions::default());
        prop_assert!(read.errors.is_empty());
        prop_assert!(read.bytes() == bytes);
    }
}
