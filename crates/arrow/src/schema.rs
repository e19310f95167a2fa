//! Conversion of table schemas to Arrow's and back.
//!
//! Keys in the metadata of a field:
//!
//! | key | value |
//! |---|---|
//! | `quipu.type` | what a value is: `u32`, `address`, `time:1`, `enum:u8`, `flags:u16`, `fixed:16`, `text`, … |
//! | `quipu.doc` | what the column means |
//! | `quipu.role` | what it is for: `pc`, `address`, `record`, …, or a number |
//! | `quipu.unit` | what numbers count |
//! | `quipu.missing` | `is:N` where that number stands for "none", `bitmap` where any row may lack a value |
//! | `quipu.flags` | bits that say how values are best shown and stored |
//! | `quipu.names` | names of numbers or bits: `{"names": [[0, "read"]], "groups": [["data", [0, 1]]]}` |
//!
//! Keys in the metadata of a schema: `quipu.table`, `quipu.doc`, `quipu.fidelity` (`exact`, `derived`), `quipu.key` where
//! tables of the same name differ, and `quipu.trace`, which holds the description of the whole trace.

use arrow_schema::{DataType, Field as ArrowField, Fields, Schema as ArrowSchema};
use quipu_model::schema::{
    Fidelity, Field, FieldFlags, Missing, Names, Role, SchemaKey, Storage, Type, Unit,
};
use quipu_model::{Error, Result, Schema};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// Metadata key of the name of a table.
pub const TABLE: &str = "quipu.table";
/// Metadata key of the description of the trace.
pub const TRACE: &str = "quipu.trace";
const DOC: &str = "quipu.doc";
const FIDELITY: &str = "quipu.fidelity";
const KEY: &str = "quipu.key";
const TYPE: &str = "quipu.type";
const ROLE: &str = "quipu.role";
const UNIT: &str = "quipu.unit";
const MISSING: &str = "quipu.missing";
const FLAGS: &str = "quipu.flags";
const NAMES: &str = "quipu.names";

/// Maximum nesting of lists and structures in a schema that is read.
const MAX_DEPTH: u32 = 32;

/// The readers that files are written for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interop {
    /// Readers with unsigned numbers.
    #[default]
    Any,
    /// Readers without them, such as Spark: unsigned numbers of up to 32 bits get the next wider signed type; those of 64 bits
    /// keep their bits, so that numbers from 2^63 on appear negative.
    Spark,
}

