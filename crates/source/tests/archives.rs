//! Zip archives: sizes, orders, names, 64-bit fields, descriptors, and what can still be read without the directory.

use crate::packing::{
    Descriptor, HandMember, ahead, hand_zip, inline, memory, pack_zip, pipe, read, trace_like,
};
use quipu_source::{Container, ErrorKind, Method};

fn open(bytes: &[u8]) -> Container {
    memory(bytes).container().unwrap()
}

fn names(container: &Container) -> Vec<&str> {
    container.members().iter().map(|member| member.name.as_str()).collect()
}

fn texts(members: &[Vec<u8>]) -> Vec<&str> {
    members.iter().map(|bytes| std::str::from_utf8(bytes).unwrap()).collect()
}

#[test]
fn thousands_of_members_come_in_order_with_any_number_of_workers() {
    let parts: Vec<Vec<u8>> = (0..3000).map(|at| trace_like(at % 50)).collect();
    let packed = pack_zip(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let container = open(&packed);
    assert_eq!(container.members().len(), 3000);
    assert_eq!(container.members()[2999].name, "chunk.00002999");
    for options in [inline(100), ahead(1000, 4, 1), ahead(64, 16, 4)] {
        let read = read(&container, &options);
        assert!(read.errors.is_empty() && read.members == parts);
        assert_eq!(read.sound, (0..3000).collect::<Vec<_>>());
    }
}

#[test]
fn any_range_of_members_can_be_read_alone() {
    let parts: Vec<Vec<u8>> = (1..20).map(trace_like).collect();
    let packed = pack_zip(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
    for (range, expected) in
        [(3..7, 3..7), (18..19, 18..19), (5..5, 5..5), (15..1000, 15..19), (30..40, 0..0)]
    {
        for options in [inline(50), ahead(50, 4, 3)] {
            for source in [memory(&packed), pipe(&packed)] {
                let container = source.container().unwrap();
                let mut stream = container.stream(range.clone(), &options).unwrap();
                let (mut block, mut got) = (Vec::new(), Vec::new());
                while let Some(at) = stream.next(&mut block).unwrap() {
                    assert!(range.contains(&(at.member as usize)));
                    got.extend_from_slice(&block);
                }
                assert!(got == parts[expected.clone()].concat(), "{range:?}");
            }
        }
    }
}

#[test]
fn a_member_larger_than_the_whole_member_limit_gives_the_same_bytes() {
    let large = trace_like(500_000);
    let small = trace_like(100_000);
    let container = open(&pack_zip(&[&small, &large, &small]));
    assert_eq!(container.members()[1].len, Some(6_000_000));
    for options in [inline(196_608), ahead(1 << 20, 4, 2), inline(8 << 20)] {
        let read = read(&container, &options);
        assert!(read.errors.is_empty() && read.members == [&small[..], &large, &small], "{options:?}");
    }
}

#[test]
fn members_are_listed_in_the_order_of_the_file_not_of_the_directory() {
    let (mut packed, directory_at) =
        hand_zip(&[HandMember::new("b", b"first"), HandMember::new("a", b"second")]);
    // Both entries of the directory have 47 bytes: exchange them.
    let (one, two) = packed[directory_at..directory_at + 94].split_at_mut(47);
    one.swap_with_slice(two);
    let container = open(&packed);
    assert!(container.damage().is_empty(), "{:?}", container.damage());
    assert_eq!(names(&container), ["b", "a"]);
    assert_eq!(texts(&read(&container, &inline(100)).members), ["first", "second"]);
}

#[test]
fn stored_deflated_and_empty_members_and_folders_of_any_name_are_read() {
    let members = [
        HandMember { stored: true, ..HandMember::new("../sequence1", b"stored") },
        HandMember::new("folder/", b""),
        HandMember { name: b"\xff\xfe", ..HandMember::new("", b"not unicode") },
        HandMember { stored: true, ..HandMember::new("sequence1", b"") },
        HandMember::new("", b"no name"),
    ];
    let (packed, _) = hand_zip(&members);
    let expected = ["stored", "", "not unicode", "", "no name"];
    for source in [memory(&packed), pipe(&packed)] {
        let read = read(&source.container().unwrap(), &inline(4));
        assert!(read.errors.is_empty(), "{:?}", read.errors);
        assert_eq!(texts(&read.members), expected);
    }
    let container = open(&packed);
    assert_eq!(names(&container), ["../sequence1", "folder/", "\u{fffd}\u{fffd}", "sequence1", ""]);
    assert_eq!(container.members()[0].method, Method::Stored);
}

#[test]
fn zip64_fields_are_read_wherever_they_may_stand() {
    let member =
        |name, text: &'static str| HandMember { zip64: true, ..HandMember::new(name, text.as_bytes()) };
    let (packed, directory_at) = hand_zip(&[member("a", "first"), member("b", "second")]);
    let container = open(&packed);
    assert!(container.damage().is_empty(), "{:?}", container.damage());
    assert_eq!(container.members()[1].len, Some(6));
    // With the directory, without it, and on a pipe.
    for source in [memory(&packed), memory(&packed[..directory_at]), pipe(&packed)] {
        let read = read(&source.container().unwrap(), &inline(100));
        assert!(read.errors.is_empty(), "{:?}", read.errors);
        assert_eq!(texts(&read.members), ["first", "second"]);
    }
}

#[test]
fn sizes_behind_the_data_are_understood_in_all_four_layouts() {
    for (signature, wide) in [(false, false), (false, true), (true, false), (true, true)] {
        let descriptor = Some(Descriptor { signature, wide });
        let text = trace_like(200);
        let members = [
            HandMember { descriptor, ..HandMember::new("a", b"first") },
            HandMember { descriptor, ..HandMember::new("b", &text) },
            HandMember { descriptor, ..HandMember::new("c", b"") },
        ];
        let (packed, directory_at) = hand_zip(&members);
        for source in [memory(&packed), memory(&packed[..directory_at]), pipe(&packed)] {
            let read = read(&source.container().unwrap(), &inline(100));
            assert!(read.errors.is_empty(), "{descriptor:?} {:?}", read.errors);
            assert_eq!(read.members, [b"first".as_slice(), &text, b""], "{descriptor:?}");
            assert_eq!(read.sound, [0, 1, 2]);
        }
        let walked = open(&packed[..directory_at]);
        assert_eq!(walked.members()[1].len, Some(2400));
    }
}

#[test]
fn a_stored_member_of_unknown_size_is_unsupported_where_no_directory_tells_it() {
    let descriptor = Some(Descriptor { signature: true, wide: false });
    let members = [
        HandMember { stored: true, descriptor, ..HandMember::new("stored", b"data") },
        HandMember::new("next", b"readable"),
    ];
    let (packed, directory_at) = hand_zip(&members);
    let whole = read(&open(&packed), &inline(100));
    assert_eq!((texts(&whole.members), whole.errors.len()), (vec!["data", "readable"], 0));
    for source in [memory(&packed[..directory_at]), pipe(&packed)] {
        let read = read(&source.container().unwrap(), &inline(100));
        assert_eq!(read.errors[0].kind(), ErrorKind::Unsupported, "{:?}", read.errors);
        assert_eq!(texts(&read.members), ["", "readable"]);
    }
}

#[test]
fn encrypted_members_and_unknown_methods_are_refused_and_the_rest_is_read() {
    let members = [
        HandMember { flags: 1, ..HandMember::new("secret", b"x") },
        HandMember { method: Some(14), ..HandMember::new("lzma", b"y") },
        HandMember::new("plain", b"readable"),
    ];
    let (packed, _) = hand_zip(&members);
    for source in [memory(&packed), pipe(&packed)] {
        let name = source.name().to_owned();
        let read = read(&source.container().unwrap(), &inline(100));
        let messages: Vec<String> = read.errors.iter().map(|error| error.what().to_owned()).collect();
        assert_eq!(messages, ["the member is encrypted", "zip method `14` is not supported"], "{name}");
        assert!(read.errors.iter().all(|error| error.kind() == ErrorKind::Unsupported));
        assert_eq!(texts(&read.members), ["", "", "readable"], "{name}");
    }
}

#[test]
fn an_archive_cut_anywhere_keeps_the_members_that_are_whole() {
    let texts = [trace_like(30), trace_like(40), trace_like(50)];
    for descriptor in [None, Some(Descriptor { signature: true, wide: false })] {
        let members = ["a", "b", "c"].map(|name| HandMember::new(name, b""));
        let members: Vec<_> = members
            .into_iter()
            .zip(&texts)
            .map(|(member, text)| HandMember { bytes: text, descriptor, ..member })
            .collect();
        let (packed, directory_at) = hand_zip(&members);
        let starts: Vec<u64> = open(&packed).members().iter().map(|member| member.packed_at).collect();
        let ends = [starts[1] as usize, starts[2] as usize, directory_at];
        for len in 4..packed.len() {
            let n_whole = ends.iter().filter(|end| **end <= len).count();
            let container = open(&packed[..len]);
            let piped = pipe(&packed[..len]).container().unwrap();
            assert_eq!(container.damage()[0].kind(), ErrorKind::Truncated, "cut at {len}");
            for (container, is_pipe) in [(container, false), (piped, true)] {
                let read = read(&container, &inline(100));
                let expected: Vec<u32> = (0..n_whole as u32).collect();
                // A partly missing descriptor is also noticed, but the member before it is complete.
                assert_eq!(
                    read.sound[..n_whole.min(read.sound.len())],
                    expected,
                    "cut at {len}, pipe {is_pipe}"
                );
                for (index, member) in read.members.iter().enumerate() {
                    assert!(texts[index].starts_with(member), "cut at {len}");
                }
                for whole in &read.members[..n_whole] {
                    assert!(!whole.is_empty());
                }
                if !is_pipe && n_whole < 3 && len > ends[0] {
                    let cut_in_data = container.damage().len() > 1;
                    assert!(cut_in_data || ends.contains(&len), "cut at {len}: {:?}", container.damage());
                }
            }
        }
    }
}

#[test]
fn the_damage_of_a_cut_archive_is_a_finding_with_its_place() {
    let packed = pack_zip(&[&trace_like(1000), &trace_like(1000)]);
    let cut = packed.len() - 200;
    let container = open(&packed[..cut]);
    let messages: Vec<String> = container.damage().iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            format!(
                "memory: packed offset {cut:#x}: the archive has no end record: it is cut short; \
                 its members were found by their local headers"
            ),
            format!(
                "memory: member 1 `chunk.00000001`, packed offset {cut:#x}: the file ends within this member"
            ),
        ]
    );
    let read = read(&container, &inline(500));
    assert_eq!(read.sound, [0]);
    assert!(read.members[1].len() > 10_000, "{}", read.members[1].len());
    assert_eq!(read.errors[0].kind(), ErrorKind::Truncated);
    assert_eq!(read.errors[0].member(), Some((1, "chunk.00000001")));
}

