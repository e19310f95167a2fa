//! Rows of accesses with the type, field and element of their memory.
//!
//! Types are attributed as in the tool `types`: by the newest of overlapping regions, else by variables of the program. An
//! access that touches several fields belongs to the field of its first byte. Padding has no field; memory outside of all
//! regions has neither type nor field. Fetches are left out.
//!
//! Memory grows with the number of live regions and of types met, not with the accesses.

use super::tool::source;
use super::{Fields, Held};
use crate::options::{BASE, BINARY, TYPES};
use quipu_model::column::{Maybe, Strings};
use quipu_model::lens::AccessKind;
use quipu_model::schema::{Role, Schema, Type, Unit};
use quipu_model::{
    Batch, Columns, DynPass, Needs, Options, Order, Reads, Result, RowMaker, RowPass, RowTaker, RowTool,
    Shard, ToolInfo, Trace, rows,
};
use quipu_symbols::attribute::Spot;
use quipu_symbols::regions::Region;
use std::sync::Arc;

/// Row source of the tool `types`.
#[derive(Debug)]
pub(crate) struct Each;

static INFO: ToolInfo = ToolInfo {
    name: "accesses-with-types",
    summary: "each access with the type, field and element that it touches",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: Columns::REGIONS },
    order: Order::Time,
    options: &[BINARY, TYPES, BASE],
    in_report: false,
};

rows! {
    /// Accesses with the type, field and element of their memory.
    pub(crate) struct Typed: "accesses-with-types" derived "Accesses with the type, field and element of their memory.", len addr {
        at: Vec<u32> => "Record index inside the batch.";
        addr: Vec<u64> as Type::Address, role(Role::ADDRESS) => "First byte touched.";
        size: Vec<u32>, missing(0u32), role(Role::SIZE), unit(Unit::BYTES)
            => "Bytes touched, if the trace has the size.";
        kind: Vec<AccessKind>, role(Role::ACCESS_KIND) => "Kind of the access.";
        pc: Vec<u64> as Type::Address, missing(0u64), role(Role::PC) => "Address of the instruction that made the access.";
        ty("type"): Maybe<Strings> => "Type of the region's elements; if unknown, its name in the trace.";
        field: Maybe<Strings>
            => "Path of the field that has the first byte; empty in types without members, null in padding.";
        element: Maybe<Vec<u64>> => "Index of the element in the region, from 0.";
        offset: Maybe<Vec<u64>>, unit(Unit::BYTES) => "Offset of the access in the element.";
        region: Maybe<Vec<u64>> as Type::Address => "First byte of the region.";
        variable: Maybe<Strings> => "Name of the variable, if the region is one.";
    }
}

impl RowTool for Each {
    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn rows(&self) -> &'static Arc<Schema> {
        Typed::table_schema()
    }

    fn reads(&self, _: &Options, trace: &dyn Trace, taker: &dyn RowTaker) -> Result<Reads> {
        let needed = INFO.needs.of(INFO.name, trace)?;
        let pc = if taker.wants("pc") { Columns::ACCESS_PC.and(trace.columns()) } else { Columns::NONE };
        Ok(Reads { columns: needed | pc, tables: Vec::new(), order: INFO.order })
    }

    fn build(
        &self,
        options: &Options,
        trace: &dyn Trace,
        taker: Arc<dyn RowTaker>,
    ) -> Result<Box<dyn DynPass>> {
        let of = source(options, trace)?.unwrap_or_default();
        // Lines and misses are not counted here.
        let mut fields = Fields::new(of.types, 6, 0);
        fields.add_symbols(&of.symbols, of.base);
        fields.add_variables(of.base);
        let wants = ["type", "field", "variable"].map(|column| taker.wants(column));
        Ok(Box::new(RowPass::new(Maker { fields, wants }, INFO.order, taker)))
    }
}

#[derive(Clone)]
struct Maker {
    fields: Fields,
    /// Whether the type, the field and the variable are requested.
    wants: [bool; 3],
}

impl RowMaker for Maker {
    type Rows = Typed;

    fn begin(&mut self, _: &Shard) {}

    fn rows(&mut self, batch: &Batch, rows: &mut Typed) -> Result<()> {
        let accesses = &batch.accesses;
        let mut events = (0..batch.regions.len()).peekable();
        for (row, (&at, &addr)) in accesses.at.iter().zip(&accesses.addr).enumerate() {
            while let Some(event) = events.next_if(|event| batch.regions.at[*event] <= at) {
                self.fields.event(batch, event);
            }
            let size = accesses.size.get(row).copied().unwrap_or(0);
            rows.at.push(at);
            rows.addr.push(addr);
            rows.size.push(size);
            rows.kind.extend(accesses.kind.get(row));
            rows.pc.push(accesses.pc.get(row).copied().unwrap_or(0));
            self.tell(addr, u64::from(size).max(1), rows);
        }
        events.for_each(|event| self.fields.event(batch, event));
        Ok(())
    }
}

impl Maker {
    /// Appends the type, field, element and region of the memory at an address.
    fn tell(&mut self, addr: u64, size: u64, rows: &mut Typed) {
        let hit = self.fields.attribution.at(addr);
        rows.element.push(hit.map(|hit| hit.element));
        rows.offset.push(hit.map(|hit| hit.offset));
        rows.region.push(hit.map(|hit| hit.region.start));
        let site = hit.and_then(|hit| self.fields.sites.get(hit.region.what.origin as usize));
        let kind = site.map(|site| &self.fields.kinds[site.kind as usize]);
        let [wants_type, wants_field, wants_variable] = self.wants;
        if wants_type {
            push(&mut rows.ty, kind.map(|kind| kind.name.as_str()));
        }
        if wants_field {
            push(&mut rows.field, hit.and_then(|hit| self.field(&hit.region, hit.offset, size)));
        }
        if wants_variable {
            push(&mut rows.variable, site.filter(|site| site.is_variable).map(|site| site.name.as_str()));
        }
    }

    /// Path of the field that contains a byte of an element.
    fn field(&self, region: &Region<Held>, offset: u64, size: u64) -> Option<&str> {
        let shape = self.fields.attribution.types().shape(region.what.shape?);
        if offset >= shape.size && !shape.is_open {
            return None;
        }
        match shape.spot(offset, size) {
            Spot::Field(found) => Some(&shape.fields.get(found.field as usize)?.path),
            Spot::Gap(_) => None,
        }
    }
}

fn push(column: &mut Maybe<Strings>, text: Option<&str>) {
    match text {
        Some(text) => column.push_text(text.as_bytes()),
        None => column.push_missing(1),
    }
}
