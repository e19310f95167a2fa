//! Physical addresses instead of virtual ones, page by page. SPEC: 15.4.
//!
//! A trace tells the physical address of a page when the page is first used, in a pair of marks, or says that it has none; a
//! file may tell pages beforehand. The marks are known by their names, which each format chooses: those that have
//! physical addresses use these. A page that nobody told keeps the lower 28 bits of its virtual address.

use hashbrown::HashMap;
use quipu_model::{Batch, Error, Result, Trace};
use rustc_hash::FxBuildHasher;

/// What is left of a virtual address without a translation.
const UNTRANSLATED: u64 = (1 << 28) - 1;

/// Kinds of marks that are looked at for their names.
const MAX_KINDS: u32 = 128;

/// Turns the addresses of batches into physical ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Translator {
    shift: u32,
    /// The marks: a physical address, the virtual one that goes with it, a virtual one without translation.
    kinds: Option<[u32; 3]>,
    /// Pages that a file has told; the same for all processes.
    told: HashMap<u64, u64, FxBuildHasher>,
    pages: HashMap<(u64, u64), u64, FxBuildHasher>,
    pending: Option<u64>,
    /// Accesses to pages that nobody told.
    untold: u64,
    addr: Vec<u64>,
    pc: Vec<u64>,
}

impl Translator {
    /// A translator for this trace, with what a file says of pages.
    ///
    /// # Errors
    /// `Missing` if neither the trace nor a file has physical addresses.
    pub fn new(trace: &dyn Trace, file: Option<&Pages>) -> Result<Translator> {
        let names = ["physical_address", "virtual_address", "physical_address_not_available"];
        let find = |name: &str| (0..MAX_KINDS).find(|kind| trace.mark_name(*kind) == name);
        let kinds = match names.map(find) {
            [Some(physical), Some(of), Some(none)] => Some([physical, of, none]),
            _ => None,
        };
        if kinds.is_none() && file.is_none() {
            return Err(Error::missing(
                "physical addresses need marks `physical_address`, which traces of this format do not carry",
            ));
        }
        let page_bytes = file.map(|pages| pages.page_bytes).or(trace.meta().page_bytes).unwrap_or(4096);
        if !page_bytes.is_power_of_two() {
            return Err(Error::usage(format!("pages of {page_bytes} bytes cannot be translated")));
        }
        Ok(Translator {
            shift: page_bytes.trailing_zeros(),
            kinds,
            told: file.map(|pages| pages.pages.clone()).unwrap_or_default(),
            pages: HashMap::default(),
            pending: None,
            untold: 0,
            addr: Vec::new(),
            pc: Vec::new(),
        })
    }

    /// True if the trace's marks are looked at.
    pub(crate) fn reads_marks(&self) -> bool {
        self.kinds.is_some()
    }

    /// Accesses to pages that nobody told.
    pub fn untold(&self) -> u64 {
        self.untold
    }

    /// The physical addresses and PCs of the batch that was translated last.
    pub(crate) fn translated(&self) -> (&[u64], &[u64]) {
        (&self.addr, &self.pc)
    }

    /// Translates all accesses of a batch.
    pub(crate) fn translate(&mut self, batch: &Batch) {
        self.addr.clear();
        self.pc.clear();
        let (accesses, marks) = (&batch.accesses, &batch.marks);
        let process = batch.span.process;
        let mut mark = 0;
        for (row, (at, addr)) in accesses.at.iter().zip(&accesses.addr).enumerate() {
            while marks.at.get(mark).is_some_and(|mark_at| mark_at < at) {
                self.learn(process, marks.kind[mark], marks.value[mark]);
                mark += 1;
            }
            let (addr, is_told) = self.physical(process, *addr);
            self.untold += u64::from(!is_told);
            self.addr.push(addr);
            if let Some(pc) = accesses.pc.get(row) {
                let (pc, _) = self.physical(process, *pc);
                self.pc.push(pc);
            }
        }
        for mark in mark..marks.len() {
            self.learn(process, marks.kind[mark], marks.value[mark]);
        }
    }

    fn learn(&mut self, process: u64, kind: u32, value: u64) {
        let Some([physical, of, none]) = self.kinds else { return };
        if kind == physical {
            self.pending = Some(value);
        } else if kind == of
            && let Some(physical) = self.pending.take()
        {
            self.pages.insert((process, value >> self.shift), physical >> self.shift);
        } else if kind == none {
            self.pages.insert((process, value >> self.shift), (value & UNTRANSLATED) >> self.shift);
        }
    }

    /// The physical address, and whether anybody told its page.
    fn physical(&self, process: u64, addr: u64) -> (u64, bool) {
        let page = addr >> self.shift;
        let told = self.pages.get(&(process, page)).or_else(|| self.told.get(&page));
        match told {
            Some(physical) => ((physical << self.shift) | (addr & ((1 << self.shift) - 1)), true),
            None => (addr & UNTRANSLATED, false),
        }
    }
}

/// What a file says of pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Pages {
    page_bytes: u64,
    pages: HashMap<u64, u64, FxBuildHasher>,
}

impl Pages {
    /// Reads the text form of a list of pages: `page_size: N` and, for each page, `virtual_address: V` followed by
    /// `physical_address: P`, in any nesting of braces.
    ///
    /// # Errors
    /// `Malformed` with the line.
    pub fn parse(text: &str, name: &str) -> Result<Pages> {
        let mut pages = Pages { page_bytes: 4096, pages: HashMap::default() };
        let (mut virtual_page, mut physical_page) = (None, None);
        let mut pairs = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            let parsed = match value.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => value.parse(),
            };
            let wanted = ["page_size", "virtual_address", "physical_address"];
            if !wanted.contains(&key.trim()) {
                continue;
            }
            let parsed = parsed.map_err(|_| {
                let line = number + 1;
                Error::usage(format!("{name}: line {line}, key {key}: found `{value}`, allowed: a number"))
            })?;
            match key.trim() {
                "page_size" => pages.page_bytes = parsed,
                "virtual_address" => virtual_page = Some(parsed),
                _ => physical_page = Some(parsed),
            }
            if let (Some(of), Some(physical)) = (virtual_page, physical_page) {
                pairs.push((of, physical));
                (virtual_page, physical_page) = (None, None);
            }
        }
        if !pages.page_bytes.is_power_of_two() {
            let found = pages.page_bytes;
            let message = format!("{name}: key page_size: found `{found}`, allowed: a power of two");
            return Err(Error::usage(message));
        }
        let shift = pages.page_bytes.trailing_zeros();
        pages.pages = pairs.into_iter().map(|(of, physical)| (of >> shift, physical >> shift)).collect();
        Ok(pages)
    }
}
