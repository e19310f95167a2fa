//! Converts schemas of a stream to schemas of tables: one table for each kind of record, and one of all records.
//!
//! The first table has a row for each record, with its text. Each further table has the records of one schema with their
//! fields. Equal schemas of several producers or epochs share a table; if schemas with the same name differ, the second is
//! called `name@2`.

use crate::column::Form;
use quipu_model::aggregations::Aggregations;
use quipu_model::lens::AccessKind;
use quipu_model::schema::{Fidelity, Field, FieldFlags, Role, Schema, Type, Unit};
use quipu_stream::batch::Rows;
use quipu_stream::column::Column;
use quipu_stream::meta::Metadata;
use quipu_stream::schema as stream;
use quipu_stream::wire::layout::Shape;
use quipu_stream::wire::record::field_flag;
use quipu_stream::wire::types::Type as Described;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// Number of columns at the start of each table: record and time.
pub(crate) const N_OWN: usize = 2;

/// Index of the table of all records.
pub const RECORDS: usize = 0;

/// Maximum number of tables. Records of further schemas appear in the first table only.
pub const MAX_TABLES: usize = 4096;

/// Producer id and epoch number.
pub(crate) type EpochId = (u64, u32);

/// The columns of the first table.
pub(crate) static ALL_RECORDS: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let fields = own_fields().into_iter().chain([
        Field::new("stream", Type::U32, "stream of the producer"),
        Field::new("thread", Type::U64, "thread").role(Role::THREAD),
        Field::new("schema", Type::Text, "kind of the record"),
        Field::new("text", Type::Text, "the record as text, by its format or field by field"),
    ]);
    let doc = "records in the order of their streams";
    Arc::new(Schema::new("records", Fidelity::Derived, doc, fields.collect()))
});

fn own_fields() -> [Field; N_OWN] {
    [
        Field::new("record", Type::U64, "position among the records of the stream, from 1")
            .role(Role::RECORD),
        Field::new("time", Type::Time { clock: 0 }, "ticks of the stream's clock").role(Role::TIME),
    ]
}

/// The fields of a schema that fill lenses, as positions in the stream's schema.
#[derive(Clone, Debug, Default)]
pub(crate) struct Means {
    pub(crate) thread: Option<usize>,
    pub(crate) process: Option<usize>,
    pub(crate) cpu: Option<usize>,
    pub(crate) pc: Option<usize>,
    pub(crate) addr: Option<usize>,
    pub(crate) size: Option<usize>,
    pub(crate) kind: Option<usize>,
    /// The access kind for each number of the field `kind`, if its names determine one.
    pub(crate) kinds: Vec<(u64, AccessKind)>,
    pub(crate) function: Option<usize>,
    /// True if the function is a code address.
    pub(crate) is_code: bool,
    pub(crate) returned: Option<usize>,
    pub(crate) arguments: Vec<usize>,
    /// The field with the value of a mark.
    pub(crate) value: Option<usize>,
    /// True if records begin a call.
    pub(crate) enters: bool,
    /// True if records end a call.
    pub(crate) leaves: bool,
    /// True if accesses are ranges of memory, which may be larger than what an instruction touches.
    pub(crate) is_range: bool,
    /// The fields of a region, if records describe regions of memory.
    pub(crate) region: Option<RegionMeans>,
    /// The fields of a synchronization operation, if records describe such operations.
    pub(crate) sync: Option<SyncMeans>,
    /// The fields of a mark with a text, if records may be such marks.
    pub(crate) mark: Option<MarkMeans>,
    /// Number of fields that no lens shows.
    pub(crate) n_beyond: u64,
}

/// The fields of a schema that describe synchronization between threads. SPEC: stream.md#what-verbs-make-of-it.
#[derive(Clone, Debug)]
pub(crate) struct SyncMeans {
    pub(crate) what: usize,
    pub(crate) object: usize,
    /// A further number, such as another thread or a mutex.
    pub(crate) value: usize,
    /// For each number of the field `what`: the mark, and the source of its value.
    marks: Vec<(u64, u32, About)>,
    /// The mark with a thread's own handle.
    pub(crate) handle: u32,
    /// The mark with the mutex of a condition wait, directly before the mark of the wake-up.
    pub(crate) mutex: u32,
}

