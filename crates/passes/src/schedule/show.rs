//! The schedule as text, tables and a chart.

use super::{CoreSums, CoreTimes, Schedules, Switching, ThreadTimes};
use crate::number::{duration, grouped, share, share_cell};
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Cell, Document, Grid, Lane, Lanes};
use quipu_model::pass::Detail;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Number of lanes that a brief document draws.
const BRIEF_LANES: usize = 16;

impl ReportBody for Schedules {
    fn document(&self, detail: Detail) -> Document {
        let mut document = Document::new("Schedule").with(Block::Facts(self.facts()));
        if self.steps.count > 1 {
            let most = if detail == Detail::Brief { BRIEF_LANES } else { usize::MAX };
            document.blocks.push(Block::Lanes(self.lanes(most)));
        }
        if detail == Detail::Full {
            document.blocks.push(Block::Grid(self.thread_grid()));
            if let Some(switching) = &self.switching {
                document.blocks.extend(self.switching_blocks(switching));
            }
        }
        document
    }
}

impl Schedules {
    fn facts(&self) -> Vec<(String, Vec<Cell>)> {
        let sum = |count: fn(&ThreadTimes) -> u64| self.threads.iter().map(count).sum::<u64>();
        let cpus: BTreeSet<u64> =
            self.threads.iter().flat_map(|thread| thread.cpus.iter().copied()).collect();
        let mut facts = vec![("threads".to_owned(), vec![Cell::Count(self.threads.len() as u64)])];
        let mut fact = |name: &str, count: u64| {
            if count > 0 {
                facts.push((name.to_owned(), vec![Cell::Count(count)]));
            }
        };
        fact("cores", self.cores.len() as u64);
        fact("processors", cpus.len() as u64);
        fact("migrations", sum(|thread| thread.migrations));
        fact("system calls", sum(|thread| thread.syscalls));
        fact("may block", sum(|thread| thread.may_block));
        fact("interrupts", sum(|thread| thread.interrupts));
        let unclear: u64 =
            self.threads.iter().fold(0, |sum, thread| sum.saturating_add(thread.unclear_ticks));
        if unclear > 0 {
            facts.push(("busy or blocked".to_owned(), vec![self.time_cell(unclear)]));
        }
        if let Some(span) = self.span() {
            facts.push(("time span".to_owned(), vec![self.time_cell(span)]));
        }
        facts
    }

    /// Ticks from the first to the last reading.
    fn span(&self) -> Option<u64> {
        Some(self.last_clock? - self.first_clock?)
    }

    fn micros(&self, ticks: u64) -> Option<u64> {
        let per_second = self.clock_per_second.filter(|per_second| *per_second > 0)?;
        u64::try_from(u128::from(ticks) * 1_000_000 / u128::from(per_second)).ok()
    }

    fn time_cell(&self, ticks: u64) -> Cell {
        self.micros(ticks).map_or(Cell::Count(ticks), Cell::Micros)
    }

    fn time_text(&self, ticks: u64) -> String {
        self.micros(ticks).map_or_else(|| format!("{} ticks", grouped(ticks)), duration)
    }

    /// Cores if there are any, else the threads with the most records, in order of appearance.
    fn lanes(&self, most: usize) -> Lanes {
        let lanes: Vec<Lane> = if self.cores.is_empty() {
            let mut by_records: Vec<usize> = (0..self.threads.len()).collect();
            by_records.sort_by_key(|&i| Reverse(self.threads[i].records));
            by_records.truncate(most);
            by_records.sort_unstable();
            by_records.into_iter().map(|i| self.thread_lane(&self.threads[i])).collect()
        } else {
            self.cores.iter().take(most).map(|core| self.core_lane(core)).collect()
        };
        let all = if self.cores.is_empty() { self.threads.len() } else { self.cores.len() };
        Lanes {
            title: String::new(),
            ends: (self.time_text(0), self.time_text(self.span().unwrap_or(0))),
            more: (all - lanes.len()) as u64,
            lanes,
        }
    }

    fn thread_lane(&self, thread: &ThreadTimes) -> Lane {
        Lane {
            name: format!("thread {}", thread.thread),
            busy: self.shares(&thread.busy),
            note: format!("{} instrs", grouped(thread.instructions)),
        }
    }

    fn core_lane(&self, core: &CoreTimes) -> Lane {
        Lane {
            name: format!("core {}", core.core),
            busy: self.shares(&core.busy),
            note: format!("{} instrs, {} slices", grouped(core.instructions), grouped(core.slices)),
        }
    }

