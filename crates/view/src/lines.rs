//! Writes rows of any table as lines for other programs: JSON objects or CSV records.
//!
//! The schema alone determines how each column is written. Everything that is the same in all rows, such as keys and names,
//! is prepared once.

use crate::codes::{CodeTexts, ShardTexts};
use quipu_isa::{Arch, Decoder, Syntax};
use quipu_model::column::CellsRef;
use quipu_model::harmless::csv_cell;
use quipu_model::options::unknown_part;
use quipu_model::print::{Ordinals, RowForm};
use quipu_model::schema::{Field, Missing, Names, Role, Type};
use quipu_model::values::Types;
use quipu_model::{Batch, ColumnRef, Error, Paint, Printer, Result, Schema};
use std::sync::Arc;

/// The form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineForm {
    /// One object a line, all keys on each: counts as numbers, addresses as strings such as `"0x401000"`, names as strings,
    /// flags as booleans. A missing value is `null`. The instruction of a row is `"encoding"`, its bytes in hex, and
    /// `"text"`, its disassembly.
    Json,
    /// A line of names, then one record a line: as in JSON, but without quotes around addresses and names, with flags as 0
    /// and 1, and with an empty cell for a missing value.
    Csv,
}

/// Prints rows of one table as lines of one form.
///
/// A missing value is `null`, however the schema marks it ([`Missing`]). Columns with the roles of ordinals
/// ([`Role::RECORD`], [`Role::INSTR`]) are shifted according to [`Ordinals`]. The trace's [`RowForm`] writes composite
/// values.
pub struct RowLines {
    form: LineForm,
    fields: Vec<Written>,
    texts: CodeTexts,
    /// The part that the trace's format supplies.
    own: Option<Box<dyn RowForm>>,
    /// The rows that the format selects.
    rows: Vec<u32>,
    /// Scratch for the text of a cell.
    cell: Vec<u8>,
}

/// The prepared form of one column.
#[derive(Debug)]
struct Written {
    /// Position of the column in the table.
    column: usize,
    /// The text before the value.
    key: Vec<u8>,
    /// The column's part of the head line.
    head: Vec<u8>,
    style: Style,
    missing: Missing,
    shift: Shift,
}

#[derive(Debug)]
enum Style {
    Count,
    Signed,
    Float32,
    Float64,
    Hex,
    Flag,
    /// The names in their written form; each number is an index, because they are dense.
    Name(Vec<Vec<u8>>),
    SparseName(Arc<Names>),
    Flags(Arc<Names>),
    Code,
    /// One of the two keys of an instruction.
    Encoding,
    Disassembly,
    Function,
    Dict(u32),
    Value,
    Text,
    /// Bytes that are not text.
    Bytes,
    List(Box<Style>, Missing),
    Members(Vec<(Vec<u8>, Style, Missing)>),
}

#[derive(Clone, Copy, Debug)]
enum Shift {
    None,
    Records,
    Instrs,
}

impl RowLines {
    /// A printer for rows of `schema`. `arch` is the architecture of the instructions; if it is unknown, or there is no
    /// decoder for it, they are written without text.
    pub fn new(schema: &Schema, form: LineForm, arch: Option<Arch>, syntax: Syntax) -> RowLines {
        let fields = schema.fields.iter().enumerate().map(|(i, field)| Written::new(i == 0, i, field, form));
        RowLines::of(fields.collect(), form, arch, syntax)
    }