/// The value of a mark for a synchronization record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// The field `object`.
    Object,
    /// The field `value`: the thread that is created.
    Made,
    /// The field `value`, for a thread that starts; a second mark has the field `object`, the handle.
    Begun,
    /// The field `object`; a mark before it has the field `value`, the mutex.
    Woken,
}

impl SyncMeans {
    fn of(schema: &stream::Schema, names: &mut Vec<String>) -> Option<SyncMeans> {
        if !is_sync(schema) {
            return None;
        }
        let find =
            |name: &str| schema.fields.iter().position(|field| field.field.name == name && is_number(field));
        let what = find("what")?;
        let known = crate::column::names_of(&schema.fields[what].layout)?;
        let mut mark = |name: &str| {
            names.push(name.to_owned());
            (MAX_TABLES + names.len() - 1) as u32 // Few.
        };
        let about = |name: &str| match name {
            "thread-create" => About::Made,
            "thread-start" => About::Begun,
            "woken" => About::Woken,
            _ => About::Object,
        };
        let marks = known.iter().take(MAX_SYNCS).map(|(number, name)| (number, mark(name), about(name)));
        let marks = marks.collect();
        let (object, value) = (find("object")?, find("value")?);
        let (handle, mutex) = (mark("thread-handle"), mark("wait-mutex"));
        Some(SyncMeans { what, object, value, marks, handle, mutex })
    }

    /// The mark for a number of the field `what`.
    pub(crate) fn mark(&self, number: u64) -> Option<(u32, About)> {
        self.marks.iter().find(|(known, ..)| *known == number).map(|(_, mark, about)| (*mark, *about))
    }
}

fn is_sync(schema: &stream::Schema) -> bool {
    schema.record.category.as_deref() == Some("sync")
}

/// Maximum number of names of a field `what` that get marks.
const MAX_SYNCS: usize = 64;
/// Maximum number of marks of all synchronization schemas.
const MAX_MARKS: usize = 1024;

/// The fields of a schema that fill the lens of regions. SPEC: stream.md#what-verbs-make-of-it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionMeans {
    pub(crate) begins: bool,
    pub(crate) element_bytes: Option<usize>,
    pub(crate) elements: Option<usize>,
    /// The field with the type name of the elements.
    pub(crate) type_name: Option<usize>,
}

impl RegionMeans {
    fn of(schema: &stream::Schema) -> Option<RegionMeans> {
        let begins = match schema.record.category.as_deref() {
            Some("region-begins") => true,
            Some("region-ends") => false,
            _ => return None,
        };
        let find = |name: &str, is_right: fn(&stream::SchemaField) -> bool| {
            schema.fields.iter().position(|field| field.field.name == name && is_right(field))
        };
        let is_text = |field: &stream::SchemaField| matches!(field.layout.shape, Shape::Text);
        Some(RegionMeans {
            begins,
            element_bytes: find("element_bytes", is_number),
            elements: find("elements", is_number),
            type_name: find("type", is_text),
        })
    }
}

/// The fields of a schema whose records are marks that the program set by name. SPEC: stream.md#what-verbs-make-of-it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkMeans {
    /// The field that says which records are marks, and its number for them; all are if `None`.
    which: Option<(usize, u64)>,
    /// The field with the text.
    text: usize,
}

impl MarkMeans {
    fn of(schema: &stream::Schema) -> Option<MarkMeans> {
        let find = |name: &str| schema.fields.iter().position(|field| field.field.name == name);
        let text = find("text").filter(|at| matches!(schema.fields[*at].layout.shape, Shape::Text))?;
        if schema.record.category.as_deref() == Some("mark") {
            return Some(MarkMeans { which: None, text });
        }
        let which = find("which").filter(|at| is_number(&schema.fields[*at]))?;
        let names = crate::column::names_of(&schema.fields[which].layout)?;
        let (mark, _) = names.iter().find(|(_, name)| *name == "mark")?;
        Some(MarkMeans { which: Some((which, mark)), text })
    }

