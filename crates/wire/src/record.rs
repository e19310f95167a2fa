//! Metadata records: CBOR maps with small integers as keys. Key 0 is the kind, key 1 an id, key 2 usually a name.
//!
//! [`Record::read`] returns a typed record, or the reason why the record is unusable. Unknown keys and kinds are skipped, so
//! copy a record as its bytes, never from its typed form.

use crate::cbor::Value;
use crate::types::Type;

/// Reason why a record is unusable: a required key is missing, or a value is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid(pub &'static str);

/// A type of values in a record.
pub trait Part: Sized {
    /// Reads the value of a key, which is `None` if the key is absent. Returns `None` if the value is invalid.
    fn read(value: Option<&Value>) -> Option<Self>;
    /// The value for the key; `None` leaves the key out.
    fn write(&self) -> Option<Value>;
}

macro_rules! int_part {
    ($($ty:ty),*) => {$(
        impl Part for $ty {
            fn read(value: Option<&Value>) -> Option<Self> {
                value?.as_int()?.try_into().ok()
            }
            fn write(&self) -> Option<Value> {
                Some(Value::int(i128::from(*self)))
            }
        }
    )*};
}

int_part!(u8, u16, u32, u64, i32, i64);

impl Part for i128 {
    fn read(value: Option<&Value>) -> Option<Self> {
        value?.as_int()
    }
    fn write(&self) -> Option<Value> {
        Some(Value::int(*self))
    }
}

impl Part for bool {
    fn read(value: Option<&Value>) -> Option<Self> {
        match value? {
            Value::Bool(yes) => Some(*yes),
            _ => None,
        }
    }
    fn write(&self) -> Option<Value> {
        Some(Value::Bool(*self))
    }
}

impl Part for String {
    fn read(value: Option<&Value>) -> Option<Self> {
        value?.as_text().map(str::to_owned)
    }
    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.clone()))
    }
}

impl Part for Value {
    fn read(value: Option<&Value>) -> Option<Self> {
        value.cloned()
    }
    fn write(&self) -> Option<Value> {
        Some(self.clone())
    }
}

/// A byte string of any length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blob(pub Vec<u8>);

impl Part for Blob {
    fn read(value: Option<&Value>) -> Option<Self> {
        value?.as_bytes().map(|bytes| Blob(bytes.to_vec()))
    }
    fn write(&self) -> Option<Value> {
        Some(Value::Bytes(self.0.clone()))
    }
}

/// The 16 bytes of a UUID.
pub type Uuid = [u8; 16];

impl Part for Uuid {
    fn read(value: Option<&Value>) -> Option<Self> {
        value?.as_bytes()?.try_into().ok()
    }
    fn write(&self) -> Option<Value> {
        Some(Value::Bytes(self.to_vec()))
    }
}

impl<T: Part> Part for Option<T> {
    fn read(value: Option<&Value>) -> Option<Self> {
        match value {
            None => Some(None),
            Some(_) => T::read(value).map(Some),
        }
    }
    fn write(&self) -> Option<Value> {
        self.as_ref()?.write()
    }
}

impl<T: Part> Part for Vec<T> {
    fn read(value: Option<&Value>) -> Option<Self> {
        value?.as_array()?.iter().map(|item| T::read(Some(item))).collect()
    }
    fn write(&self) -> Option<Value> {
        Some(Value::Array(self.iter().filter_map(Part::write).collect()))
    }
}

impl<A: Part, B: Part> Part for (A, B) {
    fn read(value: Option<&Value>) -> Option<Self> {
        match value?.as_array()? {
            [a, b] => Some((A::read(Some(a))?, B::read(Some(b))?)),
            _ => None,
        }
    }
    fn write(&self) -> Option<Value> {
        Some(Value::Array(vec![self.0.write()?, self.1.write()?]))
    }
}

impl<A: Part, B: Part, C: Part> Part for (A, B, C) {
    fn read(value: Option<&Value>) -> Option<Self> {
        match value?.as_array()? {
            [a, b, c] => Some((A::read(Some(a))?, B::read(Some(b))?, C::read(Some(c))?)),
            _ => None,
        }
    }
    fn write(&self) -> Option<Value> {
        Some(Value::Array(vec![self.0.write()?, self.1.write()?, self.2.write()?]))
    }
}

/// Labels: texts with names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(pub Vec<(String, String)>);

