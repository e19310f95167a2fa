//! Names for numbers, and words that each stand for several of them.

use super::{Storage, Text};
use std::sync::Arc;

/// Names for the numbers of a column, or for its bits.
///
/// Numbers of a file are sparse, those of the code mostly dense: pairs sorted by number, with a quick way to the first ones.
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
    /// How many of the first pairs have their position as their number.
    n_dense: usize,
    groups: Vec<(Text, Vec<u64>)>,
}

impl Names {
    /// These names for numbers that are stored like this; of two names of a number, the first.
    pub fn new<N: Into<Text>>(storage: Storage, names: impl IntoIterator<Item = (u64, N)>) -> Names {
        let mut sorted: Vec<(u64, Text)> =
            names.into_iter().map(|(number, name)| (number, name.into())).collect();
        sorted.sort_by_key(|(number, _)| *number);
        sorted.dedup_by_key(|(number, _)| *number);
        let n_dense = sorted.iter().zip(0..).take_while(|((number, _), at)| number == at).count();
        Names { storage, sorted, n_dense, groups: Vec::new() }
    }

    /// Names for the numbers from 0 on.
    pub fn dense(storage: Storage, names: &[&'static str]) -> Names {
        Names::new(storage, (0..).zip(names.iter().copied()))
    }

    /// The same with a word that stands for all of these names. Names that there are not are left out.
    pub fn with_group(mut self, word: impl Into<Text>, members: &[&str]) -> Names {
        let numbers = members.iter().filter_map(|name| self.number(name)).collect();
        self.groups.push((word.into(), numbers));
        self
    }

    /// Ready to be shared by schemas.
    pub fn shared(self) -> Arc<Names> {
        Arc::new(self)
    }

    /// How the numbers are stored.
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

    /// The numbers that a word stands for.
    pub fn group(&self, word: &str) -> Option<&[u64]> {
        self.groups().find(|(other, _)| *other == word).map(|(_, numbers)| numbers)
    }

    /// Words that each stand for several numbers, with these.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &[u64])> {
        self.groups.iter().map(|(word, numbers)| (&**word, &numbers[..]))
    }

    /// All numbers with their names, by number.
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
