//! Lines of Valgrind's lackey. SPEC: lackey.md.

use crate::rules::lackey as rules;
use crate::table::{FORMS, Groups, LackeyRecords, push};
use quipu_model::trace::{Carries, Fact};
use quipu_model::{Columns, Confidence, FormatInfo, OpenOptions, Result, Scan, ShardId, ToolInfo};
use quipu_records::Push;
use quipu_records::check::{self, Check};
use quipu_records::codec::Input;
use quipu_records::fill::Fill;
use quipu_records::lines::number::{decimal, hex, hex_run, line_end};
use quipu_records::lines::{
    Fault, Grammar, Head, Language, Line, LineCodec, LineRuleSet, LineState, Means, Reading, Record, Seen,
    Tell, WhatLines, lines, word,
};

/// The line format.
pub(crate) static LANGUAGE: Language = Language {
    info: &INFO,
    kinds: &["instr", "load", "store", "modify"],
    means: &[Means::Instr, Means::Read, Means::Write, Means::Modify],
    columns: Columns::ACCESSES
        .or(Columns::ACCESS_PC)
        .or(Columns::ACCESS_FETCH)
        .or(Columns::INSTRS)
        .or(Columns::THREADS)
        .or(Columns::RAW),
    table: || Box::new(LackeyRecords::default()),
    push,
    forms: FORMS,
    rules: LineRuleSet {
        all: rules::RULES,
        empty: &rules::EMPTY,
        cut: &rules::CUT,
        bad_line: &rules::BAD_LINE,
        number: &rules::NUMBER,
        zeros: Some(&rules::ZEROS),
    },
    message: take_message,
    judge,
};

/// Words that each stand for several kinds of records.
pub(crate) static GROUPS: Groups = &[
    ("access", &["load", "store", "modify"]),
    ("data", &["load", "store", "modify"]),
    ("read", &["load", "modify"]),
    ("write", &["store", "modify"]),
];

/// The tool `check`.
pub(crate) static CHECK: Check<LineCodec> = Check::new(&CHECK_INFO);
static CHECK_INFO: ToolInfo =
    check::info("lackey", Columns::RAW.or(Columns::ACCESSES).or(Columns::ACCESS_FETCH));

static READING: Reading = Reading::of::<Lackey>();

/// Static description of the format.
static INFO: FormatInfo = FormatInfo {
    name: "lackey",
    title: "accesses as Valgrind's lackey prints them",
    extensions: &["lackey", "txt", "trace"],
    beyond_lenses: &["messages of Valgrind"],
    doc: "docs/formats/lackey.md",
    options: &[],
    print_options: &[],
};

/// Number of bytes that hold a usual line and the start of the next one.
const USUAL_BYTES: usize = 32;
/// Size in bytes of the largest access that lackey supports.
const MAX_DATA_BYTES: u32 = 512;
/// Size in bytes of the largest instruction on any architecture that Valgrind supports.
const MAX_INSTR_BYTES: u32 = 24;

/// The kind of a record by its first two bytes, one of them a blank; the index is the exclusive or of the two bytes.
const KIND_OF: [u8; 256] = {
    let mut kinds = [0u8; 256];
    kinds[(b' ' ^ b'L') as usize] = 1;
    kinds[(b' ' ^ b'S') as usize] = 2;
    kinds[(b' ' ^ b'M') as usize] = 3;
    kinds
};

/// The first three bytes of each kind.
const HEADS: [[u8; 3]; 4] = [*b"I  ", *b" L ", *b" S ", *b" M "];

/// Grammar of lackey's lines.
#[derive(Clone, Copy, Debug)]
struct Lackey;

impl Grammar for Lackey {
    #[inline(always)]
    fn quick(bytes: &[u8]) -> Option<(Record, usize)> {
        // PERF: with a fixed array of 32 bytes, the length need not be checked again.
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
            // Lines added by `--trace-superblocks=yes`.
            b"SB" if hex(rest.trim_ascii_end()).is_ok() => return Line::Other,
            _ => return Line::Bad(Fault::Kind),
        };
        match record(kind, rest) {
            Ok(record) => Line::Record(record),
            Err(fault) => Line::Bad(fault),
        }
    }
}