    /// The text of a mark; `None` for a record that is not one.
    pub(crate) fn text<'r>(&self, rows: &'r Rows, row: usize) -> Option<&'r [u8]> {
        let is_mark = |(field, mark): (usize, u64)| crate::column::number(&rows.columns[field], row) == mark;
        match &rows.columns[self.text] {
            Column::Text(texts) if self.which.is_none_or(is_mark) => Some(texts.get(row)),
            _ => None,
        }
    }
}

fn is_number(field: &stream::SchemaField) -> bool {
    matches!(Form::of(&field.layout), Form::Number) && field.layout.size <= 8
}

impl Means {
    fn of(schema: &stream::Schema) -> Means {
        let find = |role: Role| {
            let mut fields = schema.fields.iter();
            fields.position(|field| field.field.role == Some(role.0.into()) && is_number(field))
        };
        let kind = find(Role::ACCESS_KIND);
        let flags = schema.record.flags.unwrap_or_default();
        let function = find(Role::FUNCTION).or(find(Role::CALL_NUMBER)).or(find(Role::SYSCALL));
        let is_argument = |(_, field): &(usize, &stream::SchemaField)| {
            field.field.role == Some(Role::ARGUMENT.0.into()) && is_number(field)
        };
        Means {
            thread: find(Role::THREAD),
            process: find(Role::PROCESS),
            cpu: find(Role::CPU),
            pc: find(Role::PC),
            addr: find(Role::ADDRESS),
            size: find(Role::SIZE),
            kind,
            kinds: kind.map(|at| access_kinds(&schema.fields[at])).unwrap_or_default(),
            function,
            is_code: function
                .is_some_and(|at| matches!(schema.fields[at].layout.ty, Described::Address { .. })),
            returned: find(Role::RETURNED),
            arguments: schema.fields.iter().enumerate().filter(is_argument).map(|(at, _)| at).collect(),
            value: [Role::COUNT, Role::BYTES, Role::DURATION, Role::SEVERITY].into_iter().find_map(find),
            enters: flags & 1 != 0,
            leaves: flags & 2 != 0,
            is_range: schema.record.category.as_deref() == Some("range"),
            region: RegionMeans::of(schema).filter(|_| find(Role::ADDRESS).is_some()),
            sync: None,
            mark: MarkMeans::of(schema),
            n_beyond: 0,
        }
    }

    /// Number of fields of a schema that no lens shows.
    fn count_beyond(&self, n_fields: usize) -> u64 {
        let mut shown = vec![self.thread, self.process, self.cpu];
        if self.is_access() {
            shown.extend([self.addr, self.size, self.kind, self.pc]);
        } else if self.is_call() {
            shown.extend([self.function, self.returned.filter(|_| !self.enters)]);
            shown.extend(self.arguments.iter().map(|at| Some(*at)));
        } else if let Some(region) = &self.region {
            shown.push(self.addr);
            let said = [region.element_bytes, region.elements, region.type_name];
            shown.extend(said.into_iter().filter(|_| region.begins));
        } else if let Some(sync) = &self.sync {
            shown.extend([Some(sync.what), Some(sync.object), Some(sync.value)]);
        } else {
            shown.push(self.value);
        }
        let shown: BTreeSet<usize> = shown.into_iter().flatten().collect();
        n_fields.saturating_sub(shown.len()) as u64
    }

    /// True if records are accesses.
    pub(crate) fn is_access(&self) -> bool {
        self.addr.is_some() && self.kind.is_some()
    }

    /// True if records are calls.
    pub(crate) fn is_call(&self) -> bool {
        self.function.is_some() && (self.enters || self.leaves)
    }

    /// The access kind for a number of the field `kind`; `Read` if unknown.
    pub(crate) fn access_kind(&self, number: u64) -> AccessKind {
        let known = self.kinds.iter().find(|(known, _)| *known == number).map(|(_, kind)| *kind);
        known.unwrap_or_else(|| match usize::try_from(number).ok().and_then(|at| AccessKind::ALL.get(at)) {
            Some(kind) if self.kinds.is_empty() => *kind,
            _ => AccessKind::Read,
        })
    }
}

