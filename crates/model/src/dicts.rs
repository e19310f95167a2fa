//! Dictionaries that grow during a read: texts that many rows share.

use crate::column::Strings;

/// The dictionaries of one read. Append-only, like the tables of instructions and types: an index stays valid until the read
/// ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dicts(Vec<Strings>);

impl Dicts {
    /// Appends a text to a dictionary and returns its index.
    pub fn push(&mut self, dict: u32, text: &[u8]) -> u32 {
        let dict = dict as usize;
        if self.0.len() <= dict {
            self.0.resize(dict + 1, Strings::default());
        }
        let index = self.0[dict].len() as u32; // Readers stop long before 2^31 texts.
        self.0[dict].push_text(text);
        index
    }

    /// The text at an index of a dictionary.
    pub fn get(&self, dict: u32, index: u32) -> Option<&[u8]> {
        let texts = self.0.get(dict as usize)?;
        ((index as usize) < texts.len()).then(|| texts.get(index as usize))
    }

    /// The number of texts in each dictionary.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(Strings::len)
    }

    /// The texts of each dictionary that come after its first `known[dict]` ones.
    pub fn tail(&self, known: &[usize]) -> Dicts {
        let tail = |(dict, texts): (usize, &Strings)| {
            let mut tail = Strings::default();
            tail.extend_rows(texts, known.get(dict).copied().unwrap_or(0)..texts.len());
            tail
        };
        Dicts(self.0.iter().enumerate().map(tail).collect())
    }

    /// Appends the texts of other dictionaries, one dictionary to one.
    pub fn append(&mut self, more: &Dicts) {
        self.0.resize(self.0.len().max(more.0.len()), Strings::default());
        for (texts, more) in self.0.iter_mut().zip(&more.0) {
            texts.extend_rows(more, 0..more.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_makes_a_copy_whole_again() {
        let mut dicts = Dicts::default();
        dicts.push(1, b"a");
        let (mut copy, known) = (dicts.clone(), dicts.lengths().collect::<Vec<_>>());
        assert_eq!((dicts.push(0, b"b"), dicts.push(1, b"c")), (0, 1));
        copy.append(&dicts.tail(&known));
        assert_eq!(copy, dicts);
        assert_eq!((copy.get(1, 1), copy.get(1, 2), copy.get(7, 0)), (Some(&b"c"[..]), None, None));
    }
}
