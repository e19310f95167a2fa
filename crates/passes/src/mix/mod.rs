//! `mix`: executed instructions by category or kind of control flow, as shares.
//!
//! If the trace has encodings of an architecture that Quipu decodes, each executed instruction counts under the set of its
//! categories, as in [`categories`](crate::categories). Otherwise it counts under its kind of control flow, if the trace has
//! that. The tool also reports loads and stores per instruction, the mean instruction length, further iterations of string
//! loops, and kernel instructions.
//!
//! An *instruction* here is one that was fetched; an *executed* one may also be a further iteration of a string loop.
//! Loads and stores are accesses as the trace has them: a filtered trace has fewer than the program made.
//!
//! * **Needs** `instrs`; uses `instrs.code`, `instrs.class`, `accesses`.
//! * **Options** `per-thread`.

use crate::categories::CategorySets;
use crate::executed::Executed;
use crate::filtered::Filtered;
use crate::number::share;
use crate::split::{Answer, PER_THREAD, Part, PerThread, Split};
use quipu_isa::{Arch, Decoder, Syntax};
use quipu_model::doc::{Bars, Block, Cell, Document};
use quipu_model::lens::{AccessKind, InstrClass, instr_flags};
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{Batch, Columns, DynPass, Needs, Options, Order, Result, Tool, ToolInfo, Trace};
use std::cmp::Reverse;

#[cfg(test)]
mod tests;

/// The tool `mix`.
#[derive(Debug)]
pub struct Mix;

static INFO: ToolInfo = ToolInfo {
    name: "mix",
    summary: "shares of executed instructions by category, loads and stores per instruction",
    needs: Needs {
        format: None,
        required: Columns::INSTRS,
        optional: Columns::INSTR_CODE.or(Columns::INSTR_CLASS).or(Columns::ACCESSES),
    },
    order: Order::Pieces,
    options: &[PER_THREAD],
    in_report: true,
};

impl Tool for Mix {
    fn result(&self) -> Shape {
        PerThread::<InstructionMix>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let has = trace.columns();
        let arch = trace
            .meta()
            .arch
            .filter(|&arch| has.has(Columns::INSTR_CODE) && Decoder::new(arch, Syntax::default()).is_ok());
        Ok(Box::new(Split::new(Counts::new(arch, has.has(Columns::ACCESSES)), options, trace)))
    }
}

result! {
    /// Executed instructions by category or kind of control flow.
    #[derive(Clone, Debug, PartialEq)]
    pub struct InstructionMix {
        pub instructions: u64 => "Instructions fetched.";
        pub executed: u64 => "Instructions executed: those fetched and further iterations of string loops.";
        pub no_fetch: u64 => "Further iterations of string loops.";
        pub kernel: u64 => "Executed instructions in regions of the kernel.";
        pub mean_length: Option<f64> => "Mean length of a fetched instruction, in bytes; null if the trace has no lengths.";
        pub loads: Option<u64> => "Loads; null if the trace has no accesses.";
        pub stores: Option<u64> => "Stores; null if the trace has no accesses.";
        pub loads_per_instruction: Option<f64> => "Loads per fetched instruction.";
        pub stores_per_instruction: Option<f64> => "Stores per fetched instruction.";
        pub by: &'static str => "Meaning of the parts: `categories`, or `class` of control flow.";
        pub parts: Vec<MixPart> => "Parts of `executed`, largest first.";
    }
}

result! {
    /// One part of the mix.
    #[derive(Clone, Debug, PartialEq)]
    pub struct MixPart {
        pub name: String => "Names of categories, separated by spaces, or the name of a class.";
        pub count: u64 => "Executed instructions.";
        pub share: f64 => "Share of all executed instructions, 0 to 1.";
    }
}

/// The pass.
#[derive(Clone)]
struct Counts {
    kinds: Option<Executed>,
    classes: [u64; InstrClass::ALL.len()],
    has_accesses: bool,
    instructions: u64,
    no_fetch: u64,
    kernel: u64,
    bytes: u64,
    loads: u64,
    stores: u64,
}

impl Counts {
    /// Counts by category if `arch` allows decoding, else by class.
    fn new(arch: Option<Arch>, has_accesses: bool) -> Counts {
        Counts {
            kinds: arch.map(Executed::new),
            classes: Default::default(),
            has_accesses,
            instructions: 0,
            no_fetch: 0,
            kernel: 0,
            bytes: 0,
            loads: 0,
            stores: 0,
        }
    }
}

impl Part for Counts {
    type Answer = InstructionMix;

