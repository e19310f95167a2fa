//! Lines of Dinero: din, of versions III and IV, and the extended din of version IV. SPEC: din.md.

use crate::rules::din as rules;
use crate::table::{DinRecords, FORMS, Groups, push};
use quipu_model::lens::MAX_ACCESS_BYTES;
use quipu_model::options::{Kind, OptionSpec};
use quipu_model::trace::{Carries, Fact, Recorded};
use quipu_model::{Columns, Confidence, Error, FormatInfo, OpenOptions, Result, ToolInfo};
use quipu_records::check::{self, Check};
use quipu_records::codec::Input;
use quipu_records::lines::number::{hex, hex_run, line_end};
use quipu_records::lines::{
    Fault, Grammar, Head, Language, Line, LineCodec, LineRuleSet, Means, Reading, Record, Seen, Tell,
    WhatLines, lines, word,
};

/// The line format.
pub(crate) static LANGUAGE: Language = Language {
    info: &INFO,
    kinds: &["read", "write", "fetch", "unknown", "flush", "copy-back", "invalidate"],
    means: &[Means::Read, Means::Write, Means::Instr, Means::Unknown, Means::Mark, Means::Mark, Means::Mark],
    columns: Columns::ACCESSES
        .or(Columns::ACCESS_FETCH)
        .or(Columns::INSTRS)
        .or(Columns::THREADS)
        .or(Columns::MARKS)
        .or(Columns::RAW),
    table: || Box::new(DinRecords::default()),
    push,
    forms: FORMS,
    rules: LineRuleSet {
        all: rules::RULES,
        empty: &rules::EMPTY,
        cut: &rules::CUT,
        bad_line: &rules::BAD_LINE,
        number: &rules::NUMBER,
        zeros: None,
    },
    message: |_, _, _, _| {},
    judge,
};

/// Words that each stand for several kinds of records.
pub(crate) static GROUPS: Groups = &[
    ("access", &["read", "write", "unknown"]),
    ("data", &["read", "write", "unknown"]),
    ("instr", &["fetch"]),
];

/// The tool `check`.
pub(crate) static CHECK: Check<LineCodec> = Check::new(&CHECK_INFO);
static CHECK_INFO: ToolInfo =
    check::info("din", Columns::RAW.or(Columns::ACCESSES).or(Columns::ACCESS_FETCH));

static PLAIN: Reading = Reading::of::<Din>();
static EXTENDED: Reading = Reading::of::<ExtendedDin>();

/// Static description of the format.
static INFO: FormatInfo = FormatInfo {
    name: "din",
    title: "addresses with labels, as the cache simulator Dinero reads them",
    extensions: &["din", "xdin"],
    beyond_lenses: &[],
    doc: "docs/formats/din.md",
    options: &[DIALECT, WORD],
    print_options: &[],
};

/// Sizes with more digits take the slow path: they may exceed the limit of an access.
const QUICK_DIGITS: usize = 5;
const _: () = assert!(1 << (4 * QUICK_DIGITS) <= MAX_ACCESS_BYTES);

/// The option for the dialect.
const DIALECT: OptionSpec = OptionSpec::new(
    "dialect",
    Kind::Choice(&["auto", "din", "xdin"]),
    "auto",
    "Labels and addresses, or letters, addresses and sizes of version IV.",
)
.value("auto|din|xdin");
/// The option for the size of a word.
const WORD: OptionSpec = OptionSpec::new(
    "word",
    Kind::PowerOfTwo,
    "4",
    "Size of an access on a line without a size; the access is aligned to it, as in Dinero.",
);

/// The kind of fetches.
const FETCH: u8 = 2;
/// Larger accesses are suspicious: this is the size of a page.
const MAX_USUAL_BYTES: u32 = 4096;
/// Minimum number of lines to recognise a file whose extension does not identify it.
const RECOGNISED_LINES: u32 = 8;
/// Maximum size of a word in bytes.
const MAX_WORD: u32 = 64;
/// Real programs use no addresses below this.
const USUAL_ADDRESS: u64 = 0x1000;

/// Grammar of lines with a label and an address.
#[derive(Clone, Copy, Debug)]
struct Din;

impl Grammar for Din {
    #[inline(always)]
    fn quick(bytes: &[u8]) -> Option<(Record, usize)> {
        let line: &[u8; 32] = bytes.first_chunk()?;
        let kind = line[0].wrapping_sub(b'0');
        let end = line_end(line, 0);
        let (addr, n) = hex_run(line, 2);
        let is_line = kind <= 4 && line[1] == b' ' && n > 0 && 2 + n == end;
        is_line.then_some((Record { addr, size: 0, kind }, end + 1))
    }

    fn line(text: &[u8]) -> Line<'_> {
        let (label, rest) = word(text.trim_ascii_end());
        if label.is_empty() {
            return Line::Other;
        }
        let Some(kind) = hex(label).ok().filter(|label| *label <= 4) else {
            return Line::Bad(Fault::Kind);
        };
        // Text after the address is a comment.
        match hex(word(rest).0) {
            Ok(addr) => Line::Record(Record { addr, size: 0, kind: kind as u8 }), // At most 4.
            Err(why) => Line::Bad(Fault::of_address(why)),
        }
    }
}