    /// A printer for these columns only, in this order. The columns of an instruction are `encoding` and `text`.
    ///
    /// # Errors
    /// `Usage` if the table has no such column, and if one is named twice.
    pub fn of_columns(
        schema: &Schema,
        names: &[String],
        form: LineForm,
        arch: Option<Arch>,
        syntax: Syntax,
    ) -> Result<RowLines> {
        if let Some(twice) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            // Objects of JSON have each key once.
            return Err(Error::usage(format!("column `{}` is named twice", twice.1)));
        }
        let code = schema.fields.iter().position(|field| field.ty == Type::Code);
        let fields = names.iter().enumerate().map(|(i, name)| {
            let part = match name.as_str() {
                ENCODING => Some(Style::Encoding),
                DISASSEMBLY => Some(Style::Disassembly),
                _ => None,
            };
            if let (None, Some(code), Some(style)) = (schema.position(name), code, part) {
                let missing = schema.fields[code].missing;
                let named = Field { name: name.clone().into(), ..Field::new("", Type::Text, "") };
                return Ok(Written { style, missing, ..Written::new(i == 0, code, &named, form) });
            }
            let column = schema.position(name).ok_or_else(|| unknown_column(schema, name))?;
            Ok(Written::new(i == 0, column, &schema.fields[column], form))
        });
        Ok(RowLines::of(fields.collect::<Result<_>>()?, form, arch, syntax))
    }

    fn of(fields: Vec<Written>, form: LineForm, arch: Option<Arch>, syntax: Syntax) -> RowLines {
        let decoder = arch.and_then(|arch| Decoder::new(arch, syntax).ok());
        RowLines {
            form,
            fields,
            texts: CodeTexts::new(decoder),
            own: None,
            rows: Vec::new(),
            cell: Vec::new(),
        }
    }

    /// Adds the part that the trace's format supplies.
    pub fn with(self, own: Option<Box<dyn RowForm>>) -> RowLines {
        RowLines { own, ..self }
    }
}

/// Names of the two keys of an instruction.
const ENCODING: &str = "encoding";
const DISASSEMBLY: &str = "text";

/// The error for a column that the lines of a table do not have.
fn unknown_column(schema: &Schema, name: &str) -> Error {
    let columns = schema.fields.iter().flat_map(|field| match field.ty {
        Type::Code => vec![ENCODING, DISASSEMBLY],
        _ => vec![field.name.as_ref()],
    });
    unknown_part(&format!("table `{}`", schema.name), "column", name, columns)
}

impl Written {
    fn new(first: bool, column: usize, field: &Field, form: LineForm) -> Written {
        // An instruction has two keys, which are part of its text.
        let is_code = field.ty == Type::Code;
        let mut key = Vec::new();
        match (form, first) {
            (LineForm::Json, true) => key.push(b'{'),
            (LineForm::Csv, true) => {}
            (_, false) => key.push(b','),
        }
        if form == LineForm::Json && !is_code {
            json_string(&field.name, &mut key);
            key.push(b':');
        }
        let head = match (is_code, form) {
            (true, _) => b"encoding,text".to_vec(),
            (false, LineForm::Csv) => cell_of(&field.name),
            (false, LineForm::Json) => Vec::new(),
        };
        let shift = match field.role {
            Some(Role::RECORD) => Shift::Records,
            Some(Role::INSTR) => Shift::Instrs,
            _ => Shift::None,
        };
        Written { column, key, head, style: Style::new(field, form), missing: field.missing, shift }
    }
}

impl Style {
    fn new(field: &Field, form: LineForm) -> Style {
        match &field.ty {
            Type::Bool => Style::Flag,
            Type::Code => Style::Code,
            Type::Function => Style::Function,
            Type::Value => Style::Value,
            Type::Text => Style::Text,
            Type::Bytes | Type::Fixed(_) => Style::Bytes,
            Type::Dict(dict) => Style::Dict(*dict),
            Type::I8 | Type::I16 | Type::I32 | Type::I64 => Style::Signed,
            Type::F32 => Style::Float32,
            Type::F64 => Style::Float64,
            Type::Flags(names) => Style::Flags(names.clone()),
            Type::List(item) => Style::List(Box::new(Style::new(item, LineForm::Json)), item.missing),
            Type::Struct(members) => {
                let member = |member: &Field| {
                    let mut key = Vec::new();
                    json_string(&member.name, &mut key);
                    (key, Style::new(member, LineForm::Json), member.missing)
                };
                Style::Members(members.iter().map(member).collect())
            }
            Type::Enum(names) if names.iter().zip(0..).all(|((number, _), at)| number == at) => {
                let written = |(_, name): (u64, &str)| {
                    let mut text = Vec::new();
                    self::name(form, name.as_bytes(), &mut text);
                    text
                };
                Style::Name(names.iter().map(written).collect())
            }
            Type::Enum(names) => Style::SparseName(names.clone()),
            _ if field.is_hex() => Style::Hex,
            Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::Time { .. } | Type::Address => Style::Count,
        }
    }
}