/// Parses `ADDRESS,SIZE`.
fn record(kind: u8, text: &[u8]) -> std::result::Result<Record, Fault> {
    let text = text.trim_ascii_end();
    let comma = text.iter().position(|byte| *byte == b',').ok_or(Fault::Size)?;
    let (addr, size) = (&text[..comma], &text[comma + 1..]);
    let addr = hex(addr.trim_ascii_end()).map_err(Fault::of_address)?;
    let size = decimal(size.trim_ascii_start()).map_err(Fault::of_size)?;
    Ok(Record { addr, size: u32::try_from(size).map_err(|_| Fault::SizeTooLarge)?, kind })
}

/// The process and the text of a Valgrind message: `==4242== text`, with `--` or `**` for rarer ones.
fn message(text: &[u8]) -> Option<(u64, &[u8])> {
    let mark = text.get(..2).filter(|mark| matches!(*mark, b"==" | b"--" | b"**"))?;
    let rest = &text[2..];
    let n = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let message = rest[n..].strip_prefix(mark)?;
    let process = decimal(&rest[..n]).ok()?;
    Some((process, message.trim_ascii()))
}

/// The program's number of instructions, if the message contains it: `guest instrs:  148,949`.
fn counted_instrs(message: &[u8]) -> Option<u64> {
    let digits: Vec<u8> =
        message.strip_prefix(b"guest instrs:")?.trim_ascii().iter().copied().filter(|b| *b != b',').collect();
    decimal(&digits).ok()
}

/// Handles a Valgrind message.
fn take_message(state: &mut LineState, process: u64, text: &[u8], out: &mut Fill) {
    let first = *state.process.get_or_insert(process);
    if process != first && !state.has_processes {
        state.has_processes = true;
        let what =
            format!("line {}: a message of process {process}, others are of {first}", state.n_lines + 1);
        out.tell(&rules::PROCESSES, what);
    }
    let n_instrs = out.n_instrs();
    if let Some(counted) = counted_instrs(text).filter(|n| *n != n_instrs && !state.has_processes) {
        out.tell(&rules::COUNT, format!("lackey counted `{counted}` instructions, `{n_instrs}` are here"));
    }
}

/// Checks the values of a record.
fn judge(_: &LineCodec, seen: &mut Seen, record: &Record, tell: &mut Tell<'_>) {
    let size = record.size;
    if record.kind == 0 {
        seen.has_instr = true;
        if !(1..=MAX_INSTR_BYTES).contains(&size) {
            tell(&rules::INSTR_SIZE, format_args!("an instruction has `{size}` bytes"));
        }
        return;
    }
    if !(1..=MAX_DATA_BYTES).contains(&size) {
        tell(&rules::DATA_SIZE, format_args!("an access has `{size}` bytes"));
    }
    if !seen.has_instr && !seen.is_told {
        seen.is_told = true;
        tell(
            &rules::NO_INSTR,
            format_args!("an access to `{:#x}` stands before any instruction", record.addr),
        );
    }
}

/// The codec for a trace with this beginning; there is only one form of lines.
pub(crate) fn adapt(head: &Head, _: &OpenOptions) -> Result<LineCodec> {
    Ok(LineCodec { language: &LANGUAGE, reading: head.reading, word_bytes: 0, process: head.process })
}

/// A reader of lines that arrive while the program runs, with these columns.
///
/// # Errors
/// Those of [`Push::new`].
pub fn arriving(columns: Columns) -> Result<Push<LineCodec>> {
    let codec = LineCodec { language: &LANGUAGE, reading: &READING, word_bytes: 0, process: 0 };
    Push::new(codec, INFO.name, &Scan::new(ShardId(0)).columns(columns))
}

/// Examines the beginning of a file.
pub(crate) fn recognise(head: Input<'_>, _: Option<&str>) -> Head {
    let mut seen = WhatLines::default();
    let (mut process, mut is_named, mut facts) = (None, false, Vec::new());
    let fact = |key, label, text: &[u8]| Fact::new(key, label, String::from_utf8_lossy(text).into_owned());
    for (line, is_cut) in lines(head) {
        let line = Lackey::line(line);
        seen.add(&line, is_cut);
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
    facts.extend(process.map(|process| Fact::new("process", "process", process.to_string())));
    let head = Head::of(&seen, &READING);
    Head {
        confidence: if is_named { Confidence::Sure } else { head.confidence },
        process: process.unwrap_or(0),
        facts,
        carries: vec![
            Carries::new("instructions", true, "without their bytes"),
            Carries::new("data-accesses", true, "of the whole program, loader and libraries too"),
            Carries::new("threads", false, "Valgrind runs one at a time; no line says which"),
            Carries::new("time", false, ""),
        ],
        ..head
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
