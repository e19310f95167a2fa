//! Finds the files of a folder that make up a trace.
//!
//! The layout is described in docs/formats/drmemtrace.md, section *Folders*: a tracer's output folder contains `raw/` and
//! `trace/`, `trace/` may contain `window.NNNN/`, and auxiliary files lie beside the traces.

use crate::record::{Entry, Type};
use quipu_model::{Error, Finding, Place, Result, Severity};
use quipu_source::Source;

/// Files that lie beside traces without being traces.
const AUXILIARY: &[&str] =
    &["modules.log", "funclist.log", "encodings.bin", "v2p.textproto", "info.textproto"];

/// The thread and the process are among this many first entries of every file.
const MAX_START_ENTRIES: usize = 16;

/// One entry of unknown type among this many may be damage; with more, the bytes are not entries.
const MIN_KNOWN_OF_UNKNOWN: usize = 5;

/// Names of chunks have a number of four digits, later ones of eight.
const MIN_CHUNK_DIGITS: usize = 4;

/// The files of a trace, and the auxiliary files that were found.
#[derive(Debug, Default)]
pub struct Listing {
    /// The trace files, in the order of their paths: the order of shards.
    pub files: Vec<Source>,
    /// `funclist.log`.
    pub functions: Option<Source>,
    /// `modules.log`.
    pub modules: Option<Source>,
    /// `serial_schedule.bin…`.
    pub serial_schedule: Option<Source>,
    /// `cpu_schedule.bin.zip`.
    pub cpu_schedule: Option<Source>,
    /// Oddities of the folder: files that are not traces.
    pub findings: Vec<Finding>,
}

/// Last part of a path.
pub fn file_name(source: &Source) -> &str {
    let name = source.name();
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}

/// The number of the core in the name of a file: `drmemtrace.core.000003.trace.zip`.
pub(crate) fn core_in_name(source: &Source) -> Option<u64> {
    let (_, number) = file_name(source).split_once(".core.")?;
    number.split('.').next()?.parse().ok()
}

fn is_schedule(name: &str) -> bool {
    name.starts_with("serial_schedule.bin") || name.starts_with("cpu_schedule.bin")
}

/// True for a raw file of the tracer, by name.
pub(crate) fn is_raw(name: &str) -> bool {
    [".raw", ".raw.lz4", ".raw.gz", ".raw.zlib", ".raw.sz", ".raw.zip"].iter().any(|end| name.ends_with(end))
}

/// True if the first entry looks like a header of any version.
pub fn starts_like_a_trace(head: &[u8]) -> bool {
    let (entries, _) = Entry::slice(head);
    match entries.first() {
        Some(entry) => {
            entry.kind() == Type::HEADER && entry.size.get() == 0 && (entry.addr.get() as u32) < 1 << 16
        }
        None => false,
    }
}

/// True if the first bytes of a file may be entries: half of their types are known, and one of them is a thread, a process
/// or a marker. In random bytes, one of 1,300 pairs is a known type; entries of zeros are not counted.
pub(crate) fn looks_like_entries(head: &[u8]) -> bool {
    let (entries, _) = Entry::slice(head);
    let is_zero = |entry: &Entry| entry.kind.get() == 0 && entry.size.get() == 0 && entry.addr.get() == 0;
    let n_known = entries.iter().filter(|entry| entry.kind().name().is_some() && !is_zero(entry)).count();
    let is_frame = |entry: &Entry| matches!(entry.kind(), Type::THREAD | Type::PID | Type::MARKER);
    2 * n_known >= entries.len() && entries.iter().any(is_frame)
}

/// True if these must be the first entries of a trace although the header before them is damaged: a thread and its process
/// are near the front, and nearly all types are known.
pub(crate) fn holds_entries(head: &[u8]) -> bool {
    let (entries, _) = Entry::slice(head);
    let is_start = |kind: Type| {
        entries.iter().take(MAX_START_ENTRIES).any(|entry| entry.kind() == kind && entry.size.get() <= 4)
    };
    let n_unknown = entries.iter().filter(|entry| entry.kind().name().is_none()).count();
    is_start(Type::THREAD) && is_start(Type::PID) && n_unknown * MIN_KNOWN_OF_UNKNOWN <= entries.len()
}