/// The context for writing values.
struct Context<'a> {
    form: LineForm,
    batch: &'a Batch,
    texts: ShardTexts<'a>,
}

impl Printer for RowLines {
    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.form == LineForm::Csv {
            for field in &self.fields {
                out.extend_from_slice(&field.key);
                out.extend_from_slice(&field.head);
            }
            out.push(b'\n');
        }
    }

    fn print(&mut self, batch: &Batch, rows: &[u32], ordinals: Ordinals, _: &Paint, out: &mut Vec<u8>) {
        let Some(table) = batch.tables.first() else { return };
        let shard = batch.codes.home(batch.span.shard);
        let end: &[u8] = match self.form {
            LineForm::Json => {
                self.texts.learn(shard, &batch.codes, json_code);
                b"}\n"
            }
            LineForm::Csv => {
                self.texts.learn(shard, &batch.codes, csv_code);
                b"\n"
            }
        };
        let mut chosen = std::mem::take(&mut self.rows);
        let rows = match &mut self.own {
            Some(own) => {
                chosen.clear();
                chosen.extend_from_slice(rows);
                own.choose(batch, &mut chosen);
                &chosen[..]
            }
            None => rows,
        };
        // A column that was not requested is missing from all rows.
        let column = |field: &Written| {
            let column = table.column(field.column);
            (column, if column.is_empty() { Missing::Bitmap } else { field.missing })
        };
        let columns: Vec<_> = self.fields.iter().map(column).collect();
        let context = Context { form: self.form, batch, texts: self.texts.of(shard) };
        for &row in rows {
            let at = row as usize;
            for (field, (column, missing)) in self.fields.iter().zip(&columns) {
                out.extend_from_slice(&field.key);
                // PERF: most columns have a value in every row (`view`).
                let is_missing = match missing {
                    Missing::Never => false,
                    Missing::Is(sentinel) => number(column, at) == *sentinel,
                    Missing::Bitmap => column.is_missing(*missing, at),
                };
                if is_missing {
                    nothing(self.form, &field.style, out);
                    continue;
                }
                let shift = match field.shift {
                    Shift::None => 0,
                    Shift::Records => ordinals.records,
                    Shift::Instrs => ordinals.instrs,
                };
                let number = number(column, at).wrapping_add(shift);
                match (&field.style, &mut self.own) {
                    (Style::Count, _) => decimal(number, out),
                    (Style::Name(names), _) => match names.get(number as usize) {
                        Some(name) => out.extend_from_slice(name),
                        None => decimal(number, out),
                    },
                    // Such an index has 32 bits.
                    (Style::Value, Some(own)) => match self.form {
                        LineForm::Json => own.json(batch, row, number as u32, out),
                        LineForm::Csv => {
                            self.cell.clear();
                            own.text(batch, row, number as u32, &mut self.cell);
                            cell(&self.cell, out);
                        }
                    },
                    (Style::List(..) | Style::Members(_), _) if self.form == LineForm::Csv => {
                        self.cell.clear();
                        let json = Context { form: LineForm::Json, ..context };
                        write(&json, &field.style, column, at, number, &mut self.cell);
                        cell(&self.cell, out);
                    }
                    _ => write(&context, &field.style, column, at, number, out),
                }
            }
            out.extend_from_slice(end);
        }
        self.rows = chosen;
    }

    fn choose(&mut self, batch: &Batch, rows: &mut Vec<u32>, most: usize) {
        if let Some(own) = &mut self.own {
            own.choose(batch, rows);
        }
        rows.truncate(most);
    }

    fn is_done(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.is_done())
    }

    fn failure(&mut self) -> Option<Error> {
        self.own.as_mut().and_then(|own| own.failure())
    }

    fn end(&mut self, _: &mut Vec<u8>) {}
}

