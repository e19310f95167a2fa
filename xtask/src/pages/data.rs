//! `docs/tables.md`: every lens and every native table, with the meaning of its columns.

use anyhow::Result;
use quipu::model::schema::{Missing, Storage, Type};
use quipu::model::{Batch, Columns, Field, OpenOptions, Schema, Trace};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Samples larger than this have no tables that smaller ones lack.
const MAX_BYTES: u64 = 200_000;

/// Columns and tables found in the samples of a format.
#[derive(Default)]
struct Seen {
    columns: Columns,
    tables: Vec<Arc<Schema>>,
}

const INTRO: &str = "\
# Tables and lenses

A trace has *native tables*, which hold the data that its format stores, and *lenses*, which have the same meaning in every format.
`quipu sql` queries both, and `quipu convert -o NAME.parquet` and `NAME.arrow` write both;
`quipu view --table` prints native tables.
In SQL, a lens goes by its name, `accesses`, or by `lens.accesses` if a native table has the same name.

Roles give the purpose of a column, whatever its name: for conditions on a record, a time or a thread, they decide which part of a trace is read.
A missing value is null.

";

/// Renders the page.
pub(super) fn page(root: &Path) -> Result<String> {
    let seen = seen(root)?;
    let mut text = super::GENERATED.to_owned();
    text.push('\n');
    text.push_str(INTRO);
    text.push_str("## Lenses\n\nEach row of a lens begins with `shard` (position of the shard, from 0), `record` (position of the record in it, from 1), `tid` (thread, the workload in its upper 16 bits) and `pid` (process).\n");
    let none = Batch::default();
    for (info, (_, rows)) in Columns::LENSES.iter().zip(none.lenses()) {
        let families =
            seen.iter().filter(|(_, seen)| seen.columns.has(info.rows)).map(|(name, _)| name.as_str());
        let families = families.collect::<Vec<_>>().join(", ");
        let schema = rows.schema();
        write!(text, "\n### `{}`\n\n{}\nFilled by: {families}.\n", schema.name, schema.doc)?;
        columns(schema.fields.iter().skip(1), &mut text)?;
        if info.rows == Columns::CALLS {
            values_of_calls(&seen, &mut text)?;
        }
    }
    rows_of_analyses(&mut text)?;
    text.push_str("\n## Native tables\n");
    for (format, seen) in &seen {
        write!(text, "\n### {format}\n")?;
        for schema in &seen.tables {
            let kind = if schema.is_derived() { "interpreted" } else { "as stored" };
            write!(
                text,
                "\n#### `{}` of {format}\n\n{} Rows are {kind}.\n",
                schema.name,
                schema.doc.trim_end_matches('.').to_owned() + "."
            )?;
            columns(schema.fields.iter(), &mut text)?;
        }
    }
    text.push_str("\nA trace may also define tables: in traces of calls, `call.FUNCTION` has the arguments of one function, and a stream has a table for each schema that its producer describes.\n");
    Ok(text)
}

/// Where values of calls are that are no numbers: there is no column of any shape, and no family but those with such a table has
/// them.
fn values_of_calls(seen: &BTreeMap<String, Seen>, text: &mut String) -> Result<()> {
    let has_values = seen.iter().filter(|(_, seen)| seen.columns.has(Columns::CALL_VALUES));
    let families = has_values.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    writeln!(
        text,
        "\nValues of any shape, `calls.values`, are filled by: {families}. A native table has them, a row for each, with texts, \
         structures and arrays as JSON. Other families record numbers only: `args` and `result` have all that there is."
    )?;
    Ok(())
}

/// The rows that analyses hand on.
fn rows_of_analyses(text: &mut String) -> Result<()> {
    text.push_str("\n## Rows of analyses\n\nAnalyses that depend on the position and order of records are functions that return a table: `SELECT * FROM reuse_distance(t, 'line')`.\nIts first columns are those of lenses. Rows are streamed while the trace is read; memory grows with the lines, caches or regions that are tracked, not with the rows.\n");
    let format = quipu::FORMATS.first().map_or("", |format| format.info().name);
    for rows in quipu::tools_of(format).filter_map(|tool| tool.rows()) {
        let (info, schema) = (rows.info(), rows.rows());
        let name = info.name.replace('-', "_");
        let options: Vec<String> =
            info.options.iter().map(|option| format!("`{}`", option.name.replace('-', "_"))).collect();
        write!(
            text,
            "\n### `{name}(t, …)`\n\n{} Needs {}. Options: {}",
            schema.doc,
            info.needs.required,
            options.join(", ")
        )?;
        match rows.leading() {
            Some(first) => {
                let name = first.name.replace('-', "_");
                writeln!(
                    text,
                    "; `{name}` ({}; default {}) may be given without its name.",
                    first.doc, first.default
                )?;
            }
            None => text.push_str(".\n"),
        }
        columns(schema.fields.iter().skip(1), text)?;
    }
    Ok(())
}

