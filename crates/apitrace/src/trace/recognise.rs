//! Recognises traces, their containers, and damaged headers.

use super::Packing;
use crate::check::rules;
use crate::cursor::Cursor;
use crate::decode::{Decoded, Header, Stop, header};
use crate::record::{EVENT_ENTER, NEWEST_VERSION, VERSION_PROPERTIES, VERSION_THREADS};
use quipu_model::{Confidence, ErrorKind, Finding, Place, Result};
use quipu_source::{Codec, Source, StreamOptions};

/// Number of bytes of a stream examined to recognise it.
pub(super) const PROBE_BYTES: usize = 4 << 10;
/// Maximum size of a header in bytes.
pub(crate) const HEADER_BYTES: usize = 1 << 20;
/// Maximum size of a container without contents.
pub(super) const MAX_EMPTY_BYTES: u64 = 64;
/// This many versions after the newest are recognised as newer streams, whatever follows; for later ones, a header has to
/// follow.
const FUTURE_VERSIONS: u64 = 4;
/// Versions without properties to try for a stream in which a call follows the version: with threads, and without.
const PLAIN_VERSIONS: [u64; 2] = [5, 3];
/// Minimum length of a function name searched for right after a version: shorter ones occur in any bytes.
const MIN_PROBED_NAME: u64 = 3;
/// Maximum length of a function name searched for to recognise a stream.
const MAX_PROBED_NAME: u64 = 512;

/// The last bytes of a table of frames.
const SEEKABLE_MAGIC: [u8; 4] = [0xb1, 0xea, 0x92, 0x8f];

/// The container of a source, if it may be a trace, and the confidence that it is one.
pub(super) fn packing(source: &Source) -> Result<Option<(Packing, Confidence)>> {
    if source.is_folder() {
        return Ok(None);
    }
    let sure = |packing, codec| -> Result<Option<(Packing, Confidence)>> {
        Ok(match plausible(&source.head_as(codec, PROBE_BYTES)?) {
            Confidence::No => None,
            confidence => Some((packing, confidence)),
        })
    };
    match source.container()?.codec() {
        // No other format begins like this.
        Codec::SnappyChunks => Ok(Some((Packing::Snappy, Confidence::Sure))),
        Codec::Zstd if source.packed_tail(4)? == SEEKABLE_MAGIC => {
            // An empty stream in this container, as written for an empty trace of two bytes.
            if source.head_as(Codec::Zstd, 1)?.is_empty() {
                return Ok(Some((Packing::SeekableZstd, Confidence::Likely)));
            }
            if let Some(found) = sure(Packing::SeekableZstd, Codec::Zstd)? {
                return Ok(Some(found));
            }
            // No other format uses this container. Bytes that are not text may be a stream whose front is damaged.
            let head = source.head_as(Codec::Zstd, PROBE_BYTES)?;
            let is_text = head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
            Ok((!is_text).then_some((Packing::SeekableZstd, Confidence::Maybe)))
        }
        // Only the name can tell which format an empty container belongs to.
        codec @ (Codec::Gzip | Codec::Zstd) if is_empty(source, codec)? => {
            let packing = if codec == Codec::Gzip { Packing::Gzip } else { Packing::Zstd };
            let is_named = source.name().ends_with(".trace");
            Ok(Some((packing, if is_named { Confidence::Likely } else { Confidence::Maybe })))
        }
        Codec::Gzip => sure(Packing::Gzip, Codec::Gzip),
        Codec::Zstd => sure(Packing::Zstd, Codec::Zstd),
        // A few bytes without a container may be anything.
        Codec::Plain => {
            match sure(Packing::Plain, Codec::Plain)?.filter(|(_, how)| *how != Confidence::Likely) {
                // Brotli has no magic number, so any bytes may be Brotli.
                None if source.name().ends_with(".br") && is_empty(source, Codec::Brotli)? => {
                    Ok(Some((Packing::Brotli, Confidence::Likely)))
                }
                None => sure(Packing::Brotli, Codec::Brotli),
                found => Ok(found),
            }
        }
        // Brotli has no magic number.
        _ => sure(Packing::Brotli, Codec::Brotli),
    }
}

/// The container of a source that must be read as a trace, whatever it contains; `None` if apitrace does not use this
/// container.
pub(super) fn forced_packing(source: &Source) -> Result<Option<Packing>> {
    if source.is_folder() {
        return Ok(None);
    }
    Ok(match source.container()?.codec() {
        Codec::Plain => Some(Packing::Plain),
        Codec::Gzip => Some(Packing::Gzip),
        Codec::Zstd => Some(Packing::Zstd),
        Codec::SnappyChunks => Some(Packing::Snappy),
        _ => None,
    })
}

