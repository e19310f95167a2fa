//! The lines of Valgrind's lackey. SPEC: lackey.md.

use crate::check;
use crate::language::{Head, LEADING_RECORDS, Language, Means, Rules, WhatLines};
use crate::line::{Fault, Grammar, Line, Record, word};
use crate::number::{decimal, hex, hex_run, line_end};
use crate::rules::lackey as rules;
use crate::table::LackeyRecords;
use quipu_model::trace::{Carries, Fact, Recorded};
use quipu_model::{Columns, Confidence, FormatInfo};

/// The format.
pub(crate) static LANGUAGE: Language = Language {
    info: &INFO,
    kinds: &["instr", "load", "store", "modify"],
    means: &[Means::Instr, Means::Read, Means::Write, Means::Modify],
    families: &[
        ("access", &["load", "store", "modify"]),
        ("data", &["load", "store", "modify"]),
        ("read", &["load", "modify"]),
        ("write", &["store", "modify"]),
    ],
    columns: Columns::ACCESSES
        .or(Columns::ACCESS_PC)
        .or(Columns::ACCESS_FETCH)
        .or(Columns::INSTRS)
        .or(Columns::THREADS)
        .or(Columns::RAW),
    table: || Box::new(LackeyRecords::default()),
    rules: Rules {
        all: rules::RULES,
        empty: &rules::EMPTY,
        cut: &rules::CUT,
        bad_line: &rules::BAD_LINE,
        number: &rules::NUMBER,
        zeros: Some(&rules::ZEROS),
    },
    tools: &[&check::LACKEY_CHECK],
    recognise,
};

/// What is known of the format without a trace at hand.
static INFO: FormatInfo = FormatInfo {
    name: "lackey",
    title: "accesses as Valgrind's lackey prints them",
    extensions: &["lackey", "txt", "trace"],
    abilities: &["read", "view", "analyze", "check"],
    beyond_lenses: &["messages of Valgrind"],
    doc: "docs/formats/lackey.md",
    options: &[],
    print_options: &[],
};

/// A line as it usually is, and what stands behind it.
const USUAL_BYTES: usize = 32;
/// The size of the largest access that lackey knows of.
pub(crate) const MAX_DATA_BYTES: u32 = 512;
/// The size of the largest instruction of all architectures that Valgrind knows.
pub(crate) const MAX_INSTR_BYTES: u32 = 24;

/// The kind of a record by its first two bytes, one of which is a blank: the table is indexed by their difference in bits.
const KIND_OF: [u8; 256] = {
    let mut kinds = [0u8; 256];
    kinds[(b' ' ^ b'L') as usize] = 1;
    kinds[(b' ' ^ b'S') as usize] = 2;
    kinds[(b' ' ^ b'M') as usize] = 3;
    kinds
};

/// The first three bytes of each kind.
const HEADS: [[u8; 3]; 4] = [*b"I  ", *b" L ", *b" S ", *b" M "];

/// Lackey's lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lackey;

impl Grammar for Lackey {
    #[inline(always)]
    fn quick(bytes: &[u8]) -> Option<(Record, usize)> {
        // PERF: of a line within 32 bytes no other length has to be looked at.
        let line: &[u8; USUAL_BYTES] = bytes.first_chunk()?;
        let kind = KIND_OF[usize::from(line[0] ^ line[1])];
        if HEADS[usize::from(kind & 3)] != [line[0], line[1], line[2]] {
            return None;
        }
        let end = line_end(line, 8);
        let (addr, n) = hex_run(line, 3);
        let at = |offset: usize| line[(3 + n + offset) % USUAL_BYTES];
        let digit = |offset: usize| u32::from(at(offset).wrapping_sub(b'0'));
        let (size, is_number) = match end.wrapping_sub(3 + n + 1) {
            1 => (digit(1), digit(1) <= 9),
            2 => (10 * digit(1) + digit(2), digit(1) <= 9 && digit(2) <= 9),
            _ => return None,
        };
        let is_line = n > 0 && at(0) == b',' && is_number && end < USUAL_BYTES;
        is_line.then_some((Record { addr, size, kind }, end + 1))
    }

    fn line(text: &[u8]) -> Line<'_> {
        if let Some((process, message)) = message(text) {
            return Line::Message(process, message);
        }
        let (first, rest) = word(text);
        let kind = match first {
            b"" => return Line::Other,
            b"I" => 0,
            b"L" => 1,
            b"S" => 2,
            b"M" => 3,
            // What `--trace-superblocks=yes` adds.
            b"SB" if hex(rest.trim_ascii_end()).is_ok() => return Line::Other,
            _ => return Line::Bad(Fault::Kind),
        };
        match record(kind, rest) {
            Ok(record) => Line::Record(record),
            Err(fault) => Line::Bad(fault),
        }
    }
}

/// `ADDRESS,SIZE`.
fn record(kind: u8, text: &[u8]) -> Result<Record, Fault> {
    let text = text.trim_ascii_end();
    let comma = text.iter().position(|byte| *byte == b',').ok_or(Fault::Size)?;
    let (addr, size) = (&text[..comma], &text[comma + 1..]);
    let addr = hex(addr.trim_ascii_end()).map_err(Fault::of_address)?;
    let size = decimal(size.trim_ascii_start()).map_err(Fault::of_size)?;
    Ok(Record { addr, size: u32::try_from(size).map_err(|_| Fault::SizeTooLarge)?, kind })
}

