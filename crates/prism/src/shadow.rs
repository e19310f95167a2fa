//! Shadow memory: what is known of each byte, for the full width of addresses, in pages that exist once they are touched.

use crate::fault::Error;
use rustc_hash::FxHashMap;

/// Bytes of memory that a page stands for.
pub const PAGE_BYTES: usize = 4096;
/// Pages that there may be, if no option of a back end says otherwise.
pub const USUAL_PAGES: usize = 1 << 16;

/// The end of a run whose events touch more than `most` pages of cells `C`, or do `more` that takes as much memory.
#[cold]
pub(crate) fn too_many_pages<C>(back_end: &str, most: usize, more: &str) -> Error {
    let gib = (most * PAGE_BYTES * size_of::<C>()) as f64 / (1 << 30) as f64;
    Error::Stop(format!(
        "{back_end}: the events touch more than {most} pages of {PAGE_BYTES} bytes{more}: their shadow memory takes {gib:.1} GiB; \
         `pages=N` allows another number"
    ))
}

/// A cell for each byte of memory. Its size is bounded by the pages that were touched.
#[derive(Clone, Debug)]
pub struct Shadow<C> {
    index: FxHashMap<u64, usize>,
    pages: Vec<Box<[C]>>,
    /// The page that was used last, since accesses stay near each other.
    last: Option<(u64, usize)>,
}

impl<C> Default for Shadow<C> {
    fn default() -> Shadow<C> {
        Shadow { index: FxHashMap::default(), pages: Vec::new(), last: None }
    }
}

impl<C: Copy + Default> Shadow<C> {
    /// How many pages exist.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The cells from `address` on, up to the end of its page, at most `len` of them.
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

    /// Calls `visit` with the address and cells of each part of an access; bytes after the last address do not exist.
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
