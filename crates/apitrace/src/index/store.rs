//! Stores an index in a file: beside its trace, or in the cache folder.
//!
//! ```text
//! "quipu apitrace index\n"  version  what the trace was  signatures  checkpoints  totals  checksum
//! ```
//!
//! All numbers are encoded as in the traces themselves, except for the checksum (XXH64 of everything before it,
//! little-endian). "What the trace was" is its size, the time of its last change, and a hash of its first and last bytes and
//! of some between. A file that is damaged, or belongs to another version or another trace, is ignored, and the index is
//! built again.

use super::{Checkpoint, Index};
use crate::cursor::{Cursor, Decoded, Stop};
use crate::decode::signatures::Space;
use crate::decode::skim::Definition;
use crate::encode::uint;
use quipu_model::fresh::{Replace, put};
use quipu_source::{Container, Landmark, Source};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use xxhash_rust::xxh64::xxh64;

const MAGIC: &[u8] = b"quipu apitrace index\n";
const VERSION: u64 = 1;
/// Suffix added to the name of the trace.
const ENDING: &str = ".quipu-index";
/// Maximum size of an index file.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Number of bytes hashed at each end of a trace, and at each place between.
const END_BYTES: u64 = 64 << 10;
const PLACE_BYTES: u64 = 4 << 10;
const N_PLACES: u64 = 14;

/// Location of index files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Indexes are used from either location; for large traces, they are created in the cache folder.
    #[default]
    Auto,
    /// In the cache folder.
    Cache,
    /// Beside the trace.
    Beside,
    /// Nowhere: no index is used or created.
    No,
}

impl Keep {
    /// Parses a value of the option `index`.
    pub fn parse(word: &str) -> Option<Keep> {
        Some(match word {
            "auto" => Keep::Auto,
            "cache" => Keep::Cache,
            "beside" => Keep::Beside,
            "no" => Keep::No,
            _ => return None,
        })
    }
}

/// Identifies the contents of a file, to detect changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    size: u64,
    changed: u64,
    hash: u64,
}

impl Identity {
    /// The identity of the file that the source reads.
    ///
    /// # Errors
    /// If it cannot be read, or the source is not a file.
    pub fn of(source: &Source) -> io::Result<Identity> {
        let Some(path) = source.path() else { return Err(io::ErrorKind::Unsupported.into()) };
        let mut file = fs::File::open(path)?;
        let meta = file.metadata()?;
        let size = meta.len();
        let since = meta.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let changed = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let (mut hash, mut bytes) = (0, Vec::new());
        let last = size.saturating_sub(END_BYTES);
        let between = (1..=N_PLACES).map(|i| (size / (N_PLACES + 1) * i, PLACE_BYTES));
        for (at, n_bytes) in [(0, END_BYTES), (last, END_BYTES)].into_iter().chain(between) {
            file.seek(SeekFrom::Start(at))?;
            bytes.clear();
            file.by_ref().take(n_bytes).read_to_end(&mut bytes)?;
            hash = xxh64(&bytes, hash);
        }
        Ok(Identity { size, changed, hash })
    }
}

/// Paths where the index of a trace may be, in the order of search; empty for a source that is not a file.
fn places(source: &Source, keep: Keep) -> Vec<PathBuf> {
    let Some(path) = source.path() else { return Vec::new() };
    let mut beside = path.as_os_str().to_owned();
    beside.push(ENDING);
    let (beside, cached) = (PathBuf::from(beside), in_cache(path));
    match keep {
        Keep::No => Vec::new(),
        Keep::Beside => vec![beside],
        Keep::Cache => cached.into_iter().collect(),
        // The index is written to the last of these.
        Keep::Auto => std::iter::once(beside).chain(cached).collect(),
    }
}

/// Path of a trace's index in the cache folder.
fn in_cache(path: &Path) -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")))?;
    let whole = fs::canonicalize(path).ok()?;
    let name = format!("{:016x}{ENDING}", xxh64(whole.as_os_str().as_encoded_bytes(), 0));
    Some(folder.join("quipu").join(name))
}

