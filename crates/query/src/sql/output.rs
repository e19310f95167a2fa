//! Writes answers for people and programs.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef, UInt64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use quipu_arrow::{Form, Packing, Sink};
use quipu_model::{Error, ErrorKind, Result};
use std::io::Write;

/// The output form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// Aligned columns for people.
    Table,
    /// Comma-separated values, with the names of columns in the first line.
    Csv,
    /// One JSON object per line.
    Json,
    /// An Arrow stream.
    Arrow,
    /// A Parquet file.
    Parquet,
}

/// Number of rows that determine the widths of columns.
const MEASURED_ROWS: usize = 1000;
/// Maximum number of characters of a value; longer ones are cut.
const MAX_WIDTH: usize = 120;

/// Writes an answer while it arrives.
pub struct Answer<W: Write + Send> {
    looks: Looks,
    state: State<W>,
    n_rows: u64,
}

impl<W: Write + Send> std::fmt::Debug for Answer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("looks", &self.looks).finish_non_exhaustive()
    }
}

enum State<W: Write + Send> {
    /// The schema is not known yet.
    New(W),
    /// Rows wait until the widths of columns are chosen.
    Measuring {
        out: W,
        schema: SchemaRef,
        rows: Vec<Vec<String>>,
    },
    Widths {
        out: W,
        schema: SchemaRef,
        widths: Vec<usize>,
    },
    Lines {
        out: W,
        schema: SchemaRef,
    },
    Plan(W),
    File(Sink<W>),
    Over,
}

fn io(cause: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "the answer cannot be written").because(cause)
}

impl<W: Write + Send> Answer<W> {
    /// Creates a writer that writes to `out`.
    pub fn new(looks: Looks, out: W) -> Answer<W> {
        Answer { looks, state: State::New(out), n_rows: 0 }
    }

    /// Number of rows so far.
    pub fn n_rows(&self) -> u64 {
        self.n_rows
    }

    /// Takes the schema, or a batch of rows; the first call must pass the schema alone.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn take(&mut self, schema: &SchemaRef, batch: Option<RecordBatch>) -> Result<()> {
        match batch {
            None => self.begin(schema),
            Some(batch) => {
                self.n_rows += batch.num_rows() as u64;
                self.rows(&batch)
            }
        }
    }

    fn begin(&mut self, schema: &SchemaRef) -> Result<()> {
        let State::New(mut out) = std::mem::replace(&mut self.state, State::Over) else { return Ok(()) };
        let schema = schema.clone();
        self.state = match self.looks {
            // A plan consists of lines already.
            Looks::Table if schema.field_with_name("plan_type").is_ok() => State::Plan(out),
            Looks::Table => State::Measuring { out, schema, rows: Vec::new() },
            Looks::Csv => {
                let names: Vec<String> = schema.fields().iter().map(|field| csv(field.name())).collect();
                writeln!(out, "{}", names.join(",")).map_err(io)?;
                State::Lines { out, schema }
            }
            Looks::Json => State::Lines { out, schema },
            Looks::Arrow => State::File(Sink::new(Form::Stream, &schema, Packing::default(), out)?),
            Looks::Parquet => State::File(Sink::new(Form::Parquet, &schema, Packing::default(), out)?),
        };
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.state {
            State::Measuring { schema, rows, .. } => {
                let columns = texts(schema, batch)?;
                for row in 0..batch.num_rows() {
                    rows.push(columns.iter().map(|column| column[row].clone()).collect());
                }
                if rows.len() >= MEASURED_ROWS { self.measured() } else { Ok(()) }
            }
            State::Widths { out, schema, widths } => {
                let columns = texts(schema, batch)?;
                for row in 0..batch.num_rows() {
                    let row: Vec<&str> = columns.iter().map(|column| column[row].as_str()).collect();
                    line(out, schema, widths, &row).map_err(io)?;
                }
                Ok(())
            }
            State::Lines { out, schema } if self.looks == Looks::Csv => {
                let columns = plain_texts(batch)?;
                for row in 0..batch.num_rows() {
                    let row: Vec<String> = columns.iter().map(|column| csv(&column[row])).collect();
                    writeln!(out, "{}", row.join(",")).map_err(io)?;
                }
                let _ = schema;
                Ok(())
            }
            State::Lines { out, schema } => {
                let mut text = String::new();
                for row in 0..batch.num_rows() {
                    text.clear();
                    text.push('{');
                    for (at, (field, column)) in schema.fields().iter().zip(batch.columns()).enumerate() {
                        if at > 0 {
                            text.push(',');
                        }
                        text.push_str(&quoted(field.name()));
                        text.push(':');
                        json(column, row, &mut text)?;
                    }
                    text.push_str("}\n");
                    out.write_all(text.as_bytes()).map_err(io)?;
                }
                Ok(())
            }
            State::Plan(out) => {
                let columns = plain_texts(batch)?;
                for row in 0..batch.num_rows() {
                    let cells: Vec<&str> = columns.iter().map(|column| column[row].trim_end()).collect();
                    writeln!(out, "{}", cells.join("\n")).map_err(io)?;
                }
                Ok(())
            }
            State::File(sink) => sink.write(batch),
            State::New(_) | State::Over => Ok(()),
        }
    }

    /// Chooses the widths of columns and writes the waiting rows.
    fn measured(&mut self) -> Result<()> {
        let State::Measuring { mut out, schema, rows } = std::mem::replace(&mut self.state, State::Over)
        else {
            return Ok(());
        };
        let mut widths: Vec<usize> = schema.fields().iter().map(|field| width(field.name())).collect();
        for row in &rows {
            for (most, text) in widths.iter_mut().zip(row) {
                *most = (*most).max(width(text)).min(MAX_WIDTH);
            }
        }
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        line(&mut out, &schema, &widths, &names).map_err(io)?;
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        writeln!(out, "{}", rule.join("  ")).map_err(io)?;
        for row in &rows {
            let row: Vec<&str> = row.iter().map(String::as_str).collect();
            line(&mut out, &schema, &widths, &row).map_err(io)?;
        }
        self.state = State::Widths { out, schema, widths };
        Ok(())
    }

    /// Writes the end and returns the output; `None` after an earlier error.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn finish(mut self) -> Result<Option<W>> {
        self.measured()?;
        Ok(match self.state {
            State::New(out) => Some(out),
            State::Widths { mut out, .. } | State::Lines { mut out, .. } | State::Plan(mut out) => {
                out.flush().map_err(io)?;
                Some(out)
            }
            State::File(sink) => Some(sink.finish()?),
            State::Measuring { .. } | State::Over => None,
        })
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn is_number(field: &Field) -> bool {
    field.data_type().is_numeric()
}