impl Part for Labels {
    fn read(value: Option<&Value>) -> Option<Self> {
        let Value::Map(pairs) = value? else { return None };
        let text = |value: &Value| value.as_text().map(str::to_owned);
        pairs.iter().map(|(key, value)| Some((text(key)?, text(value)?))).collect::<Option<_>>().map(Labels)
    }
    fn write(&self) -> Option<Value> {
        let text = |text: &String| Value::Text(text.clone());
        Some(Value::Map(self.0.iter().map(|(key, value)| (text(key), text(value))).collect()))
    }
}

/// Defines structures that are stored as CBOR maps with small integers as keys.
macro_rules! maps {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $key:literal => $field:ident: $ty:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl Part for $name {
            fn read(value: Option<&Value>) -> Option<Self> {
                let map = value?;
                matches!(map, Value::Map(_)).then_some(())?;
                Some($name { $($field: Part::read(map.get($key))?,)* })
            }
            fn write(&self) -> Option<Value> {
                let parts = [$(self.$field.write().map(|value| (Value::Uint($key), value)),)*];
                Some(Value::Map(parts.into_iter().flatten().collect()))
            }
        }
    )*};
}

maps! {
    /// The producer: one run of one process. The first record of every epoch.
    Producer {
        /// Program and version.
        2 => program: Option<String>,
        /// A random UUID; frames carry its first 8 bytes.
        3 => uuid: Uuid,
        /// Name of the machine.
        4 => host: Option<String>,
        /// Operating system.
        5 => os: Option<String>,
        /// Instruction set.
        6 => arch: Option<String>,
        /// Byte order of foreign bodies: 0 little, 1 big.
        7 => byte_order: Option<u32>,
        /// Width of an address in bits.
        8 => address_bits: Option<u32>,
        /// Size of a page in bytes.
        9 => page_bytes: Option<u64>,
        /// Identifies the boot of the machine.
        10 => boot: Option<Value>,
        /// Process id.
        11 => pid: Option<u64>,
        /// Command line.
        12 => argv: Option<Vec<String>>,
        /// Start of the run, Unix time in nanoseconds.
        13 => start_ns: Option<i64>,
        /// Offset of the time zone in seconds east of Greenwich.
        14 => zone_s: Option<i64>,
        /// Name of the time zone.
        15 => zone: Option<String>,
        /// Free-form labels.
        16 => labels: Option<Labels>,
    }
    /// A clock, whose ticks are the times in records.
    Clock {
        /// Id of the clock.
        1 => id: u32,
        /// Name of the clock.
        2 => name: Option<String>,
        /// Ticks per second; 0 if they have no physical unit.
        3 => ticks_per_s: u64,
        /// Unix time in nanoseconds at tick 0.
        4 => unix_ns: Option<i64>,
        /// Uncertainty of `unix_ns` in nanoseconds.
        5 => uncertainty_ns: Option<u64>,
        /// Flags: 1 monotonic, 2 the same on all CPUs of the host, 4 counts while the machine sleeps.
        6 => flags: Option<u64>,
        /// Source of the clock.
        7 => source: Option<String>,
    }
    /// An ordered source within a producer: a CPU, a thread, a converted file.
    Stream {
        /// Number of the stream; 0 is allowed.
        1 => number: u32,
        /// Name of the stream.
        2 => name: Option<String>,
        /// Id of the stream's clock.
        3 => clock: Option<u32>,
        /// CPU number.
        4 => cpu: Option<u64>,
        /// Process id.
        5 => pid: Option<u64>,
        /// Thread id.
        6 => tid: Option<u64>,
        /// Format from which the stream was converted.
        7 => format: Option<String>,
        /// Buffer policy: 0 switch, 1 fill, 2 ring.
        8 => policy: Option<u64>,
        /// Name of the file or buffer from which it was converted.
        9 => original: Option<String>,
    }
    /// One field of a schema, or a key of an aggregation.
    Field {
        /// Name of the field.
        0 => name: String,
        /// Id of the field's type.
        1 => ty: u32,
        /// Offset in the fixed body of plain rows.
        2 => offset: Option<u32>,
        /// Role, by which lenses find the field; see [`role`].
        3 => role: Option<u32>,
        /// Unit of the values.
        4 => unit: Option<String>,
        /// Flags, see [`field_flag`].
        5 => flags: Option<u64>,
        /// Name of the field in its source.
        6 => native: Option<String>,
    }
    /// One kind of data record.
    Schema {
        /// Id of the schema, at least 16.
        1 => id: u32,
        /// Name of the schema.
        2 => name: Option<String>,
        /// Fields in order.
        3 => fields: Vec<Field>,
        /// Size of the fixed body in plain rows, in bytes.
        4 => fixed_bytes: Option<u32>,
        /// Id of the probe that it belongs to.
        5 => probe: Option<u32>,
        /// Id of the format of its text.
        6 => format: Option<u32>,
        /// Category of the records.
        7 => category: Option<String>,
        /// Number of the event in its source.
        8 => native: Option<u64>,
        /// Flags: 1 begins a span, 2 ends one.
        9 => flags: Option<u64>,
    }
    /// The format by which a record is printed as text.
    Format {
        /// Id of the format.
        1 => id: u32,
        /// The text with conversions for the fields.
        2 => text: String,
        /// Dialect: 1 DTrace as the kernel stores it, 2 DTrace as written, 3 braces, 4 C.
        3 => dialect: Option<u64>,
    }
    /// A probe with its four names.
    Probe {
        /// Id of the probe.
        1 => id: u32,
        /// Provider.
        2 => provider: Option<String>,
        /// Module.
        3 => module: Option<String>,
        /// Function.
        4 => function: Option<String>,
        /// Name of the probe.
        5 => name: Option<String>,
    }
    /// An aggregation: values aggregated by key.
    Aggregation {
        /// Id of the aggregation, at least 16.
        1 => id: u32,
        /// Name of the aggregation.
        2 => name: Option<String>,
        /// Fields of the key.
        3 => keys: Vec<Field>,
        /// Offset of the value in a row.
        4 => value_offset: u32,
        /// Function: 1 count, 2 min, 3 max, 4 sum, 5 avg, 6 stddev, 7 quantize, 8 lquantize, 9 llquantize.
        5 => function: u32,
        /// For lquantize: base, limit, step; for llquantize: factor, low, high, steps.
        6 => parameters: Option<Vec<i64>>,
        /// 0: rows add to earlier ones, 1: a row replaces the earlier one with its key and stream.
        7 => mode: Option<u32>,
        /// Id of the enabling.
        8 => enabling: Option<u32>,
    }
    /// A piece of a table.
    Table {
        /// Id of the table.
        1 => id: u32,
        /// Name of the table.
        2 => name: Option<String>,
        /// Index of the first value.
        3 => first: u64,
        /// The values: texts, bytes, integers or lists.
        4 => values: Vec<Value>,
    }
    /// A module mapped into a process or the kernel.
    Module {
        /// Id of the module.
        1 => id: u32,
        /// Path of the file.
        2 => path: Option<String>,
        /// First address of the mapping.
        3 => start: Option<u64>,
        /// Size of the mapping in bytes.
        4 => size: Option<u64>,
        /// Offset in the file at which the mapping begins.
        5 => file_offset: Option<u64>,
        /// Build id of the file.
        6 => build: Option<Value>,
        /// Process id; absent for the kernel.
        7 => pid: Option<u64>,
        /// Time of mapping, in ticks.
        8 => from: Option<u64>,
        /// Time of unmapping, in ticks.
        9 => until: Option<u64>,
    }
    /// Symbols: names of address ranges.
    Symbols {
        /// The id of a module, or the name of an object.
        3 => object: Option<Value>,
        /// Address, size and name of each symbol.
        4 => symbols: Vec<(u64, u64, String)>,
        /// Process id.
        5 => pid: Option<u64>,
    }
    /// A setting of the session.
    Setting {
        /// Name of the setting.
        2 => name: String,
        /// Value: a text, an integer or true.
        3 => value: Value,
    }
    /// A private encoding of data.
    Encoding {
        /// Number of the encoding, at least 0x8000.
        1 => id: u32,
        /// Name of the encoding.
        2 => name: Option<String>,
        /// Version of the encoding.
        3 => version: Option<Value>,
        /// Number of a similar encoding, or 0.
        4 => based_on: Option<u32>,
        /// Parameters of the encoding.
        5 => parameters: Option<Value>,
        /// Place of its description.
        6 => described: Option<String>,
    }
    /// A remark.
    Note {
        /// Text of the remark.
        2 => text: String,
        /// Severity: 0 information, 1 warning, 2 error.
        3 => severity: Option<u64>,
    }
    /// The layout of the records of one DTrace clause (an enabled probe).
    Enabling {
        /// Id of the enabling.
        1 => id: u32,
        /// Id of the probe.
        2 => probe: u32,
        /// 1 for the enabling that the library itself adds for errors.
        3 => uarg: Option<u64>,
        /// Size of a record in bytes.
        4 => size: u32,
        /// For each action: action, size, offset, alignment, format, argument, statement, name of the library action.
        5 => actions: Vec<Vec<i128>>,
    }
    /// A DTrace aggregation, as the kernel describes it.
    KernelAggregation {
        /// Id of the aggregation.
        1 => id: u32,
        /// Id of the enabling.
        2 => enabling: u32,
        /// Id of the variable.
        3 => variable: i64,
        /// Size of a record in bytes.
        4 => size: u32,
        /// Actions, as in [`Enabling`].
        5 => records: Vec<Vec<i128>>,
        /// Name of the variable.
        6 => name: Option<String>,
    }
}

