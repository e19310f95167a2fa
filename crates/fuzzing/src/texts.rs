//! Targets for texts from people and other programs: configurations, sets of calls, types, debug information; also for
//! instructions.

use quipu::apitrace::callset::CallSet;
use quipu::apitrace::edits::substitute::Rule;
use quipu::expr::{Bound, Input, Source, Where, parse_list};
use quipu::isa::{Arch, Decoder, Syntax};
use quipu::model::schema::{Fidelity, Missing, Names, Role, Schema, Storage, Type};
use quipu::model::{Beside, Chosen, ColumnTable, Field, Predicate, Table};
use quipu::sim::sweep::Space;
use quipu::sim::{Pages, config};
use quipu::symbols::dwarf::DebugInfo;
use quipu::symbols::extract::{self, Compat};
use quipu::symbols::layout::Limits;
use quipu::symbols::remap::Remap;
use quipu::symbols::types_file::{Lookup, TypesFile};

/// Reads any text as a cache configuration, a space of caches, Cacheray's caches, and a list of pages: it is read or refused,
/// and what was read can be built.
///
/// # Panics
/// If a configuration that was read is inconsistent.
pub fn configuration(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(config) = config::parse(&text, "fuzzed") {
        config.machine.layout().expect("what was read holds together");
    }
    if let Ok(space) = Space::parse(&text, "fuzzed") {
        // It may be empty or too large, which is reported.
        let _ = space.points();
    }
    let _ = quipu::sim::cacheray::Configuration::parse(&text);
    let _ = Pages::parse(&text, "fuzzed");
}

/// Parses any text as a set of calls, and as a replacement of values.
pub fn call_set(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // `@FILE` would read any file on this machine.
    if text.contains('@') {
        return;
    }
    let mut set = CallSet::default();
    let _ = set.add(&text);
    // Patterns are compiled, which takes time; they come from command lines, which are short.
    if text.len() <= 256 {
        let _ = Rule::parse(&text, false);
        let _ = Rule::parse(&text, true);
    }
}

/// Evaluates any text as an expression over a small table: it is accepted or refused, and so are its values. As a condition,
/// it must select the same rows whether or not its simple parts are evaluated as tests of columns.
///
/// # Panics
/// If the selected rows differ.
pub fn expression(bytes: &[u8]) {
    // Evaluation takes time in proportion to the text, and longer texts find no more.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    let rows = table();
    let source = Source::new(&text);
    if let Ok(list) = parse_list(&source) {
        for named in list {
            if let Ok(bound) = Bound::new(&source, &named.expr, rows.schema()) {
                let _ = bound.eval(&Input::of(&rows));
            }
        }
    }
    let Ok(condition) = Where::new(&text) else { return };
    let predicate = Predicate { filter: Some(condition.filter()), ..Predicate::default() };
    let choose = |predicate: &Predicate| -> quipu::model::Result<Vec<u32>> {
        let mut chosen = Vec::new();
        Chosen::new(predicate, rows.schema())?.choose(&rows, Beside::default(), &mut chosen)?;
        Ok(chosen)
    };
    // Rows that simple parts exclude are not evaluated, so errors in them may go unnoticed.
    if let Ok(expected) = choose(&predicate) {
        let found = choose(&predicate.clone().narrowed(rows.schema()));
        assert_eq!(found.ok(), Some(expected), "{text}");
    }
}

/// Rows with columns of each kind, some with missing values.
fn table() -> ColumnTable {
    let kinds = Names::dense(Storage::U8, &["read", "write"]).shared();
    let fields = vec![
        Field::new("record", Type::U64, "").role(Role::RECORD),
        Field::new("tid", Type::U64, "").role(Role::THREAD),
        Field::new("time", Type::U64, "").role(Role::TIME),
        Field::new("addr", Type::Address, ""),
        Field::new("kind", Type::Enum(kinds), ""),
        Field::new("i", Type::I16, "").missing(u64::MAX),
        Field::new("f", Type::F64, ""),
        Field::new("text", Type::Text, "").optional(),
        Field::new("ok", Type::Bool, ""),
    ];
    let mut rows = ColumnTable::new(Schema::new("t", Fidelity::Derived, "", fields).into());
    for row in 0..8u64 {
        let addr = if row == 7 { u64::MAX } else { 0x1000 << (4 * row) };
        let i = if row == 3 { u64::MAX } else { (row as i64 - 4) as u64 }; // Two's complement.
        let numbers = [row + 1, 7 + row / 4, row * row, addr, row % 3, i, (row as f64 / 2.0 - 1.0).to_bits()];
        for (column, number) in rows.columns.iter_mut().zip(numbers) {
            column.push(number).expect("a number of its width");
        }
        match row {
            2 => rows.columns[7].push_missing(Missing::Bitmap),
            _ => rows.columns[7]
                .push_bytes(["gl", "%_x", "", "\u{df}"][row as usize % 4].as_bytes())
                .expect("a text"),
        }
        rows.columns[8].push(row % 2).expect("a truth value");
    }
    rows
}

/// Decodes any bytes as instructions of each architecture: each instruction has a length within the bytes, and a text.
///
/// # Panics
/// If an instruction is longer than the bytes, or has no text.
pub fn instructions(bytes: &[u8]) {
    for arch in [Arch::X86_64, Arch::X86_32, Arch::Aarch64, Arch::Regdeps] {
        let mut decoder = Decoder::new(arch, Syntax::Att).expect("this architecture has a decoder");
        let mut rest = bytes;
        let mut text = String::new();
        for _ in 0..256 {
            text.clear();
            decoder.text(0x1000, rest, &mut text);
            // For REGDEPS, only the length of an instruction may be known.
            assert!(arch == Arch::Regdeps || !text.is_empty(), "{arch:?}: {rest:02x?} have no text");
            let step = match decoder.decode(0x1000, rest) {
                Ok(instr) => {
                    let length = usize::from(instr.len);
                    assert!(length > 0 && length <= rest.len(), "{arch:?}: {length} of {} bytes", rest.len());
                    length
                }
                Err(_) => 1,
            };
            match rest.get(step..) {
                Some(left) if !left.is_empty() => rest = left,
                _ => break,
            }
        }
    }
}

/// Reads any bytes as a file of types, and as a remap: what is read survives writing and reading again.
///
/// # Panics
/// If it does not.
pub fn types_file(bytes: &[u8]) {
    if let Ok(file) = TypesFile::parse(bytes) {
        assert_eq!(TypesFile::parse(file.text().as_bytes()).as_ref(), Ok(&file));
        let _ = Lookup::new(&file).find("struct.a");
    }
    let text = String::from_utf8_lossy(bytes);
    if let Ok(remap) = Remap::parse(&text) {
        assert_eq!(Remap::parse(&remap.text()).map(|again| again.text()), Ok(remap.text()));
    }
}

/// Reads any bytes as a program with debug information: every query terminates.
pub fn dwarf(bytes: &[u8]) {
    let Ok(info) = DebugInfo::parse(bytes) else { return };
    for id in info.type_ids().take(64) {
        let _ = info.read(id);
        let _ = info.flat(id, Limits { leaves: 64, elements: 4 });
    }
    let _ = info.find("struct.node.1");
    let objects = info.objects();
    let _ = info.line_of(objects.functions.first().map_or(0, |function| function.ranges[0].start));
    let _ = extract::types_file(&info, Compat::Right);
    let _ = extract::types_file(&info, Compat::Original);
}