fn line(out: &mut impl Write, schema: &SchemaRef, widths: &[usize], cells: &[&str]) -> std::io::Result<()> {
    let mut text = String::new();
    for (at, ((cell, most), field)) in cells.iter().zip(widths).zip(schema.fields()).enumerate() {
        if at > 0 {
            text.push_str("  ");
        }
        // Line breaks in a text must not break the row's line.
        let mut cell: String = cell.chars().map(|c| if c == '\n' || c == '\r' { ' ' } else { c }).collect();
        if width(&cell) > MAX_WIDTH {
            cell = cell.chars().take(MAX_WIDTH - 1).chain(['…']).collect();
        }
        let padding = " ".repeat(most.saturating_sub(width(&cell)));
        match is_number(field) {
            true => text.extend([padding.as_str(), cell.as_str()]),
            false => text.extend([cell.as_str(), padding.as_str()]),
        }
    }
    writeln!(out, "{}", text.trim_end())
}

/// True for columns whose numbers are shown in hexadecimal.
fn is_hex(field: &Field) -> bool {
    let about = |key: &str| field.metadata().get(key).map(String::as_str);
    let flags: u16 = about("quipu.flags").and_then(|flags| flags.parse().ok()).unwrap_or(0);
    *field.data_type() == DataType::UInt64 && (about("quipu.type") == Some("address") || flags & 8 != 0)
}

/// The cells of all columns as texts for people.
fn texts(schema: &SchemaRef, batch: &RecordBatch) -> Result<Vec<Vec<String>>> {
    let mut all = plain_texts(batch)?;
    for ((field, column), texts) in schema.fields().iter().zip(batch.columns()).zip(&mut all) {
        if is_hex(field) {
            let numbers = column.as_primitive::<UInt64Type>();
            for (row, text) in texts.iter_mut().enumerate().filter(|(row, _)| numbers.is_valid(*row)) {
                *text = format!("{:#x}", numbers.value(row));
            }
        }
    }
    Ok(all)
}

/// The cells of all columns as texts.
fn plain_texts(batch: &RecordBatch) -> Result<Vec<Vec<String>>> {
    let options = FormatOptions::default();
    let texts = |column: &ArrayRef| {
        let formatter = ArrayFormatter::try_new(column, &options).map_err(quipu_arrow::of_arrow)?;
        Ok((0..column.len()).map(|row| formatter.value(row).to_string()).collect())
    };
    batch.columns().iter().map(texts).collect()
}

fn csv(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Appends the JSON of a value.
fn json(column: &ArrayRef, row: usize, out: &mut String) -> Result<()> {
    if column.is_null(row) {
        out.push_str("null");
        return Ok(());
    }
    match column.data_type() {
        DataType::Boolean => out.push_str(if column.as_boolean().value(row) { "true" } else { "false" }),
        DataType::Utf8 => out.push_str(&quoted(column.as_string::<i32>().value(row))),
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            out.push('[');
            for at in 0..items.len() {
                if at > 0 {
                    out.push(',');
                }
                json(&items, at, out)?;
            }
            out.push(']');
        }
        DataType::Struct(fields) => {
            let members = column.as_struct();
            out.push('{');
            for (at, (field, member)) in fields.iter().zip(members.columns()).enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&quoted(field.name()));
                out.push(':');
                json(member, row, out)?;
            }
            out.push('}');
        }
        ty => {
            let options = FormatOptions::default();
            let formatter = ArrayFormatter::try_new(column, &options).map_err(quipu_arrow::of_arrow)?;
            let text = formatter.value(row).to_string();
            let is_finite = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite);
            match ty.is_numeric() {
                true if ty.is_floating() && !is_finite(&text) => out.push_str("null"),
                true => out.push_str(&text),
                false => out.push_str(&quoted(&text)),
            }
        }
    }
    Ok(())
}