/// The access kinds that the names of a field determine.
fn access_kinds(field: &stream::SchemaField) -> Vec<(u64, AccessKind)> {
    let Some(names) = crate::column::names_of(&field.layout) else { return Vec::new() };
    names.iter().filter_map(|(number, name)| Some((number, access_kind_of(name)?))).collect()
}

/// The access kind that a name means: one of Quipu's names or a common synonym.
pub fn access_kind_of(name: &str) -> Option<AccessKind> {
    let name = name.to_ascii_lowercase();
    let known = AccessKind::ALL.iter().find(|kind| kind.name() == name).copied();
    known.or(match name.as_str() {
        "load" | "r" | "l" | "ld" => Some(AccessKind::Read),
        "store" | "w" | "s" | "st" | "modify" => Some(AccessKind::Write),
        "instr" | "exec" | "execute" | "x" => Some(AccessKind::Fetch),
        _ => None,
    })
}

/// The tables of a trace.
#[derive(Debug, Default)]
pub struct Tables {
    /// Schemas; the first is that of all records.
    pub schemas: Vec<Arc<Schema>>,
    /// Table index by epoch and schema id.
    by_id: FxHashMap<(EpochId, u32), usize>,
    /// By table index.
    pub(crate) means: Vec<Arc<Means>>,
    /// Names of marks that are not named after a table. Their numbers begin at [`MAX_TABLES`].
    mark_names: Vec<String>,
    /// Index of the table of aggregations, which is the last one, if the stream has some.
    pub(crate) aggregations: Option<usize>,
}

impl Tables {
    pub(crate) fn of(epochs: &BTreeMap<EpochId, Arc<Metadata>>) -> Tables {
        let mut tables = Tables {
            schemas: vec![ALL_RECORDS.clone()],
            by_id: FxHashMap::default(),
            means: vec![Arc::default()],
            mark_names: Vec::new(),
            aggregations: None,
        };
        // Finds tables by name without searching all of them.
        let mut by_name: FxHashMap<String, Vec<usize>> = FxHashMap::default();
        for (epoch, metadata) in epochs {
            for schema in metadata.schemas() {
                tables.add(*epoch, schema, &mut by_name);
            }
        }
        tables
    }

    fn add(&mut self, epoch: EpochId, schema: &stream::Schema, by_name: &mut FxHashMap<String, Vec<usize>>) {
        let name = schema.name();
        let fields = fields_of(schema);
        let mut means = Means::of(schema);
        let named = by_name.entry(name.clone()).or_default();
        let same = named.iter().copied().find(|table| {
            let known = &self.means[*table];
            self.schemas[*table].fields == fields
                && (known.enters, known.leaves) == (means.enters, means.leaves)
                && (known.is_range, known.region) == (means.is_range, means.region)
                && (known.sync.is_some() || self.mark_names.len() >= MAX_MARKS || !is_sync(schema))
        });
        let table = match same {
            Some(table) => table,
            None if self.schemas.len() >= MAX_TABLES => return,
            None => {
                if self.mark_names.len() < MAX_MARKS {
                    means.sync = SyncMeans::of(schema, &mut self.mark_names);
                }
                means.n_beyond = means.count_beyond(schema.fields.len());
                let unique = self.unique(&name);
                let doc = match &schema.record.category {
                    Some(category) => format!("records of category {category}"),
                    None => "records of one schema".to_owned(),
                };
                named.push(self.schemas.len());
                self.schemas.push(Arc::new(Schema::new(unique, Fidelity::Derived, doc, fields)));
                self.means.push(Arc::new(means));
                self.schemas.len() - 1
            }
        };
        self.by_id.insert((epoch, schema.id()), table);
    }

    /// A name that no other table has.
    fn unique(&self, name: &str) -> String {
        let is_taken = |name: &str| self.schemas.iter().any(|schema| schema.name == name);
        let (mut unique, mut n) = (name.to_owned(), 2);
        while is_taken(&unique) {
            unique = format!("{name}@{n}");
            n += 1;
        }
        unique
    }

