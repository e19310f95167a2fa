//! `branches`: control flow: conditional branches taken or not, jumps, calls, returns, and targets of computed branches.
//!
//! Counts fetched instructions by their kind of control flow. A conditional branch is *taken*, *not taken*, or *unknown*
//! if the trace does not say; the taken rate is the share of *taken* among those known. A *site* is the address of a
//! computed branch; its *targets* are the distinct addresses it went to, as far as the trace says. Sites of returns are
//! listed separately from those of computed jumps and calls.
//!
//! *Least predictable* branches are those with the highest entropy: the information carried by their outcomes, in bits, if
//! only the frequency of each outcome is known. A conditional branch has two outcomes; the outcomes of a computed branch
//! (including returns) are its targets. Sites are ranked by bits per execution times executions: the information missing
//! to a predictor that knows the site alone. Real predictors also use history, so a branch that alternates counts 1 bit
//! here and costs them nothing. Executions with unknown outcomes do not count, and sites of 0 bits are not listed.
//!
//! Memory grows with the number of distinct conditional branches and of distinct pairs of site and target.
//!
//! * **Needs** `instrs`, `instrs.class`; uses `instrs.taken`, `instrs.target`.
//! * **Options** `top` (sites in each list, default 10), `per-thread`.

mod entropy;

use crate::filtered::Filtered;
use crate::number::{counted, grouped, share, share_cell};
use crate::split::{Answer, PER_THREAD, Part, PerThread, Split};
use crate::tally::{Map, Tally, top_by};
pub use entropy::{TakenCounts, Unpredictable, UnpredictableSite};
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::lens::{InstrClass, Taken};
use quipu_model::options::Kind;
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Hex, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Needs, OptionSpec, Options, Order, Result, Tool, ToolInfo, Trace,
};
use std::cmp::Reverse;

#[cfg(test)]
mod tests;

/// The tool `branches`.
#[derive(Debug)]
pub struct Branches;

const TOP: OptionSpec = OptionSpec::new("top", Kind::Count, "10", "number of sites in each list");

static INFO: ToolInfo = ToolInfo {
    name: "branches",
    summary: "conditional branches taken or not, jumps, calls, returns, targets of computed branches",
    needs: Needs {
        format: None,
        required: Columns::INSTRS.or(Columns::INSTR_CLASS),
        optional: Columns::INSTR_TAKEN.or(Columns::INSTR_TARGET),
    },
    order: Order::Pieces,
    options: &[TOP, PER_THREAD],
    in_report: true,
};

impl Tool for Branches {
    fn result(&self) -> Shape {
        PerThread::<BranchCounts>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(Split::new(Counts { top: options.count(&TOP), ..Counts::default() }, options, trace)))
    }
}

result! {
    /// Counts of control flow.
    #[derive(Clone, Debug, PartialEq)]
    pub struct BranchCounts {
        pub instructions: u64 => "Instructions fetched.";
        pub branches: u64 => "Branches of any kind.";
        pub conditional: Conditional => "Conditional branches.";
        pub direct_jumps: u64 => "Unconditional jumps to a fixed address.";
        pub indirect_jumps: u64 => "Jumps to a computed address.";
        pub direct_calls: u64 => "Calls of a fixed address.";
        pub indirect_calls: u64 => "Calls of a computed address.";
        pub returns: u64 => "Returns.";
        pub computed: Sites => "Sites and targets of indirect jumps and calls.";
        pub return_sites: Sites => "Sites and targets of returns.";
        pub unpredictable_conditional: Unpredictable =>
            "Conditional branches by the entropy of their outcomes.";
        pub unpredictable_computed: Unpredictable =>
            "Computed jumps, computed calls and returns by the entropy of their targets.";
    }
}

result! {
    /// Outcomes of conditional branches.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Conditional {
        pub total: u64 => "Executed conditional branches.";
        pub taken: u64 => "Branches taken.";
        pub not_taken: u64 => "Branches that fell through.";
        pub unknown: u64 => "Branches whose outcome the trace does not give.";
        pub taken_rate: Option<f64> => "Share of branches taken among those with a known outcome, 0 to 1.";
    }
}

result! {
    /// Sites of branches with computed targets.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Sites {
        pub sites: u64 => "Distinct addresses of such branches, counting only those with a known target.";
        pub targets: u64 => "Distinct pairs of site and target.";
        pub max_targets: u64 => "Largest number of targets of one site.";
        pub single_target_sites: u64 => "Sites with a single target.";
        pub top: Vec<Site> =>
            "The sites with the most targets; equal ones by executions, then by ascending address.";
    }
}

