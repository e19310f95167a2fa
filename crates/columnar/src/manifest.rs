//! The manifest `quipu.json`, which describes the trace that a folder was converted from.
//!
//! SPEC: columnar.md#the-manifest

use quipu_arrow::about::{About, parse};
use quipu_model::{Error, Place, Result};
use quipu_source::{Ahead, Source, StreamOptions};
use serde_json::Value;

/// File name of the manifest.
pub const MANIFEST: &str = "quipu.json";

/// Maximum size of a manifest in bytes.
const MAX_BYTES: usize = 256 << 20;
/// Maximum number of tables in a manifest.
const MAX_TABLES: usize = 1 << 16;
/// Supported version of the layout.
const VERSION: u64 = 1;

/// A table or lens of a folder.
#[derive(Clone, Debug)]
pub struct Named {
    /// Name, such as `memrefs` or `lens.accesses`.
    pub name: String,
    /// Name of the folder with its files.
    pub folder: String,
    /// Shard and name of each file.
    pub files: Vec<(u32, String)>,
    /// Name of a file without rows, which shows the columns if there is no other file.
    pub empty: Option<String>,
}

/// The content of a manifest.
#[derive(Debug)]
pub struct Manifest {
    /// Description of the trace.
    pub about: About,
    /// Its tables and lenses.
    pub tables: Vec<Named>,
    /// Number of records of each shard; shorter than the list of shards if the manifest does not state all.
    pub records: Vec<u64>,
}

/// True if a file begins like a manifest.
pub(crate) fn is_one(source: &Source) -> bool {
    source.head(64).is_ok_and(|head| {
        let head = String::from_utf8_lossy(&head).into_owned();
        head.trim_start().starts_with('{') && head.contains("\"quipu\"")
    })
}

/// Reads the manifest of a folder.
///
/// # Errors
/// `Malformed` if it is not a manifest, `Unsupported` for another version, `Limit` if it is too long or has too many tables;
/// those of reading the file.
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
        records: list(&manifest["records"]).iter().map_while(Value::as_u64).collect(),
    })
}

/// True for a name that cannot lead out of its folder.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

/// Byte offset of a JSON error.
fn offset_of(bytes: &[u8], cause: &serde_json::Error) -> Option<u64> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').take(cause.line().saturating_sub(1));
    let before: usize = lines.map(<[u8]>::len).sum();
    Some((before + cause.column().saturating_sub(1)) as u64)
}
