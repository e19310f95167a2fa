//! Translates virtual addresses to physical ones, page by page. SPEC: drmemtrace.md#simulators.
//!
//! A trace gives the physical address of a page when the page is first used, in a pair of marks, or says that there is none;
//! a file may list pages in advance. The marks are recognised by their names, which each format chooses: formats with
//! physical addresses use these. If the physical address of a page is unknown, its addresses keep the lower 28 bits of the
//! virtual address.

use hashbrown::HashMap;
use quipu_model::number::{counted, grouped};
use quipu_model::result;
use quipu_model::{Batch, Columns, Error, Result, Trace};
use rustc_hash::FxBuildHasher;

/// Bits of a virtual address that are kept without a translation.
const UNTRANSLATED: u64 = (1 << 28) - 1;

/// Number of mark kinds whose names are searched.
const MAX_KINDS: u32 = 128;

result! {
    /// Translation of virtual addresses.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Translation {
        pub accesses: u64 => "Accesses, including skipped ones and those of the warm-up.";
        pub untranslated: u64 =>
            "Accesses to pages with unknown physical address; the lower 28 bits of the virtual address are used instead.";
    } beside {
        pub is_told: bool => "Whether the trace or a file gave any translation.";
    }
}

impl Translation {
    /// A sentence about missing translations; `None` if there were none.
    pub(crate) fn shortfall(self) -> Option<String> {
        let Translation { accesses, untranslated, .. } = self;
        (untranslated > 0).then(|| {
            format!(
                "the physical address of the page is missing for {} of {}; the lower 28 bits of the virtual address stand for it",
                grouped(untranslated),
                counted(accesses, "access")
            )
        })
    }
}

/// Translates the addresses of batches to physical ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Translator {
    shift: u32,
    /// Kinds of the marks: a physical address, the virtual address that belongs to it, a virtual address without
    /// translation.
    kinds: Option<[u32; 3]>,
    /// Pages listed in a file; they hold for all processes.
    told: HashMap<u64, u64, FxBuildHasher>,
    pages: HashMap<(u64, u64), u64, FxBuildHasher>,
    pending: Option<u64>,
    /// Number of accesses, and of those to pages with unknown physical address.
    n: u64,
    untranslated: u64,
    /// Whether any translation is known.
    is_told: bool,
}

/// Translated addresses of a batch, row by row: those of accesses and of their instructions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Translated {
    pub(crate) addr: Vec<u64>,
    pub(crate) pc: Vec<u64>,
}

impl Translator {
    /// Creates a translator for a trace, with the pages of a file.
    ///
    /// # Errors
    /// `Missing` if neither the trace nor the file has physical addresses.
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
            is_told: file.is_some_and(|pages| !pages.pages.is_empty()),
            told: file.map(|pages| pages.pages.clone()).unwrap_or_default(),
            pages: HashMap::default(),
            pending: None,
            n: 0,
            untranslated: 0,
        })
    }

    /// Columns needed for the translation, with the reason, if the trace carries it.
    pub(crate) fn needs(&self) -> Option<(Columns, &'static str)> {
        self.kinds.is_some().then_some((Columns::MARKS, "translates addresses"))
    }

    /// Counts of translated and untranslated accesses so far.
    pub fn translation(&self) -> Translation {
        Translation { is_told: self.is_told, accesses: self.n, untranslated: self.untranslated }
    }

    /// Translates the addresses of all accesses of a batch.
    pub(crate) fn translate(&mut self, batch: &Batch, out: &mut Translated) {
        out.addr.clear();
        out.pc.clear();
        let (accesses, marks) = (&batch.accesses, &batch.marks);
        let process = batch.span.process;
        let mut mark = 0;
        for (row, (at, addr)) in accesses.at.iter().zip(&accesses.addr).enumerate() {
            while marks.at.get(mark).is_some_and(|mark_at| mark_at < at) {
                self.learn(process, marks.kind[mark], marks.value[mark]);
                mark += 1;
            }
            let (addr, is_told) = self.physical(process, *addr);
            self.n += 1;
            self.untranslated += u64::from(!is_told);
            out.addr.push(addr);
            if let Some(pc) = accesses.pc.get(row) {
                let (pc, _) = self.physical(process, *pc);
                out.pc.push(pc);
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
            self.is_told = true;
            self.pages.insert((process, value >> self.shift), physical >> self.shift);
        } else if kind == none {
            self.pages.insert((process, value >> self.shift), (value & UNTRANSLATED) >> self.shift);
        }
    }

    /// The physical address, and whether its page is known.
    fn physical(&self, process: u64, addr: u64) -> (u64, bool) {
        let page = addr >> self.shift;
        let told = self.pages.get(&(process, page)).or_else(|| self.told.get(&page));
        match told {
            Some(physical) => ((physical << self.shift) | (addr & ((1 << self.shift) - 1)), true),
            None => (addr & UNTRANSLATED, false),
        }
    }
}

