//! Lays out the results of a simulation for people.

use super::{
    CacheCounts, CoreCounts, LevelCounts, MissingAt, MissingPc, Simulated, StageCounts, ThreadCounts, rate,
};
use crate::fields::MissingField;
use crate::over_time::MissSteps;
use crate::recording::Instructions;
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Cell, Document, Figure, Grid, Series, SeriesLine};
use quipu_model::number::grouped;
use quipu_model::pass::Detail;

/// What the column `compulsory` counts.
pub(crate) const COMPULSORY: &str = "compulsory: first reference to a line, prefetches included; prefetches are not misses, so this can exceed the miss count";

impl ReportBody for Simulated {
    fn document(&self, detail: Detail) -> Document {
        let title = if self.is_tlb { "TLBs" } else { "Caches" };
        let mut document = Document::new(title);
        let notes = |texts: Vec<String>| texts.into_iter().map(Block::Note);
        document.blocks.extend(notes(self.incomplete.clone()));
        if self.accesses == 0 && self.stages.iter().all(|stage| stage.accesses == 0) {
            return document;
        }
        let what = if self.is_tlb { "TLBs" } else { "caches" };
        document.blocks.push(Block::Note(format!("machine: {}", self.machine)));
        let counted = Instructions { in_trace: self.instructions, executed: self.executed };
        document.blocks.extend(notes(self.recorded.notes(Some(what), counted)));
        document.blocks.extend(notes(self.staged().into_iter().collect()));
        document.blocks.extend(notes(self.rolled_over().into_iter().collect()));
        document.blocks.push(Block::Figures(self.figures()));
        if self.is_part {
            document.blocks.push(Block::Facts(self.counted()));
        }
        document.blocks.push(Block::Grid(self.level_grid()));
        if detail == Detail::Brief {
            return document;
        }
        if let Some(steps) = self.over_time.as_ref().filter(|steps| steps.is_drawn()) {
            document.blocks.push(Block::Series(over_time(steps)));
        }
        if let Some(coherence) = &self.coherence {
            document.blocks.push(Block::Facts(vec![
                ("writes seen by the snoop filter".into(), vec![Cell::Count(coherence.writes)]),
                ("copies lost to a write".into(), vec![Cell::Count(coherence.invalidations)]),
                ("written lines sent on".into(), vec![Cell::Count(coherence.writebacks)]),
            ]));
        }
        if !self.stages.is_empty() {
            document.blocks.push(Block::Grid(self.stage_grid()));
        }
        document.blocks.push(Block::Grid(self.cache_grid()));
        if self.caches.iter().any(|cache| cache.compulsory_misses > cache.misses) {
            document.blocks.push(Block::Note(COMPULSORY.to_owned()));
        }
        if self.cores.iter().filter(|core| is_used(core)).count() > 1 {
            document.blocks.push(Block::Grid(self.core_grid()));
        }
        if self.threads.len() > 1 {
            document.blocks.push(Block::Grid(self.thread_grid()));
        }
        if !self.missing.is_empty() {
            document.blocks.push(Block::Grid(self.missing_grid()));
        }
        if let Some(rows) = &self.missing_fields {
            let more = self.more_missing_fields.unwrap_or(0);
            document.blocks.push(Block::Grid(field_grid(rows, &self.data_levels, more)));
        }
        if !self.missing_functions.is_empty() {
            let title = "functions that miss most, by the address that is called";
            let (rows, more) = (&self.missing_functions, self.more_missing_functions);
            document.blocks.push(Block::Grid(self.missing_at(title, "function", rows, more)));
        }
        if !self.missing_lines.is_empty() {
            let (title, head) = match self.is_tlb {
                true => ("pages that are missed most", "page"),
                false => ("lines that are missed most", "line"),
            };
            let (rows, more) = (&self.missing_lines, self.more_missing_lines);
            document.blocks.push(Block::Grid(self.missing_at(title, head, rows, more)));
        }
        document
    }

    fn is_flawed(&self) -> bool {
        !self.incomplete.is_empty()
    }
}

impl Simulated {
    /// A sentence about TLBs that were emptied because of too many processes; `None` if none were.
    fn rolled_over(&self) -> Option<String> {
        let often = match self.rollovers {
            0 => return None,
            1 => "once".to_owned(),
            n => format!("{n} times"),
        };
        Some(format!(
            "more processes than the TLBs have numbers for: they were emptied {often}, and what came back counts as \
             compulsory"
        ))
    }

    /// A sentence that says which stage the counts are about, in all tables except that of the stages; `None` if there is
    /// only one.
    pub fn staged(&self) -> Option<String> {
        let n = self.stages.len();
        (n > 1)
            .then(|| format!("counts are those of the last of {n} stages, after the last point of reset-at"))
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |level: &LevelCounts| Figure {
            label: format!("{} miss rate", level.name),
            value: level.miss_rate.map_or_else(|| Cell::from("-"), Cell::Share),
            note: match (level.mpki, level.miss_rate) {
                (_, None) => "nothing came".to_owned(),
                (Some(mpki), _) => format!("{mpki:.2} misses per 1,000 instructions"),
                (None, _) => String::new(),
            },
        };
        self.levels.iter().map(figure).collect()
    }

