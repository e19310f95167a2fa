//! Recognising and opening a trace.

use crate::decode::with_layout;
use crate::feed::Feed;
pub use crate::feed::StrictEnd;
use crate::plausible::{self, DETECTED_BYTES, Look, detect};
use crate::print::RecordPrinter;
use crate::reader::RecordReader;
use crate::record::{Dialect, Record};
use crate::rules;
use crate::survey;
use crate::table::Records;
use crate::{DIALECT, INFO};
use quipu_model::schema::Schema;
use quipu_model::trace::{Carries, Fact, PrintOptions, Recorded, Surveyed};
use quipu_model::{
    Columns, Confidence, Error, Meta, OpenOptions, Place, Printer, Reader, Result, Scan, Shard, ShardId,
    ShardKind, Trace,
};
use quipu_source::{Container, Packing, Source, StreamOptions};
use std::any::Any;
use std::path::Path;
use std::sync::Arc;

/// Bytes that are looked at to recognise a trace: 32 records and more.
pub(crate) const PROBED_BYTES: usize = 4 << 10;

/// Where the first record makes no sense, this many others must for each that does not.
const MIN_GOOD_OF_BAD: u32 = 3;

/// How sure it is that a source is a trace of this format. There is no magic: values that make sense are all there is to
/// see, so this is never sure.
pub fn probe(source: &Source) -> Confidence {
    if source.is_folder() {
        return Confidence::No;
    }
    match source.head(PROBED_BYTES) {
        Ok(head) if head.is_empty() => named_so(source),
        Ok(head) => look_of(detect(&head).1),
        Err(_) => Confidence::No,
    }
}

/// A program that died early leaves an empty file, of which only the name can tell what it is: the file's, or in an archive
/// its member's.
fn named_so(source: &Source) -> Confidence {
    let file = source.path().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let member = source.container().ok().and_then(|container| {
        let [only] = container.members() else { return None };
        Some(only.name.clone())
    });
    let is_ours = [file, member].into_iter().flatten().any(|name| is_our_name(&name));
    if is_ours { Confidence::Likely } else { Confidence::No }
}

/// Whether an empty file of this name is recognised.
pub(crate) fn is_our_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| is_our_name(&name.to_string_lossy()))
}

fn is_our_name(name: &str) -> bool {
    let plain = match Packing::of_file_name(name) {
        Some(packing) => name.strip_suffix(packing.extension()).and_then(|name| name.strip_suffix('.')),
        None => Some(name),
    };
    let plain = plain.unwrap_or(name);
    // What the original calls it; others have a claim on `.trace`, too.
    plain == "cacheray.trace" || plain.ends_with(".cacheray") || plain.ends_with(".cacheray.trace")
}

/// Most of the records that are seen must make sense, and the first, unless it alone is damaged. Of two, one may have a bad
/// tag.
pub(crate) fn look_of(look: Look) -> Confidence {
    let is_first_bad = look.n_first == 0 && look.n_good < MIN_GOOD_OF_BAD * look.n_bad;
    let is_half_of_two = (look.n_first, look.n_good, look.n_bad, look.n_bad_tags) == (1, 1, 1, 1);
    let makes_sense = look.n_good > look.n_bad || is_half_of_two;
    if makes_sense && !is_first_bad { Confidence::Likely } else { Confidence::No }
}

/// An opened trace.
#[derive(Debug)]
pub struct CacherayTrace {
    container: Container,
    dialect: Dialect,
    meta: Meta,
    shards: Vec<Shard>,
}

/// Opens the trace at `source`.
///
/// # Errors
/// `Usage` if the dialect that is asked for is none; `Unsupported` for a folder; what the source has to say.
pub fn open(source: &Source, options: &OpenOptions) -> Result<CacherayTrace> {
    let asked = Dialect::parse(INFO.opening(options)?.word(&DIALECT));
    if source.is_folder() {
        return Err(Error::unsupported("a trace of format cacheray is a file").in_file(source.name()));
    }
    let head = source.head(DETECTED_BYTES)?;
    let (found, look) = detect(&head);
    let dialect = asked.unwrap_or(found);
    let container = source.container()?;
    container.deliver_sound_only();
    let mut findings = Vec::new();
    if asked.is_some_and(|asked| asked != found) && plausible::look(dialect, &head).explained < look.explained
    {
        let place = Place { file: Some(source.name().to_owned()), ..Place::default() };
        let what =
            format!("read as dialect {}, as was asked; it looks like {}", dialect.name(), found.name());
        findings.push(rules::DIALECT.broken(place, what));
    }
    let shards = vec![Shard {
        id: ShardId(0),
        name: source.name().to_owned(),
        kind: ShardKind::Mixed,
        pieces: 1,
        packed_bytes: container.size_bytes(),
        ..Shard::default()
    }];
    let carries = |what, has, note| Carries::new(what, has, note);
    let meta = Meta {
        format: INFO.name.into(),
        title: "memory accesses with the types of what they touch".to_owned(),
        n_files: 1,
        packed_bytes: container.size_bytes(),
        facts: vec![
            Fact::new("dialect", "dialect", dialect.name()),
            Fact::new("dialect_title", "integers", dialect.title()),
        ],
        carries: vec![
            carries("data-accesses", true, "of instrumented code"),
            carries("types", true, "where allocations are annotated"),
            carries("threads", true, "always 0 in traces of the original runtime"),
            carries("instructions", false, ""),
            carries("time", false, ""),
        ],
        instrs: Recorded::Nothing,
        findings,
        ..Meta::default()
    };
    Ok(CacherayTrace { container, dialect, meta, shards })
}

impl CacherayTrace {
    /// The opened file.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// How integers and addresses are written.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }
}

/// Reads the records of a file one by one, as the original's tools do: up to the first thing that is no record.
///
/// # Errors
/// What the source says, and what `take` does.
pub fn read_strictly(
    container: &Container,
    dialect: Dialect,
    take: &mut dyn FnMut(&Record<'_>) -> Result<()>,
) -> Result<StrictEnd> {
    let mut feed = Feed::new(container, &StreamOptions::default())?;
    with_layout!(dialect, L => feed.read_strictly::<L>(take))
}

impl Trace for CacherayTrace {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn columns(&self) -> Columns {
        Columns::ACCESSES | Columns::THREADS | Columns::REGIONS
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        Ok(vec![Records::table_schema().clone()])
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        if scan.shard != ShardId(0) {
            return Err(Error::usage(format!("the trace has no shard {}", scan.shard.0)));
        }
        Ok(Box::new(RecordReader::new(&self.container, self.dialect, scan)?))
    }

    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>> {
        INFO.printing(options)?;
        Ok(Box::new(RecordPrinter))
    }

    fn survey(&self) -> Surveyed {
        survey::survey(self)
    }

    fn n_delivered_damaged(&self) -> u64 {
        self.container.n_delivered_damaged()
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_empty_trace_tells_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, b"").unwrap();
            probe(&Source::open(&path).unwrap())
        };
        for name in ["cacheray.trace", "cacheray.trace.gz", "app.cacheray", "app.cacheray.trace.zst"] {
            assert_eq!(of(name), Confidence::Likely, "{name}");
        }
        for name in ["app.trace", "cacheray.txt", "mycacheray.trace"] {
            assert_eq!(of(name), Confidence::No, "{name}");
        }
    }
}