/// The name of a function; its number if it has none.
fn function(form: LineForm, value: u64, types: &Types, out: &mut Vec<u8>) {
    match u32::try_from(value).ok().and_then(|index| types.function(index)) {
        Some(function) => name(form, &function.name, out),
        None => decimal(value, out),
    }
}

/// A text; bytes that are not UTF-8 are replaced in JSON.
fn name(form: LineForm, name: &[u8], out: &mut Vec<u8>) {
    match form {
        LineForm::Json => json_string(&String::from_utf8_lossy(name), out),
        // C++ names may hold commas.
        LineForm::Csv => cell(name, out),
    }
}

/// Writes a missing value.
fn nothing(form: LineForm, style: &Style, out: &mut Vec<u8>) {
    out.extend_from_slice(match (form, style) {
        (LineForm::Json, Style::Code) => b"\"encoding\":null,\"text\":null",
        (LineForm::Json, _) => b"null",
        (LineForm::Csv, Style::Code) => b",",
        (LineForm::Csv, _) => b"",
    });
}

/// A number with a fraction.
fn float(form: LineForm, value: f64, out: &mut Vec<u8>) {
    match (value.is_finite(), form) {
        // JSON has no infinities and no NaN.
        (false, LineForm::Json) => out.extend_from_slice(b"null"),
        _ => out.extend_from_slice(value.to_string().as_bytes()),
    }
}

/// The names of the bits that are set, and the rest as a number.
fn flags(form: LineForm, names: &Names, value: u64, out: &mut Vec<u8>) {
    let mut text = Vec::new();
    let mut rest = value;
    for (bits, name) in names.iter().filter(|(bits, _)| *bits != 0) {
        if value & bits == bits {
            rest &= !bits;
            text.extend_from_slice(if text.is_empty() { b"" } else { b"|" });
            text.extend_from_slice(name.as_bytes());
        }
    }
    if rest != 0 || text.is_empty() {
        text.extend_from_slice(if text.is_empty() { b"" } else { b"|" });
        hex(rest, &mut text);
    }
    name(form, &text, out);
}

/// The number of a row. PERF: most columns are vectors of unsigned numbers (`view`).
#[inline(always)]
fn number(column: &ColumnRef<'_>, row: usize) -> u64 {
    match &column.cells {
        CellsRef::U64(cells) => cells.get(row).copied().unwrap_or(0),
        CellsRef::U32(cells) => cells.get(row).map_or(0, |cell| u64::from(*cell)),
        CellsRef::U16(cells) => cells.get(row).map_or(0, |cell| u64::from(*cell)),
        CellsRef::U8(cells) => cells.get(row).map_or(0, |cell| u64::from(*cell)),
        _ => column.number(row),
    }
}