/// The kind of a record with this letter.
fn kind_of(letter: u8) -> Option<u8> {
    match letter | 0x20 {
        b'r' => Some(0),
        b'w' => Some(1),
        b'i' => Some(2),
        b'm' => Some(3),
        b'c' => Some(5),
        b'v' => Some(6),
        _ => None,
    }
}

/// Grammar of lines with a letter, an address and a size.
#[derive(Clone, Copy, Debug)]
struct ExtendedDin;

impl Grammar for ExtendedDin {
    #[inline(always)]
    fn quick(bytes: &[u8]) -> Option<(Record, usize)> {
        let line: &[u8; 48] = bytes.first_chunk()?;
        let kind = kind_of(line[0])?;
        let end = line_end(line, 0);
        let (addr, n_addr) = hex_run(line, 2);
        let size_at = 2 + n_addr + 1;
        let (size, n_size) = hex_run(line, size_at);
        let ends = (line[1], line[size_at - 1], size_at + n_size) == (b' ', b' ', end);
        let is_line = ends && n_addr > 0 && matches!(n_size, 1..=QUICK_DIGITS) && end < line.len();
        // At most 5 digits.
        is_line.then_some((Record { addr, size: size as u32, kind }, end + 1))
    }

    fn line(text: &[u8]) -> Line<'_> {
        let (letter, rest) = word(text.trim_ascii_end());
        let kind = match letter {
            [] => return Line::Other,
            [letter] => kind_of(*letter),
            _ => None,
        };
        let Some(kind) = kind else { return Line::Bad(Fault::Kind) };
        let (addr, rest) = word(rest);
        let numbers = hex(addr)
            .map_err(Fault::of_address)
            .and_then(|addr| Ok((addr, hex(word(rest).0).map_err(Fault::of_size)?)));
        match numbers {
            Ok((addr, size)) => match u32::try_from(size) {
                Ok(size) => Line::Record(Record { addr, size, kind }),
                Err(_) => Line::Bad(Fault::SizeTooLarge),
            },
            Err(fault) => Line::Bad(fault),
        }
    }
}

/// Checks the values of a record.
fn judge(codec: &LineCodec, _: &mut Seen, record: &Record, tell: &mut Tell<'_>) {
    if codec.word_bytes == 0 && !(1..=MAX_USUAL_BYTES).contains(&record.size) {
        tell(&rules::SIZE, format_args!("a size of `{}` bytes", record.size));
    }
    if record.addr > u32::MAX.into() {
        tell(&rules::WIDE, format_args!("address `{:#x}`", record.addr));
    }
}

/// The codec for a trace with this beginning and these options.
pub(crate) fn adapt(head: &Head, options: &OpenOptions) -> Result<LineCodec> {
    let opening = INFO.opening(options)?;
    let reading = match opening.word(&DIALECT) {
        "din" => &PLAIN,
        "xdin" => &EXTENDED,
        _ => head.reading,
    };
    let word_bytes = match u32::try_from(opening.count(&WORD)) {
        Ok(bytes) if bytes <= MAX_WORD => bytes,
        _ => {
            let found = opening.word(&WORD);
            let what = format!("option `word` wants a power of two up to {MAX_WORD}, found `{found}`");
            return Err(Error::usage(what));
        }
    };
    // QUIRK: Dinero IV treats a line of din, which has no size, as an access to the aligned word (dinfmt.c).
    let word_bytes = if std::ptr::eq(reading, &PLAIN) { word_bytes } else { 0 };
    Ok(LineCodec { language: &LANGUAGE, reading, word_bytes, process: 0 })
}

