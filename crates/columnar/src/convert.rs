//! `convert` to a stream: writes the rows of each table as records of a schema with the table's name.
//!
//! Each shard becomes a stream of the producer. Columns keep their names, types, roles and units; where a row may lack a value,
//! the field is optional. Streams fill lenses by roles, so rows of lenses are not written, only those of tables.

use crate::INFO as FORMAT;
use crate::trace;
use quipu_model::column::{CellsRef, ColumnRef};
use quipu_model::damaged::{Intake, SoFar};
use quipu_model::fresh::{Fresh, cannot};
use quipu_model::schema::{Field, Missing, Names, Role, Storage, Type};
use quipu_model::trace::Fact;
use quipu_model::transform::{
    Progress, Transform, TransformInfo, TransformJob, Transformed, check_level, refuse_container,
};
use quipu_model::{Error, Finding, Reader, Result, Scan, Schema, ShardId, Trace};
use quipu_stream::codec::Codec;
use quipu_stream::loss::{Loss as Lost, MANY, cause};
use quipu_stream::record::Body;
use quipu_stream::spec::{FieldSpec, SchemaSpec, Ty};
use quipu_stream::write::{Options, StreamWriter, Writer};
use std::io::{BufWriter, Write};

/// The transform `convert` to a stream.
#[derive(Debug)]
pub struct ToStream;

static INFO: TransformInfo = TransformInfo {
    name: "convert",
    title: "the rows of all tables as records of a stream, NAME.quipu",
    options: &[],
};

/// Roles with this number or a larger one are internal to Quipu and are not written to streams.
const OWN_ROLES: u16 = 0x8000;

/// A table that is being converted, and the layout of its records.
struct Table {
    schema: std::sync::Arc<Schema>,
    types: Vec<Ty>,
    places: Vec<usize>,
    fixed: usize,
    id: u32,
    time: Option<usize>,
    n_rows: u64,
}

impl Transform for ToStream {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        if job.output.extension().is_none_or(|ending| ending != "quipu") {
            let what = format!(
                "traces of format {} are written as streams, or as Parquet and Arrow anew",
                FORMAT.name
            );
            return Err(Error::usage(what).hint("end the name in .quipu, .parquet, .arrow or .arrows"));
        }
        refuse_container(job.container)?;
        let trace = trace::open(job.source, job.opening)?;
        let level = check_level(job.level, Some(1..=22), "zstd in streams")?;
        let mut options = Options::new("quipu convert");
        options.codec = Codec::Zstd(level.map_or(3, |level| level as i32)); // At most 22.
        let (fresh, file) = Fresh::file(job.output, job.replace.into())?;
        let failed = |cause| cannot("write", job.output, cause);
        let writer = Writer::new(BufWriter::new(file), options);
        let mut tables = Vec::new();
        for schema in trace.tables()? {
            let spec = spec_of(&schema);
            let id = writer.schema(&spec).map_err(failed)?;
            tables.push(Table {
                places: places(&spec),
                fixed: spec.fixed_bytes() as usize,
                types: spec.fields.into_iter().map(|field| field.ty).collect(),
                time: schema.position_of(Role::TIME),
                schema,
                id,
                n_rows: 0,
            });
        }
        let mut intake = Intake::new(job.damaged).strict(job.strict);
        let mut opening = trace.meta().findings.clone();
        let lost = loss_of(&opening);
        intake
            .take(&mut opening, SoFar::default())
            .map_err(|refused| intake.read_on(refused, rest_of(&trace, &tables, None)))?;
        if tables.is_empty() {
            // Perhaps there were tables that are damaged.
            let lenses_only = || {
                let error = Error::unsupported("the files have lenses only, whose rows no schema describes");
                error
                    .hint("write tables as well: quipu convert --table memrefs,lens.accesses")
                    .in_file(job.source.name())
            };
            return Err(intake.finish().nothing_left().unwrap_or_else(lenses_only));
        }
        if let Some(lost) = lost {
            writer.loss(0, &lost).map_err(failed)?;
        }
        let mut n_written = 0;
        for shard in trace.shards() {
            let number = shard.id.0.saturating_add(1);
            let mut stream = writer.stream(number).map_err(failed)?;
            let mut reader = trace.scan(&scan_of(&tables, shard.id))?;
            let mut now = 0;
            let mut found = Vec::new();
            while let Some(batch) = reader.read()? {
                progress.go_on()?;
                progress.advance(batch.span.records.into(), 0);
                found.extend_from_slice(&batch.findings);
                if let Err(refused) = intake.take(&mut batch.findings, SoFar::unvouched(n_written)) {
                    return Err(intake.read_on(refused, rest_of(&trace, &tables, Some((shard.id, reader)))));
                }
                for (table, rows) in tables.iter_mut().zip(&batch.tables) {
                    for row in 0..rows.n_rows() {
                        if let Some(at) = table.time {
                            now = rows.column(at).number(row).max(now);
                        }
                        table.write(&mut stream, now, row, &|at| rows.column(at)).map_err(failed)?;
                        table.n_rows += 1;
                        n_written += 1;
                    }
                }
            }
            stream.finish().map_err(failed)?;
            if let Some(lost) = loss_of(&found) {
                writer.loss(0, &Lost { stream: Some(number), ..lost }).map_err(failed)?;
            }
        }
        writer.finish().map_err(failed)?;
        if let Some(mut out) = writer.into_inner() {
            out.flush().map_err(failed)?;
        }
        fresh.commit()?;
        let fact =
            |table: &Table| Fact::new(table.schema.name.clone(), table.schema.name.clone(), table.n_rows);
        Ok(Transformed {
            facts: tables.iter().map(fact).collect(),
            reading: intake.finish(),
            ..Transformed::default()
        })
    }
}

