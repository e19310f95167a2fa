//! Cacheray's caches as an analysis of any trace with accesses.

use super::caches::{Configuration, Level, Levels, Served};
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::lens::AccessKind;
use quipu_model::pass::{Detail, Needs};
use quipu_model::result;
use quipu_model::{Batch, Columns, Error, ErrorKind, Order, Pass, Report, Result, Shard, ToolInfo};

/// Static description of the tool.
pub static INFO: ToolInfo = ToolInfo {
    name: "cacheray-caches",
    summary: "caches as in Cacheray's simulator, including its faults",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: Columns::NONE },
    order: Order::Time,
    options: &[],
    in_report: false,
};

/// Largest access that the simulator accepts: Cacheray's sizes are signed 8-bit numbers.
const MAX_SIZE: u32 = i8::MAX as u32;

/// The simulator as a pass. Loads and stores run through one hierarchy in the order of time; prefetches, flushes and fetches
/// are skipped, because Cacheray has none.
#[derive(Clone, Debug)]
pub struct ModelPass {
    levels: Levels,
    served: Served,
    /// Accesses skipped because they are larger than [`MAX_SIZE`].
    n_too_large: u64,
    /// Whether it has simulated any access.
    is_used: bool,
}

impl ModelPass {
    /// Empty caches.
    pub fn new(config: &Configuration) -> ModelPass {
        ModelPass { levels: Levels::new(config), served: Served::default(), n_too_large: 0, is_used: false }
    }
}

impl Pass for ModelPass {
    fn fork(&self, _: &Shard) -> ModelPass {
        self.clone()
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        let accesses = &batch.accesses;
        for ((addr, size), kind) in accesses.addr.iter().zip(&accesses.size).zip(&accesses.kind) {
            let is_write = match kind {
                AccessKind::Read => false,
                AccessKind::Write => true,
                _ => continue,
            };
            if *size > MAX_SIZE {
                self.n_too_large += 1;
                continue;
            }
            self.is_used = true;
            // Cacheray's addresses are signed; the size was checked above.
            let (addr, size) = (*addr as i64, *size as i8);
            self.levels.access(addr, size, is_write, &mut self.served, &mut |_, _| {})?;
        }
        Ok(())
    }

    fn merge(&mut self, later: ModelPass) -> Result<()> {
        if self.is_used && later.is_used {
            return Err(Error::new(ErrorKind::Internal, "caches cannot be put together from parts"));
        }
        let n_too_large = self.n_too_large + later.n_too_large;
        if later.is_used {
            *self = later;
        }
        self.n_too_large = n_too_large;
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let levels = self.levels.as_slice().iter().map(LevelCounts::of).collect();
        Ok(Box::new(ModelReport { levels, too_large: self.n_too_large }))
    }
}

result! {
    /// Counts of the caches.
    #[derive(Debug)]
    pub struct ModelReport {
        pub levels: Vec<LevelCounts> => "Caches, the one nearest to the core first.";
        pub too_large: u64 => "Accesses of 128 bytes or more, which the model cannot handle.";
    }
}

result! {
    /// Counts of one cache.
    #[derive(Debug)]
    pub struct LevelCounts {
        pub name: String => "Name of the cache.";
        pub bytes: i64 => "Size in bytes.";
        pub line_bytes: i64 => "Bytes in a line.";
        pub ways: i64 => "Lines in a set; 0 if the cache is fully associative.";
        pub accesses: u64 => "Lines read or written.";
        pub reads: u64 => "Lines read; not counted if the cache is fully associative.";
        pub hits: u64 => "Reads that hit.";
        pub misses: u64 => "Reads that missed.";
    }
}

impl LevelCounts {
    fn of(level: &Level) -> LevelCounts {
        LevelCounts {
            name: level.name.clone(),
            bytes: level.n_blocks * level.block_bytes,
            line_bytes: level.block_bytes,
            ways: level.ways,
            accesses: level.accesses,
            reads: level.reads,
            hits: level.hits,
            misses: level.misses,
        }
    }
}

impl ReportBody for ModelReport {
    fn document(&self, _: Detail) -> Document {
        let head = ["cache", "size", "line", "ways", "accesses", "hits", "misses", "missed reads"];
        let rows = self.levels.iter().map(|level| {
            let LevelCounts { name, line_bytes, ways, accesses, hits, misses, .. } = level;
            let bytes = |number: i64| Cell::Bytes(number.unsigned_abs());
            let ways = if *ways == 0 { level.bytes / line_bytes } else { *ways };
            let n_reads = hits + misses;
            let missed =
                if n_reads == 0 { Cell::Empty } else { Cell::Share(*misses as f64 / n_reads as f64) };
            vec![
                name.clone().into(),
                bytes(level.bytes),
                bytes(*line_bytes),
                Cell::Count(ways.unsigned_abs()),
                Cell::Count(*accesses),
                Cell::Count(*hits),
                Cell::Count(*misses),
                missed,
            ]
        });
        let grid = Grid {
            title: String::new(),
            head: head.map(str::to_owned).into(),
            rows: rows.collect(),
            more: 0,
        };
        let note = "This is the model of Cacheray's simulator: writes never hit, take a slot each, and reach no other level. \
                    `quipu sim cache` without --model simulates caches.";
        let document = Document::new("Caches, as Cacheray's simulator has them").with(Block::Grid(grid));
        let document = match self.too_large {
            0 => document,
            n => document.with(Block::Note(format!("{n} accesses of 128 bytes and more were left out."))),
        };
        document.with(Block::Note(note.to_owned()))
    }
}