    /// Adds the table of aggregations, which must be the last one.
    pub(crate) fn add_aggregations(&mut self) {
        let own = Aggregations::table_schema();
        let name = self.unique(&own.name);
        self.aggregations = Some(self.schemas.len());
        self.schemas.push(Arc::new(Schema::new(
            name,
            Fidelity::Derived,
            own.doc.clone(),
            own.fields.clone(),
        )));
        self.means.push(Arc::default());
    }

    /// Indices of the tables with the records of one schema.
    pub(crate) fn of_schemas(&self) -> Range<usize> {
        RECORDS + 1..self.aggregations.unwrap_or(self.schemas.len())
    }

    /// The table index of a schema.
    pub(crate) fn find(&self, epoch: EpochId, id: u32) -> Option<usize> {
        self.by_id.get(&(epoch, id)).copied()
    }

    /// The name of a mark.
    pub(crate) fn mark_name(&self, kind: u32) -> Option<&str> {
        let kind = kind as usize;
        match kind.checked_sub(MAX_TABLES) {
            Some(nth) => self.mark_names.get(nth).map(String::as_str),
            None => self.schemas.get(kind).map(|schema| &*schema.name),
        }
    }

    /// Whether `has` is true for any table.
    pub(crate) fn any(&self, has: impl Fn(&Means) -> bool) -> bool {
        self.means.iter().any(|means| has(means))
    }
}

/// The columns of the table of a schema.
fn fields_of(schema: &stream::Schema) -> Vec<Field> {
    let mut fields: Vec<Field> = own_fields().into();
    for described in &schema.fields {
        let name = &described.field.name;
        let mut unique = name.clone();
        let mut n = 2;
        while fields.iter().any(|field| field.name == unique) {
            unique = format!("{name}@{n}");
            n += 1;
        }
        let mut field = crate::column::field_of(unique, &described.layout);
        // The first columns of each table have the roles of record and time already.
        field.role = described.field.role.and_then(|role| u16::try_from(role).ok()).map(Role);
        if let Some(unit) = &described.field.unit {
            field.unit = Unit(Some(unit.clone().into()));
        }
        let flags = described.field.flags.unwrap_or_default();
        for (bit, flag) in [
            (field_flag::DELTA, FieldFlags::DELTA),
            (field_flag::FEW, FieldFlags::FEW),
            (field_flag::HEXADECIMAL, FieldFlags::HEX),
        ] {
            if flags & bit != 0 {
                field.flags = field.flags | flag;
            }
        }
        if let Some(native) = &described.field.native {
            field.doc = native.clone().into();
        }
        fields.push(field);
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_stream::wire::record::role;

    #[test]
    fn roles_and_flags_have_the_numbers_of_streams() {
        let roles = [
            (Role::TIME, role::TIMESTAMP),
            (Role::CPU, role::CPU),
            (Role::PROCESS, role::PID),
            (Role::THREAD, role::TID),
            (Role::PC, role::PC),
            (Role::ADDRESS, role::ADDRESS),
            (Role::SIZE, role::ACCESS_SIZE),
            (Role::ACCESS_KIND, role::ACCESS_KIND),
            (Role::CALL_NUMBER, role::CALL),
            (Role::RETURNED, role::RETURNED),
            (Role::ARGUMENT, role::ARGUMENT),
            (Role::FUNCTION, role::FUNCTION),
            (Role::DURATION, role::DURATION),
            (Role::SYSCALL, role::SYSCALL),
            (Role::BYTES, role::TRANSFERRED),
            (Role::COUNT, role::COUNT),
            (Role::SEVERITY, role::SEVERITY),
            (Role::PROBE, role::PROBE),
        ];
        for (ours, theirs) in roles {
            assert_eq!(u32::from(ours.0), theirs);
        }
        assert_eq!(u64::from(FieldFlags::DELTA.0), field_flag::DELTA);
        assert_eq!(u64::from(FieldFlags::FEW.0), field_flag::FEW);
        assert_eq!(u64::from(FieldFlags::HEX.0), field_flag::HEXADECIMAL);
        assert_eq!(Unit::BYTES.0.as_deref(), Some("B"));
    }
}