    /// Number of instructions and accesses that the statistics cover.
    fn counted(&self) -> Vec<(String, Vec<Cell>)> {
        let instrs = self.instructions.map(|n| ("instructions that count".to_owned(), vec![Cell::Count(n)]));
        let accesses = ("accesses that count".to_owned(), vec![Cell::Count(self.accesses)]);
        instrs.into_iter().chain([accesses]).collect()
    }

    fn level_grid(&self) -> Grid {
        let causes = self.levels.iter().any(|level| level.causes.is_some());
        let what = if self.is_tlb { "TLBs" } else { "caches" };
        let mut head = vec!["level", what, "hits", "misses", "miss rate"];
        let has_mpki = self.executed.is_some();
        if has_mpki {
            head.push("MPKI");
        }
        // TLBs have no prefetches, and what they read from the next level is not a page.
        if !self.is_tlb {
            head.extend(["prefetches", "read from next level"]);
        }
        if causes {
            head.extend(["compulsory", "capacity", "conflict"]);
        }
        if self.levels.iter().any(|level| level.kernel.is_some()) {
            head.extend(["kernel misses", "kernel miss rate"]);
        }
        let row = |level: &LevelCounts| {
            let mut row = vec![
                Cell::from(level.name.as_str()),
                Cell::Count(level.caches),
                Cell::Count(level.hits),
                Cell::Count(level.misses),
                share(level.miss_rate),
            ];
            if has_mpki {
                row.push(level.mpki.map_or(Cell::Empty, |mpki| Cell::Real(mpki, 2)));
            }
            if !self.is_tlb {
                row.push(Cell::Count(level.prefetch_hits + level.prefetch_misses));
                row.push(Cell::Bytes(level.bytes_in));
            }
            row.extend(level.causes.iter().flatten().map(|count| Cell::Count(*count)));
            if let Some(kernel) = level.kernel {
                row.extend([
                    Cell::Count(kernel.misses),
                    share(rate(kernel.misses, kernel.hits + kernel.misses)),
                ]);
            }
            row
        };
        Grid {
            title: String::new(),
            head: head.into_iter().map(str::to_owned).collect(),
            rows: self.levels.iter().map(row).collect(),
            more: 0,
        }
    }

    fn stage_grid(&self) -> Grid {
        let head = ["stage", "instructions", "accesses"].map(str::to_owned).into_iter();
        let rates = self.levels.iter().map(|level| format!("{} miss rate", level.name));
        let row = |(i, stage): (usize, &StageCounts)| {
            let first = [i as u64 + 1, stage.instructions, stage.accesses].map(Cell::Count);
            let rates = stage.levels.iter().map(|of| share(rate(of.misses, of.hits + of.misses)));
            first.into_iter().chain(rates).collect()
        };
        Grid {
            title: "between reset points".to_owned(),
            head: head.chain(rates).collect(),
            rows: self.stages.iter().enumerate().map(row).collect(),
            more: 0,
        }
    }

    fn cache_grid(&self) -> Grid {
        let row = |cache: &CacheCounts| {
            let came = cache.hits + cache.misses;
            let mut row = vec![Cell::from(cache.name.as_str())];
            if self.is_tlb {
                row.extend([Cell::Count(cache.entries), Cell::Bytes(cache.line_size)]);
            } else {
                row.push(Cell::Bytes(cache.size));
            }
            row.extend([
                Cell::Count(cache.assoc),
                Cell::from(cache.policy),
                Cell::Count(cache.hits),
                Cell::Count(cache.misses),
                share(rate(cache.misses, came)),
                Cell::Count(cache.compulsory_misses),
            ]);
            if !self.is_tlb {
                row.push(Cell::Count(
                    cache.parent_invalidations + cache.write_invalidations + cache.exclusive_invalidations,
                ));
            }
            row
        };
        let mut head = if self.is_tlb { vec!["TLB", "entries", "page"] } else { vec!["cache", "size"] };
        head.extend(["ways", "policy", "hits", "misses", "miss rate", "compulsory"]);
        if !self.is_tlb {
            head.push("invalidated");
        }
        let used = self.caches.iter().filter(|cache| cache.hits + cache.misses + cache.prefetch_misses > 0);
        Grid {
            title: if self.is_tlb { "TLBs in use" } else { "caches in use" }.into(),
            head: head.into_iter().map(str::to_owned).collect(),
            rows: used.map(row).collect(),
            more: 0,
        }
    }