/// A type record.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeRecord {
    /// Id of the type.
    pub id: u32,
    /// Name of the type.
    pub name: Option<String>,
    /// Description of the type.
    pub ty: Type,
    /// Description of the type in the terms of its source.
    pub native: Option<String>,
}

impl Part for TypeRecord {
    fn read(value: Option<&Value>) -> Option<Self> {
        let map = value?;
        let ty = Type::read(map.get(3)?.as_u64()?, map.get(4), map.get(5))?;
        let (id, name, native) = (Part::read(map.get(1))?, Part::read(map.get(2))?, Part::read(map.get(6))?);
        Some(TypeRecord { id, name, ty, native })
    }
    fn write(&self) -> Option<Value> {
        let (kind, four, five) = self.ty.write();
        let parts = [
            (1, self.id.write()),
            (2, self.name.write()),
            (3, Some(Value::Uint(kind))),
            (4, four),
            (5, five),
            (6, self.native.write()),
        ];
        let parts = parts.into_iter().filter_map(|(key, value)| Some((Value::Uint(key), value?)));
        Some(Value::Map(parts.collect()))
    }
}

/// Roles of fields, which are the same in all traces, so that lenses find the fields.
pub mod role {
    /// Time, in ticks.
    pub const TIMESTAMP: u32 = 1;
    /// CPU number.
    pub const CPU: u32 = 2;
    /// Process id.
    pub const PID: u32 = 3;
    /// Thread id.
    pub const TID: u32 = 4;
    /// Program counter.
    pub const PC: u32 = 5;
    /// Address of a memory access.
    pub const ADDRESS: u32 = 6;
    /// Number of bytes accessed.
    pub const ACCESS_SIZE: u32 = 7;
    /// Kind of access: read, write, …
    pub const ACCESS_KIND: u32 = 8;
    /// Number of a call.
    pub const CALL: u32 = 9;
    /// Value that a call returned.
    pub const RETURNED: u32 = 10;
    /// Argument of a call.
    pub const ARGUMENT: u32 = 11;
    /// Function that a record is about.
    pub const FUNCTION: u32 = 12;
    /// Length of a span of time.
    pub const DURATION: u32 = 13;
    /// Number of a system call.
    pub const SYSCALL: u32 = 14;
    /// Number of bytes transferred.
    pub const TRANSFERRED: u32 = 15;
    /// A number of things, such as the elements of an array.
    pub const COUNT: u32 = 16;
    /// Severity of a message.
    pub const SEVERITY: u32 = 17;
    /// Probe that fired.
    pub const PROBE: u32 = 18;
}

