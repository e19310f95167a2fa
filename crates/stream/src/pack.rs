//! Writes packed rows: differences to the previous row, and repetitions for rows in a regular pattern.

use crate::datum::{Datum, put_packed};
use crate::packed::{put_sv, put_uv};
use crate::schema::Schema;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The longest period of a repetition that the writer searches for.
const MAX_PERIOD: usize = 32;

/// A row to write.
#[derive(Debug)]
struct Row {
    schema: Arc<Schema>,
    time: u64,
    /// Values of the fields that are stored as differences.
    deltas: Vec<u128>,
    /// All other fields, in packed form.
    rest: Vec<u8>,
    values: Vec<Datum>,
}

/// Collects the rows of one frame.
#[derive(Debug, Default)]
pub struct PackedRows {
    rows: Vec<Row>,
}

/// A payload of packed rows, with the header fields that depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// The payload.
    pub payload: Vec<u8>,
    /// Number of records.
    pub records: u32,
    /// The smallest time; the time of the first row is stored relative to it.
    pub ts_first: u64,
    /// The largest time.
    pub ts_last: u64,
}

impl PackedRows {
    /// Adds a row; `None` if the values do not fit the schema.
    pub fn push(&mut self, schema: &Arc<Schema>, time: u64, values: Vec<Datum>) -> Option<()> {
        let mut row = Row {
            schema: Arc::clone(schema),
            time,
            deltas: Vec::new(),
            rest: Vec::new(),
            values: Vec::new(),
        };
        if values.len() != schema.fields.len() {
            return None;
        }
        for (field, value) in schema.fields.iter().zip(&values) {
            if field.is_delta() {
                let Datum::Int(n) = value else { return None };
                row.deltas.push(*n);
            } else {
                put_packed(&field.layout, value, &mut row.rest)?;
            }
        }
        row.values = values;
        self.rows.push(row);
        Some(())
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes all rows out and returns their payload; `with_runs` writes repetitions, for encodings that have them.
    pub fn finish(&mut self, with_runs: bool) -> Packed {
        let rows = std::mem::take(&mut self.rows);
        let times = || rows.iter().map(|row| row.time);
        let mut packed = Packed {
            payload: Vec::new(),
            records: u32::try_from(rows.len()).unwrap_or(u32::MAX),
            ts_first: times().min().unwrap_or_default(),
            ts_last: times().max().unwrap_or_default(),
        };
        let out = &mut packed.payload;
        let mut time = packed.ts_first;
        let mut last: FxHashMap<u32, Vec<u128>> = FxHashMap::default();
        let mut at = 0;
        while at < rows.len() {
            if with_runs && let Some((period, times)) = repetition(&rows, at) {
                put_uv(0, out);
                put_uv(1, out);
                put_uv(period as u128, out);
                put_uv(times as u128, out);
                for row in &rows[at..at + period * times] {
                    last.insert(row.schema.id(), row.deltas.clone());
                    time = row.time;
                }
                at += period * times;
                continue;
            }
            let row = &rows[at];
            put_uv(row.schema.id().into(), out);
            put_sv((row.time.wrapping_sub(time) as i64).into(), out);
            time = row.time;
            let last = last.entry(row.schema.id()).or_insert_with(|| vec![0; row.deltas.len()]);
            let mut n_delta = 0;
            for (field, value) in row.schema.fields.iter().zip(&row.values) {
                if field.is_delta() {
                    let unused = 128 - 8 * field.layout.size.min(16);
                    let difference = row.deltas[n_delta].wrapping_sub(last[n_delta]);
                    put_sv((difference as i128) << unused >> unused, out);
                    last[n_delta] = row.deltas[n_delta];
                    n_delta += 1;
                } else {
                    // Packing succeeded when the row was added.
                    let _ = put_packed(&field.layout, value, out);
                }
            }
            at += 1;
        }
        packed
    }
}

/// Whether the row at `at` equals the row that a repetition with this period would make.
fn continues(rows: &[Row], at: usize, period: usize) -> bool {
    let (Some(a), Some(b)) = (at.checked_sub(period), at.checked_sub(2 * period)) else { return false };
    let (row, a, b) = (&rows[at], &rows[a], &rows[b]);
    let same = |x: &Row, y: &Row| Arc::ptr_eq(&x.schema, &y.schema);
    same(row, a)
        && same(a, b)
        && row.rest == a.rest
        && row.time == a.time.wrapping_mul(2).wrapping_sub(b.time)
        && row.deltas.iter().zip(&a.deltas).zip(&b.deltas).zip(delta_bits(&row.schema)).all(
            |(((x, a), b), bits)| {
                let difference = x.wrapping_sub(a.wrapping_mul(2).wrapping_sub(*b));
                difference << (128 - bits) == 0
            },
        )
}

fn delta_bits(schema: &Schema) -> impl Iterator<Item = u32> + '_ {
    schema.fields.iter().filter(|field| field.is_delta()).map(|field| 8 * field.layout.size.min(16))
}

/// The repetition that makes the most rows from `at`; `None` if none saves more than the four bytes that it takes.
fn repetition(rows: &[Row], at: usize) -> Option<(usize, usize)> {
    let mut best: Option<(usize, usize)> = None;
    for period in 1..=MAX_PERIOD.min(at / 2) {
        let n = (at..rows.len()).take_while(|at| continues(rows, *at, period)).count();
        let times = n / period;
        // A repetition requires the same schemas in the two periods before it.
        let agree =
            || (at - period..at).all(|row| Arc::ptr_eq(&rows[row].schema, &rows[row - period].schema));
        if times > 0 && period * times > best.map_or(1, |(p, r)| p * r) && agree() {
            best = Some((period, times));
        }
    }
    best
}
