//! The text form of a trace in memory; [`MemoryTrace::parse`](super::MemoryTrace::parse) describes it.

use super::shard::{Instr, Item, MemoryShard, Record};
use quipu_model::lens::{AccessKind, CallEdge, InstrClass, Taken, ThreadEvent, instr_flags};
use quipu_model::{Error, Result, Severity, ShardKind, ThreadId};

/// Parses whole shards; errors include the number of the line.
pub(super) fn parse(text: &str) -> Result<Vec<MemoryShard>> {
    let mut shards: Vec<MemoryShard> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word.is_empty() {
            continue;
        }
        if word == "shard" {
            shards.push(begin_shard(rest));
            continue;
        }
        let item = parse_item(word, rest.trim())
            .map_err(|error| Error::malformed(format!("line {}: {}", number + 1, error.message())))?;
        let shard = shards.pop().unwrap_or_else(|| MemoryShard::new("memory"));
        shards.push(shard.item(item));
    }
    Ok(shards)
}

fn begin_shard(rest: &str) -> MemoryShard {
    let mut words = rest.split_ascii_whitespace();
    let shard = MemoryShard::new(words.next().unwrap_or("memory"));
    match words.next() {
        Some("core") => shard.kind(ShardKind::Core),
        Some("mixed") => shard.kind(ShardKind::Mixed),
        _ => shard,
    }
}

fn parse_item(word: &str, rest: &str) -> Result<Item> {
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |i: usize| words.get(i).map_or(Ok(0), |text| parse_number(text));
    Ok(match word {
        "piece" => Item::Piece,
        "thread" => {
            let thread = words.first().copied().unwrap_or("0").parse::<ThreadId>();
            Item::Thread {
                thread: thread.map_err(|why| Error::malformed(why.to_string()))?,
                process: number(1)?,
            }
        }
        "fault" => Item::Fault(rest.to_owned()),
        "crash" => Item::Crash(rest.to_owned()),
        "finding" => {
            let (severity, message) = rest.split_once(' ').unwrap_or((rest, ""));
            Item::Finding(parse_severity(severity)?, message.to_owned())
        }
        "instr" => Item::Record(Record::Instr(parse_instr(&words)?)),
        "nofetch" => {
            let instr = parse_instr(&words)?;
            Item::Record(Record::Instr(Instr { flags: instr_flags::NO_FETCH, ..instr }))
        }
        "mark" => Item::Record(Record::Mark { kind: narrow(number(0)?)?, value: number(1)? }),
        "enter" | "leave" => Item::Record(Record::Call {
            function: number(0)?,
            edge: if word == "enter" { CallEdge::Enter } else { CallEdge::Leave },
            values: words.iter().skip(1).map(|text| parse_number(text)).collect::<Result<_>>()?,
        }),
        _ => {
            if let Some(kind) = AccessKind::ALL.iter().find(|kind| kind.name() == word) {
                Item::Record(Record::Access { kind: *kind, addr: number(0)?, size: narrow(number(1)?)? })
            } else if let Some(what) = ThreadEvent::ALL.iter().find(|what| what.name() == word) {
                Item::Record(Record::Thread { what: *what, value: number(0)? })
            } else {
                return Err(Error::malformed(format!("`{word}` is no item of a trace in memory")));
            }
        }
    })
}

fn parse_instr(words: &[&str]) -> Result<Instr> {
    let pc = parse_number(words.first().unwrap_or(&""))?;
    let size = narrow(parse_number(words.get(1).unwrap_or(&""))?)?;
    let mut instr = Instr::new(pc, size);
    for word in words.iter().skip(2) {
        if let Some(target) = word.strip_prefix("->") {
            instr.target = parse_number(target)?;
        } else if let Some(hex) = word.strip_prefix('=') {
            instr.bytes = parse_hex(hex)?;
        } else if let Some(class) = InstrClass::ALL.iter().find(|class| class.name() == *word) {
            instr.class = *class;
        } else {
            instr.taken = match *word {
                "taken" => Taken::Yes,
                "untaken" => Taken::No,
                "unknown" => Taken::Unknown,
                _ => return Err(Error::malformed(format!("`{word}` says nothing of an instruction"))),
            };
        }
    }
    Ok(instr)
}

fn parse_severity(text: &str) -> Result<Severity> {
    [Severity::Note, Severity::Warning, Severity::Error]
        .into_iter()
        .find(|severity| severity.name() == text)
        .ok_or_else(|| Error::malformed(format!("`{text}` is no severity")))
}

fn parse_number(text: &str) -> Result<u64> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number.map_err(|_| Error::malformed(format!("`{text}` is no number")))
}

fn parse_hex(text: &str) -> Result<Vec<u8>> {
    let digits = text.chars().map(|digit| digit.to_digit(16));
    let digits: Option<Vec<u8>> =
        digits.map(|digit| digit.and_then(|digit| u8::try_from(digit).ok())).collect();
    match digits {
        Some(digits) if digits.len() % 2 == 0 => {
            Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
        }
        _ => Err(Error::malformed(format!("`{text}` is no row of bytes"))),
    }
}

fn narrow<T: TryFrom<u64>>(number: u64) -> Result<T> {
    T::try_from(number).map_err(|_| Error::malformed(format!("`{number}` is too large here")))
}