fn write(
    context: &Context<'_>,
    style: &Style,
    column: &ColumnRef<'_>,
    row: usize,
    value: u64,
    out: &mut Vec<u8>,
) {
    let form = context.form;
    match (style, form) {
        (Style::Count, _) | (Style::Flag, LineForm::Csv) => decimal(value, out),
        // Only the format can write such a value.
        (Style::Value, _) => nothing(form, style, out),
        (Style::Signed, _) => out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes()),
        (Style::Float32, _) => float(form, f32::from_bits(value as u32).into(), out), // The bits of a float.
        (Style::Float64, _) => float(form, f64::from_bits(value), out),
        (Style::Hex, LineForm::Csv) => hex(value, out),
        (Style::Hex, LineForm::Json) => {
            out.push(b'"');
            hex(value, out);
            out.push(b'"');
        }
        (Style::Flag, LineForm::Json) => {
            out.extend_from_slice(if value == 0 { b"false" } else { b"true" });
        }
        (Style::Name(names), _) => match names.get(value as usize) {
            Some(name) => out.extend_from_slice(name),
            None => decimal(value, out),
        },
        (Style::SparseName(names), _) => match names.get(value) {
            Some(name) => self::name(form, name.as_bytes(), out),
            None => decimal(value, out),
        },
        (Style::Flags(names), _) => flags(form, names, value, out),
        (Style::Code, _) => {
            let known = u32::try_from(value).ok().and_then(|index| context.texts.get(index));
            match known {
                Some(known) => out.extend_from_slice(known),
                None => nothing(form, style, out),
            }
        }
        (Style::Encoding | Style::Disassembly, _) => {
            let known = u32::try_from(value).ok().and_then(|index| context.texts.get(index));
            match known.and_then(|known| part_of_code(form, style, known)) {
                Some(part) => out.extend_from_slice(part),
                None => nothing(form, style, out),
            }
        }
        (Style::Function, _) => function(form, value, &context.batch.types, out),
        (Style::Dict(dict), _) => {
            match u32::try_from(value).ok().and_then(|index| context.batch.dicts.get(*dict, index)) {
                Some(text) => name(form, text, out),
                None => decimal(value, out),
            }
        }
        (Style::Text, _) => name(form, column.bytes(row), out),
        (Style::Bytes, LineForm::Csv) => hex_bytes(column.bytes(row), out),
        (Style::Bytes, LineForm::Json) => {
            out.push(b'"');
            hex_bytes(column.bytes(row), out);
            out.push(b'"');
        }
        (Style::List(item, missing), _) => {
            out.push(b'[');
            let (items, range) = match column.items(row) {
                Some((items, range)) => (Some(items.as_ref()), range),
                None => (None, 0..0),
            };
            for (at, items) in range.clone().zip(items.into_iter().cycle()) {
                out.extend_from_slice(if at == range.start { b"" } else { b"," });
                match items.is_missing(*missing, at) {
                    true => out.extend_from_slice(b"null"),
                    false => write(context, item, &items, at, items.number(at), out),
                }
            }
            out.push(b']');
        }
        (Style::Members(members), _) => {
            out.push(b'{');
            let columns = match column.cells {
                CellsRef::Members(columns) => columns,
                _ => &[],
            };
            for (at, ((key, style, missing), column)) in members.iter().zip(columns).enumerate() {
                out.extend_from_slice(if at == 0 { b"" } else { b"," });
                out.extend_from_slice(key);
                out.push(b':');
                let column = column.as_ref();
                match column.is_missing(*missing, row) {
                    true => out.extend_from_slice(b"null"),
                    false => write(context, style, &column, row, column.number(row), out),
                }
            }
            out.push(b'}');
        }
    }
}

fn json_code(bytes: &[u8], text: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"encoding\":\"");
    hex_bytes(bytes, out);
    out.extend_from_slice(b"\",\"text\":");
    match text {
        Some(text) => json_string(text, out),
        None => out.extend_from_slice(b"null"),
    }
}

/// The value of one key in what [`json_code`] or [`csv_code`] has written: an encoding has no comma.
fn part_of_code<'k>(form: LineForm, style: &Style, known: &'k [u8]) -> Option<&'k [u8]> {
    let comma = known.iter().position(|byte| *byte == b',')?;
    let (encoding, text) = (&known[..comma], &known[comma + 1..]);
    let (part, key) = match style {
        Style::Encoding => (encoding, &b"\"encoding\":"[..]),
        _ => (text, &b"\"text\":"[..]),
    };
    match form {
        LineForm::Json => part.strip_prefix(key),
        LineForm::Csv => Some(part),
    }
}

