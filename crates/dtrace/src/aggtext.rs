//! Aggregations as text: in the default form, several on one line, and by a format.
//!
//! SPEC: dtrace.md#aggregation-text

use crate::action::Function;
use crate::aggregate::{Aggregates, Entry, zero_of};
use crate::convert::{self, Mismatch, Spec};
use crate::describe::{Capture, Dialect, Rec};
use crate::format::{Amount, Format, Piece};
use crate::histogram::{self, Style};
use crate::host::Words;
use crate::options::Settings;
use crate::packed::Packer;
use crate::put;
use crate::quirks::{Quirks, Which};
use crate::sort::{self, Joined};
use crate::stack;
use crate::symbols::Address;
use crate::text::{self, Bytes, KEY_WIDTH};
use crate::value::Value;
use rustc_hash::FxHashMap;

/// Reason why printing aggregations stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// A conversion does not fit its argument.
    Mismatch(Mismatch),
    /// The parameters of a histogram have been forgotten, so the consumer ends.
    Parameters,
}

impl From<Mismatch> for Failed {
    fn from(mismatch: Mismatch) -> Failed {
        Failed::Mismatch(mismatch)
    }
}

/// Inputs to the text of aggregations.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c> {
    pub(crate) capture: &'c Capture,
    pub(crate) words: Words<'c>,
    pub(crate) settings: &'c Settings,
    pub(crate) quirks: Quirks,
    pub(crate) aggregates: &'c Aggregates,
}

impl<'c> Context<'c> {
    pub(crate) fn style(&self, normal: u64) -> Style {
        Style {
            dialect: self.capture.dialect,
            is_zoomed: self.settings.aggzoom,
            is_utf8: self.settings.utf8,
            quirks: self.quirks,
            normal,
        }
    }

    /// Prints all variables for which `wanted` is true, in the order set by the options.
    ///
    /// # Errors
    /// The reason why the consumer ends here.
    pub(crate) fn plain(&self, wanted: impl Fn(u64) -> bool, out: &mut Vec<u8>) -> Result<(), Failed> {
        let mut all: Vec<&Entry> = self.aggregates.entries().filter(|entry| wanted(entry.variable)).collect();
        sort::entries(self.capture, self.settings, &mut all);
        let mut packer = Packer::new(self, &all);
        for entry in &all {
            if packer.entry(self, entry, out) {
                continue;
            }
            for rec in &self.capture.aggregations[entry.aggregation].keys {
                self.key(rec, rec.of(&entry.key), out);
            }
            self.value(&entry.value, self.aggregates.normal(entry.variable), out)?;
            out.push(b'\n');
        }
        Ok(())
    }

    /// Prints several variables with a common key on one line each.
    ///
    /// # Errors
    /// Fails like [`plain`](Context::plain).
    pub(crate) fn joined(&self, variables: &[u64], out: &mut Vec<u8>) -> Result<(), Failed> {
        for joined in self.join(variables) {
            for rec in &self.capture.aggregations[joined.key.aggregation].keys {
                self.key(rec, rec.of(&joined.key.key), out);
            }
            for (value, normal) in &joined.values {
                self.value(value, *normal, out)?;
            }
            out.push(b'\n');
        }
        Ok(())
    }

    /// Prints variables by a format.
    pub(crate) fn formatted(
        &self,
        format: &Format,
        variables: &[u64],
        out: &mut Vec<u8>,
    ) -> Result<(), Failed> {
        let rows = match variables {
            [variable] => {
                let mut all: Vec<&Entry> =
                    self.aggregates.entries().filter(|entry| entry.variable == *variable).collect();
                sort::entries(self.capture, self.settings, &mut all);
                let normal = self.aggregates.normal(*variable);
                all.into_iter().map(|key| Joined { key, values: vec![(key.value.clone(), normal)] }).collect()
            }
            _ => self.join(variables),
        };
        rows.iter().try_for_each(|row| self.row(format, row, out))
    }