/// Arrow type of a column with named numbers.
pub(crate) fn names_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Converts the schema of a table to Arrow's; `about` is added to its metadata.
///
/// # Errors
/// `Unsupported` for columns that refer to data beside them in a batch; rows of the engine have none.
pub fn arrow_schema(schema: &Schema, interop: Interop, about: &[(&str, String)]) -> Result<ArrowSchema> {
    let mut metadata = HashMap::from([
        (TABLE.to_owned(), schema.name.to_string()),
        (DOC.to_owned(), schema.doc.to_string()),
        (FIDELITY.to_owned(), if schema.is_derived() { "derived" } else { "exact" }.to_owned()),
    ]);
    if schema.key != SchemaKey::default() {
        metadata.insert(KEY.to_owned(), format!("{:032x}", schema.key.0));
    }
    metadata.extend(about.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    let fields = schema.fields.iter().map(|field| arrow_field(field, interop)).collect::<Result<Fields>>()?;
    Ok(ArrowSchema::new_with_metadata(fields, metadata))
}

/// Converts the description of a column to Arrow's field.
pub(crate) fn arrow_field(field: &Field, interop: Interop) -> Result<ArrowField> {
    let mut about = HashMap::from([(TYPE.to_owned(), type_text(&field.ty))]);
    let mut say = |key: &str, value: Option<String>| {
        about.extend(value.map(|value| (key.to_owned(), value)));
    };
    say(DOC, (!field.doc.is_empty()).then(|| field.doc.to_string()));
    say(ROLE, field.role.map(|role| role.name().map_or_else(|| role.0.to_string(), str::to_ascii_lowercase)));
    say(UNIT, field.unit.0.as_ref().map(|unit| unit.to_string()));
    say(FLAGS, (field.flags != FieldFlags::NONE).then(|| field.flags.0.to_string()));
    say(
        MISSING,
        match field.missing {
            Missing::Never => None,
            Missing::Is(number) => Some(format!("is:{number}")),
            Missing::Bitmap => Some("bitmap".to_owned()),
        },
    );
    if let Type::Enum(names) | Type::Flags(names) = &field.ty {
        let pairs: Vec<Value> = names.iter().map(|(number, name)| json!([number, name])).collect();
        let groups: Vec<Value> = names.groups().map(|(word, numbers)| json!([word, numbers])).collect();
        say(NAMES, Some(json!({ "names": pairs, "groups": groups }).to_string()));
    }
    let is_nullable = field.missing != Missing::Never;
    Ok(ArrowField::new(field.name.as_ref(), data_type(field, interop)?, is_nullable).with_metadata(about))
}

/// Arrow type of the values of a column.
fn data_type(field: &Field, interop: Interop) -> Result<DataType> {
    let signed = interop == Interop::Spark;
    Ok(match &field.ty {
        Type::Bool => DataType::Boolean,
        Type::Enum(_) => names_type(),
        Type::Text => DataType::Utf8,
        Type::Bytes => DataType::Binary,
        Type::List(item) => DataType::List(Arc::new(arrow_field(item, interop)?)),
        Type::Struct(members) => {
            // Where a structure is missing, its members are missing too.
            let member = |member: &Field| Ok(arrow_field(member, interop)?.with_nullable(true));
            DataType::Struct(members.iter().map(member).collect::<Result<Fields>>()?)
        }
        Type::Dict(_) | Type::Code | Type::Function | Type::Value => {
            let what = format!("column `{}` points at what rows for other programs have in it", field.name);
            return Err(Error::unsupported(what));
        }
        ty => match ty.storage() {
            Storage::U8 if signed => DataType::Int16,
            Storage::U16 if signed => DataType::Int32,
            Storage::U32 | Storage::U64 if signed => DataType::Int64,
            Storage::U8 => DataType::UInt8,
            Storage::U16 => DataType::UInt16,
            Storage::U32 => DataType::UInt32,
            Storage::I8 => DataType::Int8,
            Storage::I16 => DataType::Int16,
            Storage::I32 => DataType::Int32,
            Storage::I64 => DataType::Int64,
            Storage::F32 => DataType::Float32,
            Storage::F64 => DataType::Float64,
            Storage::Fixed(width) => DataType::FixedSizeBinary(i32::try_from(width).unwrap_or(i32::MAX)),
            _ => DataType::UInt64,
        },
    })
}

fn storage_text(storage: Storage) -> &'static str {
    match storage {
        Storage::U8 => "u8",
        Storage::U16 => "u16",
        Storage::U32 => "u32",
        Storage::I8 => "i8",
        Storage::I16 => "i16",
        Storage::I32 => "i32",
        Storage::I64 => "i64",
        Storage::F32 => "f32",
        Storage::F64 => "f64",
        _ => "u64",
    }
}

fn storage_of(text: &str) -> Option<Storage> {
    let all = [
        Storage::U8,
        Storage::U16,
        Storage::U32,
        Storage::U64,
        Storage::I8,
        Storage::I16,
        Storage::I32,
        Storage::I64,
        Storage::F32,
        Storage::F64,
    ];
    all.into_iter().find(|storage| storage_text(*storage) == text)
}

fn type_text(ty: &Type) -> String {
    match ty {
        Type::Bool => "bool".to_owned(),
        Type::Address => "address".to_owned(),
        Type::Time { clock } => format!("time:{clock}"),
        Type::Enum(names) => format!("enum:{}", storage_text(names.storage())),
        Type::Flags(names) => format!("flags:{}", storage_text(names.storage())),
        Type::Fixed(width) => format!("fixed:{width}"),
        Type::Text => "text".to_owned(),
        Type::Bytes => "bytes".to_owned(),
        Type::List(_) => "list".to_owned(),
        Type::Struct(_) => "struct".to_owned(),
        other => storage_text(other.storage()).to_owned(),
    }
}

