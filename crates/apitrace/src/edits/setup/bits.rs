//! A set of calls as a bitmap that stores only pages with a bit set.

/// Number of calls in a page.
const PAGE: u32 = 1 << 16;

/// A bit for each call, in pages; a page is allocated when one of its bits is set.
#[derive(Clone, Debug, Default)]
pub struct Bits(Vec<Option<Box<[u64; PAGE as usize / 64]>>>);

impl Bits {
    pub(super) fn set(&mut self, at: u32) {
        let page = (at / PAGE) as usize;
        if self.0.len() <= page {
            self.0.resize(page + 1, None);
        }
        let words = self.0[page].get_or_insert_with(|| Box::new([0; PAGE as usize / 64]));
        words[(at % PAGE / 64) as usize] |= 1 << (at % 64);
    }

    /// Whether the bit at `at` is set.
    pub fn get(&self, at: u32) -> bool {
        let page = self.0.get((at / PAGE) as usize).and_then(Option::as_ref);
        page.is_some_and(|words| words[(at % PAGE / 64) as usize] >> (at % 64) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_far_from_each_other_take_a_page_each() {
        let mut bits = Bits::default();
        for at in [0, 63, 64, PAGE, u32::MAX] {
            assert!(!bits.get(at));
            bits.set(at);
            assert!(bits.get(at));
        }
        assert!(!bits.get(1) && !bits.get(PAGE - 1) && !bits.get(u32::MAX - 1));
        assert_eq!(bits.0.iter().flatten().count(), 3);
    }
}