    fn consume(&mut self, batch: &Batch) {
        let instrs = &batch.instrs;
        match &mut self.kinds {
            Some(kinds) => kinds.consume(batch),
            None => instrs.class.iter().for_each(|&class| self.classes[usize::from(class as u8)] += 1),
        }
        // A batch is small: 32 bits are enough, and allow more rows per instruction.
        let (mut no_fetch, mut kernel, mut bytes) = (0u32, 0u32, 0u64);
        for (&flags, &size) in instrs.flags.iter().zip(&instrs.size) {
            let fetched = u64::from(flags & instr_flags::NO_FETCH == 0);
            no_fetch += u32::from(flags & instr_flags::NO_FETCH != 0);
            kernel += u32::from(flags & instr_flags::KERNEL != 0);
            bytes += fetched * u64::from(size);
        }
        self.instructions += instrs.len() as u64 - u64::from(no_fetch);
        self.no_fetch += u64::from(no_fetch);
        self.kernel += u64::from(kernel);
        self.bytes += bytes;
        let count = |kind| batch.accesses.kind.iter().filter(|known| **known == kind).count() as u64;
        self.loads += count(AccessKind::Read);
        self.stores += count(AccessKind::Write);
    }

    fn merge(&mut self, later: Counts) {
        if let (Some(kinds), Some(later)) = (&mut self.kinds, later.kinds) {
            kinds.merge(later);
        }
        for (count, later) in self.classes.iter_mut().zip(later.classes) {
            *count += later;
        }
        self.instructions += later.instructions;
        self.no_fetch += later.no_fetch;
        self.kernel += later.kernel;
        self.bytes += later.bytes;
        self.loads += later.loads;
        self.stores += later.stores;
    }

    fn answer(self) -> InstructionMix {
        let executed = self.instructions + self.no_fetch;
        let (by, named): (_, Vec<(String, u64)>) = match self.kinds {
            Some(kinds) => {
                let kinds = kinds.finish();
                let sets = CategorySets::new(&kinds).sets;
                let mut named: Vec<_> =
                    sets.iter().map(|set| (set.categories.to_string(), set.count)).collect();
                if kinds.without > 0 {
                    // They are executed, too, and the parts must add up to the whole.
                    named.push(("without encoding".to_owned(), kinds.without));
                    named.sort_by_key(|(_, count)| Reverse(*count));
                }
                ("categories", named)
            }
            None => {
                let named = InstrClass::ALL.iter().zip(self.classes).filter(|(_, count)| *count > 0);
                let mut named: Vec<_> =
                    named.map(|(class, count)| (class.name().to_owned(), count)).collect();
                named.sort_by_key(|(_, count)| Reverse(*count));
                ("class", named)
            }
        };
        let counted = |count| self.has_accesses.then_some(count);
        InstructionMix {
            instructions: self.instructions,
            executed,
            no_fetch: self.no_fetch,
            kernel: self.kernel,
            mean_length: (self.bytes > 0).then(|| share(self.bytes, self.instructions)),
            loads: counted(self.loads),
            stores: counted(self.stores),
            loads_per_instruction: counted(self.loads).map(|loads| share(loads, self.instructions)),
            stores_per_instruction: counted(self.stores).map(|stores| share(stores, self.instructions)),
            by,
            parts: named
                .into_iter()
                .map(|(name, count)| MixPart { name, count, share: share(count, executed) })
                .collect(),
        }
    }
}

/// Number of parts that a brief document draws.
const BRIEF_BARS: usize = 8;

impl Answer for InstructionMix {
    fn document(&self, detail: Detail, filtered: Filtered) -> Document {
        if detail == Detail::Brief && self.executed == 0 {
            return Document::new("Instruction mix");
        }
        let shown = if detail == Detail::Brief { BRIEF_BARS.min(self.parts.len()) } else { self.parts.len() };
        let mut bars: Vec<(String, u64)> =
            self.parts.iter().take(shown).map(|part| (part.name.clone(), part.count)).collect();
        let rest: u64 = self.parts.iter().skip(shown).map(|part| part.count).sum();
        if rest > 0 {
            bars.push((format!("{} more", self.parts.len() - shown), rest));
        }
        let bars = Bars { title: self.whole(filtered), total: self.executed, bars };
        Document::new("Instruction mix").with(Block::Bars(bars)).with(Block::Facts(self.facts(filtered)))
    }
}

impl InstructionMix {
    /// A label for the whole of the shares; empty if the trace does not classify its instructions.
    fn whole(&self, filtered: Filtered) -> String {
        if self.parts.is_empty() {
            return String::new();
        }
        let loops = if self.no_fetch > 0 { ", further iterations of string loops included" } else { "" };
        format!("shares of {}{loops}", filtered.whole_of_executed(self.executed))
    }

    fn facts(&self, filtered: Filtered) -> Vec<(String, Vec<Cell>)> {
        let mut facts = vec![];
        if let (Some(loads), Some(stores)) = (self.loads_per_instruction, self.stores_per_instruction) {
            facts.push((filtered.per_fetched("loads"), vec![Cell::Real(loads, 3)]));
            facts.push((filtered.per_fetched("stores"), vec![Cell::Real(stores, 3)]));
        }
        if let Some(length) = self.mean_length {
            facts.push((filtered.of_fetched("bytes"), vec![Cell::Real(length, 2)]));
        }
        if self.no_fetch > 0 {
            facts.push(("string loop iterations".to_owned(), vec![Cell::Count(self.no_fetch)]));
        }
        if self.kernel > 0 {
            facts.push(("kernel instructions".to_owned(), vec![Cell::Count(self.kernel)]));
        }
        facts
    }
}