/// Pages listed in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Pages {
    page_bytes: u64,
    pages: HashMap<u64, u64, FxBuildHasher>,
}

impl Pages {
    /// Reads the text form of a list of pages: `page_size: N` and, for each page, `virtual_address: V` followed by
    /// `physical_address: P`, each on its own line, in any nesting of braces. A page without a virtual address is the one at
    /// 0. Text after `#` is a comment. SPEC: drmemtrace.md#auxiliary-files.
    ///
    /// # Errors
    /// `Usage` with the line, the value found and the values allowed: for an invalid number, two keys on one line, a page or
    /// address that occurs twice, and a size that changes; and for a text without pages.
    pub fn parse(text: &str, name: &str) -> Result<Pages> {
        let mut lines = Lines::default();
        for (i, line) in text.lines().enumerate() {
            lines
                .take(line, i + 1)
                .map_err(|wrong| Error::usage(format!("{name}: line {}, {wrong}", i + 1)))?;
        }
        if let Some((_, line)) = lines.pending {
            return Err(Error::usage(format!(
                "{name}: line {line}, key virtual_address: found no physical_address after it, allowed: one"
            )));
        }
        if lines.pairs.is_empty() {
            return Err(Error::usage(format!("{name}: found no page, allowed: one or more")).hint(
                "each page has a line `virtual_address: N` and, after it, a line `physical_address: N`",
            ));
        }
        let page_bytes = lines.sizes[0].map_or(4096, |(bytes, _)| bytes);
        let shift = page_bytes.trailing_zeros();
        let mut pages: HashMap<u64, u64, FxBuildHasher> = HashMap::default();
        let mut line_of: HashMap<u64, usize, FxBuildHasher> = HashMap::default();
        for Pair { of, physical, line } in lines.pairs {
            if let Some(before) = line_of.insert(of >> shift, line) {
                return Err(Error::usage(format!(
                    "{name}: line {line}, key physical_address: found page {of:#x} again, allowed: once, and line {before} has it"
                )));
            }
            pages.insert(of >> shift, physical >> shift);
        }
        Ok(Pages { page_bytes, pages })
    }
}

/// One page of a file, with its line.
struct Pair {
    of: u64,
    physical: u64,
    line: usize,
}

/// Keys that apply to all pages, in the order of [`Lines::sizes`].
const SIZES: [&str; 3] = ["page_size", "page_count", "bytes_mapped"];

/// State of the parser.
#[derive(Default)]
struct Lines {
    /// Value and line of each of [`SIZES`].
    sizes: [Option<(u64, usize)>; 3],
    /// A virtual address that still needs its physical one, with its line.
    pending: Option<(u64, usize)>,
    pairs: Vec<Pair>,
}