/// Overwrites a little-endian integer in the directory of an archive and opens the result.
fn with_lie(offset_in_directory: usize, lie: &[u8]) -> Container {
    let (mut packed, directory_at) = hand_zip(&[
        HandMember::new("a", b"first"),
        HandMember::new("b", b"second"),
        HandMember::new("c", b"third"),
    ]);
    let at = directory_at + offset_in_directory;
    packed[at..at + lie.len()].copy_from_slice(lie);
    open(&packed)
}

#[test]
fn a_directory_that_lies_about_places_is_replaced_by_the_walk() {
    const ENTRY: usize = 47;
    let end = 3 * ENTRY;
    let cases: [(&str, usize, &[u8]); 8] = [
        ("a header behind the end", 42, &[0, 0, 0, 0x70]),
        ("two members at one place", ENTRY + 42, &[0, 0, 0, 0]),
        ("a packed size over the next member", 20, &[0xf0, 0, 0, 0]),
        ("a packed size of all ones without a zip64 field", 20, &[0xff; 4]),
        ("a name longer than the file", 28, &[0xff, 0xff]),
        ("a broken signature", ENTRY, b"PX"),
        ("a directory elsewhere", end + 16, &[1, 0, 0, 0]),
        ("more entries than there are", end + 10, &[9, 0]),
    ];
    for (lie, at, bytes) in cases {
        let container = with_lie(at, bytes);
        let damage = container.damage();
        assert_eq!(damage.len(), 1, "{lie}: {damage:?}");
        assert_eq!(damage[0].kind(), ErrorKind::Malformed, "{lie}");
        let read = read(&container, &inline(100));
        assert!(read.errors.is_empty(), "{lie}: {:?}", read.errors);
        assert_eq!(texts(&read.members), ["first", "second", "third"], "{lie}");
    }
}