result! {
    /// One site.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Site {
        pub pc: u64 as Hex => "Address of the branch.";
        pub targets: u64 => "Distinct targets.";
        pub executed: u64 => "Executions with a known target.";
    }
}

const N_CLASSES: usize = InstrClass::ALL.len();
const N_TAKEN: usize = Taken::ALL.len();

/// The pass.
#[derive(Clone, Default)]
struct Counts {
    top: u64,
    /// Fetched instructions by class and outcome.
    by: [[u64; N_TAKEN]; N_CLASSES],
    /// Rows that are not fetches.
    no_fetch: u64,
    /// (site, outcome) of conditional jumps with a known outcome.
    outcomes: Tally<(u64, u64)>,
    /// (site, target) of indirect jumps and calls.
    computed: Tally<(u64, u64)>,
    /// (site, target) of returns.
    returns: Tally<(u64, u64)>,
}

impl Part for Counts {
    type Answer = BranchCounts;

    fn consume(&mut self, batch: &Batch) {
        let instrs = &batch.instrs;
        let count = |by: &mut [[u64; N_TAKEN]; N_CLASSES], class: InstrClass, taken: Taken| {
            by[usize::from(class as u8)][usize::from(taken as u8)] += 1;
        };
        if instrs.taken.len() == instrs.class.len() {
            for (&class, &taken) in instrs.class.iter().zip(&instrs.taken) {
                count(&mut self.by, class, taken);
            }
            for ((&class, &taken), &pc) in instrs.class.iter().zip(&instrs.taken).zip(&instrs.pc) {
                if class == InstrClass::ConditionalJump && taken != Taken::Unknown {
                    self.outcomes.add((pc, u64::from(taken == Taken::Yes)));
                }
            }
        } else {
            for &class in &instrs.class {
                count(&mut self.by, class, Taken::Unknown);
            }
        }
        let no_fetch = quipu_model::lens::instr_flags::NO_FETCH;
        self.no_fetch += instrs.flags.iter().filter(|flags| **flags & no_fetch != 0).count() as u64;
        for ((&class, &pc), &target) in instrs.class.iter().zip(&instrs.pc).zip(&instrs.target) {
            if class.is_indirect() && target != 0 {
                let tally = if class == InstrClass::Return { &mut self.returns } else { &mut self.computed };
                tally.add((pc, target));
            }
        }
    }

    fn merge(&mut self, later: Counts) {
        for (count, later) in self.by.iter_mut().flatten().zip(later.by.into_iter().flatten()) {
            *count += later;
        }
        self.no_fetch += later.no_fetch;
        self.outcomes.merge(later.outcomes);
        self.computed.merge(later.computed);
        self.returns.merge(later.returns);
    }

    fn answer(self) -> BranchCounts {
        let of = |class: InstrClass| self.by[usize::from(class as u8)].iter().sum::<u64>();
        let [not_taken, taken, unknown] = self.by[usize::from(InstrClass::ConditionalJump as u8)];
        let known = taken + not_taken;
        let top = usize::try_from(self.top).unwrap_or(usize::MAX);
        let (outcomes, computed, returns) =
            (self.outcomes.into_map(), self.computed.into_map(), self.returns.into_map());
        BranchCounts {
            instructions: self.by.iter().flatten().sum::<u64>() - self.no_fetch,
            branches: InstrClass::ALL.iter().filter(|class| class.is_branch()).map(|&class| of(class)).sum(),
            conditional: Conditional {
                total: known + unknown,
                taken,
                not_taken,
                unknown,
                taken_rate: (known > 0).then(|| share(taken, known)),
            },
            direct_jumps: of(InstrClass::DirectJump),
            indirect_jumps: of(InstrClass::IndirectJump),
            direct_calls: of(InstrClass::DirectCall),
            indirect_calls: of(InstrClass::IndirectCall),
            returns: of(InstrClass::Return),
            computed: Sites::new(&computed, top),
            return_sites: Sites::new(&returns, top),
            unpredictable_conditional: Unpredictable::new(outcomes, top, true),
            unpredictable_computed: Unpredictable::new(computed.into_iter().chain(returns), top, false),
        }
    }
}