/// The process and the text of one of Valgrind's messages: `==4242== text`, with `--` or `**` for rarer ones.
pub(crate) fn message(text: &[u8]) -> Option<(u64, &[u8])> {
    let mark = text.get(..2).filter(|mark| matches!(*mark, b"==" | b"--" | b"**"))?;
    let rest = &text[2..];
    let n = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let message = rest[n..].strip_prefix(mark)?;
    let process = decimal(&rest[..n]).ok()?;
    Some((process, message.trim_ascii()))
}

/// How many instructions the program had, if that is what a message says: `guest instrs:  148,949`.
pub(crate) fn counted_instrs(message: &[u8]) -> Option<u64> {
    let digits: Vec<u8> =
        message.strip_prefix(b"guest instrs:")?.trim_ascii().iter().copied().filter(|b| *b != b',').collect();
    decimal(&digits).ok()
}

/// Looks at the beginning of a file.
fn recognise(head: &[u8], is_whole: bool, _: Option<&str>) -> Head {
    let mut lines = WhatLines::default();
    let (mut process, mut is_named, mut facts) = (None, false, Vec::new());
    let fact = |key, label, text: &[u8]| Fact::new(key, label, String::from_utf8_lossy(text));
    for (line, is_cut) in crate::language::lines(head, is_whole) {
        let line = Lackey::line(line);
        lines.add(&line, is_cut);
        let Line::Message(of, message) = line else { continue };
        process.get_or_insert(of);
        is_named |= message.starts_with(b"Lackey");
        if let Some(command) = message.strip_prefix(b"Command: ") {
            facts.push(fact("command", "command", command));
        } else if let Some(version) = message.strip_prefix(b"Using ") {
            let version = version.split(|byte| *byte == b' ').next().unwrap_or(version);
            facts.push(fact("valgrind", "made by", version));
        }
    }
    facts.dedup_by(|later, first| later.key == first.key);
    let confidence = if is_named {
        Confidence::Sure
    } else if lines.n_records > 0 && lines.is_first && lines.n_bad <= lines.n_records / 10
        || lines.n_leading >= LEADING_RECORDS
    {
        Confidence::Likely
    } else {
        Confidence::No
    };
    let carries = |what, has, note| Carries::new(what, has, note);
    facts.extend(process.map(|process| Fact::new("process", "process", process.to_string())));
    Head {
        confidence,
        is_extended: false,
        process: process.unwrap_or(0),
        facts,
        carries: vec![
            carries("instructions", true, "without their bytes"),
            carries("data-accesses", true, "of the whole program, loader and libraries too"),
            carries("threads", false, "Valgrind runs one at a time; no line says which"),
            carries("time", false, ""),
        ],
        instrs: Recorded::All,
        data: Recorded::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_the_same_both_ways() {
        for (text, expected) in [
            (&b"I  0401ab70,3"[..], Some((0, 0x0401ab70, 3))),
            (b" S 1fff000688,8", Some((2, 0x1fff000688, 8))),
            (b" L ffffffffffffffff,32", Some((1, u64::MAX, 32))),
            (b" M 04,4", Some((3, 4, 4))),
            (b" L 10,512", Some((1, 16, 512))),
            (b"I 400d7d4,8", Some((0, 0x400d7d4, 8))),
            (b" L 7ff000398,8 ", Some((1, 0x7ff000398, 8))),
            (b"L 0x10 , 1\r", Some((1, 16, 1))),
            (b" L 10000000000000000,1", None),
            (b" L 10,", None),
            (b" L ,1", None),
            (b" L 10", None),
            (b" X 10,1", None),
            (b"IL 10,1", None),
            (b" L 10,4294967296", None),
        ] {
            let record = expected.map(|(kind, addr, size)| Record { addr, size, kind });
            let slow = match Lackey::line(text) {
                Line::Record(record) => Some(record),
                Line::Bad(_) => None,
                other => panic!("{other:?}"),
            };
            assert_eq!(slow, record, "{}", text.escape_ascii());
            let padded = [text, b"\n", &[b' '; 40]].concat();
            if let Some((quick, n_bytes)) = Lackey::quick(&padded) {
                assert_eq!((Some(quick), n_bytes), (record, text.len() + 1), "{}", text.escape_ascii());
            }
        }
    }

    #[test]
    fn messages_are_told_from_records() {
        assert_eq!(message(b"==4242== Command: ./mm8"), Some((4242, &b"Command: ./mm8"[..])));
        assert_eq!(message(b"**7** hello"), Some((7, &b"hello"[..])));
        assert_eq!(message(b"==4242=="), Some((4242, &b""[..])));
        assert_eq!(message(b"==4242 text"), None);
        assert_eq!(message(b"== text"), None);
        assert_eq!(counted_instrs(b"guest instrs:  148,949"), Some(148_949));
        assert_eq!(counted_instrs(b"guest instrs : SB entered  = 54 : 10"), None);
        assert_eq!(Lackey::line(b"SB 0401ab70"), Line::Other);
        assert_eq!(Lackey::line(b""), Line::Other);
    }
}