fn scan_of(tables: &[Table], shard: ShardId) -> Scan {
    Scan { tables: (0..tables.len()).collect(), ..Scan::new(shard) }
}

/// Returns the findings of the rest of the trace: of the rows left in the shard that `begun` reads, then of all shards after
/// it; of all shards if `begun` is `None`.
fn rest_of<'a>(
    trace: &'a dyn Trace,
    tables: &'a [Table],
    begun: Option<(ShardId, Box<dyn Reader>)>,
) -> impl FnMut() -> Result<Option<Vec<Finding>>> + 'a {
    let after = begun.as_ref().map(|(shard, _)| shard.0);
    let mut left = trace.shards().iter().filter(move |shard| after.is_none_or(|after| shard.id.0 > after));
    let mut reader = begun.map(|(_, reader)| reader);
    move || loop {
        match &mut reader {
            Some(open) => match open.read()? {
                Some(batch) => return Ok(Some(std::mem::take(&mut batch.findings))),
                None => reader = None,
            },
            None => match left.next() {
                Some(shard) => reader = Some(trace.scan(&scan_of(tables, shard.id))?),
                None => return Ok(None),
            },
        }
    }
}

/// Converts the losses in findings to a loss record of the stream; `None` if nothing is lost.
fn loss_of(findings: &[Finding]) -> Option<Lost> {
    let sum = quipu_model::Lost::of(findings, None).sum()?;
    let records = sum.records.exactly().unwrap_or(MANY);
    Some(Lost { cause: cause::UNDECODABLE, records: Some(records), ..Lost::default() })
}

impl Table {
    fn write<'c, W: Write + Send>(
        &self,
        stream: &mut StreamWriter<W>,
        time: u64,
        row: usize,
        column: &dyn Fn(usize) -> ColumnRef<'c>,
    ) -> std::io::Result<()> {
        stream.row(self.id, time, self.fixed, |body| {
            for (at, field) in self.schema.fields.iter().enumerate() {
                put(body, self.places[at], &self.types[at], field, column(at), row);
            }
        })
    }
}

/// The stream's schema for rows of a table.
fn spec_of(schema: &Schema) -> SchemaSpec {
    let fields = schema.fields.iter().map(|field| FieldSpec {
        name: field.name.to_string(),
        ty: ty_of(field, &format!("{}.{}", schema.name, field.name)),
        offset: None,
        role: field.role.filter(|role| role.0 < OWN_ROLES).map(|role| role.0.into()),
        unit: field.unit.0.as_ref().map(|unit| unit.to_string()),
        flags: field.flags.0.into(),
    });
    SchemaSpec { fields: fields.collect(), ..SchemaSpec::new(&schema.name) }
}

/// Byte offset of each field in a record.
fn places(spec: &SchemaSpec) -> Vec<usize> {
    let mut at = 0_u32;
    let place = |field: &FieldSpec| {
        let (size, align) = field.ty.size_align();
        let start = at.next_multiple_of(align);
        at = start + size;
        start as usize
    };
    spec.fields.iter().map(place).collect()
}