    /// Busy ticks as shares of the part of each step between the first and the last reading.
    fn shares(&self, busy: &[u64]) -> Vec<f32> {
        let (Some(first), Some(last)) = (self.first_clock, self.last_clock) else { return Vec::new() };
        let width = self.steps.ticks;
        let share_of = |(step, &busy): (usize, &u64)| {
            let start = self.steps.start + step as u64 * width;
            let part = last.min(start.saturating_add(width)).saturating_sub(first.max(start));
            share(busy, part).min(1.0) as f32 // Drawn in a few shades.
        };
        busy.iter().enumerate().map(share_of).collect()
    }

    /// Context switches, core by core, and their schedules as strings.
    fn switching_blocks(&self, switching: &Switching) -> Vec<Block> {
        let row = |name: String, sums: &CoreSums| {
            vec![
                Cell::Text(name),
                Cell::Count(sums.threads.len() as u64),
                Cell::Count(sums.instructions),
                Cell::Count(sums.switches),
                share_cell(sums.voluntary, sums.switches),
                Cell::Count(sums.direct),
                Cell::Count(sums.migrations),
                Cell::Count(sums.idles),
                Cell::Count(sums.waits),
                share_cell(sums.instructions, sums.instructions + sums.idles),
            ]
        };
        let cores = switching.cores.iter().map(|core| row(format!("core {}", core.core), &core.sums));
        let head = [
            "core",
            "threads",
            "instrs",
            "switches",
            "voluntary",
            "direct",
            "migrations",
            "idles",
            "waits",
            "busy by records",
        ];
        let mut blocks = vec![
            Block::Grid(Grid {
                title: "cores".to_owned(),
                head: head.map(str::to_owned).into(),
                rows: cores.chain([row("all".to_owned(), &switching.total)]).collect(),
                more: 0,
            }),
            Block::Facts(
                switching
                    .cores
                    .iter()
                    .map(|core| {
                        (format!("core {} ran", core.core), vec![Cell::Code(shortened(&core.schedule))])
                    })
                    .collect(),
            ),
        ];
        let latencies = [
            ("latency of calls after which the core was switched", &switching.total.switched_latencies),
            ("latency of other calls", &switching.total.other_latencies),
        ];
        for (title, calls) in latencies.into_iter().filter(|(_, calls)| !calls.is_empty()) {
            let rows = calls.iter().flat_map(|call| {
                call.bins.iter().map(|bin| {
                    let ends = [bin.from, bin.to].map(|ticks| self.time_cell(ticks));
                    let [from, to] = ends;
                    vec![Cell::Text(call.number.to_string()), from, to, Cell::Count(bin.count)]
                })
            });
            blocks.push(Block::Grid(Grid {
                title: title.to_owned(),
                head: ["call", "from", "below", "count"].map(str::to_owned).into(),
                rows: rows.collect(),
                more: 0,
            }));
        }
        blocks
    }

    fn thread_grid(&self) -> Grid {
        let row = |thread: &ThreadTimes| {
            let seen = thread.busy_ticks.saturating_add(thread.idle_ticks);
            vec![
                Cell::Text(thread.thread.to_string()),
                Cell::Text(thread.process.to_string()),
                Cell::Count(thread.records),
                Cell::Count(thread.instructions),
                Cell::Count(thread.cpus.len() as u64),
                Cell::Count(thread.migrations),
                Cell::Count(thread.slices),
                Cell::Count(thread.syscalls),
                Cell::Count(thread.may_block),
                Cell::Count(thread.interrupts),
                if seen > 0 { share_cell(thread.busy_ticks, seen) } else { Cell::Empty },
                if seen > 0 { self.time_cell(seen) } else { Cell::Empty },
            ]
        };
        let head = [
            "thread",
            "process",
            "records",
            "instrs",
            "cpus",
            "migrations",
            "slices",
            "syscalls",
            "may block",
            "interrupts",
            "busy",
            "of",
        ];
        Grid {
            title: "threads".to_owned(),
            head: head.map(str::to_owned).into(),
            rows: self.threads.iter().map(row).collect(),
            more: 0,
        }
    }
}

/// Maximum number of letters of a schedule in a document.
const MAX_SHOWN: usize = 200;

/// The beginning of a schedule, which has one byte per letter.
fn shortened(schedule: &str) -> String {
    match schedule.get(..MAX_SHOWN) {
        Some(shown) if schedule.len() > MAX_SHOWN => format!("{shown}…"),
        _ => schedule.to_owned(),
    }
}
