//! Names for numbers, and group names that each stand for several of them.

use super::{Storage, Text};
use std::sync::Arc;

/// Names for the numbers of a column, or for its bits.
///
/// Numbers in files are sparse, while those in the code are mostly dense. So names are stored as pairs sorted by number, with
/// direct access to the dense ones at the front.
///
/// ```
/// use quipu_model::schema::{Names, Storage};
/// let names = Names::new(Storage::U8, [(0, "read"), (1, "write"), (200, "flush")]).with_group("access", &["read", "write"]);
/// assert_eq!((names.get(200), names.get(7), names.number("write")), (Some("flush"), None, Some(1)));
/// assert_eq!(names.group("access"), Some(&[0, 1][..]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    storage: Storage,
    sorted: Vec<(u64, Text)>,
    /// Number of leading pairs whose number equals their position.
    n_dense: usize,
    groups: Vec<(Text, Vec<u64>)>,
}

impl Names {
    /// Creates names for numbers with this storage. If a number has two names, the first counts.
    pub fn new<N: Into<Text>>(storage: Storage, names: impl IntoIterator<Item = (u64, N)>) -> Names {
        let mut sorted: Vec<(u64, Text)> =
            names.into_iter().map(|(number, name)| (number, name.into())).collect();
        sorted.sort_by_key(|(number, _)| *number);
        sorted.dedup_by_key(|(number, _)| *number);
        let n_dense = sorted.iter().zip(0..).take_while(|((number, _), at)| number == at).count();
        Names { storage, sorted, n_dense, groups: Vec::new() }
    }

    /// Creates names for the numbers 0, 1, 2, ….
    pub fn dense(storage: Storage, names: &[&'static str]) -> Names {
        Names::new(storage, (0..).zip(names.iter().copied()))
    }

    /// Adds a group name that stands for all of these names. Unknown names are ignored.
    pub fn with_group(mut self, word: impl Into<Text>, members: &[&str]) -> Names {
        let numbers = members.iter().filter_map(|name| self.number(name)).collect();
        self.groups.push((word.into(), numbers));
        self
    }

    /// Wraps the names so that schemas can share them.
    pub fn shared(self) -> Arc<Names> {
        Arc::new(self)
    }

    /// Storage of the numbers.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// The name of a number.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&str> {
        let at = match usize::try_from(number) {
            Ok(at) if at < self.n_dense => at,
            _ => self.sorted.binary_search_by_key(&number, |(number, _)| *number).ok()?,
        };
        self.sorted.get(at).map(|(_, name)| &**name)
    }

    /// The first number that has this name.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.iter().find(|(_, other)| *other == name).map(|(number, _)| number)
    }

    /// The numbers that a group name stands for.
    pub fn group(&self, word: &str) -> Option<&[u64]> {
        self.groups().find(|(other, _)| *other == word).map(|(_, numbers)| numbers)
    }

    /// All group names, each with the numbers that it stands for.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &[u64])> {
        self.groups.iter().map(|(word, numbers)| (&**word, &numbers[..]))
    }

    /// All numbers with their names, sorted by number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &str)> {
        self.sorted.iter().map(|(number, name)| (*number, &**name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_and_dense_numbers_have_their_names() {
        let sparse =
            [(9, "nine".to_owned()), (0, "zero".to_owned()), (1, "one".to_owned()), (9, "neun".to_owned())];
        let names = Names::new(Storage::U64, sparse);
        assert_eq!(names.n_dense, 2);
        for (number, name) in
            [(0, Some("zero")), (1, Some("one")), (2, None), (9, Some("nine")), (u64::MAX, None)]
        {
            assert_eq!(names.get(number), name, "{number}");
        }
        assert_eq!(names.iter().map(|(number, _)| number).collect::<Vec<_>>(), [0, 1, 9]);
    }

    #[test]
    fn a_group_knows_the_numbers_of_the_names_that_there_are() {
        let names = Names::dense(Storage::U8, &["a", "b", "c"]).with_group("ends", &["c", "a", "z"]);
        assert_eq!(names.group("ends"), Some(&[2, 0][..]));
        assert_eq!(names.group("middle"), None);
    }
}