    /// The keys of several variables, each with the values of all of them.
    fn join(&self, variables: &[u64]) -> Vec<Joined<'c>> {
        let mut positions: FxHashMap<&[u8], Vec<usize>> = FxHashMap::default();
        let mut rows: Vec<Joined<'c>> = Vec::new();
        let mut likes: Vec<Option<&Value>> = vec![None; variables.len()];
        let mut has: Vec<Vec<bool>> = Vec::new();
        for entry in self.aggregates.entries() {
            let normal = self.aggregates.normal(entry.variable);
            for (at, _) in variables.iter().enumerate().filter(|(_, variable)| **variable == entry.variable) {
                likes[at] = Some(&entry.value);
                let near = positions.entry(&entry.key).or_default();
                let same = near.iter().find(|row| sort::same_key(self.capture, rows[**row].key, entry));
                let row = match same {
                    Some(row) => *row,
                    None => {
                        let empty = Value { function: Function::Count, param: 0, cells: [0].into() };
                        rows.push(Joined { key: entry, values: vec![(empty, 1); variables.len()] });
                        has.push(vec![false; variables.len()]);
                        near.push(rows.len() - 1);
                        rows.len() - 1
                    }
                };
                rows[row].values[at] = (entry.value.clone(), normal);
                has[row][at] = true;
            }
        }
        for (row, has) in rows.iter_mut().zip(&has) {
            for (at, variable) in variables.iter().enumerate().filter(|(at, _)| !has[*at]) {
                let described = self.capture.aggregations.iter().find(|other| other.variable == *variable);
                if let Some(described) = described {
                    let zero = zero_of(described, likes[at], self.capture.dialect);
                    row.values[at] = (zero, self.aggregates.normal(*variable));
                }
            }
        }
        sort::joined(self.capture, self.settings, &mut rows);
        rows
    }

    fn row(&self, format: &Format, row: &Joined<'_>, out: &mut Vec<u8>) -> Result<(), Failed> {
        let mut keys = self.capture.aggregations[row.key.aggregation].keys.iter();
        let mut n_values = 0;
        for piece in &format.pieces {
            let of = match piece {
                Piece::Text(text) => {
                    out.extend_from_slice(text);
                    continue;
                }
                Piece::Conversion(of) => of,
            };
            let mismatch = Mismatch { letter: of.letter, size: 0 };
            let mut amount = |amount: Amount| match amount {
                Amount::Argument => match keys.next() {
                    Some(rec) => Ok(Some(self.capture.order.signed(rec.of(&row.key.key)))),
                    None => Err(mismatch),
                },
                _ => Ok(None),
            };
            let spec = Spec::new(*of, amount(of.width)?, amount(of.precision)?);
            if of.is_value {
                // After the last value, the last one is repeated.
                let last = row.values.len().saturating_sub(1);
                let (value, normal) = row.values.get(n_values.min(last)).ok_or(mismatch)?;
                n_values += 1;
                self.conversion(&spec, value, *normal, out)?;
            } else {
                let rec = keys.next().ok_or(mismatch)?;
                convert::argument(self.capture, self.words, &spec, rec, rec.of(&row.key.key), out)?;
            }
        }
        Ok(())
    }

    /// Prints the value of an aggregation for a conversion.
    fn conversion(&self, spec: &Spec, value: &Value, normal: u64, out: &mut Vec<u8>) -> Result<(), Failed> {
        if value.function.is_histogram() {
            return self.histogram(value, normal, out);
        }
        // QUIRK: when a format prints an average, the classic consumer divides unsigned numbers.
        let is_unsigned = value.function == Function::Avg
            && self.quirks.has(Which::UnsignedAverage)
            && self.capture.dialect != Dialect::Linux;
        let number = if is_unsigned { value.unsigned_average(normal) } else { value.number(normal) };
        convert::value(spec, number, self.words.locale, out);
        Ok(())
    }

    fn histogram(&self, value: &Value, normal: u64, out: &mut Vec<u8>) -> Result<(), Failed> {
        // QUIRK: after `clear()`, the classic consumer no longer has the parameters of `llquantize()`, and ends.
        if self.aggregates.has_forgotten(value) {
            return Err(Failed::Parameters);
        }
        histogram::print(value, &self.style(normal), out);
        Ok(())
    }

    /// Prints a value after its key.
    fn value(&self, value: &Value, normal: u64, out: &mut Vec<u8>) -> Result<(), Failed> {
        if value.function.is_histogram() {
            return self.histogram(value, normal, out);
        }
        out.push(b' ');
        match value.function {
            Function::Stddev => put::unsigned(out, value.number(normal) as u64, 16),
            _ => put::signed(out, value.number(normal), 16),
        }
        Ok(())
    }

    /// Prints a member of a key.
    fn key(&self, rec: &Rec, bytes: &[u8], out: &mut Vec<u8>) {
        if stack::is_stack(rec.action) {
            return stack::plain(self.capture, rec, bytes, self.settings.indent(), out);
        }
        if symbol(self.capture, rec, bytes, out) {
            return;
        }
        let width = match bytes.len() {
            1 => 3,
            2 => 5,
            4 => 8,
            8 => 16,
            _ => {
                match text::kind_of(bytes) {
                    Bytes::String(text) | Bytes::Unended(text) if !self.settings.rawbytes => {
                        out.extend_from_slice(b"  ");
                        put::left(out, text, KEY_WIDTH);
                    }
                    _ => text::dump(bytes, out),
                }
                return;
            }
        };
        out.push(b' ');
        // QUIRK: small numbers are printed unsigned, regardless of the script.
        let quirk = if bytes.len() >= 4 { Which::SignedLarge } else { Which::UnsignedKeys };
        let is_signed = rec.signed.filter(|_| !self.quirks.has(quirk)).unwrap_or(bytes.len() >= 4);
        match is_signed {
            true => put::signed(out, self.capture.order.signed(bytes), width),
            false => put::unsigned(out, self.capture.order.number(bytes), width),
        }
    }
}

/// Prints an address as a symbol column; returns false if the part is not an address.
pub(crate) fn symbol(capture: &Capture, rec: &Rec, bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(address) = Address::of(capture, rec, bytes) else { return false };
    out.extend_from_slice(b"  ");
    let start = out.len();
    address.text(capture, out);
    put::widen(out, start, KEY_WIDTH);
    true
}
