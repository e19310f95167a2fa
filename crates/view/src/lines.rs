//! Rows of any table as lines for other programs: JSON objects or CSV records.
//!
//! The schema alone says how each column is written. Everything that does not change from row to row, such as keys
//! and names, is laid out once.

use crate::codes::CodeTexts;
use quipu_isa::{Arch, Decoder, Syntax};
use quipu_model::harmless::csv_cell;
use quipu_model::print::{Ordinals, RowForm};
use quipu_model::values::{NO_NODE, Types, Values};
use quipu_model::{Batch, ColumnSchema, ColumnType, Error, Paint, Printer, TableSchema};

/// Which lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineForm {
    /// One object a line, all keys on each: counts as numbers, addresses as strings such as `"0x401000"`, names as
    /// strings, flags as booleans. What a row does not have is `null`. The instruction of a row is `"encoding"`, its
    /// bytes in hex, and `"text"`, its disassembly.
    Json,
    /// A line of names, then one record a line: as JSON, but without quotes around addresses and names, with flags as
    /// 0 and 1, and with nothing between the commas for `null`.
    Csv,
}

/// Prints rows of one table as lines of one form.
///
/// A name column's all-ones value means that the row has no such name. Columns called `record` and `instr` are
/// ordinals: they are shifted as [`Ordinals`] says. Values of any shape are written as the trace's
/// [`RowForm`] does it.
pub struct RowLines {
    form: LineForm,
    fields: Vec<Field>,
    texts: CodeTexts,
    /// What the trace's format adds.
    own: Option<Box<dyn RowForm>>,
    /// The rows that the format lets through.
    rows: Vec<u32>,
    /// A value on its way into a cell.
    cell: Vec<u8>,
}

/// How one column is written.
#[derive(Debug)]
struct Field {
    /// What stands before the value.
    key: Vec<u8>,
    /// What a head line says.
    head: Vec<u8>,
    style: Style,
    shift: Shift,
}

#[derive(Debug)]
enum Style {
    Count,
    Hex,
    Flag,
    /// The written names, and the value that means none.
    Name(Vec<Vec<u8>>, u64),
    Code,
    Function,
    Position(u64),
    Argument,
    Value,
    Text,
}

#[derive(Clone, Copy, Debug)]
enum Shift {
    None,
    Records,
    Instrs,
}

impl RowLines {
    /// A printer of rows of `schema`. `arch` is the architecture of the instructions; if it is unknown, or nothing
    /// can decode it, they are written without text.
    pub fn new(schema: &TableSchema, form: LineForm, arch: Option<Arch>, syntax: Syntax) -> RowLines {
        let decoder = arch.and_then(|arch| Decoder::new(arch, syntax).ok());
        let fields = schema.columns.iter().enumerate().map(|(i, column)| Field::new(i == 0, column, form));
        RowLines {
            form,
            fields: fields.collect(),
            texts: CodeTexts::new(decoder),
            own: None,
            rows: Vec::new(),
            cell: Vec::new(),
        }
    }

    /// The same, with what the trace's format adds.
    pub fn with(self, own: Option<Box<dyn RowForm>>) -> RowLines {
        RowLines { own, ..self }
    }
}

impl Field {
    fn new(first: bool, column: &ColumnSchema, form: LineForm) -> Field {
        // An instruction has two keys, which are part of its text.
        let is_code = column.kind == ColumnType::Code;
        let mut key = Vec::new();
        match (form, first) {
            (LineForm::Json, true) => key.push(b'{'),
            (LineForm::Csv, true) => {}
            (_, false) => key.push(b','),
        }
        if form == LineForm::Json && !is_code {
            json_string(&column.name, &mut key);
            key.push(b':');
        }
        let head = match (is_code, form) {
            (true, _) => b"encoding,text".to_vec(),
            (false, LineForm::Csv) => cell_of(&column.name),
            (false, LineForm::Json) => Vec::new(),
        };
        let shift = match &*column.name {
            "record" => Shift::Records,
            "instr" => Shift::Instrs,
            _ => Shift::None,
        };
        Field { key, head, style: Style::new(column, form), shift }
    }
}