fn columns<'f>(fields: impl Iterator<Item = &'f Field>, text: &mut String) -> Result<()> {
    text.push_str("\n| column | type | role | unit | meaning |\n|---|---|---|---|---|\n");
    for field in fields {
        let role = field.role.and_then(|role| role.name()).unwrap_or_default().to_lowercase();
        let unit = field.unit.0.as_deref().unwrap_or_default();
        let null = if field.missing == Missing::Never { "" } else { ", or null" };
        let doc = super::doc_comments::without_links(&field.doc).replace('|', "\\|");
        writeln!(text, "| `{}` | {}{null} | {role} | {unit} | {doc} |", field.name, type_text(&field.ty))?;
    }
    Ok(())
}

fn type_text(ty: &Type) -> String {
    match ty {
        Type::Bool => "yes or no".to_owned(),
        Type::Address => "address".to_owned(),
        Type::Time { .. } => "clock".to_owned(),
        Type::Enum(_) => "name".to_owned(),
        Type::Flags(names) => {
            let names: Vec<String> = names.iter().map(|(bit, name)| format!("{bit} {name}")).collect();
            format!("bits: {}", names.join(", "))
        }
        Type::Text | Type::Dict(_) | Type::Function => "text".to_owned(),
        Type::Bytes | Type::Code => "bytes".to_owned(),
        Type::Value => "JSON".to_owned(),
        Type::List(item) => format!("list of {}", type_text(&item.ty)),
        Type::Struct(_) => "structure".to_owned(),
        other => match other.storage() {
            Storage::U8 => "u8".to_owned(),
            Storage::U16 => "u16".to_owned(),
            Storage::U32 => "u32".to_owned(),
            Storage::I8 => "i8".to_owned(),
            Storage::I16 => "i16".to_owned(),
            Storage::I32 => "i32".to_owned(),
            Storage::I64 => "i64".to_owned(),
            Storage::F32 => "f32".to_owned(),
            Storage::F64 => "f64".to_owned(),
            Storage::Fixed(width) => format!("{width} bytes"),
            _ => "u64".to_owned(),
        },
    }
}

/// Opens the samples of the repository and returns their columns and tables by format.
fn seen(root: &Path) -> Result<BTreeMap<String, Seen>> {
    let mut paths = Vec::new();
    samples(&root.join("traces"), &mut paths)?;
    for entry in fs::read_dir(root.join("crates"))? {
        let cases = entry?.path().join("cases");
        if cases.is_dir() {
            samples(&cases, &mut paths)?;
        }
    }
    paths.sort();
    let mut all: BTreeMap<String, Seen> = BTreeMap::new();
    for path in paths {
        let Ok(trace) = quipu::open_path(&path, &OpenOptions::default()) else { continue };
        let seen = all.entry(trace.meta().format.to_string()).or_default();
        seen.columns |= trace.columns().and(Columns::OF_LENSES);
        note(&*trace, &mut seen.tables);
    }
    Ok(all)
}

fn note(trace: &dyn Trace, tables: &mut Vec<Arc<Schema>>) {
    let known: BTreeSet<String> = tables.iter().map(|table| table.name.to_string()).collect();
    let is_constant = |table: &Arc<Schema>| table.key == quipu::model::schema::SchemaKey::default();
    let new = trace.tables().unwrap_or_default().into_iter().filter(is_constant);
    tables.extend(new.filter(|table| !known.contains(&*table.name)));
}

/// Collects files that may be traces, and folders of such files.
fn samples(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == "damaged" || name.starts_with("golden") {
            continue;
        }
        if path.is_dir() {
            found.push(path.clone());
            samples(&path, found)?;
        } else if path.metadata()?.len() < MAX_BYTES {
            found.push(path);
        }
    }
    Ok(())
}
