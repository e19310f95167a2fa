//! Values of a batch, one for each evaluated row.

use std::borrow::Cow;

/// Values.
#[derive(Clone, Debug)]
pub struct Vector<'a> {
    /// The values; those of `NULL` rows are meaningless.
    pub data: Data<'a>,
    /// Which rows have a value; `None` if all have one.
    pub valid: Option<Vec<bool>>,
}

/// Values of one type.
#[derive(Clone, Debug)]
pub enum Data<'a> {
    /// All rows are `NULL`.
    Null,
    /// Truth values.
    Bool(Vec<bool>),
    /// Unsigned integers of at most 64 bits.
    U64(Cow<'a, [u64]>),
    /// Integers.
    I128(Vec<i128>),
    /// Floating-point numbers.
    F64(Vec<f64>),
    /// Texts.
    Text(Texts),
    /// The same truth value in all rows.
    AllBool(bool),
    /// The same integer in all rows.
    AllInt(i128),
    /// The same floating-point number in all rows.
    AllFloat(f64),
}

/// Texts of rows: texts from dictionaries are stored once, others once for each row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// The index of each row's text; if empty, all rows have the same text.
    at: Vec<u32>,
    /// The end of each text in `bytes`.
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Texts {
    /// The same text in all rows.
    pub(crate) fn same(text: &[u8]) -> Texts {
        Texts { at: Vec::new(), ends: vec![text.len()], bytes: text.to_vec() }
    }

    /// Number of texts stored.
    pub fn n_texts(&self) -> usize {
        self.ends.len()
    }

    /// The text with an index.
    pub fn text(&self, position: usize) -> &[u8] {
        let start = position.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[position]]
    }

    /// The index of a row's text.
    #[inline]
    pub fn position(&self, row: usize) -> usize {
        if self.at.is_empty() { 0 } else { self.at[row] as usize }
    }

    /// The text of a row.
    pub fn get(&self, row: usize) -> &[u8] {
        match self.ends.is_empty() {
            true => &[],
            false => self.text(self.position(row)),
        }
    }

    /// True if all rows have the same text.
    pub(crate) fn is_same(&self) -> bool {
        self.at.is_empty()
    }

    /// Adds a text, which `write` appends, and returns its index.
    pub(crate) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> u32 {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
        (self.ends.len() - 1) as u32 // A batch has a few thousand rows.
    }

    /// Assigns a text that was added before to the next row.
    pub(crate) fn push_at(&mut self, position: u32) {
        self.at.push(position);
    }

    /// Assigns a new text to the next row.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let position = self.add(write);
        self.at.push(position);
    }

    /// The same rows with each text converted once.
    pub(crate) fn map(&self, change: impl Fn(&[u8], &mut Vec<u8>)) -> Texts {
        let mut out = Texts { at: self.at.clone(), ..Texts::default() };
        for position in 0..self.n_texts() {
            out.add(|bytes| change(self.text(position), bytes));
        }
        out
    }

    /// Computes a value for each row, once for each text.
    pub(crate) fn each<T: Copy>(&self, n_rows: usize, find: impl Fn(&[u8]) -> T) -> Vec<T> {
        let found: Vec<T> = (0..self.n_texts()).map(|position| find(self.text(position))).collect();
        (0..n_rows).filter_map(|row| found.get(self.position(row)).copied()).collect()
    }

    /// Total bytes of the stored texts.
    pub(crate) fn bytes_used(&self) -> usize {
        self.bytes.len()
    }
}

impl<'a> Vector<'a> {
    /// A vector in which all rows have a value.
    pub(crate) fn of(data: Data<'a>) -> Vector<'a> {
        Vector { data, valid: None }
    }

    /// A vector in which all rows are `NULL`.
    pub(crate) fn null() -> Vector<'a> {
        Vector::of(Data::Null)
    }

    /// True if the row has a value.
    #[inline]
    pub fn has(&self, row: usize) -> bool {
        !matches!(self.data, Data::Null) && self.valid.as_ref().is_none_or(|valid| valid[row])
    }

    /// True if all rows have a value.
    pub fn has_all(&self) -> bool {
        !matches!(self.data, Data::Null) && self.valid.is_none()
    }

    /// The integer of a row; truth values count as 0 or 1.
    #[inline]
    pub fn int(&self, row: usize) -> Option<i128> {
        if !self.has(row) {
            return None;
        }
        match &self.data {
            Data::U64(cells) => Some(cells[row].into()),
            Data::I128(cells) => Some(cells[row]),
            Data::AllInt(number) => Some(*number),
            Data::Bool(cells) => Some(cells[row].into()),
            Data::AllBool(value) => Some((*value).into()),
            _ => None,
        }
    }

    /// The number of a row as a floating-point number.
    #[inline]
    pub fn float(&self, row: usize) -> Option<f64> {
        if !self.has(row) {
            return None;
        }
        match &self.data {
            Data::F64(cells) => Some(cells[row]),
            Data::AllFloat(number) => Some(*number),
            _ => self.int(row).map(|number| number as f64),
        }
    }

    /// The truth value of a row.
    #[inline]
    pub fn truth(&self, row: usize) -> Option<bool> {
        if !self.has(row) {
            return None;
        }
        match &self.data {
            Data::Bool(cells) => Some(cells[row]),
            Data::AllBool(value) => Some(*value),
            _ => None,
        }
    }

    /// The text of a row.
    pub fn text(&self, row: usize) -> Option<&[u8]> {
        match &self.data {
            Data::Text(texts) if self.has(row) => Some(texts.get(row)),
            _ => None,
        }
    }

    /// The rows that have a value in both vectors.
    pub(crate) fn valid_with(&self, other: &Vector<'_>) -> Option<Vec<bool>> {
        match (&self.valid, &other.valid) {
            (None, None) => None,
            (Some(valid), None) | (None, Some(valid)) => Some(valid.clone()),
            (Some(one), Some(other)) => {
                Some(one.iter().zip(other).map(|(one, other)| *one && *other).collect())
            }
        }
    }
}