/// True for an archive with members named like the chunks that converters write, whatever the first of them contains.
pub(crate) fn has_chunks(source: &Source) -> bool {
    let is_chunk = |name: &str| {
        name.strip_prefix("chunk.").is_some_and(|number| {
            number.len() >= MIN_CHUNK_DIGITS && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    source.container().is_ok_and(|container| container.members().iter().any(|member| is_chunk(&member.name)))
}

/// True for names that tracers give to final traces.
pub fn named_like_a_trace(name: &str) -> bool {
    name.contains(".trace") || name.contains(".memtrace") || name.ends_with(".x64")
}

/// The folder whose files are those of the trace: `trace/` in the output of a tracer, else the folder itself.
///
/// # Errors
/// `Missing` or `Io` if `trace/` cannot be listed.
pub(crate) fn folder_of_files(source: &Source) -> Result<Source> {
    let trace = source.child("trace").filter(Source::is_folder);
    Ok(match trace {
        Some(trace) if trace.files()?.iter().any(|file| !is_auxiliary(file)) => trace,
        _ => source.clone(),
    })
}

/// Collects the files of the trace at `source`, which may be a file or any of the folders of a trace.
pub fn list(source: &Source) -> Result<Listing> {
    if !source.is_folder() && is_raw(file_name(source)) {
        return Err(raw_trace("a raw file, as the tracer leaves it", source));
    }
    if !source.is_folder() {
        return Ok(Listing { files: vec![source.clone()], ..Listing::default() });
    }
    let mut folder = folder_of_files(source)?;
    let mut findings = Vec::new();
    let windows: Vec<Source> = folder
        .files()?
        .into_iter()
        .filter(|f| f.is_folder() && file_name(f).starts_with("window."))
        .collect();
    if let Some(first) = windows.first()
        && !folder.files()?.iter().any(|file| !file.is_folder() && !is_auxiliary(file))
    {
        if windows.len() > 1 {
            findings.push(note(
                "drmemtrace/several-windows",
                &folder,
                format!(
                    "the folder holds {} separate window traces; reading `{}`, name another to read it",
                    windows.len(),
                    file_name(first)
                ),
            ));
        }
        folder = first.clone();
    }
    let mut listing = Listing { findings, ..Listing::default() };
    let mut raw = 0;
    for file in folder.files()? {
        let name = file_name(&file);
        if file.is_folder() {
            raw += usize::from(name == "raw");
        } else if is_auxiliary(&file) {
        } else if is_raw(name) {
            raw += 1;
        } else if file.head(16).is_ok_and(|head| starts_like_a_trace(&head)) || named_like_a_trace(name) {
            listing.files.push(file);
        } else {
            let message = "not a trace by name or content; skipped".to_owned();
            listing.findings.push(note("drmemtrace/stray-file", &file, message));
        }
    }
    if listing.files.is_empty() {
        return Err(if raw > 0 {
            raw_trace("the folder holds a raw trace, as the tracer leaves it", source)
        } else {
            Error::missing("the folder holds no trace file").in_file(source.name())
        });
    }
    find_auxiliary(&folder, source, &mut listing);
    Ok(listing)
}

/// The error for a trace that is not converted yet.
#[cold]
fn raw_trace(what: &str, source: &Source) -> Error {
    Error::unsupported(what)
        .hint(
            "`--format drmemtrace-raw` shows its words; for everything else convert it with the tracer's own `drraw2trace \
             -indir FOLDER` on the machine that has the traced binaries, then name the folder again",
        )
        .in_file(source.name())
}

/// True for files that lie beside traces without being traces, by name.
pub(crate) fn is_auxiliary(file: &Source) -> bool {
    let name = file_name(file);
    AUXILIARY.contains(&name) || is_schedule(name) || name.starts_with("LICENSE") || name.ends_with(".md")
}

/// The auxiliary files of the trace at `source` that also hold for a copy of it: all but the schedules.
pub(crate) fn beside(source: &Source) -> Result<Vec<Source>> {
    let mut found: Vec<Source> = Vec::new();
    let inner = ["trace", "aux", "raw"].map(|name| source.child(name));
    for folder in [Some(source.clone())].into_iter().chain(inner).flatten().filter(Source::is_folder) {
        let files = folder.files()?.into_iter().filter(|file| !file.is_folder());
        found.extend(files.filter(|file| AUXILIARY.contains(&file_name(file))));
    }
    let above = list(source)?.functions;
    found.extend(above);
    Ok(found)
}

fn note(rule: &'static str, source: &Source, message: String) -> Finding {
    let place = Place { file: Some(source.name().to_owned()), ..Place::default() };
    Finding::new(rule, Severity::Note, place, message)
}

/// Looks for auxiliary files in the folder of the traces, the folders beside it, and the folder above.
fn find_auxiliary(folder: &Source, top: &Source, listing: &mut Listing) {
    let above = folder.path().and_then(|path| path.parent()).and_then(|path| Source::open(path).ok());
    let places: Vec<Source> = [Some(folder.clone()), Some(top.clone()), above]
        .into_iter()
        .flatten()
        .flat_map(|place| {
            let inner = ["trace", "raw", "aux"].map(|name| place.child(name));
            [Some(place)].into_iter().chain(inner).flatten().filter(Source::is_folder)
        })
        .collect();
    let find = |name| places.iter().find_map(|place| place.child(name).filter(|found| !found.is_folder()));
    listing.functions = find("funclist.log");
    listing.modules = find("modules.log");
    // Schedules belong to one folder; those of another would name other threads.
    listing.serial_schedule =
        ["serial_schedule.bin.gz", "serial_schedule.bin"].iter().find_map(|name| folder.child(name));
    listing.cpu_schedule = folder.child("cpu_schedule.bin.zip");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_bytes_do_not_look_like_entries() {
        let of = |kinds: &[u16]| -> Vec<u8> {
            kinds.iter().flat_map(|kind| [kind.to_le_bytes().to_vec(), vec![0x5a; 10]].concat()).collect()
        };
        assert!(looks_like_entries(&of(&[28, 22, 10, 0, 1])));
        assert!(looks_like_entries(&of(&[60_000, 22, 10, 0, 9_999])), "damaged ones do");
        assert!(!looks_like_entries(b"short"), "a name is no content");
        assert!(!looks_like_entries(b"Some text that somebody calls a trace, though it is none."));
        assert!(!looks_like_entries(&of(&[60_000, 22, 10_000, 0, 9_999])));
    }
}