/// Loads the index of a trace; `None` if there is none that is valid for it.
pub fn load(container: &Container, keep: Keep) -> Option<Index> {
    let mut identity = None;
    places(container.source(), keep).iter().find_map(|path| {
        let file = fs::File::open(path).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
        if identity.is_none() {
            identity = Some(Identity::of(container.source()).ok()?);
        }
        from_bytes(&bytes, identity.as_ref()?)
    })
}

/// Saves an index for later; returns its path.
///
/// # Errors
/// If it cannot be written.
pub fn save(index: &Index, container: &Container, keep: Keep) -> io::Result<PathBuf> {
    let path = places(container.source(), keep).pop().ok_or(io::ErrorKind::Unsupported)?;
    let bytes = to_bytes(index, &Identity::of(container.source())?);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // Another process that writes it at the same time writes the same bytes.
    put(&path, &bytes, Replace::Allowed).map_err(io::Error::other)?;
    Ok(path)
}

/// Encodes an index as the bytes of a file.
pub fn to_bytes(index: &Index, identity: &Identity) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let bytes = |bytes: &[u8], out: &mut Vec<u8>| {
        uint(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
    };
    for number in [VERSION, identity.size, identity.changed, identity.hash] {
        uint(number, &mut out);
    }
    uint(index.definitions.len() as u64, &mut out);
    for definition in &index.definitions {
        uint(definition.space as u64, &mut out);
        uint(definition.id, &mut out);
        bytes(&definition.body, &mut out);
    }
    uint(index.checkpoints.len() as u64, &mut out);
    for checkpoint in &index.checkpoints {
        for number in [
            checkpoint.offset,
            checkpoint.landmark.packed_at,
            checkpoint.landmark.at,
            checkpoint.n_records,
            checkpoint.n_frames,
            checkpoint.n_entered,
            checkpoint.numbers_end,
            checkpoint.n_definitions as u64,
            checkpoint.open.len() as u64,
        ] {
            uint(number, &mut out);
        }
        for (number, enter) in &checkpoint.open {
            uint(*number, &mut out);
            bytes(enter, &mut out);
        }
    }
    for number in [index.n_records, index.n_frames, index.stream_bytes] {
        uint(number, &mut out);
    }
    let checksum = xxh64(&out, 0);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Decodes an index file; `None` if it is damaged or belongs to another trace.
pub fn from_bytes(bytes: &[u8], identity: &Identity) -> Option<Index> {
    let (content, checksum) = bytes.split_last_chunk::<8>()?;
    if !content.starts_with(MAGIC) || xxh64(content, 0) != u64::from_le_bytes(*checksum) {
        return None;
    }
    parse(content, identity).ok()
}

fn parse(content: &[u8], identity: &Identity) -> Decoded<Index> {
    let wrong = || Stop::More(0);
    let mut cursor = Cursor::new(content, MAGIC.len());
    for expected in [VERSION, identity.size, identity.changed, identity.hash] {
        if cursor.uint()? != expected {
            return Err(wrong());
        }
    }
    let mut index = Index::default();
    for _ in 0..cursor.uint()? {
        let space = usize::try_from(cursor.uint()?).ok().and_then(|space| Space::ALL.get(space).copied());
        let (space, id) = (space.ok_or_else(wrong)?, cursor.uint()?);
        index.definitions.push(Definition { space, id, body: cursor.string()?.into() });
    }
    for _ in 0..cursor.uint()? {
        let mut checkpoint = Checkpoint {
            offset: cursor.uint()?,
            landmark: Landmark { packed_at: cursor.uint()?, at: cursor.uint()?, ..Landmark::default() },
            n_records: cursor.uint()?,
            n_frames: cursor.uint()?,
            n_entered: cursor.uint()?,
            numbers_end: cursor.uint()?,
            n_definitions: usize::try_from(cursor.uint()?).map_err(|_| wrong())?,
            open: Vec::new(),
        };
        if checkpoint.landmark.at > checkpoint.offset || checkpoint.n_definitions > index.definitions.len() {
            return Err(wrong());
        }
        for _ in 0..cursor.uint()? {
            let number = cursor.uint()?;
            checkpoint.open.push((number, cursor.string()?.into()));
        }
        index.checkpoints.push(checkpoint);
    }
    (index.n_records, index.n_frames, index.stream_bytes) = (cursor.uint()?, cursor.uint()?, cursor.uint()?);
    if cursor.left() == 0 { Ok(index) } else { Err(wrong()) }
}
