//! Groups: rows with equal keys form a group, which has a number.

use crate::tally::Map;
use quipu_expr::{Data, Vector};
use quipu_model::{Error, Result};
use std::cmp::Ordering;

/// One member of a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Member {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Vec<u8>),
}

impl Member {
    fn kind(&self) -> u8 {
        match self {
            Member::Null => 0,
            Member::Bool(_) => 1,
            Member::Int(_) => 2,
            Member::Float(_) => 3,
            Member::Text(_) => 4,
        }
    }

    /// A total order of all members, independent of the input.
    pub(super) fn order(&self, other: &Member) -> Ordering {
        match (self, other) {
            (Member::Bool(one), Member::Bool(other)) => one.cmp(other),
            (Member::Int(one), Member::Int(other)) => one.cmp(other),
            (Member::Float(one), Member::Float(other)) => one.total_cmp(other),
            (Member::Text(one), Member::Text(other)) => one.cmp(other),
            _ => self.kind().cmp(&other.kind()),
        }
    }

    /// The member as text for people.
    pub(super) fn text(&self, is_hex: bool) -> String {
        match self {
            Member::Null => "NULL".to_owned(),
            Member::Bool(value) => value.to_string(),
            Member::Int(number) if is_hex && *number >= 0 => format!("{number:#x}"),
            Member::Int(number) => number.to_string(),
            Member::Float(number) => number.to_string(),
            Member::Text(text) => String::from_utf8_lossy(text).into_owned(),
        }
    }
}

/// A key, which is mostly a single whole number.
#[derive(Clone, Debug)]
enum Key {
    Number(u64),
    /// Encoded members, each a tag byte followed by its content.
    Members(Box<[u8]>),
}

/// Maximum bytes of one key, then of all keys together.
const MAX_KEY_BYTES: usize = 64 << 10;
const MAX_BYTES: usize = 1 << 30;

/// Slots of the buffer in front of the table.
const SLOTS: usize = 2048;
const NONE: u32 = u32::MAX;

/// Numbers of groups, by key.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    numbers: Map<u64, u32>,
    members: Map<Box<[u8]>, u32>,
    keys: Vec<Key>,
    /// The latest keys and their groups; [`NONE`] in free slots.
    // PERF: traces repeat themselves, so most look-ups end here: one load, one compare.
    latest: Vec<(u64, u32)>,
    n_bytes: usize,
    limit: usize,
    buffer: Vec<u8>,
}