#[test]
fn a_member_that_the_directory_lies_about_gives_an_error_and_no_data() {
    let cases: [(&str, usize, &[u8], &str); 3] = [
        ("checksum", 16, &[1, 2, 3, 4], "CRC-32 of the data is"),
        ("fewer bytes than there are", 24, &[3, 0, 0, 0], "the data inflates to `5` bytes, stated are `3`"),
        (
            "more bytes than there are",
            24,
            &[0xf0, 0xff, 0xff, 0x7f],
            "the data inflates to `5` bytes, stated are",
        ),
    ];
    for (lie, at, bytes, message) in cases {
        let container = with_lie(at, bytes);
        assert!(container.damage().is_empty(), "{lie}");
        // It is impossible to know which of the two is wrong. If the member is not inflated in one call, the first read finds
        // out.
        let _ = read(&container, &inline(100));
        let read = read(&container, &inline(100));
        assert_eq!(texts(&read.members).concat(), "secondthird", "{lie}");
        assert_eq!((read.errors.len(), read.sound.as_slice()), (1, [1, 2].as_slice()), "{lie}");
        assert!(read.errors[0].what().starts_with(message), "{lie}: {}", read.errors[0]);
    }
}

#[test]
fn after_a_bad_stretch_the_walk_goes_on_with_the_next_header() {
    let (packed, directory_at) = hand_zip(&[
        HandMember::new("a", b"first"),
        HandMember::new("b", b"second"),
        HandMember::new("c", b"third"),
    ]);
    let second_at = open(&packed).members()[1].packed_at as usize;
    let mut damaged = packed.clone();
    damaged[second_at..second_at + 4].copy_from_slice(b"\0\0\0\0");
    for source in [memory(&damaged[..directory_at]), pipe(&damaged)] {
        let container = source.container().unwrap();
        let read = read(&container, &inline(100));
        let all = [container.damage(), &read.errors].concat();
        assert!(
            all.iter().any(|error| error.packed_offset() == Some(second_at as u64)
                && error.what() == "no header of a member where one is expected"),
            "{all:?}"
        );
        assert_eq!(texts(&read.members), ["first", "third"]);
    }
    // With the directory, the member keeps its index.
    let read = read(&open(&damaged), &inline(100));
    assert_eq!(read.sound, [0, 2]);
    assert_eq!(read.errors[0].what(), "there is no local header where the directory says");
    assert_eq!(read.errors[0].member(), Some((1, "b")));
}

