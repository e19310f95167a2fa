//! Recognises and opens traces.

use crate::codec::Codec;
use crate::decode::{Bad, Layout, Stop, record, with_layout};
use crate::plausible::{self, DETECTED_BYTES, Look, detect};
use crate::record::{Dialect, Record};
use crate::rules;
use crate::{DIALECT, INFO};
use quipu_model::trace::{Carries, Fact, Recorded};
use quipu_model::{Confidence, Meta, OpenOptions, Place, Result};
use quipu_records::Feed;
use quipu_records::trace::FlatTrace;
use quipu_source::{Container, Packing, Source, StreamOptions};
use std::path::Path;

/// Number of bytes examined to recognise a trace: at least 32 records.
pub(crate) const PROBED_BYTES: usize = 4 << 10;

/// If the first record is bad, there must be this many good records for each bad one.
const MIN_GOOD_OF_BAD: u32 = 3;

/// The confidence that a source is a trace of this format. It is at most `Likely`: there is no magic number, only plausible
/// values.
pub fn probe(source: &Source) -> Confidence {
    if source.is_folder() {
        return Confidence::No;
    }
    match source.head(PROBED_BYTES) {
        Ok(head) if head.is_empty() => named_so(source),
        Ok(head) if plausible::makes_sense(&head) => look_of(plausible::look(detect(&head), &head)),
        Ok(_) => Confidence::No,
        Err(_) => Confidence::No,
    }
}

/// The confidence for an empty file, which a program leaves that died early; only a name can identify it: that of the file,
/// or that of its member in an archive.
fn named_so(source: &Source) -> Confidence {
    let file = source.path().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let member = source.container().ok().and_then(|container| {
        let [only] = container.members() else { return None };
        Some(only.name.clone())
    });
    let is_ours = [file, member].into_iter().flatten().any(|name| is_our_name(&name));
    if is_ours { Confidence::Likely } else { Confidence::No }
}

/// Whether an empty file with this name is recognised.
pub(crate) fn is_our_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| is_our_name(&name.to_string_lossy()))
}

fn is_our_name(name: &str) -> bool {
    let unpacked = |packing: Packing| name.strip_suffix(packing.extension())?.strip_suffix('.');
    let plain = Packing::of_file_name(name).and_then(unpacked).unwrap_or(name);
    // The name that Cacheray uses; other formats use `.trace` too.
    plain == "cacheray.trace" || plain.ends_with(".cacheray") || plain.ends_with(".cacheray.trace")
}

/// The confidence for records like these: most must be plausible, including the first, unless it alone is damaged.
pub(crate) fn look_of(look: Look) -> Confidence {
    let is_first_bad = look.n_first == 0 && look.n_good < MIN_GOOD_OF_BAD * look.n_bad;
    if look.makes_sense() && !is_first_bad { Confidence::Likely } else { Confidence::No }
}

/// An opened trace.
pub type CacherayTrace = FlatTrace<Codec>;

/// Opens the trace at `source`.
///
/// # Errors
/// `Usage` if the requested dialect does not exist; `Unsupported` for a folder; errors of the source.
pub fn open(source: &Source, options: &OpenOptions) -> Result<CacherayTrace> {
    let asked = Dialect::parse(INFO.opening(options)?.word(&DIALECT));
    INFO.refuse_folder(source)?;
    let head = source.head(DETECTED_BYTES)?;
    let found = detect(&head);
    let dialect = asked.unwrap_or(found);
    let explained = |dialect| plausible::look(dialect, &head).explained;
    let mut findings = Vec::new();
    if dialect != found && explained(dialect) < explained(found) {
        let place = Place { file: Some(source.name().to_owned()), ..Place::default() };
        let what =
            format!("read as dialect {}, as was asked; it looks like {}", dialect.name(), found.name());
        findings.push(rules::DIALECT.broken(place, what));
    }
    let meta = Meta {
        facts: vec![
            Fact::new("dialect", "dialect", dialect.name()),
            Fact::new("dialect_title", "integers", dialect.title()),
        ],
        carries: vec![
            Carries::new("data-accesses", true, "of instrumented code"),
            Carries::new("types", true, "where allocations are annotated"),
            Carries::new("threads", true, "always 0 in traces that Cacheray records"),
            Carries::new("instructions", false, ""),
            Carries::new("time", false, ""),
        ],
        instrs: Recorded::Nothing,
        findings,
        ..Meta::default()
    };
    FlatTrace::open(source, Codec { dialect }, None, meta)
}

/// The end of a trace for readers that stop at damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictEnd {
    /// After a record.
    Whole,
    /// Within a record with this tag that begins at this offset.
    Cut(u8, u64),
    /// At this offset, where no record begins.
    Bad(Bad, u64),
}

/// Reads the records of a file one by one, as Cacheray's own tools do: up to the first malformed or incomplete one.
///
/// # Errors
/// Errors of the source and of `take`.
pub fn read_strictly(
    container: &Container,
    dialect: Dialect,
    mut take: impl FnMut(&Record<'_>) -> Result<()>,
) -> Result<StrictEnd> {
    let feed = Feed::new(container, &StreamOptions::default())?;
    with_layout!(dialect, L => strictly::<L>(container, feed, &mut take))
}

/// Reads the records in `bytes` up to the first that is incomplete or malformed; returns the number of bytes read.
///
/// # Errors
/// Errors of `take`.
pub fn read_records(
    bytes: &[u8],
    dialect: Dialect,
    mut take: impl FnMut(&Record<'_>) -> Result<()>,
) -> Result<usize> {
    with_layout!(dialect, L => Ok(records::<L>(bytes, &mut take)?.0))
}

/// Reads records as long as possible; returns their number of bytes, and the reason for stopping.
#[inline]
fn records<L: Layout>(
    bytes: &[u8],
    take: &mut impl FnMut(&Record<'_>) -> Result<()>,
) -> Result<(usize, Stop)> {
    let mut rest = bytes;
    loop {
        match record::<L>(rest) {
            Ok((record, length)) => {
                take(&record)?;
                rest = rest.get(length..).unwrap_or(&[]);
            }
            Err(stop) => return Ok((bytes.len() - rest.len(), stop)),
        }
    }
}

fn strictly<L: Layout>(
    container: &Container,
    mut feed: Feed,
    take: &mut impl FnMut(&Record<'_>) -> Result<()>,
) -> Result<StrictEnd> {
    loop {
        let (n_taken, stop) = records::<L>(feed.unused(), take)?;
        feed.use_up(n_taken);
        match stop {
            Stop::Bad(bad) => return Ok(StrictEnd::Bad(bad, feed.offset())),
            Stop::More(n_bytes) => {
                if feed.more(n_bytes) {
                    continue;
                }
                let offset = feed.offset();
                if let Some(error) = feed.take_failure() {
                    let file = Some(container.name().to_owned());
                    return Err(error.at(&Place { file, offset: Some(offset), ..Place::default() }));
                }
                let tag = feed.unused().first();
                return Ok(tag.map_or(StrictEnd::Whole, |tag| StrictEnd::Cut(*tag, offset)));
            }
        }
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