/// Examines the beginning of a file. Two columns of numbers may be anything: without an identifying name, there must be
/// enough lines, all of them valid, and some addresses must be plausible.
pub(crate) fn recognise(head: Input<'_>, name: Option<&str>) -> Head {
    let (mut plain, mut extended) = (WhatLines::default(), WhatLines::default());
    let (mut highest, mut has_instrs, mut has_data) = (0, false, false);
    for (text, is_cut) in lines(head) {
        let line = Din::line(text);
        plain.add(&line, is_cut);
        let other = ExtendedDin::line(text);
        extended.add(&other, is_cut);
        for line in [line, other] {
            if let Line::Record(record) = line {
                highest = highest.max(record.addr);
                has_instrs |= record.kind == FETCH;
                has_data |= record.kind != FETCH;
            }
        }
    }
    let is_extended = extended.n_records > plain.n_records;
    let seen = if is_extended { extended } else { plain };
    let is_named = name.is_some_and(|name| {
        let name = name.to_ascii_lowercase();
        name.split('.').skip(1).any(|part| matches!(part, "din" | "xdin"))
    });
    let is_led = seen.is_led();
    let is_right = seen.n_bad == 0 && seen.n_records >= RECOGNISED_LINES;
    let is_alike = (is_right || is_led) && highest >= USUAL_ADDRESS;
    let is_good = seen.is_good();
    let confidence =
        if is_named && (is_good || is_led) || is_alike { Confidence::Likely } else { Confidence::No };
    let (name, title) =
        if is_extended { ("xdin", "letter, address, size") } else { ("din", "label, address") };
    // Tracers write all fetches or none.
    let recorded = |has: bool| if has || seen.n_records == 0 { Recorded::All } else { Recorded::Nothing };
    Head {
        confidence,
        reading: if is_extended { &EXTENDED } else { &PLAIN },
        process: 0,
        facts: vec![Fact::new("dialect", "dialect", name), Fact::new("dialect_title", "lines", title)],
        carries: vec![
            Carries::new("instructions", has_instrs, ""),
            Carries::new("data-accesses", has_data, ""),
            Carries::new(
                "sizes",
                is_extended,
                if is_extended { "" } else { "taken for words, as `word` says" },
            ),
            Carries::new("threads", false, ""),
            Carries::new("time", false, ""),
        ],
        instrs: recorded(has_instrs),
        data: recorded(has_data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_records::codec::Ending;

    fn whole(bytes: &[u8]) -> Input<'_> {
        Input { bytes, ending: Some(Ending::Whole) }
    }

    fn records<G: Grammar>(text: &[u8]) -> Option<Record> {
        let slow = match G::line(text) {
            Line::Record(record) => Some(record),
            Line::Bad(_) => None,
            other => panic!("{other:?}"),
        };
        let padded = [text, b"\n", &[b' '; 40]].concat();
        if let Some((quick, n_bytes)) = G::quick(&padded) {
            assert_eq!((Some(quick), n_bytes), (slow, text.len() + 1), "{}", text.escape_ascii());
        }
        slow
    }

    #[test]
    fn lines_read_the_same_both_ways() {
        for (text, expected) in [
            (&b"2 0"[..], Some((2, 0))),
            (b"0 1000", Some((0, 0x1000))),
            (b"1 70f60888 a comment", Some((1, 0x70f60888))),
            (b" 0x2\t0x7ffe0000\r", Some((2, 0x7ffe0000))),
            (b"4 0", Some((4, 0))),
            (b"3 FFFFFFFFFFFFFFFF", Some((3, u64::MAX))),
            (b"5 0", None),
            (b"x 10", None),
            (b"0", None),
            (b"0 10g", None),
            (b"0 10000000000000000", None),
        ] {
            let record = expected.map(|(kind, addr)| Record { addr, size: 0, kind });
            assert_eq!(records::<Din>(text), record, "{}", text.escape_ascii());
        }
        for (text, expected) in [
            (&b"r 1000 4"[..], Some((0, 0x1000, 4))),
            (b"W 0x7ffe0000 0x10 stack", Some((1, 0x7ffe0000, 16))),
            (b"i 400000 a", Some((2, 0x400000, 10))),
            (b"m 0 1", Some((3, 0, 1))),
            (b"c 0 40", Some((5, 0, 64))),
            (b"v 0 ffffffff", Some((6, 0, u32::MAX))),
            (b"v 0 100000000", None),
            (b"r 1000", None),
            (b"rw 1000 4", None),
            (b"r 1000 four", None),
        ] {
            let record = expected.map(|(kind, addr, size)| Record { addr, size, kind });
            assert_eq!(records::<ExtendedDin>(text), record, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn other_tables_of_numbers_are_not_recognised() {
        let confidence = |text: &str, name: Option<&str>| recognise(whole(text.as_bytes()), name).confidence;
        let trace = "2 400000\n0 7ffe0010\n".repeat(6);
        assert_eq!(confidence(&trace, None), Confidence::Likely);
        assert_eq!(confidence("2 0\n0 1000\n", None), Confidence::No);
        assert_eq!(confidence("2 0\n0 1000\n", Some("a.din.gz")), Confidence::Likely);
        assert_eq!(confidence("hello\n2 0\n", Some("a.din")), Confidence::No);
        for text in [
            "0 1\n1 2\n2 3\n3 4\n4 5\n0 1\n0 2\n0 3\n0 4\n",
            "0 100000\n1 200000\n2 300000\n3 400000\n4 500000\n5 600000\n6 700000\n7 800000\n",
            "1 0.50000\n2 0.25000\n1 0.50000\n2 0.25000\n1 0.50000\n2 0.25000\n1 0.5\n2 0.25\n",
            "r is a letter\nw is one\n",
            "# 1 2\n1 20000\n",
            "",
        ] {
            assert_eq!(confidence(text, None), Confidence::No, "{text}");
        }
        let extended = "r 1000 4\nw 1004 4\n".repeat(5);
        let head = recognise(whole(extended.as_bytes()), None);
        assert_eq!(head.confidence, Confidence::Likely);
        assert!(std::ptr::eq(head.reading, &EXTENDED));
    }
}
