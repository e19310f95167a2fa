//! A value for each key, in order of first appearance, fast when the same key is used again and again.

use crate::tally::Map;
use std::hash::Hash;

#[derive(Clone, Debug)]
pub(crate) struct Keyed<K, V> {
    items: Vec<(K, V)>,
    places: Map<K, usize>,
    /// The place that was used last.
    last: usize,
}

impl<K, V> Default for Keyed<K, V> {
    fn default() -> Keyed<K, V> {
        Keyed { items: Vec::new(), places: Map::default(), last: 0 }
    }
}

impl<K: Copy + Eq + Hash, V> Keyed<K, V> {
    /// The value of `key`, made by `make` if it is missing.
    #[inline]
    pub(crate) fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if !self.items.get(self.last).is_some_and(|(known, _)| *known == key) {
            self.last = *self.places.entry(key).or_insert_with(|| {
                self.items.push((key, make()));
                self.items.len() - 1
            });
        }
        &mut self.items[self.last].1
    }

    /// Adds the values of `later`; `merge` combines two values of one key.
    pub(crate) fn merge(&mut self, later: Keyed<K, V>, mut merge: impl FnMut(&mut V, V)) {
        for (key, value) in later.items {
            match self.places.get(&key) {
                Some(&place) => merge(&mut self.items[place].1, value),
                None => {
                    self.places.insert(key, self.items.len());
                    self.items.push((key, value));
                }
            }
        }
    }

    /// True if there are no keys.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Keys and values in order of first appearance.
    pub(crate) fn into_items(self) -> Vec<(K, V)> {
        self.items
    }
}