/// Converts Arrow's schema to that of a table. Columns without our metadata get the type that fits, so that files from other
/// programs can be read.
///
/// # Errors
/// `Unsupported` for types that no column can have; `Damaged` for metadata that contradicts itself.
pub fn table_schema(schema: &ArrowSchema, name: &str) -> Result<Schema> {
    let about = |key: &str| schema.metadata().get(key);
    let fields = schema.fields().iter().map(|field| table_field(field, 0)).collect::<Result<Vec<_>>>()?;
    let fidelity = match about(FIDELITY).map(String::as_str) {
        Some("exact") => Fidelity::Exact,
        _ => Fidelity::Derived,
    };
    let name = about(TABLE).cloned().unwrap_or_else(|| name.to_owned());
    let doc = about(DOC).cloned().unwrap_or_default();
    let key = about(KEY).and_then(|key| u128::from_str_radix(key, 16).ok()).unwrap_or(0);
    Ok(Schema { key: SchemaKey(key), ..Schema::new(name, fidelity, doc, fields) })
}

fn table_field(field: &ArrowField, depth: u32) -> Result<Field> {
    if depth > MAX_DEPTH {
        return Err(Error::limit("levels of a column's type", depth.into(), MAX_DEPTH.into()));
    }
    let about = |key: &str| field.metadata().get(key).map(String::as_str);
    let wrong = |what: &str| {
        let message =
            format!("column `{}` says `{what}` of itself, which fits no values that it has", field.name());
        Error::new(quipu_model::ErrorKind::Damaged, message)
    };
    let ty = match about(TYPE) {
        Some(text) => {
            let ty = said_type(field, text, about(NAMES), depth)?.ok_or_else(|| wrong(text))?;
            if !fits(&ty, field.data_type()) {
                return Err(wrong(text));
            }
            ty
        }
        None => plain_type(field, depth)?,
    };
    let missing = match about(MISSING) {
        Some(text) => match text.strip_prefix("is:").map(str::parse) {
            Some(Ok(number)) => Missing::Is(number),
            Some(Err(_)) => return Err(wrong(text)),
            None => Missing::Bitmap,
        },
        None if about(TYPE).is_none() && field.is_nullable() => Missing::Bitmap,
        None => Missing::Never,
    };
    let is_number =
        !matches!(ty.storage(), Storage::Strings | Storage::Nested | Storage::Members | Storage::Fixed(_));
    if matches!(missing, Missing::Is(_)) && !is_number {
        return Err(wrong("is:"));
    }
    let role = about(ROLE)
        .and_then(|text| Role::named(&text.to_ascii_uppercase()).or_else(|| text.parse().ok().map(Role)));
    let flags = about(FLAGS).and_then(|text| text.parse().ok()).unwrap_or(0);
    Ok(Field {
        missing,
        role,
        unit: match about(UNIT) {
            Some(unit) => Unit(Some(unit.to_owned().into())),
            None => plain_unit(field.data_type()),
        },
        flags: FieldFlags(flags),
        ..Field::new(field.name().clone(), ty, about(DOC).unwrap_or_default().to_owned())
    })
}

/// Parses the value of `quipu.type`; `None` if it names no type.
fn said_type(field: &ArrowField, text: &str, names: Option<&str>, depth: u32) -> Result<Option<Type>> {
    let (word, number) = text.split_once(':').unwrap_or((text, ""));
    let named = |storage: Option<Storage>| {
        let value: Value = serde_json::from_str(names.unwrap_or("{}")).unwrap_or_default();
        let pairs = value["names"].as_array().into_iter().flatten();
        let pairs = pairs.filter_map(|pair| Some((pair[0].as_u64()?, pair[1].as_str()?.to_owned())));
        let names = Names::new(storage?, pairs);
        let groups = value["groups"].as_array().into_iter().flatten();
        let groups = groups.filter_map(|group| {
            let members = group[1].as_array()?.iter().filter_map(Value::as_u64);
            Some((group[0].as_str()?.to_owned(), members.collect::<Vec<_>>()))
        });
        let add = |names: Names, (word, members): (String, Vec<u64>)| {
            let members: Vec<String> =
                members.iter().filter_map(|number| names.get(*number).map(str::to_owned)).collect();
            let members: Vec<&str> = members.iter().map(String::as_str).collect();
            names.with_group(word, &members)
        };
        Some(groups.fold(names, add).shared())
    };
    Ok(match word {
        "bool" => Some(Type::Bool),
        "address" => Some(Type::Address),
        "time" => number.parse().ok().map(|clock| Type::Time { clock }),
        "enum" => named(storage_of(number)).map(Type::Enum),
        "flags" => named(storage_of(number)).map(Type::Flags),
        "fixed" => number.parse().ok().map(Type::Fixed),
        "text" => Some(Type::Text),
        "bytes" => Some(Type::Bytes),
        "list" | "struct" => Some(plain_type(field, depth)?),
        other => storage_of(other).and_then(Type::of_numbers),
    })
}

