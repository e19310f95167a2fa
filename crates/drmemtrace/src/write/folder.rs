//! The outside of a written trace: names of files, both schedule files, and the files beside the traces.

use crate::listing;
use crate::schedule::{MAX_POINTS, Recording, Schedule};
use quipu_model::fresh::{Folder, cannot};
use quipu_model::{Finding, Place, Result, Severity};
use quipu_source::{Codec, PackOptions, Packer, Packing, Pool, Source, StreamOptions};
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write};
use std::path::Path;
use std::sync::Arc;

/// Endings of packed traces, of Quipu and of other programs.
const PACKED: [&str; 7] = [".zip", ".gz", ".lz4", ".sz", ".zst", ".zlib", ".zstd"];

/// Number of bytes of a file that are copied at a time.
const COPIED_BYTES: usize = 64 << 10;

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

/// True for files that belong to a trace, so that a folder of only these holds nothing else.
pub(super) fn is_part_of_a_trace(path: &Path) -> bool {
    let Ok(source) = Source::open(path) else { return false };
    !source.is_folder()
        && (listing::is_auxiliary(&source) || listing::named_like_a_trace(listing::file_name(&source)))
}

/// Writes both schedule files, collapsed as DynamoRIO writes them. If a file has more processor markers than are kept, none
/// are written, and a finding is returned: a schedule of a part would be taken for one of all.
pub(super) fn write_schedules(
    folder: &Folder,
    recordings: Vec<Recording>,
    pool: &Arc<Pool>,
) -> Result<Option<Finding>> {
    if recordings.iter().any(Recording::is_full) {
        let message =
            format!("a file has more than `{MAX_POINTS}` processor markers: no schedule files are written");
        return Ok(Some(Finding {
            rule: "drmemtrace/schedule-too-long".into(),
            severity: Severity::Note,
            place: Place::default(),
            message,
            count: 1,
            loss: None,
            is_stated: false,
            doubtful_from: None,
        }));
    }
    let schedule = Schedule::full(recordings).collapsed();
    let serial = [(String::new(), schedule.serial_bytes())];
    write_small(folder, SERIAL, Packing::Gzip, &serial, pool)?;
    write_small(folder, CPUS, Packing::Zip, &schedule.cpu_members(), pool)?;
    Ok(None)
}

fn write_small(
    folder: &Folder,
    name: &str,
    packing: Packing,
    members: &[(String, Vec<u8>)],
    pool: &Arc<Pool>,
) -> Result<()> {
    let path = folder.join(name);
    let mut packer = Packer::new(BufWriter::new(folder.create(&path)?), pool, &PackOptions::new(packing));
    for (name, bytes) in members {
        packer.member(name)?;
        packer.write(bytes)?;
    }
    let (mut file, _) = packer.finish()?;
    file.flush().map_err(|cause| cannot("write", &path, cause))
}

/// Copies the files beside the traces that are about them: lists of functions and modules, page tables.
pub(super) fn copy_beside(source: &Source, folder: &Folder) -> Result<()> {
    for file in listing::beside(source)? {
        let to = folder.join(listing::file_name(&file));
        if to.exists() {
            continue;
        }
        match file.path() {
            Some(from) => copy(from, &to, folder)?,
            None => copy_bytes(&file, &to, folder)?,
        }
    }
    Ok(())
}

/// Copies a file from within a carrier, which the system does not know as a file.
fn copy_bytes(file: &Source, to: &Path, folder: &Folder) -> Result<()> {
    let container = file.container_as(Codec::Plain)?;
    let mut stream = container.stream(container.all_members(), &StreamOptions::default())?;
    let (mut output, mut block) = (folder.create(to)?, Vec::new());
    while stream.next(&mut block)?.is_some() {
        output.write_all(&block).map_err(|cause| cannot("write", to, cause))?;
    }
    Ok(())
}

/// Copies a file with its permissions. Errors name the file concerned.
fn copy(from: &Path, to: &Path, folder: &Folder) -> Result<()> {
    let unread = |cause| cannot("read", from, cause);
    let unwritten = |cause| cannot("write", to, cause);
    let mut input = File::open(from).map_err(unread)?;
    let permissions = input.metadata().map_err(unread)?.permissions();
    let mut output = folder.create(to)?;
    let mut block = vec![0; COPIED_BYTES];
    loop {
        match input.read(&mut block) {
            Ok(0) => break,
            Ok(n_bytes) => output.write_all(&block[..n_bytes]).map_err(unwritten)?,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(unread(cause)),
        }
    }
    output.set_permissions(permissions).map_err(unwritten)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_copy_keeps_permissions_and_an_error_names_the_file_that_it_is_about() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| home.path().join(name));
        let folder = Folder::new(home.path().to_owned());
        std::fs::write(&from, "functions").unwrap();
        std::fs::set_permissions(&from, PermissionsExt::from_mode(0o640)).unwrap();
        copy(&from, &to, &folder).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), b"functions");
        assert_eq!(to.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        let error = copy(home.path(), &home.path().join("other"), &folder).unwrap_err();
        assert_eq!(error.place().file.as_deref(), home.path().to_str(), "it cannot be read");
        let error = copy(&from, &to, &folder).unwrap_err();
        assert_eq!(error.place().file.as_deref(), to.to_str(), "it is there");
        folder.judge().unwrap();
    }

    #[test]
    fn only_the_ending_of_a_name_changes() {
        assert_eq!(renamed("drmemtrace.a.1.trace.gz", Packing::Zip), "drmemtrace.a.1.trace.zip");
        assert_eq!(renamed("drmemtrace.a.1.trace", Packing::Lz4), "drmemtrace.a.1.trace.lz4");
        assert_eq!(renamed("x.memtrace.sz", Packing::Plain), "x.memtrace");
        assert_eq!(renamed("mock.x64", Packing::Zip), "mock.x64.zip");
    }
}