/// True if the source is a complete but empty stream of this codec, as written for an empty trace.
fn is_empty(source: &Source, codec: Codec) -> Result<bool> {
    let is_short = (1..=MAX_EMPTY_BYTES).contains(&source.size_bytes().unwrap_or(0));
    if !is_short || !source.can_seek() {
        return Ok(false);
    }
    let container = source.container_as(codec)?;
    let mut stream = container.stream(container.all_members(), &StreamOptions::default())?;
    let mut block = Vec::new();
    loop {
        match stream.next(&mut block) {
            Ok(None) => return Ok(true),
            Ok(Some(_)) if block.is_empty() => {}
            Ok(Some(_)) | Err(_) => return Ok(false),
        }
    }
}

/// The confidence that a stream with this front is a trace.
pub(crate) fn plausible(head: &[u8]) -> Confidence {
    let (header, end) = match header(head) {
        Ok(read) => read,
        Err(Stop::More(_)) if head.starts_with(&[6]) && head.len() == PROBE_BYTES => {
            return Confidence::Maybe;
        }
        // A version that this program cannot read yet deserves its own message, and so does a damaged one.
        Err(_) if has_wrong_version(head) => {
            // With a version far beyond the newest, bytes of any format may look like this.
            let is_near =
                newer_version(head).is_some_and(|version| version <= NEWEST_VERSION + FUTURE_VERSIONS);
            return if is_near { Confidence::Sure } else { Confidence::Maybe };
        }
        Err(_) => return Confidence::No,
    };
    if end == head.len() {
        // There is only a header, as when a program died early.
        return match header.version {
            VERSION_PROPERTIES.. if !header.properties.is_empty() => Confidence::Sure,
            VERSION_PROPERTIES.. => Confidence::Likely,
            _ => Confidence::No,
        };
    }
    if begins_with_call(&header, head, end) == Some(true) { Confidence::Sure } else { Confidence::No }
}

/// Whether the first event after a header enters a function with a plausible name; `None` if the event is incomplete.
fn begins_with_call(header: &Header, head: &[u8], end: usize) -> Option<bool> {
    begins_with_call_of(header, head, end, 1)
}

/// The same, requiring a name of at least `least_name` bytes.
fn begins_with_call_of(header: &Header, head: &[u8], end: usize, least_name: u64) -> Option<bool> {
    let mut cursor = Cursor::new(head, end);
    if cursor.byte().ok()? != EVENT_ENTER {
        return Some(false);
    }
    if header.version >= VERSION_THREADS {
        cursor.uint().ok()?;
    }
    cursor.uint().ok()?;
    let name = cursor.name(MAX_PROBED_NAME).ok()?;
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_:~(), *&<>".contains(byte);
    let begins_well = name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let is_long = name.len() as u64 >= least_name;
    Some(is_long && begins_well && name.iter().all(is_word))
}

/// The header of a stream that is known to be a trace, even if it is damaged.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The header as stored, or the one assumed in its place.
    pub(crate) header: Header,
    /// The reason for assuming it; `None` if it is as stored.
    pub(crate) damage: Option<String>,
    /// The reason why only a recovery should continue: the version may be newer.
    pub(crate) newer: Option<String>,
}

/// Reads the header at the front of a stream. For a damaged one, assumes the newest version, which nearly all traces have had
/// for years: with its properties if only the version is wrong, else without.
///
/// # Errors
/// `Unsupported` for a version that seems to be newer, unless the stream can be read as a known version with a known semantic
/// version.
pub(crate) fn assumed_header(head: &[u8]) -> Decoded<Opened> {
    let mended = || mended_header(head);
    let assumed = |why: String| {
        Ok(Opened { header: mended().unwrap_or_else(Header::newest), damage: Some(why), newer: None })
    };
    match header(head) {
        // Old versions have only a number as their header, and damaged bytes may look like one.
        Ok((header, end)) if header.version < VERSION_PROPERTIES && end < head.len() => {
            match begins_with_call(&header, head, end) {
                Some(false) => assumed(format!("no call follows a header of version `{}`", header.version)),
                _ => Ok(Opened { header, damage: None, newer: None }),
            }
        }
        Ok((header, _)) => Ok(Opened { header, damage: None, newer: None }),
        Err(Stop::Bad(fault)) => {
            let is_newer = fault.kind == ErrorKind::Unsupported && has_newer_version(head);
            match mended() {
                // Damage of one byte does not raise both numbers.
                _ if is_newer && has_newer_semantic_version(head) => Err(Stop::Bad(fault)),
                Some(header) if is_newer => {
                    Ok(Opened { header, damage: Some(fault.message.clone()), newer: Some(fault.message) })
                }
                None if is_newer => Err(Stop::Bad(fault)),
                _ => assumed(fault.message),
            }
        }
        Err(Stop::More(_)) if head.len() == HEADER_BYTES => {
            assumed(format!("it takes more than `{HEADER_BYTES}` bytes"))
        }
        Err(stop) => Err(stop),
    }
}

