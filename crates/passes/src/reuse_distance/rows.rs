//! Each access with its reuse distance, as rows.
//!
//! The stacks are those of the tool: one for each shard, of lines of instructions and data together, so that the rows add up
//! to the tool's result. With `unit => 'page'` they are stacks of pages. The first use of a line has no distance.
//!
//! Memory grows with the distinct lines or pages of the shards that are read at a time.

use super::SIDES;
use super::stack::Stack;
use crate::keyed::Keyed;
use crate::lines::{LINE_SIZE, Lines, PAGE_SIZE};
use crate::sharded::{BY_THREAD, Member};
use quipu_model::column::Maybe;
use quipu_model::lens::AccessKind;
use quipu_model::options::Kind;
use quipu_model::schema::{Role, Schema, Type, Unit};
use quipu_model::{
    Batch, Columns, DynPass, Needs, OptionSpec, Options, Order, Reads, Result, RowMaker, RowPass, RowTaker,
    RowTool, Shard, ShardKind, ToolInfo, Trace, rows,
};
use std::sync::Arc;

/// The rows of the tool `reuse-distance`.
#[derive(Debug)]
pub struct Each;

const UNIT: OptionSpec =
    OptionSpec::new("unit", Kind::Choice(&["line", "page"]), "line", "unit of reuse: line or page")
        .value("UNIT");

static INFO: ToolInfo = ToolInfo {
    name: "reuse-distance",
    summary: "each access with how many other lines were used since the last use of its own",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: Columns::ACCESS_FETCH },
    order: Order::Shards,
    options: &[UNIT, LINE_SIZE, PAGE_SIZE, BY_THREAD],
    in_report: false,
};

rows! {
    /// Accesses with their distances.
    pub struct Reuses: "reuse-distance" derived "Accesses with their reuse distances.", len distance {
        at: Vec<u32> => "Record index inside the batch.";
        addr: Vec<u64> as Type::Address, role(Role::ADDRESS) => "First byte touched.";
        size: Vec<u32>, missing(0u32), role(Role::SIZE), unit(Unit::BYTES)
            => "Bytes touched, where the trace knows.";
        kind: Vec<AccessKind>, role(Role::ACCESS_KIND) => "What the access does. Flushes are left out.";
        pc: Vec<u64> as Type::Address, missing(0u64), role(Role::PC)
            => "The instruction that made it; for a fetch, the instruction itself.";
        distance: Maybe<Vec<u64>>
            => "How many other lines (or pages) the shard has used since it used this one; null at its first use.";
    }
}

impl RowTool for Each {
    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn rows(&self) -> &'static Arc<Schema> {
        Reuses::table_schema()
    }

    fn leading(&self) -> Option<&'static OptionSpec> {
        INFO.options.first()
    }

    fn reads(&self, _: &Options, trace: &dyn Trace, taker: &dyn RowTaker) -> Result<Reads> {
        let needed = INFO.needs.of(INFO.name, trace)?;
        let pc = if taker.wants("pc") { Columns::ACCESS_PC.and(trace.columns()) } else { Columns::NONE };
        Ok(Reads { columns: needed | pc, tables: Vec::new(), order: INFO.order })
    }

    fn build(&self, options: &Options, _: &dyn Trace, taker: Arc<dyn RowTaker>) -> Result<Box<dyn DynPass>> {
        let (lines, pages, _) = Lines::with_pages(options)?;
        let maker = Maker {
            unit: if options.word(&UNIT) == "page" { pages } else { lines },
            by_thread: options.flag(&BY_THREAD),
            kind: ShardKind::Thread,
            stacks: Stacks::default(),
        };
        Ok(Box::new(RowPass::new(maker, INFO.order, taker)))
    }
}

/// A stack for each shard, or for each thread of it. Clones start with empty stacks.
#[derive(Default)]
struct Stacks(Keyed<Member, Stack>);

impl Clone for Stacks {
    fn clone(&self) -> Stacks {
        Stacks::default()
    }
}

#[derive(Clone)]
struct Maker {
    unit: Lines,
    by_thread: bool,
    kind: ShardKind,
    stacks: Stacks,
}

impl RowMaker for Maker {
    type Rows = Reuses;

    fn begin(&mut self, shard: &Shard) {
        self.kind = shard.kind;
    }

    fn rows(&mut self, batch: &Batch, rows: &mut Reuses) -> Result<()> {
        let member = Member::of(batch, self.kind, self.by_thread);
        let stack = self.stacks.0.entry(member, || Stack::new(u64::MAX, 0));
        let accesses = &batch.accesses;
        for (row, (&addr, &kind)) in accesses.addr.iter().zip(&accesses.kind).enumerate() {
            let Some(side) = SIDES[kind as usize] else { continue };
            rows.distance.push(stack.access(self.unit.line(addr), side)?);
            rows.at.extend(accesses.at.get(row));
            rows.addr.push(addr);
            rows.size.push(accesses.size.get(row).copied().unwrap_or(0));
            rows.kind.push(kind);
            rows.pc.push(accesses.pc.get(row).copied().unwrap_or(0));
        }
        Ok(())
    }
}
