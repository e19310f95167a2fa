//! Recognising and opening a trace.

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
        Ok(head) if plausible::makes_sense(&head) => look_of(plausible::look(detect(&head), &head)),
        Ok(_) => Confidence::No,
        Err(_) => Confidence::No,
    }
}

/// A program that died early leaves an empty file; only its name can say what it is: the file's, or in an archive
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
    let unpacked = |packing: Packing| name.strip_suffix(packing.extension())?.strip_suffix('.');
    let plain = Packing::of_file_name(name).and_then(unpacked).unwrap_or(name);
    // What Cacheray calls it; others have a claim on `.trace`, too.
    plain == "cacheray.trace" || plain.ends_with(".cacheray") || plain.ends_with(".cacheray.trace")
}

/// Most of the records that are seen must make sense, and the first, unless it alone is damaged.
pub(crate) fn look_of(look: Look) -> Confidence {
    let is_first_bad = look.n_first == 0 && look.n_good < MIN_GOOD_OF_BAD * look.n_bad;
    if look.makes_sense() && !is_first_bad { Confidence::Likely } else { Confidence::No }
}

/// An opened trace.
pub type CacherayTrace = FlatTrace<Codec>;

/// Opens the trace at `source`.
///
/// # Errors
/// `Usage` if the dialect that is asked for is none; `Unsupported` for a folder; what the source has to say.
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

/// How a trace ends for readers that stop at damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictEnd {
    /// After a record.
    Whole,
    /// Within a record of this tag that begins at this offset.
    Cut(u8, u64),
    /// No record begins at this offset.
    Bad(Bad, u64),
}

/// Reads the records of a file one by one, as Cacheray's own tools do: up to the first thing that is no record.
///
/// # Errors
/// What the source says, and what `take` does.
pub fn read_strictly(
    container: &Container,
    dialect: Dialect,
    mut take: impl FnMut(&Record<'_>) -> Result<()>,
) -> Result<StrictEnd> {
    let feed = Feed::new(container, &StreamOptions::default())?;
    with_layout!(dialect, L => strictly::<L>(container, feed, &mut take))
}

/// Reads the records that some bytes consist of, and returns how many bytes they take.
///
/// # Errors
/// What `take` says.
pub fn read_records(
    bytes: &[u8],
    dialect: Dialect,
    mut take: impl FnMut(&Record<'_>) -> Result<()>,
) -> Result<usize> {
    with_layout!(dialect, L => Ok(records::<L>(bytes, &mut take)?.0))
}

/// Takes records while there are any; returns how many bytes they have, and why there is none after them.
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
