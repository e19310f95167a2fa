//! A trace that describes itself: its bytes define its tables, their columns, and their meaning. Nothing about it is known
//! before it is opened, so code that reads it can only depend on schemas and roles.
//!
//! It is a text, with a line for each item:
//!
//! ```text
//! described
//! table events what happened
//! field when time:1 role=1 unit=ns
//! field who u64 role=4
//! field kind enum:u8 role=8 names=0:read,1:write,200:flush group=access:read,write
//! field where address role=6
//! field bytes u32 role=7 missing=4294967295
//! field note text optional
//! field hops list:u16
//! field place struct:x=i32,y=f64
//! field user dict:0
//! row 100 7 1 0x1000 8 first 1,2,3 -5;0.5 alice
//! row 110 7 200 0x1040 - - - 0;0 bob
//! finding odd-note it says nothing
//! ```
//!
//! A `-` is a missing value. Rows with an address are also accesses.

mod parse;
mod reader;

use quipu_model::print::{Ordinals, Paint, Printer};
use quipu_model::schema::{Role, Schema};
use quipu_model::trace::{Carries, Fact, PrintOptions};
use quipu_model::{
    Batch, Columns, Confidence, Format, FormatInfo, Meta, OpenOptions, Reader, Result, Scan, Shard, ShardId,
    Trace,
};
use quipu_source::Source;
use reader::DescribedReader;
use std::fmt::Write as _;
use std::sync::Arc;

/// The first line of each trace.
const MAGIC: &[u8] = b"described\n";
/// Maximum size of a trace in bytes; the format is a toy.
const MOST_BYTES: usize = 1 << 20;

/// The format.
pub static DESCRIBED: Described = Described;

/// The format of traces that describe themselves.
#[derive(Debug)]
pub struct Described;

static INFO: FormatInfo = FormatInfo {
    name: "described",
    title: "rows with their own description",
    extensions: &[],
    beyond_lenses: &[],
    doc: "crates/testkit/src/described/mod.rs",
    options: &[],
    print_options: &[],
};

impl Format for Described {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn probe(&self, source: &Source) -> Confidence {
        match source.head(MAGIC.len()) {
            Ok(head) if head == MAGIC => Confidence::Sure,
            _ => Confidence::No,
        }
    }

    fn open(&self, source: &Source, options: &OpenOptions) -> Result<Box<dyn Trace>> {
        INFO.opening(options)?;
        Ok(Box::new(DescribedTrace::parse(&source.head(MOST_BYTES)?)?))
    }
}

/// A trace that describes itself.
#[derive(Debug)]
pub struct DescribedTrace {
    meta: Meta,
    shards: Vec<Shard>,
    tables: Vec<Arc<Schema>>,
    lines: Arc<[parse::Line]>,
}

impl DescribedTrace {
    /// Reads the description, and the rows with it.
    ///
    /// # Errors
    /// `Malformed` with the number of the line.
    pub fn parse(bytes: &[u8]) -> Result<DescribedTrace> {
        let (tables, lines) = parse::parse(bytes)?;
        let meta = Meta {
            format: INFO.name.into(),
            title: "rows with their own description".into(),
            n_files: 1,
            // Even these facts come from the trace.
            facts: tables
                .iter()
                .map(|schema| {
                    Fact::new(format!("fields_of_{}", schema.name), schema.doc.clone(), schema.fields.len())
                })
                .collect(),
            carries: tables.iter().map(|schema| Carries::new(schema.name.clone(), true, "")).collect(),
            ..Meta::default()
        };
        let shards = vec![Shard { id: ShardId(0), name: "described".into(), pieces: 1, ..Shard::default() }];
        Ok(DescribedTrace { meta, shards, tables, lines: lines.into() })
    }
}

impl Trace for DescribedTrace {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn columns(&self) -> Columns {
        let has = |role| self.tables.iter().any(|schema| schema.position_of(role).is_some());
        match has(Role::ADDRESS) && has(Role::ACCESS_KIND) {
            true => Columns::ACCESSES,
            false => Columns::NONE,
        }
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        Ok(self.tables.clone())
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        Ok(Box::new(DescribedReader::new(self.lines.clone(), &self.tables, scan)?))
    }

    fn printer(&self, _: &PrintOptions) -> Result<Box<dyn Printer>> {
        Ok(Box::new(Plain))
    }
}

/// Prints the numbers and texts of a row.
struct Plain;

impl Printer for Plain {
    fn begin(&mut self, _: &mut Vec<u8>) {}

    fn print(&mut self, batch: &Batch, rows: &[u32], _: Ordinals, _: &Paint, out: &mut Vec<u8>) {
        let Some(table) = batch.tables.first() else { return };
        for row in rows.iter().map(|row| *row as usize) {
            let mut line = String::new();
            for (position, field) in table.schema().fields.iter().enumerate() {
                let column = table.column(position);
                // Writing to a string cannot fail.
                let _ = match column.bytes(row) {
                    _ if column.is_missing(field.missing, row) => write!(line, "{}=- ", field.name),
                    [] => write!(line, "{}={} ", field.name, column.number(row)),
                    text => write!(line, "{}={} ", field.name, String::from_utf8_lossy(text)),
                };
            }
            out.extend_from_slice(line.trim_end().as_bytes());
            out.push(b'\n');
        }
    }

    fn end(&mut self, _: &mut Vec<u8>) {}
}