impl Groups {
    /// An instance without groups, for at most `limit` of them.
    pub(super) fn new(limit: usize) -> Groups {
        Groups {
            numbers: Map::default(),
            members: Map::default(),
            keys: Vec::new(),
            latest: Vec::new(),
            n_bytes: 0,
            limit: limit.min(NONE as usize),
            buffer: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Replaces `out` with the group of each of `n` rows.
    ///
    /// # Errors
    /// `Usage` for more groups than the limit allows.
    pub(super) fn of(&mut self, keys: &[Vector<'_>], n: usize, out: &mut Vec<u32>) -> Result<()> {
        out.clear();
        out.reserve(n);
        match keys {
            [Vector { data: Data::U64(cells), valid: None }] => {
                if self.latest.is_empty() {
                    self.latest = vec![(0, NONE); SLOTS];
                }
                for key in cells.iter() {
                    let at = *key as usize & (SLOTS - 1); // Only the low bits count.
                    let group = match self.latest[at] {
                        (known, group) if known == *key && group != NONE => group,
                        _ => {
                            let group = self.number(*key)?;
                            self.latest[at] = (*key, group);
                            group
                        }
                    };
                    out.push(group);
                }
            }
            // A dictionary that is much longer than the batch costs more than the batch's rows.
            [Vector { data: Data::Text(texts), .. }] if texts.n_texts() <= 4 * n => {
                let mut known = vec![NONE; texts.n_texts()];
                for row in 0..n {
                    let known = keys[0].has(row).then(|| &mut known[texts.position(row)]);
                    let group = match known {
                        Some(group) if *group != NONE => *group,
                        Some(group) => {
                            *group = self.row(keys, row)?;
                            *group
                        }
                        None => self.row(keys, row)?,
                    };
                    out.push(group);
                }
            }
            _ if keys.iter().all(is_same) => {
                let group = if n > 0 { self.row(keys, 0)? } else { 0 };
                out.resize(n, group);
            }
            _ => {
                for row in 0..n {
                    let group = self.row(keys, row)?;
                    out.push(group);
                }
            }
        }
        Ok(())
    }

    fn row(&mut self, keys: &[Vector<'_>], row: usize) -> Result<u32> {
        if let [key] = keys
            && matches!(key.data, Data::U64(_) | Data::I128(_) | Data::AllInt(_))
            && let Some(Ok(number)) = key.int(row).map(u64::try_from)
        {
            return self.number(number);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        keys.iter().for_each(|key| encode(key, row, &mut buffer));
        let group = self.members(&buffer);
        self.buffer = buffer;
        group
    }

    fn number(&mut self, key: u64) -> Result<u32> {
        match self.numbers.get(&key) {
            Some(group) => Ok(*group),
            None => {
                let group = self.add(Key::Number(key))?;
                self.numbers.insert(key, group);
                Ok(group)
            }
        }
    }

    fn members(&mut self, key: &[u8]) -> Result<u32> {
        if let Some(group) = self.members.get(key) {
            return Ok(*group);
        }
        self.n_bytes += 2 * key.len();
        if key.len() > MAX_KEY_BYTES || self.n_bytes > MAX_BYTES {
            let message =
                format!("keys of more than {MAX_KEY_BYTES} bytes, or of more than {MAX_BYTES} together");
            return Err(Error::usage(message).hint("shorten them, as `substr(name, 1, 100)` does"));
        }
        let group = self.add(Key::Members(key.into()))?;
        self.members.insert(key.into(), group);
        Ok(group)
    }

    fn add(&mut self, key: Key) -> Result<u32> {
        if self.keys.len() >= self.limit {
            let message = format!("there are more than {} keys", self.limit);
            return Err(
                Error::usage(message).hint("--keys-limit allows more; page(addr) or a condition makes fewer")
            );
        }
        self.keys.push(key);
        Ok((self.keys.len() - 1) as u32) // The limit has 32 bits.
    }

    /// Adds the keys of another instance, and returns the group of each in this one.
    ///
    /// # Errors
    /// As [`of`](Groups::of).
    pub(super) fn merge(&mut self, later: &Groups) -> Result<Vec<u32>> {
        let group = |key: &Key| match key {
            Key::Number(number) => self.number(*number),
            Key::Members(members) => self.members(members),
        };
        later.keys.iter().map(group).collect()
    }

    /// The members of each key, by group.
    pub(super) fn into_keys(self) -> Vec<Vec<Member>> {
        let members = |key| match key {
            Key::Number(number) => vec![Member::Int(number.into())],
            Key::Members(bytes) => decode(&bytes),
        };
        self.keys.into_iter().map(members).collect()
    }
}

/// True if all rows have the same value.
fn is_same(key: &Vector<'_>) -> bool {
    key.valid.is_none()
        && matches!(key.data, Data::Null | Data::AllBool(_) | Data::AllInt(_) | Data::AllFloat(_))
}

fn encode(key: &Vector<'_>, row: usize, out: &mut Vec<u8>) {
    if !key.has(row) {
        return out.push(0);
    }
    match &key.data {
        Data::Bool(_) | Data::AllBool(_) => {
            out.extend_from_slice(&[1, u8::from(key.truth(row) == Some(true))]);
        }
        Data::F64(_) | Data::AllFloat(_) => {
            // Both zeros are one key, and so are all NaNs.
            let number = key.float(row).unwrap_or(0.0);
            let number = if number.is_nan() { f64::NAN } else { number + 0.0 };
            out.push(3);
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        Data::Text(texts) => {
            let text = texts.get(row);
            out.push(4);
            out.extend_from_slice(&(text.len() as u64).to_le_bytes());
            out.extend_from_slice(text);
        }
        _ => {
            out.push(2);
            out.extend_from_slice(&key.int(row).unwrap_or(0).to_le_bytes());
        }
    }
}

fn decode(mut bytes: &[u8]) -> Vec<Member> {
    fn take<'b>(bytes: &mut &'b [u8], n: usize) -> &'b [u8] {
        let (taken, rest) = bytes.split_at(n.min(bytes.len()));
        *bytes = rest;
        taken
    }
    fn word<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
        take(bytes, N).try_into().unwrap_or([0; N])
    }
    let mut members = Vec::new();
    while let [kind, rest @ ..] = bytes {
        bytes = rest;
        members.push(match kind {
            1 => Member::Bool(take(&mut bytes, 1) == [1]),
            2 => Member::Int(i128::from_le_bytes(word(&mut bytes))),
            3 => Member::Float(f64::from_bits(u64::from_le_bytes(word(&mut bytes)))),
            4 => {
                let n = usize::try_from(u64::from_le_bytes(word(&mut bytes))).unwrap_or(0);
                Member::Text(take(&mut bytes, n).to_vec())
            }
            _ => Member::Null,
        });
    }
    members
}