fn csv_code(bytes: &[u8], text: Option<&str>, out: &mut Vec<u8>) {
    hex_bytes(bytes, out);
    out.push(b',');
    if let Some(text) = text {
        // The text contains commas between operands.
        csv_cell(text.as_bytes(), true, out);
    }
}

/// Appends a cell of CSV, in quotes if necessary.
fn cell(text: &[u8], out: &mut Vec<u8>) {
    csv_cell(text, false, out);
}

/// A text as a cell of CSV.
fn cell_of(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    cell(text.as_bytes(), &mut out);
    out
}

/// Appends `text` as a JSON string.
fn json_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                hex_bytes(&[byte], out);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

fn decimal(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `0x` and the digits of the value, without leading zeros.
fn hex(value: u64, out: &mut Vec<u8>) {
    let mut text = *b"0x0000000000000000";
    let n_digits = (67 - (value | 1).leading_zeros() as usize) / 4;
    for (i, digit) in text[2..2 + n_digits].iter_mut().rev().enumerate() {
        *digit = HEX[(value >> (4 * i) & 15) as usize]; // Four bits.
    }
    out.extend_from_slice(&text[..2 + n_digits]);
}

fn hex_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_model::schema::Storage;
    use quipu_model::{Code, rows};

    rows! {
        struct Demo: "demo" derived "" {
            record: Vec<u64>, role(Role::RECORD) => "";
            kind("type"): Vec<u16> as Type::Enum(Names::dense(Storage::U16, &["read", "a \"b\""]).shared()),
                missing(u16::MAX) => "";
            addr: Vec<u64> as Type::Address => "";
            code: Vec<u32> as Type::Code, missing(quipu_model::lens::NO_CODE) => "";
            kernel: Vec<u8> as Type::Bool => "";
        }
    }

    fn demo() -> Batch {
        let mut batch = Batch::default();
        batch.tables.push(Box::new(Demo {
            record: vec![1, 2, 3, 4],
            kind: vec![0, 0xffff, 7, 1],
            addr: vec![0, 0x10, u64::MAX, 0xabc],
            code: vec![0, quipu_model::lens::NO_CODE, 1, 0],
            kernel: vec![0, 1, 0, 0],
        }));
        batch.codes.push(Code::new(0x401000, 4, &[0x48, 0x83, 0xe4, 0xf0]));
        batch.codes.push(Code::new(0x401004, 1, &[0xc3]));
        batch
    }

    fn check(form: LineForm, rows: &[u32], expected: &str) {
        let mut lines = RowLines::new(Demo::table_schema(), form, Some(Arch::X86_64), Syntax::Att);
        let ordinals = Ordinals { records: 100, instrs: 0 };
        let mut out = Vec::new();
        lines.begin(&mut out);
        lines.print(&demo(), rows, ordinals, &Paint::PLAIN, &mut out);
        lines.end(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn each_row_is_one_json_object_with_all_keys() {
        check(
            LineForm::Json,
            &[0, 1, 2],
            concat!(
                r#"{"record":101,"type":"read","addr":"0x0","encoding":"4883e4f0","text":"and    $0xfffffffffffffff0,%rsp","kernel":false}"#,
                "\n",
                r#"{"record":102,"type":null,"addr":"0x10","encoding":null,"text":null,"kernel":true}"#,
                "\n",
                r#"{"record":103,"type":7,"addr":"0xffffffffffffffff","encoding":"c3","text":"ret","kernel":false}"#,
                "\n",
            ),
        );
    }

    #[test]
    fn json_lines_parse() {
        let mut lines =
            RowLines::new(Demo::table_schema(), LineForm::Json, Some(Arch::X86_64), Syntax::Intel);
        let mut out = Vec::new();
        lines.print(&demo(), &[0, 1, 2, 3], Ordinals::default(), &Paint::PLAIN, &mut out);
        let parsed: Vec<serde_json::Value> =
            String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(parsed.len(), 4);
        assert_eq!(parsed[3]["type"], "a \"b\"");
        assert_eq!(parsed[3]["addr"], "0xabc");
    }

    #[test]
    fn csv_has_a_head_and_quotes_instructions() {
        check(
            LineForm::Csv,
            &[0, 1, 2],
            concat!(
                "record,type,addr,encoding,text,kernel\n",
                "101,read,0x0,4883e4f0,\"and    $0xfffffffffffffff0,%rsp\",0\n",
                "102,,0x10,,,1\n",
                "103,7,0xffffffffffffffff,c3,\"ret\",0\n",
            ),
        );
    }

    #[test]
    fn columns_come_in_the_order_in_which_they_are_named() {
        let printed = |names: &[&str], form| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let (schema, arch) = (Demo::table_schema(), Some(Arch::X86_64));
            let mut lines = RowLines::of_columns(schema, &names, form, arch, Syntax::Att)?;
            let mut out = Vec::new();
            lines.begin(&mut out);
            lines.print(&demo(), &[1, 2], Ordinals::default(), &Paint::PLAIN, &mut out);
            Ok::<_, Error>(String::from_utf8(out).unwrap())
        };
        assert_eq!(
            printed(&["text", "record", "encoding"], LineForm::Csv).unwrap(),
            "text,record,encoding\n,2,\n\"ret\",3,c3\n"
        );
        assert_eq!(
            printed(&["addr", "text"], LineForm::Json).unwrap(),
            concat!(
                r#"{"addr":"0x10","text":null}"#,
                "\n",
                r#"{"addr":"0xffffffffffffffff","text":"ret"}"#,
                "\n"
            )
        );
        assert_eq!(
            printed(&["encoding", "kernel"], LineForm::Json).unwrap(),
            concat!(r#"{"encoding":null,"kernel":true}"#, "\n", r#"{"encoding":"c3","kernel":false}"#, "\n")
        );
        let error = printed(&["adr"], LineForm::Csv).unwrap_err();
        assert_eq!(error.advice(), Some("did you mean `addr`?"), "{error}");
        let error = printed(&["nothing"], LineForm::Csv).unwrap_err();
        let columns = "its columns: record, type, addr, encoding, text, kernel";
        assert_eq!(error.advice(), Some(columns), "as the head of the lines says");
        let error = printed(&["addr", "type", "addr"], LineForm::Json).unwrap_err();
        assert_eq!(error.message(), "column `addr` is named twice");
    }

    #[test]
    fn an_unknown_architecture_leaves_the_bytes() {
        let mut lines = RowLines::new(Demo::table_schema(), LineForm::Csv, None, Syntax::Att);
        let mut out = Vec::new();
        lines.print(&demo(), &[2], Ordinals::default(), &Paint::PLAIN, &mut out);
        assert_eq!(out, b"3,7,0xffffffffffffffff,c3,,0\n");
    }

    #[test]
    fn hex_has_the_digits_that_the_value_needs() {
        for value in [0, 1, 0xf, 0x10, 0xff, 0x100, 0x7fff_ffff, u64::MAX] {
            let mut out = Vec::new();
            hex(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{value:#x}"));
        }
    }

    #[test]
    fn shards_with_tables_of_their_own_share_texts() {
        let mut lines = RowLines::new(Demo::table_schema(), LineForm::Csv, Some(Arch::X86_64), Syntax::Att);
        let (mut out, first) = (Vec::new(), demo());
        lines.print(&first, &[2], Ordinals::default(), &Paint::PLAIN, &mut out);
        let mut second = demo();
        second.span.shard = 1;
        second.codes = Default::default();
        second.codes.push(Code::new(0, 1, &[0x90]));
        second.codes.push(Code::new(0x401004, 1, &[0xc3]));
        lines.print(&second, &[0, 2], Ordinals::default(), &Paint::PLAIN, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "3,7,0xffffffffffffffff,c3,\"ret\",0\n1,read,0x0,90,\"nop\",0\n3,7,0xffffffffffffffff,c3,\"ret\",0\n"
        );
    }
}
