//! A column of lists of numbers.

use super::{Cells, Column};

/// A list of 64-bit numbers for each row, all in one buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Lists {
    /// Start of each list in `items`, followed by the end of the last; empty if there are no rows.
    pub(super) offsets: Vec<i32>,
    pub(super) items: Box<Column>,
}

impl Default for Lists {
    fn default() -> Lists {
        let items = Column { cells: Cells::U64(Vec::new()), valid: None };
        Lists { offsets: Vec::new(), items: Box::new(items) }
    }
}

impl Lists {
    /// The list of a row; empty past the end.
    pub fn get(&self, row: usize) -> &[u64] {
        match (self.offsets.get(row..row.saturating_add(2)), &self.items.cells) {
            (Some([start, end]), Cells::U64(items)) => {
                items.get(*start as usize..*end as usize).unwrap_or(&[])
            }
            _ => &[],
        }
    }

    /// Appends a list.
    pub fn push(&mut self, list: impl IntoIterator<Item = u64>) {
        if let Cells::U64(items) = &mut self.items.cells {
            items.extend(list);
            end_row(&mut self.offsets, items.len());
        }
    }

    /// Keeps the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.items.truncate(self.offsets.last().map_or(0, |end| *end as usize));
    }
}

/// Records that a list ends after `n_items` items in all. Readers end a batch long before there are 2^31.
pub(super) fn end_row(offsets: &mut Vec<i32>, n_items: usize) {
    if offsets.is_empty() {
        offsets.push(0);
    }
    offsets.push(i32::try_from(n_items).unwrap_or(i32::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_numbers() {
        let mut lists = Lists::default();
        lists.push([1, 2]);
        lists.push([]);
        lists.push([3]);
        assert_eq!(
            (lists.get(0), lists.get(1), lists.get(2), lists.get(3)),
            (&[1, 2][..], &[][..], &[3][..], &[][..])
        );
        lists.truncate(1);
        lists.push([4]);
        assert_eq!(lists.get(1), [4]);
    }
}
