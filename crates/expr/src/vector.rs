//! Values of a batch, one for each row that was asked for.

use std::borrow::Cow;

/// Values.
#[derive(Clone, Debug)]
pub struct Vector<'a> {
    /// The values; those of rows without one mean nothing.
    pub data: Data<'a>,
    /// Which rows have a value; all have if `None`.
    pub valid: Option<Vec<bool>>,
}

/// Values of one type.
#[derive(Clone, Debug)]
pub enum Data<'a> {
    /// No row has a value.
    Null,
    /// True or false.
    Bool(Vec<bool>),
    /// Whole numbers that fit into 64 bits without a sign.
    U64(Cow<'a, [u64]>),
    /// Whole numbers.
    I128(Vec<i128>),
    /// Floating-point numbers.
    F64(Vec<f64>),
    /// Texts.
    Text(Texts),
    /// The same truth value in all rows.
    AllBool(bool),
    /// The same whole number in all rows.
    AllInt(i128),
    /// The same floating-point number in all rows.
    AllFloat(f64),
}

/// Texts of rows: each distinct text of a dictionary once, others once for each row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// The text of each row, by its position; the same text for all rows if it is empty.
    at: Vec<u32>,
    /// Where each text ends.
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Texts {
    /// The same text in all rows.
    pub(crate) fn same(text: &[u8]) -> Texts {
        Texts { at: Vec::new(), ends: vec![text.len()], bytes: text.to_vec() }
    }

    /// How many texts there are.
    pub fn n_texts(&self) -> usize {
        self.ends.len()
    }

    /// The text at a position.
    pub fn text(&self, position: usize) -> &[u8] {
        let start = position.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[position]]
    }

    /// The position of a row's text.
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

    /// True if it is the same text in all rows.
    pub(crate) fn is_same(&self) -> bool {
        self.at.is_empty()
    }

    /// Adds a text, which `write` appends, and returns its position.
    pub(crate) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> u32 {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
        (self.ends.len() - 1) as u32 // A batch has some thousand rows.
    }

    /// Gives the next row a text that was added.
    pub(crate) fn push_at(&mut self, position: u32) {
        self.at.push(position);
    }

    /// Gives the next row a text of its own.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let position = self.add(write);
        self.at.push(position);
    }

    /// The same rows with each text changed once.
    pub(crate) fn map(&self, change: impl Fn(&[u8], &mut Vec<u8>)) -> Texts {
        let mut out = Texts { at: self.at.clone(), ..Texts::default() };
        for position in 0..self.n_texts() {
            out.add(|bytes| change(self.text(position), bytes));
        }
        out
    }

    /// Something of each row, which is found out once for each text.
    pub(crate) fn each<T: Copy>(&self, n_rows: usize, find: impl Fn(&[u8]) -> T) -> Vec<T> {
        let found: Vec<T> = (0..self.n_texts()).map(|position| find(self.text(position))).collect();
        (0..n_rows).filter_map(|row| found.get(self.position(row)).copied()).collect()
    }

    /// The rows among these.
    pub(crate) fn bytes_used(&self) -> usize {
        self.bytes.len()
    }
}

impl<'a> Vector<'a> {
    /// All rows have a value.
    pub(crate) fn of(data: Data<'a>) -> Vector<'a> {
        Vector { data, valid: None }
    }

    /// No row has one.
    pub(crate) fn null() -> Vector<'a> {
        Vector::of(Data::Null)
    }

    /// True if the row has a value.
    #[inline]
    pub fn has(&self, row: usize) -> bool {
        !matches!(self.data, Data::Null) && self.valid.as_ref().is_none_or(|valid| valid[row])
    }

    /// True if each row has a value.
    pub fn has_all(&self) -> bool {
        !matches!(self.data, Data::Null) && self.valid.is_none()
    }

    /// The whole number of a row; that of a truth value is 0 or 1.
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

    /// The truth of a row.
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

    /// Whether rows have a value in both.
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
