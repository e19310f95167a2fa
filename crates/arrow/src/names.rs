//! Names of numbers as a dictionary that only grows, so that batches can share it.

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray};
use arrow_buffer::NullBuffer;
use quipu_model::schema::Names;
use quipu_model::{Error, ErrorKind, Result};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Maximum number of entries; a new dictionary is then begun. A damaged trace may have any number of numbers without a name.
const MAX_ENTRIES: usize = 1 << 16;

/// Numbers below this are looked up in an array, others in a hash map.
const N_DENSE: usize = 256;

/// The text of a number: its name, or its digits if it has none, if another number has the same name, or if the name reads as
/// a number.
fn text(names: &Names, number: u64) -> String {
    match names.get(number) {
        Some(name) if names.number(name) == Some(number) && name.parse::<u64>().is_err() => name.to_owned(),
        _ => number.to_string(),
    }
}

/// Returns the number from which [`text`] made this text.
pub(crate) fn number(names: &Names, text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| names.number(text))
}

/// The dictionary of one column.
#[derive(Debug)]
pub(crate) struct NamedColumn {
    names: Arc<Names>,
    dense: Vec<i32>,
    sparse: FxHashMap<u64, i32>,
    texts: Vec<String>,
    /// The entries as last returned; `None` if some were added since.
    values: Option<ArrayRef>,
}

impl NamedColumn {
    /// Creates a dictionary that holds all of `names`.
    pub(crate) fn new(names: Arc<Names>) -> NamedColumn {
        let mut column = NamedColumn {
            names,
            dense: vec![-1; N_DENSE],
            sparse: FxHashMap::default(),
            texts: Vec::new(),
            values: None,
        };
        column.begin();
        column
    }

    fn begin(&mut self) {
        self.dense.fill(-1);
        self.sparse.clear();
        self.texts.clear();
        self.values = None;
        let names = self.names.clone();
        names.iter().take(MAX_ENTRIES / 2).for_each(|(number, _)| {
            self.key(number);
        });
    }

    #[inline]
    fn key(&mut self, number: u64) -> i32 {
        if let Some(key) =
            usize::try_from(number).ok().and_then(|at| self.dense.get(at)).filter(|key| **key >= 0)
        {
            return *key;
        }
        match self.sparse.get(&number) {
            Some(key) => *key,
            None => self.add(number),
        }
    }

    #[cold]
    fn add(&mut self, number: u64) -> i32 {
        let key = i32::try_from(self.texts.len()).unwrap_or(i32::MAX); // It is begun anew long before.
        self.texts.push(text(&self.names, number));
        self.values = None;
        match usize::try_from(number).ok().and_then(|at| self.dense.get_mut(at)) {
            Some(dense) => *dense = key,
            None => drop(self.sparse.insert(number, key)),
        }
        key
    }

    /// Encodes a column of numbers.
    ///
    /// # Errors
    /// `Internal` if Arrow rejects the entries and keys.
    pub(crate) fn encode(
        &mut self,
        numbers: impl Iterator<Item = u64>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        if self.texts.len() > MAX_ENTRIES {
            self.begin();
        }
        let keys: Vec<i32> = match &nulls {
            None => numbers.map(|number| self.key(number)).collect(),
            // The number stored for a row without a value gets no entry.
            Some(nulls) => numbers
                .enumerate()
                .map(|(row, number)| if nulls.is_valid(row) { self.key(number) } else { 0 })
                .collect(),
        };
        let values = self
            .values
            .get_or_insert_with(|| Arc::new(StringArray::from_iter_values(self.texts.iter())) as ArrayRef)
            .clone();
        let keys = Int32Array::new(keys.into(), nulls);
        let made = DictionaryArray::<Int32Type>::try_new(keys, values);
        made.map(|array| Arc::new(array) as ArrayRef)
            .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
    }
}
