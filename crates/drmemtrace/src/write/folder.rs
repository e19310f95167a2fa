//! What a written trace looks like from outside: names of files, both schedule files, and what lies beside them.

use crate::listing;
use crate::schedule::{MAX_POINTS, Recording, Schedule};
use quipu_model::fresh::cannot;
use quipu_model::{Finding, Place, Result, Severity};
use quipu_source::{OutputFile, PackOptions, Packer, Packing, Pool, Source};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// Endings of packed traces, ours and others'.
const PACKED: [&str; 7] = [".zip", ".gz", ".lz4", ".sz", ".zst", ".zlib", ".zstd"];

/// Names of both schedule files.
const SERIAL: &str = "serial_schedule.bin.gz";
const CPUS: &str = "cpu_schedule.bin.zip";

/// The name of a file when it is packed in another way: `a.trace.gz` becomes `a.trace.zip`.
pub fn renamed(name: &str, packing: Packing) -> String {
    let bare = PACKED.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    match packing.extension() {
        "" => bare.to_owned(),
        extension => format!("{bare}.{extension}"),
    }
}

/// True for what may stand in a folder that holds a trace and nothing else.
pub(super) fn is_part_of_a_trace(path: &Path) -> bool {
    let Ok(source) = Source::open(path) else { return false };
    !source.is_folder()
        && (listing::is_auxiliary(&source) || listing::named_like_a_trace(listing::file_name(&source)))
}

/// Writes both schedule files, collapsed as the original writes them. If a file has more processor markers than are kept,
/// none are written, and the finding says so: a schedule of a part would be taken for one of all.
pub(super) fn write_schedules(
    folder: &Path,
    recordings: Vec<Recording>,
    pool: &Arc<Pool>,
) -> Result<Option<Finding>> {
    if recordings.iter().any(Recording::is_full) {
        let message =
            format!("a file has more than `{MAX_POINTS}` processor markers: no schedule files are written");
        return Ok(Some(Finding {
            rule: "drmemtrace/schedule-too-long",
            severity: Severity::Note,
            place: Place::default(),
            message,
            count: 1,
            loss: None,
        }));
    }
    let schedule = Schedule::full(recordings).collapsed();
    let serial = [(String::new(), schedule.serial_bytes())];
    write_small(&folder.join(SERIAL), Packing::Gzip, &serial, pool)?;
    write_small(&folder.join(CPUS), Packing::Zip, &schedule.cpu_members(), pool)?;
    Ok(None)
}

fn write_small(path: &Path, packing: Packing, members: &[(String, Vec<u8>)], pool: &Arc<Pool>) -> Result<()> {
    let file = OutputFile::create_new(path).map_err(|cause| cannot("create", path, cause))?;
    let mut packer = Packer::new(BufWriter::new(file), pool, &PackOptions::new(packing));
    for (name, bytes) in members {
        packer.member(name)?;
        packer.write(bytes)?;
    }
    let (mut file, _) = packer.finish()?;
    file.flush().map_err(|cause| cannot("write", path, cause))
}

/// Copies what lies beside the traces and is about them: lists of functions and modules, page tables.
pub(super) fn copy_beside(source: &Source, folder: &Path) -> Result<()> {
    for file in listing::beside(source)? {
        let (Some(from), name) = (file.path(), listing::file_name(&file)) else { continue };
        let to = folder.join(name);
        if !to.exists() {
            let mut from = File::open(from).map_err(|cause| cannot("read", from, cause))?;
            let copied = OutputFile::create_new(&to).and_then(|mut to| io::copy(&mut from, &mut to));
            copied.map_err(|cause| cannot("write", &to, cause))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ending_of_a_name_changes() {
        assert_eq!(renamed("drmemtrace.a.1.trace.gz", Packing::Zip), "drmemtrace.a.1.trace.zip");
        assert_eq!(renamed("drmemtrace.a.1.trace", Packing::Lz4), "drmemtrace.a.1.trace.lz4");
        assert_eq!(renamed("x.memtrace.sz", Packing::Plain), "x.memtrace");
        assert_eq!(renamed("mock.x64", Packing::Zip), "mock.x64.zip");
    }
}