/// Flags for storing and printing fields.
pub mod field_flag {
    /// Packed rows store the difference to the previous value.
    pub const DELTA: u64 = 1;
    /// The field has few distinct values.
    pub const FEW: u64 = 2;
    /// Printed in hexadecimal.
    pub const HEXADECIMAL: u64 = 8;
}

macro_rules! records {
    ($($(#[$doc:meta])* $variant:ident($ty:ty) = $kind:literal),* $(,)?) => {
        /// A metadata record of any kind.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Record {
            $($(#[$doc])* $variant($ty),)*
            /// A private kind, or one that this crate does not know.
            Other(u64),
        }

        impl Record {
            /// The number of the kind.
            #[must_use]
            pub fn kind(&self) -> u64 {
                match self {
                    $(Record::$variant(_) => $kind,)*
                    Record::Other(kind) => *kind,
                }
            }

            fn read_kind(kind: u64, value: &Value) -> Option<Record> {
                match kind {
                    $($kind => Part::read(Some(value)).map(Record::$variant),)*
                    _ => Some(Record::Other(kind)),
                }
            }

            /// The CBOR map of the record; for [`Record::Other`], only its kind.
            #[must_use]
            pub fn to_value(&self) -> Value {
                let body = match self {
                    $(Record::$variant(record) => record.write(),)*
                    Record::Other(_) => None,
                };
                let mut pairs = vec![(Value::Uint(0), Value::Uint(self.kind()))];
                if let Some(Value::Map(more)) = body {
                    pairs.extend(more);
                }
                Value::Map(pairs)
            }
        }

        $(impl From<$ty> for Record {
            fn from(record: $ty) -> Record {
                Record::$variant(record)
            }
        })*
    };
}

records! {
    /// See [`Producer`].
    Producer(Producer) = 1,
    /// See [`Clock`].
    Clock(Clock) = 2,
    /// See [`Stream`].
    Stream(Stream) = 3,
    /// See [`TypeRecord`].
    Type(TypeRecord) = 4,
    /// See [`Schema`].
    Schema(Schema) = 5,
    /// See [`Format`].
    Format(Format) = 6,
    /// See [`Probe`].
    Probe(Probe) = 7,
    /// See [`Aggregation`].
    Aggregation(Aggregation) = 8,
    /// See [`Table`].
    Table(Table) = 9,
    /// See [`Module`].
    Module(Module) = 10,
    /// See [`Symbols`].
    Symbols(Symbols) = 11,
    /// See [`Setting`].
    Setting(Setting) = 12,
    /// See [`Encoding`].
    Encoding(Encoding) = 13,
    /// See [`Note`].
    Note(Note) = 14,
    /// See [`Enabling`].
    Enabling(Enabling) = 15,
    /// See [`KernelAggregation`].
    KernelAggregation(KernelAggregation) = 16,
}

/// The lowest id of schemas and aggregations; lower ids are reserved.
pub const FIRST_SCHEMA: u32 = 16;

/// The lowest number of a private encoding.
pub const FIRST_PRIVATE_ENCODING: u32 = 0x8000;

/// The lowest number of a private kind.
pub const FIRST_PRIVATE_KIND: u64 = 1024;

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// Returns an error if the value is not a map, has no kind, lacks a required key, or has an invalid value.
    pub fn read(value: &Value) -> Result<Record, Invalid> {
        let kind = value.get(0).and_then(Value::as_u64).ok_or(Invalid("a record without a kind"))?;
        let record = Record::read_kind(kind, value)
            .ok_or(Invalid("a key is missing, or has a value of another type"))?;
        let lowest = match &record {
            Record::Schema(_) | Record::Aggregation(_) => FIRST_SCHEMA,
            Record::Encoding(_) => FIRST_PRIVATE_ENCODING,
            _ => 1,
        };
        if let Some(id) = record.id()
            && !matches!(record, Record::Stream(_))
            && (id < lowest || (kind == 13 && id > 0xFFFF))
        {
            return Err(Invalid("an id out of range"));
        }
        match &record {
            Record::Setting(setting)
                if !matches!(
                    setting.value,
                    Value::Text(_) | Value::Uint(_) | Value::Nint(_) | Value::Bool(true)
                ) =>
            {
                Err(Invalid("a setting that is no text, integer or true"))
            }
            Record::Table(table)
                if !table.values.iter().all(|value| {
                    matches!(
                        value,
                        Value::Text(_) | Value::Bytes(_) | Value::Uint(_) | Value::Nint(_) | Value::Array(_)
                    )
                }) || table.first.checked_add(table.values.len() as u64).is_none() =>
            {
                Err(Invalid("a value that no table can have"))
            }
            Record::Other(kind)
                if *kind >= FIRST_PRIVATE_KIND
                    && !value.get(2).and_then(Value::as_text).is_some_and(|name| name.contains('.')) =>
            {
                Err(Invalid("a private kind without a name that has a dot"))
            }
            _ => Ok(record),
        }
    }

    /// The id of the record within its kind; `None` for kinds without ids and for unknown kinds.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        Some(match self {
            Record::Clock(record) => record.id,
            Record::Stream(record) => record.number,
            Record::Type(record) => record.id,
            Record::Schema(record) => record.id,
            Record::Format(record) => record.id,
            Record::Probe(record) => record.id,
            Record::Aggregation(record) => record.id,
            Record::Table(record) => record.id,
            Record::Module(record) => record.id,
            Record::Encoding(record) => record.id,
            Record::Enabling(record) => record.id,
            Record::KernelAggregation(record) => record.id,
            _ => return None,
        })
    }

    /// The canonical encoding of the record.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_value().to_bytes()
    }
}