#[test]
fn a_header_that_lacks_its_64_bit_sizes_is_a_bad_stretch() {
    let (mut packed, directory_at) =
        hand_zip(&[HandMember::new("a", b"first"), HandMember::new("b", b"second")]);
    packed[18..26].fill(0xff);
    for source in [memory(&packed[..directory_at]), pipe(&packed)] {
        let container = source.container().unwrap();
        let read = read(&container, &inline(100));
        assert_eq!(texts(&read.members), ["second"]);
        let all = [container.damage(), &read.errors].concat();
        assert!(all.iter().any(|error| error.packed_offset() == Some(0)), "{all:?}");
    }
}

#[test]
fn of_a_member_with_a_wrong_checksum_nothing_is_delivered_and_its_neighbours_are() {
    let parts = [trace_like(5000), trace_like(6000), trace_like(7000)];
    let mut packed = pack_zip(&[&parts[0], &parts[1], &parts[2]]);
    let members = open(&packed).members().to_vec();
    let middle = members[1].packed_at + members[1].packed_len.unwrap() / 2;
    packed[middle as usize + 44] ^= 0x40;
    for source in [memory(&packed), pipe(&packed)] {
        for options in [inline(196_608), inline(1000)] {
            let Ok(container) = source.container() else { unreachable!() };
            let Ok(mut stream) = container.stream(container.all_members(), &options) else { continue };
            let (mut block, mut got, mut errors) = (Vec::new(), vec![Vec::new(); 3], Vec::new());
            loop {
                match stream.next(&mut block) {
                    Ok(Some(at)) => got[at.member as usize].extend_from_slice(&block),
                    Ok(None) => break,
                    Err(error) => errors.push(error),
                }
            }
            assert_eq!(errors.len(), 1);
            assert_eq!(errors[0].member(), Some((1, "chunk.00000001")));
            assert!(got[0] == parts[0] && got[2] == parts[2]);
            if options.block_bytes > 100_000 {
                assert_eq!((got[1].len(), errors[0].offset()), (0, Some(0)));
            } else {
                // Bytes have been delivered before the checksum was reached.
                let good = parts[1].iter().zip(&got[1]).take_while(|(a, b)| a == b).count();
                assert!(good > parts[1].len() / 3, "{good} of {}", parts[1].len());
            }
        }
    }
}