/// The version and semantic version at the front of a header, each with the offset of its end. The second is only meaningful
/// if the version has one.
fn versions(head: &[u8]) -> Option<[(u64, usize); 2]> {
    let mut cursor = Cursor::new(head, 0);
    let version = (cursor.uint().ok()?, cursor.at());
    Some([version, (cursor.uint().ok()?, cursor.at())])
}

/// The version at the front of a header.
pub(super) fn newer_version(head: &[u8]) -> Option<u64> {
    versions(head).map(|[(version, _), _]| version)
}

/// True if a header begins like that of a newer version: with the version, and a semantic version that is not newer. For
/// versions far beyond the newest, the rest of a header has to follow, and a single bit's difference to a known version
/// counts as damage.
fn has_newer_version(head: &[u8]) -> bool {
    let Some([(version, _), (semantic, _)]) = versions(head) else { return false };
    if version <= NEWEST_VERSION || semantic > version {
        return false;
    }
    let is_near = version <= NEWEST_VERSION + FUTURE_VERSIONS;
    is_near
        || mended_header(head)
            .is_some_and(|header| semantic > NEWEST_VERSION || !(version ^ header.version).is_power_of_two())
}

/// True if an unknown version is followed by the rest of a header: properties, or just a call if it is one of the next few
/// versions.
fn has_wrong_version(head: &[u8]) -> bool {
    let Some([(version, _), (semantic, _)]) = versions(head) else { return false };
    let is_near = version <= NEWEST_VERSION + FUTURE_VERSIONS;
    version > NEWEST_VERSION
        && mended_header(head).is_some_and(|header| {
            (is_near || !header.properties.is_empty())
                && (semantic <= version || header.version < NEWEST_VERSION)
        })
}

/// True if the semantic version is newer than this program too.
fn has_newer_semantic_version(head: &[u8]) -> bool {
    versions(head)
        .is_some_and(|[(version, _), (semantic, _)]| (NEWEST_VERSION + 1..=version).contains(&semantic))
}

/// The header with its versions replaced, if that makes it valid and a call follows: by the newest versions, or by an older
/// version without properties.
fn mended_header(head: &[u8]) -> Option<Header> {
    let [(version, end), (semantic, semantic_end)] = versions(head)?;
    let mut newest = vec![NEWEST_VERSION as u8, semantic.min(NEWEST_VERSION) as u8]; // Small numbers.
    newest.extend_from_slice(&head[semantic_end..]);
    if let Ok((header, end)) = header(&newest)
        && begins_with_call(&header, &newest, end) == Some(true)
    {
        return Some(header);
    }
    if !(NEWEST_VERSION + 1..=NEWEST_VERSION + FUTURE_VERSIONS).contains(&version) {
        return None;
    }
    PLAIN_VERSIONS.into_iter().find_map(|version| {
        let header = Header { version, semantic_version: version, properties: Vec::new() };
        (begins_with_call_of(&header, head, end, MIN_PROBED_NAME) == Some(true)).then_some(header)
    })
}

/// The finding for a damaged header; this version is assumed instead.
pub(crate) fn lost_header(file: &str, why: &str, version: u64) -> Finding {
    let place = Place { file: Some(file.to_owned()), offset: Some(0), ..Place::default() };
    let what = format!("the header of the stream is damaged ({why}): version `{version}` is assumed");
    rules::LOST_HEADER.broken(place, what)
}

/// The finding for a header that seems to have a newer version, which is not read.
pub(super) fn newer_header(file: &str, why: &str) -> Finding {
    let place = Place { file: Some(file.to_owned()), offset: Some(0), ..Place::default() };
    rules::LOST_HEADER.broken(place, format!("{why}: it is not read"))
}

/// The confidence that a source is a trace of this format.
pub fn probe(source: &Source) -> Confidence {
    packing(source).ok().flatten().map_or(Confidence::No, |(_, confidence)| confidence)
}
