//! Combines values of several branches row by row.

use crate::bind::Ty;
use crate::vector::{Data, Texts, Vector};

/// Rows that can be filled in any order; the others are `NULL`.
pub(super) struct Join {
    data: Data<'static>,
    valid: Vec<bool>,
    /// For texts, the positions of the rows until all are known.
    at: Vec<u32>,
}

impl Join {
    pub(super) fn new(ty: Ty, n: usize) -> Join {
        let data = match ty {
            Ty::Null => Data::Null,
            Ty::Bool => Data::Bool(vec![false; n]),
            Ty::Int => Data::I128(vec![0; n]),
            Ty::Float => Data::F64(vec![0.0; n]),
            Ty::Text => {
                let mut texts = Texts::default();
                texts.add(|_| {});
                Data::Text(texts)
            }
        };
        let at = if ty == Ty::Text { vec![0; n] } else { Vec::new() };
        Join { data, valid: vec![false; n], at }
    }

    /// Sets the rows `to`, in order, to the values.
    pub(super) fn put(&mut self, values: &Vector<'_>, to: &[u32]) {
        self.fill(values, to.iter().enumerate().map(|(from, to)| (from, *to as usize)));
    }

    /// Sets the first rows to the values at `from`, in order.
    pub(super) fn put_some(&mut self, values: &Vector<'_>, from: &[u32]) {
        self.fill(values, from.iter().enumerate().map(|(to, from)| (*from as usize, to)));
    }

    fn fill(&mut self, values: &Vector<'_>, rows: impl Iterator<Item = (usize, usize)>) {
        let rows = rows.filter(|(from, _)| values.has(*from));
        match (&mut self.data, &values.data) {
            (Data::Bool(cells), _) => {
                for (from, to) in rows {
                    (cells[to], self.valid[to]) = (values.truth(from).unwrap_or(false), true);
                }
            }
            (Data::I128(cells), _) => {
                for (from, to) in rows {
                    (cells[to], self.valid[to]) = (values.int(from).unwrap_or(0), true);
                }
            }
            (Data::F64(cells), _) => {
                for (from, to) in rows {
                    (cells[to], self.valid[to]) = (values.float(from).unwrap_or(0.0), true);
                }
            }
            (Data::Text(texts), Data::Text(more)) => {
                let mut known: Vec<Option<u32>> = vec![None; more.n_texts()];
                for (from, to) in rows {
                    let position = more.position(from);
                    let copied = *known[position]
                        .get_or_insert_with(|| texts.add(|out| out.extend_from_slice(more.text(position))));
                    (self.at[to], self.valid[to]) = (copied, true);
                }
            }
            _ => {}
        }
    }

    pub(super) fn finish<'a>(self) -> Vector<'a> {
        let Join { mut data, valid, at } = self;
        if let Data::Text(texts) = &mut data {
            at.into_iter().for_each(|position| texts.push_at(position));
        }
        let is_whole = !valid.contains(&false);
        Vector { data, valid: (!is_whole).then_some(valid) }
    }
}