impl Style {
    fn new(column: &ColumnSchema, form: LineForm) -> Style {
        match column.kind {
            ColumnType::Count => Style::Count,
            ColumnType::Hex => Style::Hex,
            ColumnType::Flag => Style::Flag,
            ColumnType::Code => Style::Code,
            ColumnType::Function => Style::Function,
            ColumnType::Position => Style::Position(column.width.none()),
            ColumnType::Argument => Style::Argument,
            ColumnType::Value => Style::Value,
            ColumnType::Text => Style::Text,
            ColumnType::Name(names) => {
                let written = |name: &&str| {
                    let mut text = Vec::new();
                    match form {
                        LineForm::Json => json_string(name, &mut text),
                        LineForm::Csv => cell(name.as_bytes(), &mut text),
                    }
                    text
                };
                Style::Name(names.iter().map(written).collect(), column.width.none())
            }
        }
    }
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
        for &row in rows {
            for (field, column) in self.fields.iter().zip(&table.columns) {
                let value = column.get(row as usize).wrapping_add(match field.shift {
                    Shift::None => 0,
                    Shift::Records => ordinals.records,
                    Shift::Instrs => ordinals.instrs,
                });
                out.extend_from_slice(&field.key);
                match field.style {
                    Style::Function => function(self.form, value, &batch.types, out),
                    Style::Argument => argument(self.form, value, &batch.types, out),
                    Style::Text => text(self.form, value, &batch.values, out),
                    Style::Value => match &mut self.own {
                        // An index of 32 bits.
                        Some(own) if value != u64::from(NO_NODE) => {
                            let node = value as u32;
                            match self.form {
                                LineForm::Json => own.json(batch, row, node, out),
                                LineForm::Csv => {
                                    self.cell.clear();
                                    own.text(batch, row, node, &mut self.cell);
                                    cell(&self.cell, out);
                                }
                            }
                        }
                        _ => nothing(self.form, out),
                    },
                    _ => write(self.form, &self.texts, &field.style, value, shard, out),
                }
            }
            out.extend_from_slice(end);
        }
        self.rows = chosen;
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

/// A text; bytes that are not UTF-8 are replaced.
fn text(form: LineForm, value: u64, values: &Values, out: &mut Vec<u8>) {
    match u32::try_from(value).ok().filter(|node| *node != NO_NODE) {
        Some(node) => name(form, values.bytes_of(values.node(node)), out),
        None => nothing(form, out),
    }
}

/// The name of an argument, if it has one.
fn argument(form: LineForm, value: u64, types: &Types, out: &mut Vec<u8>) {
    let function = types.function((value >> 32) as u32).filter(|_| value != u64::MAX); // Both halves, on purpose.
    match function.and_then(|function| function.args.get(value as u32 as usize)) {
        Some(argument) => name(form, argument, out),
        None => nothing(form, out),
    }
}

fn name(form: LineForm, name: &[u8], out: &mut Vec<u8>) {
    match form {
        LineForm::Json => json_string(&String::from_utf8_lossy(name), out),
        // C++ names may hold commas.
        LineForm::Csv => cell(name, out),
    }
}

/// What a row does not have.
fn nothing(form: LineForm, out: &mut Vec<u8>) {
    if form == LineForm::Json {
        out.extend_from_slice(b"null");
    }
}

fn write(form: LineForm, texts: &CodeTexts, style: &Style, value: u64, shard: u32, out: &mut Vec<u8>) {
    match (style, form) {
        (Style::Position(none), form) if value == *none => nothing(form, out),
        (
            Style::Count
            | Style::Function
            | Style::Position(_)
            | Style::Argument
            | Style::Text
            | Style::Value,
            _,
        )
        | (Style::Flag, LineForm::Csv) => decimal(value, out),
        (Style::Hex, LineForm::Csv) => hex(value, out),
        (Style::Hex, LineForm::Json) => {
            out.push(b'"');
            hex(value, out);
            out.push(b'"');
        }
        (Style::Flag, LineForm::Json) => {
            out.extend_from_slice(if value == 0 { b"false" } else { b"true" });
        }
        (Style::Name(names, none), form) => match names.get(value as usize) {
            Some(name) => out.extend_from_slice(name),
            None if value != *none => decimal(value, out),
            None => nothing(form, out),
        },
        (Style::Code, form) => {
            let known = u32::try_from(value).ok().and_then(|index| texts.get(shard, index));
            out.extend_from_slice(known.unwrap_or(match form {
                LineForm::Json => b"\"encoding\":null,\"text\":null",
                LineForm::Csv => b",",
            }));
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

fn csv_code(bytes: &[u8], text: Option<&str>, out: &mut Vec<u8>) {
    hex_bytes(bytes, out);
    out.push(b',');
    if let Some(text) = text {
        // Operands are separated by commas.
        csv_cell(text.as_bytes(), true, out);
    }
}

/// Appends a cell of CSV: in quotes if it needs them.
fn cell(text: &[u8], out: &mut Vec<u8>) {
    csv_cell(text, false, out);
}

/// The cell of CSV for a text.
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

/// Appends `0x` and the digits that the value needs.
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
    use quipu_model::table::Width;
    use quipu_model::{Code, Rows};
    use std::borrow::Cow;

    static DEMO: TableSchema = TableSchema {
        name: Cow::Borrowed("demo"),
        derived: true,
        columns: Cow::Borrowed(&[
            column("record", Width::U64, ColumnType::Count),
            column("type", Width::U16, ColumnType::Name(&["read", "a \"b\""])),
            column("addr", Width::U64, ColumnType::Hex),
            column("code", Width::U32, ColumnType::Code),
            column("kernel", Width::U8, ColumnType::Flag),
        ]),
        doc: Cow::Borrowed(""),
    };

    const fn column(name: &'static str, width: Width, kind: ColumnType) -> ColumnSchema {
        ColumnSchema::new(name, width, kind, "")
    }

    fn demo() -> Batch {
        let mut batch = Batch::default();
        let mut rows = Rows::new(&DEMO);
        let no_code = u64::from(quipu_model::lens::NO_CODE);
        for values in
            [[1, 0, 0, 0, 0], [2, 0xffff, 0x10, no_code, 1], [3, 7, u64::MAX, 1, 0], [4, 1, 0xabc, 0, 0]]
        {
            for (column, value) in rows.columns.iter_mut().zip(values) {
                column.push(value).unwrap();
            }
        }
        batch.tables.push(rows);
        batch.codes.push(Code::new(0x401000, 4, &[0x48, 0x83, 0xe4, 0xf0]));
        batch.codes.push(Code::new(0x401004, 1, &[0xc3]));
        batch
    }

    fn check(form: LineForm, rows: &[u32], expected: &str) {
        let mut lines = RowLines::new(&DEMO, form, Some(Arch::X86_64), Syntax::Att);
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
        let mut lines = RowLines::new(&DEMO, LineForm::Json, Some(Arch::X86_64), Syntax::Intel);
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
    fn an_unknown_architecture_leaves_the_bytes() {
        let mut lines = RowLines::new(&DEMO, LineForm::Csv, None, Syntax::Att);
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
        let mut lines = RowLines::new(&DEMO, LineForm::Csv, Some(Arch::X86_64), Syntax::Att);
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
