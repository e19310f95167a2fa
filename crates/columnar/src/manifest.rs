//! What a folder says of the trace that it was: `quipu.json`.
//!
//! SPEC: columnar.md#the-manifest

use quipu_arrow::about::{About, parse};
use quipu_model::{Error, Place, Result};
use quipu_source::{Ahead, Source, StreamOptions};
use serde_json::Value;

/// The name of the file.
pub const MANIFEST: &str = "quipu.json";

/// Bytes that a manifest may have.
const MAX_BYTES: usize = 256 << 20;
/// Tables that it may name.
const MAX_TABLES: usize = 1 << 16;
/// The version that is read.
const VERSION: u64 = 1;

/// A table or lens of a folder.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name: `memrefs`, `lens.accesses`.
    pub name: String,
    /// The folder of its files.
    pub folder: String,
    /// The shard of each file, and its name.
    pub files: Vec<(u32, String)>,
    /// A file without rows, where there is no other: it has the columns.
    pub empty: Option<String>,
}

/// What a folder says.
#[derive(Debug)]
pub struct Manifest {
    /// What is known of the trace.
    pub about: About,
    /// Its tables and lenses.
    pub tables: Vec<Named>,
    /// Records of each shard, where that is said.
    pub records: Vec<u64>,
}

/// True if a file begins as a manifest does.
pub(crate) fn is_one(source: &Source) -> bool {
    source.head(64).is_ok_and(|head| {
        let head = String::from_utf8_lossy(&head).into_owned();
        head.trim_start().starts_with('{') && head.contains("\"quipu\"")
    })
}

/// Reads the manifest of a folder.
///
/// # Errors
/// `Malformed` if it is none, `Unsupported` for a newer version, `Limit` if it is too long; what reading says.
pub fn read(source: &Source) -> Result<Manifest> {
    let container = source.container()?;
    let options = StreamOptions { ahead: Ahead::Inline, ..StreamOptions::default() };
    let mut stream = container.stream(container.all_members(), &options)?;
    let (mut bytes, mut block) = (Vec::new(), Vec::new());
    while stream.next(&mut block)?.is_some() {
        bytes.extend_from_slice(&block);
        if bytes.len() > MAX_BYTES {
            let error = Error::limit("bytes in a manifest", bytes.len() as u64, MAX_BYTES as u64);
            return Err(error.in_file(source.name()));
        }
    }
    let manifest: Value = serde_json::from_slice(&bytes).map_err(|cause| {
        let place = Place { offset: offset_of(&bytes, &cause), ..Place::default() };
        Error::malformed(format!("the manifest is no JSON: {cause}")).at(&place).in_file(source.name())
    })?;
    match manifest["quipu"].as_u64() {
        Some(VERSION) => {}
        Some(other) => {
            let what = format!("the manifest is of version {other}; this program reads version {VERSION}");
            return Err(Error::unsupported(what).in_file(source.name()));
        }
        None => return Err(Error::malformed("the manifest has no version").in_file(source.name())),
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let tables = list(&manifest["tables"]);
    if tables.len() > MAX_TABLES {
        let error = Error::limit("tables of a folder", tables.len() as u64, MAX_TABLES as u64);
        return Err(error.in_file(source.name()));
    }
    let table = |table: &Value| {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let file = |file: &Value| {
            let shard = u32::try_from(file["shard"].as_u64()?).ok()?;
            text(&file["file"]).filter(|name| is_plain(name)).map(|name| (shard, name))
        };
        Some(Named {
            name: text(&table["name"])?,
            folder: text(&table["folder"]).filter(|name| is_plain(name))?,
            files: list(&table["files"]).iter().filter_map(file).collect(),
            empty: text(&table["empty"]).filter(|name| is_plain(name)),
        })
    };
    Ok(Manifest {
        about: parse(&manifest["trace"]),
        tables: tables.iter().filter_map(table).collect(),
        records: list(&manifest["records"]).iter().filter_map(Value::as_u64).collect(),
    })
}

/// True for a name that leads to nothing outside of its folder.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

/// Where a fault of JSON stands.
fn offset_of(bytes: &[u8], cause: &serde_json::Error) -> Option<u64> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').take(cause.line().saturating_sub(1));
    let before: usize = lines.map(<[u8]>::len).sum();
    Some((before + cause.column().saturating_sub(1)) as u64)
}