#[test]
fn a_member_that_is_streamed_is_distrusted_once_its_end_was_read() {
    let parts = [trace_like(5000), trace_like(6000), trace_like(7000)];
    let mut packed = pack_zip(&[&parts[0], &parts[1], &parts[2]]);
    let members = open(&packed).members().to_vec();
    packed[(members[1].packed_at + members[1].packed_len.unwrap() / 2) as usize + 44] ^= 0x40;
    let container = open(&packed);
    let first = read(&container, &inline(1000));
    assert!(!first.members[1].is_empty() && first.errors.len() == 1 && container.good_until(1) == Some(0));
    let [first, second] = [first, read(&container, &inline(1000))];
    assert_eq!(second.members.concat(), [&parts[0][..], &parts[2]].concat());
    assert_eq!((second.errors.len(), second.errors[0].offset()), (1, Some(0)));
    assert_eq!(second.errors[0].what(), first.errors[0].what());
}

#[test]
fn an_archive_without_members_is_empty_and_sound() {
    for source in [memory(&pack_zip(&[])), pipe(&pack_zip(&[]))] {
        let container = source.container().unwrap();
        assert!(container.members().is_empty() && container.damage().is_empty());
        let read = read(&container, &inline(100));
        assert!(read.blocks.is_empty() && read.errors.is_empty());
        assert_eq!(source.head(10).unwrap(), b"");
    }
}

#[test]
fn a_comment_that_looks_like_an_end_record_does_not_mislead() {
    let (mut packed, _) = hand_zip(&[HandMember::new("a", b"first")]);
    let comment = [b"PK\x05\x06".as_slice(), &[7; 30], b"PK\x05\x06"].concat();
    let at = packed.len() - 2;
    packed[at..].copy_from_slice(&(comment.len() as u16).to_le_bytes());
    packed.extend(&comment);
    let container = open(&packed);
    assert!(container.damage().is_empty(), "{:?}", container.damage());
    assert_eq!(names(&container), ["a"]);
}

/// Puts bytes that mean much in headers anywhere into archives of all layouts: reading always ends.
#[test]
fn lying_headers_never_keep_a_reader_busy() {
    let text = trace_like(30);
    let descriptor = Some(Descriptor { signature: true, wide: true });
    let member = |name| HandMember::new(name, &text);
    let members = [
        HandMember { zip64: true, ..member("a") },
        HandMember { descriptor, ..member("b") },
        HandMember { stored: true, ..member("c") },
        HandMember { zip64: true, descriptor, ..member("d") },
    ];
    let (packed, directory_at) = hand_zip(&members);
    for whole in [&packed[..], &packed[..directory_at]] {
        for at in 0..whole.len() {
            for (len, byte) in [(1, 0), (2, 0xff), (4, 0xff), (8, 0xff), (4, 0), (4, 0x7f)] {
                let mut damaged = whole.to_vec();
                let end = (at + len).min(whole.len());
                damaged[at..end].fill(byte);
                for source in [memory(&damaged), pipe(&damaged)] {
                    let read = read(&source.container().unwrap(), &inline(1000));
                    assert!(read.errors.len() <= 20, "byte {at}: {} errors", read.errors.len());
                }
            }
        }
    }
}

/// Thousands of readers with small blocks keep little of a member each, whatever its content.
#[test]
fn small_blocks_of_members_that_are_kept_packed_are_the_same_bytes() {
    let repeated = trace_like(40).repeat(2_000);
    let noise: Vec<u8> =
        (0..30_000u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect();
    // Small when packed as a whole, because it repeats at a large distance, and large when packed block by block.
    let far = noise.repeat(8);
    let parts = [&repeated[..], &far, &noise, &trace_like(300), b"x"];
    let container = open(&pack_zip(&parts));
    for block_bytes in [4096, 6144, 30_000, 65_535] {
        let read = read(&container, &inline(block_bytes));
        assert_eq!(read.errors.len(), 0);
        for (part, got) in parts.iter().zip(&read.members) {
            assert!(*part == got.as_slice(), "{} bytes in blocks of {block_bytes}", part.len());
        }
        let n_of_first = repeated.len() / block_bytes;
        assert!(read.blocks[..n_of_first].iter().all(|n| *n == block_bytes), "{:?}", read.blocks);
    }
}