/// The stream's type for values of a column. Types that need a name get `name`.
fn ty_of(field: &Field, name: &str) -> Ty {
    let named = |names: &Names| {
        let base = Box::new(number_of(names.storage()));
        let is_signed = matches!(names.storage(), Storage::I8 | Storage::I16 | Storage::I32 | Storage::I64);
        // Negative numbers are stored in two's complement.
        let value = |number: u64| if is_signed { i128::from(number as i64) } else { i128::from(number) };
        let names = names.iter().map(|(number, name)| (value(number), name.to_owned())).collect();
        (base, names)
    };
    let ty = match &field.ty {
        Type::Bool => Ty::Bool,
        Type::Address => Ty::Address,
        Type::Fixed(n) => Ty::Fixed(*n),
        Type::Text => Ty::Text,
        Type::Bytes => Ty::Bytes,
        Type::Enum(names) => {
            let (base, names) = named(names);
            Ty::Enum { name: name.to_owned(), base, names }
        }
        Type::Flags(names) => {
            let (base, names) = named(names);
            Ty::Flags { name: name.to_owned(), base, names }
        }
        Type::List(item) => Ty::Vector(Box::new(ty_of(item, &format!("{name}.{}", item.name)))),
        Type::Struct(members) => Ty::Struct {
            name: name.to_owned(),
            members: members
                .iter()
                .map(|member| (member.name.to_string(), ty_of(member, &format!("{name}.{}", member.name))))
                .collect(),
        },
        other => number_of(other.storage()),
    };
    match field.missing {
        Missing::Never => ty,
        Missing::Is(_) | Missing::Bitmap => Ty::Optional(Box::new(ty)),
    }
}

fn number_of(storage: Storage) -> Ty {
    match storage {
        Storage::U8 => Ty::Uint(8),
        Storage::U16 => Ty::Uint(16),
        Storage::U32 => Ty::Uint(32),
        Storage::I8 => Ty::Sint(8),
        Storage::I16 => Ty::Sint(16),
        Storage::I32 => Ty::Sint(32),
        Storage::I64 => Ty::Sint(64),
        Storage::F32 => Ty::Float(32),
        Storage::F64 => Ty::Float(64),
        _ => Ty::Uint(64),
    }
}

/// Writes the value of a row at offset `at` of the body.
fn put(body: &mut Body<'_>, at: usize, ty: &Ty, field: &Field, column: ColumnRef<'_>, row: usize) {
    let number = || column.number(row).to_le_bytes();
    match ty {
        Ty::Optional(inner) => {
            if !column.is_missing(field.missing, row) {
                let (_, align) = inner.size_align();
                body.put(at, &[1]);
                put(body, at + align as usize, inner, field, column, row);
            }
        }
        Ty::Uint(bits) | Ty::Sint(bits) | Ty::Float(bits) => body.put(at, &number()[..(*bits / 8) as usize]),
        Ty::Bool => body.put(at, &number()[..1]),
        Ty::Enum { base, .. } | Ty::Flags { base, .. } => put(body, at, base, field, column, row),
        Ty::Fixed(n) => {
            let bytes = column.bytes(row);
            body.put(at, &bytes[..bytes.len().min(*n as usize)]);
        }
        Ty::Text | Ty::Bytes => {
            let bytes = column.bytes(row);
            body.append(at, bytes, bytes.len());
        }
        Ty::Vector(element) => {
            let (Type::List(item), Some((items, rows))) = (&field.ty, column.items(row)) else { return };
            let (size, align) = element.size_align();
            let room = body.append_room(at, align as usize, size as usize, rows.len());
            for (n, row) in rows.enumerate() {
                put(body, room + n * size as usize, element, item, items.as_ref(), row);
            }
        }
        Ty::Struct { members, .. } => {
            let (Type::Struct(fields), CellsRef::Members(columns)) = (&field.ty, column.cells) else {
                return;
            };
            let mut offset = 0_u32;
            for (((_, ty), field), column) in members.iter().zip(fields.iter()).zip(columns) {
                let (size, align) = ty.size_align();
                let start = offset.next_multiple_of(align);
                offset = start + size;
                put(body, at + start as usize, ty, field, column.as_ref(), row);
            }
        }
        _ => body.put(at, &number()),
    }
}