impl Lines {
    /// Parses one line; the error describes what is wrong with it.
    fn take(&mut self, line: &str, number: usize) -> std::result::Result<(), String> {
        let line = line.split('#').next().unwrap_or_default();
        let is_key =
            |word: &&str| SIZES.contains(word) || matches!(*word, "virtual_address" | "physical_address");
        let mut keys = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(is_key);
        let Some(key) = keys.next() else { return Ok(()) };
        if let Some(second) = keys.next() {
            return Err(format!(
                "key {key}: found key `{second}` on the same line, allowed: one key on each line"
            ));
        }
        let Some((_, value)) = line.split_once(':') else {
            return Err(format!("key {key}: found `{}`, allowed: `{key}: NUMBER`", line.trim()));
        };
        let value = value.trim().trim_end_matches('}').trim_end();
        let parsed = match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => value.parse(),
        };
        let parsed = parsed.map_err(|_| format!("key {key}: found `{value}`, allowed: a number"))?;
        if let Some(at) = SIZES.iter().position(|size| *size == key) {
            return self.set_size(at, parsed, number);
        }
        if key == "virtual_address" {
            if let Some((_, before)) = self.pending {
                return Err(format!(
                    "key virtual_address: found another, allowed: the physical_address of that in line {before} first"
                ));
            }
            self.pending = Some((parsed, number));
        } else {
            let (of, _) = self.pending.take().unwrap_or_default();
            self.pairs.push(Pair { of, physical: parsed, line: number });
        }
        Ok(())
    }

    fn set_size(&mut self, at: usize, value: u64, number: usize) -> std::result::Result<(), String> {
        let key = SIZES[at];
        if at == 0 && !value.is_power_of_two() {
            return Err(format!("key {key}: found `{value}`, allowed: a power of two"));
        }
        match self.sizes[at] {
            Some((known, line)) if known != value => {
                Err(format!("key {key}: found `{value}`, allowed: `{known}`, which line {line} has"))
            }
            _ => {
                self.sizes[at] = Some((value, number));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_pages_is_read_with_remarks_and_braces() {
        let text = "# pages\npage_size: 0x1000\npage_size: 4096\nmapping {\n  virtual_address: 0x7000 # of code\n  \
                    physical_address: 8192\n}\n";
        let pages = Pages::parse(text, "v").unwrap();
        assert_eq!((pages.page_bytes, pages.pages.into_iter().collect::<Vec<_>>()), (4096, vec![(7, 2)]));
        // Without a virtual address, it is the page at 0.
        let pages = Pages::parse("physical_address: 0x3000", "v").unwrap();
        assert_eq!(pages.pages.into_iter().collect::<Vec<_>>(), [(0, 3)]);
    }

    #[test]
    fn a_mistake_in_a_list_of_pages_is_told_with_its_line() {
        let one = "virtual_address: 0x1000\nphysical_address: 0x2000\n";
        let again = format!("{one}virtual_address: 0x1008\nphysical_address: 0x5000\n");
        let cases = [
            ("", "v: found no page, allowed: one or more"),
            ("page_size: 4096\n", "v: found no page, allowed: one or more"),
            (
                "virtual_address: 0x1000 physical_address: 0x2000",
                "v: line 1, key virtual_address: found key `physical_address` on the same line, allowed: one key on each line",
            ),
            (
                again.as_str(),
                "v: line 4, key physical_address: found page 0x1008 again, allowed: once, and line 2 has it",
            ),
            ("\nvirtual_address: x", "v: line 2, key virtual_address: found `x`, allowed: a number"),
            (
                "virtual_address 7",
                "v: line 1, key virtual_address: found `virtual_address 7`, allowed: `virtual_address: NUMBER`",
            ),
            ("page_size: 3", "v: line 1, key page_size: found `3`, allowed: a power of two"),
            (
                "page_size: 4096\npage_size: 8192",
                "v: line 2, key page_size: found `8192`, allowed: `4096`, which line 1 has",
            ),
            (
                "virtual_address: 1\nvirtual_address: 2",
                "v: line 2, key virtual_address: found another, allowed: the physical_address of that in line 1 first",
            ),
            (
                "virtual_address: 1\n",
                "v: line 1, key virtual_address: found no physical_address after it, allowed: one",
            ),
        ];
        for (text, expected) in cases {
            let error = Pages::parse(text, "v").unwrap_err();
            assert_eq!((error.kind(), error.message()), (quipu_model::ErrorKind::Usage, expected));
        }
    }
}