/// Type of a column without our metadata.
fn plain_type(field: &ArrowField, depth: u32) -> Result<Type> {
    Ok(match field.data_type() {
        DataType::Boolean => Type::Bool,
        DataType::UInt8 => Type::U8,
        DataType::UInt16 => Type::U16,
        DataType::UInt32 => Type::U32,
        DataType::UInt64 => Type::U64,
        DataType::Int8 => Type::I8,
        DataType::Int16 => Type::I16,
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => Type::I32,
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => Type::I64,
        DataType::Float16 | DataType::Float32 => Type::F32,
        DataType::Float64 => Type::F64,
        ty if is_text(ty) => Type::Text,
        DataType::Decimal128(..) | DataType::Decimal256(..) => Type::Text,
        ty if is_bytes(ty) => Type::Bytes,
        DataType::FixedSizeBinary(width) if *width > 0 => Type::Fixed(width.unsigned_abs()),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Type::List(Arc::new(table_field(item, depth + 1)?))
        }
        DataType::Struct(members) if !members.is_empty() => {
            let members = members.iter().map(|member| table_field(member, depth + 1));
            Type::Struct(members.collect::<Result<Vec<_>>>()?.into())
        }
        other => {
            let what =
                format!("column `{}` has values of type {other}, which no table can have", field.name());
            return Err(Error::unsupported(what));
        }
    })
}

/// Unit of a column without our metadata.
fn plain_unit(ty: &DataType) -> Unit {
    use arrow_schema::TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let unit = match ty {
        DataType::Date32 => "days",
        DataType::Date64 => "ms",
        DataType::Time32(unit)
        | DataType::Time64(unit)
        | DataType::Timestamp(unit, _)
        | DataType::Duration(unit) => match unit {
            Second => "s",
            Millisecond => "ms",
            Microsecond => "us",
            Nanosecond => "ns",
        },
        _ => return Unit::NONE,
    };
    Unit(Some(unit.into()))
}

/// True for texts, plain or as entries of a dictionary.
fn is_text(ty: &DataType) -> bool {
    match ty {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(keys, entries) => keys.is_integer() && is_text(entries),
        _ => false,
    }
}

fn is_bytes(ty: &DataType) -> bool {
    matches!(ty, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Returns the positions of the columns that a table can have, and the others as text with their types.
pub(crate) fn left_out(schema: &ArrowSchema) -> (Vec<usize>, Vec<String>) {
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for (at, field) in schema.fields().iter().enumerate() {
        match table_field(field, 0) {
            Err(error) if error.kind() == quipu_model::ErrorKind::Unsupported => {
                left_out.push(format!("{}: {}", field.name(), field.data_type()));
            }
            _ => kept.push(at),
        }
    }
    (kept, left_out)
}

/// Value of a key in the metadata of a schema.
pub(crate) fn about_of_schema<'s>(schema: &'s ArrowSchema, key: &str) -> Option<&'s str> {
    schema.metadata().get(key).map(String::as_str)
}

/// True if values of this type can be read from an array of type `data`.
fn fits(ty: &Type, data: &DataType) -> bool {
    match ty {
        Type::Bool => *data == DataType::Boolean,
        Type::Enum(_) | Type::Text => is_text(data),
        Type::Bytes => is_bytes(data),
        Type::List(_) => {
            matches!(data, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
        }
        Type::Struct(_) => matches!(data, DataType::Struct(_)),
        Type::Fixed(width) => matches!(data, DataType::FixedSizeBinary(n) if u32::try_from(*n) == Ok(*width)),
        Type::F32 => *data == DataType::Float32,
        Type::F64 => *data == DataType::Float64,
        _ => data.is_integer(),
    }
}
