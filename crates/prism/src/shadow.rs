//! Shadow memory: a cell for each byte of the full address range, in pages that are allocated on first use.

use crate::fault::Error;
use rustc_hash::FxHashMap;

/// Number of bytes of memory per page.
pub const PAGE_BYTES: usize = 4096;
/// Default limit on the number of pages.
pub const USUAL_PAGES: usize = 1 << 16;

/// The error for a run whose events touch more than `most` pages of cells `C`; `more` names other uses of memory that count.
#[cold]
pub(crate) fn too_many_pages<C>(back_end: &str, most: usize, more: &str) -> Error {
    let gib = (most * PAGE_BYTES * size_of::<C>()) as f64 / (1 << 30) as f64;
    Error::Stop(format!(
        "{back_end}: the events touch more than {most} pages of {PAGE_BYTES} bytes{more}: their shadow memory takes {gib:.1} GiB; \
         `pages=N` allows another number"
    ))
}

/// A cell for each byte of memory. Its size is bounded by the number of pages touched.
#[derive(Clone, Debug)]
pub struct Shadow<C> {
    index: FxHashMap<u64, usize>,
    pages: Vec<Box<[C]>>,
    /// The page used last, since accesses are usually close to each other.
    last: Option<(u64, usize)>,
}

impl<C> Default for Shadow<C> {
    fn default() -> Shadow<C> {
        Shadow { index: FxHashMap::default(), pages: Vec::new(), last: None }
    }
}

impl<C: Copy + Default> Shadow<C> {
    /// Number of pages allocated.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The cells from `address` to the end of its page, at most `len` of them.
    #[inline]
    pub fn cells(&mut self, address: u64, len: u64) -> &mut [C] {
        let number = address / PAGE_BYTES as u64;
        let page = match self.last {
            Some((last, page)) if last == number => page,
            _ => self.page(number),
        };
        let start = (address % PAGE_BYTES as u64) as usize; // Below `PAGE_BYTES`.
        let len = len.min((PAGE_BYTES - start) as u64) as usize; // At most `PAGE_BYTES`.
        &mut self.pages[page][start..start + len]
    }

    fn page(&mut self, number: u64) -> usize {
        let pages = &mut self.pages;
        let page = *self.index.entry(number).or_insert_with(|| {
            pages.push(vec![C::default(); PAGE_BYTES].into_boxed_slice());
            pages.len() - 1
        });
        self.last = Some((number, page));
        page
    }

    /// Calls `visit` with the address and the cells of each page that an access touches. An access ends at the last address.
    #[inline]
    pub fn visit(&mut self, address: u64, bytes: u64, mut visit: impl FnMut(u64, &mut [C])) {
        let (mut address, mut left) = (address, bytes.min((u64::MAX - address).saturating_add(1)));
        while left > 0 {
            let cells = self.cells(address, left);
            let len = cells.len() as u64;
            visit(address, cells);
            left -= len;
            address = address.wrapping_add(len);
        }
    }
}