impl Sites {
    fn new(pairs: &Map<(u64, u64), u64>, top: usize) -> Sites {
        let mut sites: Map<u64, Site> = Map::default();
        for (&(pc, _), &count) in pairs {
            let site = sites.entry(pc).or_insert(Site { pc, targets: 0, executed: 0 });
            site.targets += 1;
            site.executed += count;
        }
        let n_sites = sites.len() as u64;
        let all: Vec<Site> = sites.into_values().collect();
        Sites {
            sites: n_sites,
            targets: pairs.len() as u64,
            max_targets: all.iter().map(|site| site.targets).max().unwrap_or(0),
            single_target_sites: all.iter().filter(|site| site.targets == 1).count() as u64,
            top: top_by(all, top, |site| (Reverse(site.targets), Reverse(site.executed), site.pc)),
        }
    }
}

impl Answer for BranchCounts {
    fn document(&self, detail: Detail, filtered: Filtered) -> Document {
        if detail == Detail::Brief && self.branches == 0 {
            return Document::new("Branches");
        }
        let mut facts = vec![
            (
                "branches".to_owned(),
                self.of_instructions(
                    self.branches,
                    format!("of {}", filtered.whole_of_fetched(self.instructions)),
                ),
            ),
            (
                "conditional".to_owned(),
                self.of_instructions(self.conditional.total, "of these instructions".to_owned()),
            ),
        ];
        facts.extend(self.taken());
        facts.extend([
            ("jumps".to_owned(), direct_and_indirect(self.direct_jumps, self.indirect_jumps)),
            ("calls".to_owned(), direct_and_indirect(self.direct_calls, self.indirect_calls)),
            ("returns".to_owned(), vec![Cell::Count(self.returns)]),
        ]);
        for (name, sites) in [("computed targets", &self.computed), ("return targets", &self.return_sites)] {
            if sites.sites > 0 {
                facts.push((name.to_owned(), sites.cells()));
            }
        }
        let mut document = Document::new("Branches").with(Block::Facts(facts));
        if detail == Detail::Full {
            for (name, sites) in
                [("computed jumps and calls", &self.computed), ("returns", &self.return_sites)]
            {
                if sites.sites > 0 {
                    document.blocks.push(Block::Grid(sites.grid(name, filtered)));
                }
            }
            for (name, sites) in [
                ("conditional branches", &self.unpredictable_conditional),
                ("computed branches and returns", &self.unpredictable_computed),
            ] {
                if sites.sites > 0 {
                    document.blocks.push(Block::Grid(sites.grid(name, filtered)));
                }
            }
        }
        document
    }
}

impl BranchCounts {
    /// A count as a share of the instructions; only the count if there are none.
    fn of_instructions(&self, count: u64, of: String) -> Vec<Cell> {
        match self.instructions {
            0 => vec![Cell::Count(count)],
            whole => vec![Cell::Count(count), share_cell(count, whole), Cell::Text(of)],
        }
    }

    /// The conditional branches that were taken, of those with an outcome in the trace.
    fn taken(&self) -> Option<(String, Vec<Cell>)> {
        let outcomes = &self.conditional;
        let known = outcomes.taken + outcomes.not_taken;
        let cells = match outcomes.taken_rate {
            Some(rate) if outcomes.unknown == 0 => {
                vec![Cell::Count(outcomes.taken), Cell::Share(rate), Cell::from("of conditional branches")]
            }
            Some(rate) => {
                let of =
                    format!("of the {} whose outcome the trace has", counted(known, "conditional branch"));
                vec![Cell::Count(outcomes.taken), Cell::Share(rate), Cell::Text(of)]
            }
            None if outcomes.total > 0 => vec![Cell::from("the trace does not say which were taken")],
            None => return None,
        };
        Some(("taken".to_owned(), cells))
    }
}

fn direct_and_indirect(direct: u64, indirect: u64) -> Vec<Cell> {
    let total = direct + indirect;
    if total == 0 {
        return vec![Cell::Count(0)];
    }
    vec![Cell::Count(total), share_cell(indirect, total), Cell::from("of them to a computed place")]
}

impl Sites {
    fn cells(&self) -> Vec<Cell> {
        let mean = share(self.targets, self.sites);
        vec![
            Cell::Count(self.targets),
            Cell::Real(mean, 2),
            Cell::Text(format!("per site of {}, at most {}", grouped(self.sites), grouped(self.max_targets))),
        ]
    }

    fn grid(&self, name: &str, filtered: Filtered) -> Grid {
        let row =
            |site: &Site| vec![Cell::Addr(site.pc), Cell::Count(site.targets), Cell::Count(site.executed)];
        Grid {
            title: format!("{name} with the most targets"),
            head: ["site", "targets", filtered.executed()].map(str::to_owned).into(),
            rows: self.top.iter().map(row).collect(),
            more: self.sites - self.top.len() as u64,
        }
    }
}