    /// Threads and processors on the cores that were used.
    fn core_grid(&self) -> Grid {
        let has_threads = self.cores.iter().any(|core| core.threads > 0);
        let has_processors = self.cores.iter().any(|core| !core.processors.is_empty());
        let row = |(i, core): (usize, &CoreCounts)| {
            let mut row = vec![Cell::Count(i as u64)];
            row.extend(has_threads.then_some(Cell::Count(core.threads)));
            row.extend(has_processors.then(|| Cell::from(processors(core))));
            row
        };
        let mut head = vec!["core"];
        head.extend(has_threads.then_some("threads"));
        head.extend(has_processors.then_some("processors"));
        let used = || self.cores.iter().enumerate().filter(|(_, core)| is_used(core));
        Grid {
            title: "cores, with their threads and processors".into(),
            head: head.into_iter().map(str::to_owned).collect(),
            rows: used().take(MAX_THREADS).map(row).collect(),
            more: used().count().saturating_sub(MAX_THREADS) as u64,
        }
    }

    fn thread_grid(&self) -> Grid {
        let row = |of: &ThreadCounts| {
            vec![
                Cell::from(of.thread.to_string()),
                Cell::Count(of.hits),
                Cell::Count(of.misses),
                share(rate(of.misses, of.hits + of.misses)),
                Cell::Count(of.last_level_misses),
            ]
        };
        let head = ["thread", "hits", "misses", "miss rate", self.misses_of_last()];
        Grid {
            title: if self.is_tlb {
                "threads, in their first TLBs"
            } else {
                "threads, in their first caches"
            }
            .into(),
            head: head.map(str::to_owned).into(),
            rows: self.threads.iter().take(MAX_THREADS).map(row).collect(),
            more: self.threads.len().saturating_sub(MAX_THREADS) as u64,
        }
    }

    /// Label for misses of last caches.
    fn misses_of_last(&self) -> &'static str {
        if self.is_tlb { "not in any TLB" } else { "not in any cache" }
    }

    fn misses_of_first(&self) -> &'static str {
        if self.is_tlb { "not in a first TLB" } else { "not in a first cache" }
    }

    /// Table of the functions or lines that miss most.
    fn missing_at(&self, title: &str, head: &str, rows: &[MissingAt], more: u64) -> Grid {
        let row = |of: &MissingAt| {
            vec![Cell::Addr(of.addr), Cell::Count(of.last_level_misses), Cell::Count(of.first_level_misses)]
        };
        Grid {
            title: title.into(),
            head: [head, self.misses_of_last(), self.misses_of_first()].map(str::to_owned).into(),
            rows: rows.iter().map(row).collect(),
            more,
        }
    }

    fn missing_grid(&self) -> Grid {
        let row = |of: &MissingPc| {
            vec![Cell::Addr(of.pc), Cell::Count(of.last_level_misses), Cell::Count(of.first_level_misses)]
        };
        Grid {
            title: "instructions that miss most".into(),
            head: ["instruction", self.misses_of_last(), self.misses_of_first()].map(str::to_owned).into(),
            rows: self.missing.iter().map(row).collect(),
            more: self.more_missing,
        }
    }
}

/// A line of misses for each level.
fn over_time(steps: &MissSteps) -> Series {
    let lines = steps.levels.iter().map(|level| SeriesLine {
        name: format!("{} misses", level.name),
        // Drawn in a few pixels.
        values: level.misses.iter().map(|misses| *misses as f64).collect(),
        note: format!("max {}", grouped(level.misses.iter().max().copied().unwrap_or(0))),
        unit: "misses".to_owned(),
    });
    Series {
        title: "misses over time".to_owned(),
        axis: format!("accesses, {} a step", grouped(steps.step)),
        ends: ("0".to_owned(), grouped(steps.accesses)),
        lines: lines.collect(),
    }
}

/// Whether a core ever had something to run.
fn is_used(core: &CoreCounts) -> bool {
    core.threads > 0 || !core.processors.is_empty()
}

/// The first processors of a core, and the number of others.
fn processors(core: &CoreCounts) -> String {
    const MOST: usize = 16;
    let mut names: Vec<String> = core.processors.iter().take(MOST).map(u64::to_string).collect();
    if let Some(more) = core.processors.len().checked_sub(MOST).filter(|more| *more > 0) {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// A share; empty if it is undefined.
fn share(of: Option<f64>) -> Cell {
    of.map_or(Cell::Empty, Cell::Share)
}

/// Table of the fields that miss most, with a column for each level that data goes through.
fn field_grid(rows: &[MissingField], levels: &[String], more: u64) -> Grid {
    let mut head = vec!["field".to_owned()];
    head.extend(levels.iter().map(|level| format!("{level} misses")));
    let row = |of: &MissingField| {
        let mut cells = vec![Cell::Text(of.spelled())];
        cells.extend(of.misses.iter().map(|misses| Cell::Count(*misses)));
        cells
    };
    Grid { title: "fields that miss most".into(), head, rows: rows.iter().map(row).collect(), more }
}

/// Most threads or cores listed for people.
const MAX_THREADS: usize = 64;
