//! The only way to open an output: files and folders that appear under their name once they are complete, and devices, pipes
//! and sockets, which are written directly.
//!
//! Output goes to a hidden name in the same folder, on the same file system, and is renamed at the end. If it is never
//! finished (an error, a signal, a panic), the hidden file is removed; what a killed process left is removed by the next
//! process that writes to the same name. Output for a device, a pipe or a socket is collected in a temporary file and copied
//! at the end, so that no reader gets half of it there either.
//!
//! An input is never overwritten, under whatever name: [`quipu_source::Reading`] knows which files are inputs.

use crate::error::{Error, ErrorKind, Result};
use quipu_source::{Closings, OutputFile, Temporary, is_input};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Seek, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// Suffix of hidden names.
const PART: &str = ".part";
/// Suffix of the hidden names of folders for intermediate files.
const WAY: &str = ".way";
/// Number of hidden names to try.
const MAX_ATTEMPTS: u32 = 100;

/// Depth to which a folder that is to be replaced is searched for inputs: traces have two levels.
const MAX_DEPTH: u32 = 8;

/// Whether an output may replace something that already has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// Any existing file or folder is an error, but not a character device, a pipe or a socket.
    Never,
    /// A file may replace a file; a folder may replace a folder that holds nothing but a trace. A symbolic link stays, and
    /// its target is replaced. An input is never replaced.
    Allowed,
}

impl From<bool> for Replace {
    /// Converts the option that allows replacing.
    fn from(is_allowed: bool) -> Replace {
        if is_allowed { Replace::Allowed } else { Replace::Never }
    }
}

/// Checks early whether an output file may have the name `path`, for work that takes long before it writes anything.
///
/// # Errors
/// As for [`Fresh::file`].
pub fn check_file(path: &Path, replace: Replace) -> Result<()> {
    check_place(path, replace, None)?;
    if is_special(path).is_none() {
        follow_link(path)?;
    }
    Ok(())
}

/// Writes a complete file in one call.
///
/// # Errors
/// As for [`Fresh::file`] and [`Fresh::commit`]; `Io` if it cannot be written.
pub fn put(path: &Path, bytes: &[u8], replace: Replace) -> Result<()> {
    let (fresh, mut file) = Fresh::file(path, replace)?;
    file.write_all(bytes).map_err(|cause| cannot("write", path, cause))?;
    drop(file);
    fresh.commit()
}

/// Gives a complete file the name `to`, on the same file system, or writes its content into the device, pipe or socket of
/// that name. If `to` is a symbolic link, its target is replaced and the link stays. A file that was renamed is gone from
/// `from`; one whose content was copied, into a special file or through a link, remains there.
///
/// # Errors
/// As for [`Fresh::file`] and [`Fresh::commit`].
pub fn rename(from: &Path, to: &Path, replace: Replace) -> Result<()> {
    check_place(to, replace, None)?;
    let is_plain = to.symlink_metadata().is_ok_and(|meta| meta.is_file());
    if is_plain || to.symlink_metadata().is_err() {
        let named = match replace {
            Replace::Never => name(from, to),
            Replace::Allowed => fs::rename(from, to),
        };
        return named.map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists if replace == Replace::Never => taken(to),
            _ => cannot("write", to, cause),
        });
    }
    let mut complete = File::open(from).map_err(|cause| cannot("read", from, cause))?;
    let (fresh, mut file) = Fresh::file(to, replace)?;
    io::copy(&mut complete, &mut file).map_err(|cause| cannot("write", to, cause))?;
    drop(file);
    fresh.commit()
}

/// A folder in which the files of one output are created. Clones belong to the same output.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    closings: Closings,
}

impl Folder {
    /// Creates the handle of a folder with an output of its own, whose files [`Folder::judge`] checks.
    pub fn new(path: PathBuf) -> Folder {
        Folder { path, closings: Closings::default() }
    }

    /// A subfolder, for files of the same output.
    pub fn within(&self, path: impl AsRef<Path>) -> Folder {
        Folder { path: self.path.join(path), closings: self.closings.clone() }
    }

    /// Creates a file of the output at `path`, which must not exist.
    ///
    /// # Errors
    /// `Io` if the file cannot be created.
    pub fn create(&self, path: &Path) -> Result<OutputFile> {
        OutputFile::create_new(path, &self.closings).map_err(|cause| cannot("create", path, cause))
    }

    /// Adds a file that was opened as `path` to the output.
    pub fn take(&self, file: File, path: &Path) -> OutputFile {
        OutputFile::new(file, path, &self.closings)
    }

    /// Checks that all files of the output are closed, and that closing them succeeded.
    ///
    /// # Errors
    /// `Io` for the first file whose closing failed; `Internal` if a file is still open.
    pub fn judge(&self) -> Result<()> {
        judge(&self.closings, &self.path, &self.path)
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// Checks that all files of an output are closed, and that closing them succeeded. They were written at `from` or in it, and
/// errors name them as parts of `to`, the final name.
fn judge(closings: &Closings, from: &Path, to: &Path) -> Result<()> {
    if let Some((file, cause)) = closings.take_failed() {
        let file = match file.strip_prefix(from) {
            Ok(inner) if inner == Path::new("") => to.to_owned(),
            Ok(inner) => to.join(inner),
            Err(_) => file,
        };
        return Err(cannot("write", &file, cause));
    }
    match closings.n_open() {
        0 => Ok(()),
        n => {
            let what = format!("an output is to be complete, but `{n}` of its files are open");
            Err(Error::new(ErrorKind::Internal, what).in_file(to.display().to_string()))
        }
    }
}

/// Creates a hidden folder next to `path`, for intermediate files; it is removed when the result is dropped.
///
/// # Errors
/// `Io` if it cannot be created.
pub fn folder_beside(path: &Path) -> Result<Temporary> {
    let name = path.file_name().unwrap_or_default();
    let mut attempt = 0;
    loop {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{attempt}{WAY}", std::process::id()));
        match Temporary::make(&path.with_file_name(hidden), |folder| fs::create_dir(folder)) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && attempt < MAX_ATTEMPTS => {
                attempt += 1;
            }
            Err(cause) => return Err(cannot("create", path, cause)),
            Ok((temporary, ())) => return Ok(temporary),
        }
    }
}

/// An output file or folder that is not complete yet.
#[derive(Debug)]
pub struct Fresh {
    temporary: Temporary,
    /// Records how the files of the output were closed.
    closings: Closings,
    path: PathBuf,
    replace: Replace,
    goal: Goal,
    /// A lock that keeps the hidden file from being removed by a process on another machine, which cannot see that this one
    /// runs.
    held: Option<File>,
}

/// The kind of output.
#[derive(Debug)]
enum Goal {
    File,
    Folder,
    /// A special file that is written directly, and the temporary file with its content until then.
    Special {
        into: File,
        written: File,
    },
}

impl Fresh {
    /// Begins a file that will be called `path`, or the content of the device, pipe or socket of that name. Opening a pipe
    /// waits for its reader. Drop the file before [`commit`](Fresh::commit), which reports whether it could be closed and
    /// refuses to name an output that is still open.
    ///
    /// # Errors
    /// `Usage` if something that must stay has the name, or if there is no name; `Io` if the file cannot be created.
    pub fn file(path: &Path, replace: Replace) -> Result<(Fresh, OutputFile)> {
        check_place(path, replace, None)?;
        if let Some(meta) = is_special(path) {
            let into = open_special(path, &meta).map_err(|cause| cannot("write", path, cause))?;
            let (temporary, file) = Temporary::file().map_err(|cause| cannot("write", path, cause))?;
            let written = file.try_clone().map_err(|cause| cannot("write", path, cause))?;
            let goal = Goal::Special { into, written };
            let closings = Closings::default();
            let file = OutputFile::new(file, temporary.path(), &closings);
            let fresh = Fresh { temporary, closings, path: path.to_owned(), replace, goal, held: None };
            return Ok((fresh, file));
        }
        Fresh::begin(path, replace, Goal::File, &OutputFile::create_new)
    }

    /// Begins a folder that will be called `path`; files go into the returned folder. An existing folder may be replaced if
    /// `may_go` says of everything in it that it is part of a trace.
    ///
    /// # Errors
    /// As for [`Fresh::file`].
    pub fn folder(path: &Path, replace: Replace, may_go: &dyn Fn(&Path) -> bool) -> Result<(Fresh, Folder)> {
        check_place(path, replace, Some(may_go))?;
        let make = |temporary: &Path, _: &Closings| fs::create_dir(temporary);
        let (fresh, ()) = Fresh::begin(path, replace, Goal::Folder, &make)?;
        let folder = Folder { path: fresh.temporary.path().to_owned(), closings: fresh.closings.clone() };
        Ok((fresh, folder))
    }

    /// Creates a file or folder under an unused hidden name, and removes hidden files that killed processes left.
    fn begin<T>(
        path: &Path,
        replace: Replace,
        goal: Goal,
        make: &dyn Fn(&Path, &Closings) -> io::Result<T>,
    ) -> Result<(Fresh, T)> {
        let closings = Closings::default();
        let name = path
            .file_name()
            .ok_or_else(|| Error::usage(format!("`{}` is no name for something to write", path.display())))?;
        let target = follow_link(path)?;
        let path = target.as_deref().unwrap_or(path);
        let name = path.file_name().unwrap_or(name);
        remove_left(path, name);
        let mut attempt = 0;
        loop {
            let mut hidden = OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}-{attempt}{PART}", std::process::id()));
            match Temporary::make(&path.with_file_name(hidden), |temporary| make(temporary, &closings)) {
                // Another output of this process, or a leftover of a killed process with the same number.
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && attempt < MAX_ATTEMPTS => {
                    attempt += 1;
                }
                Err(cause) => return Err(cannot("create", path, cause)),
                Ok((temporary, made)) => {
                    let held = hold(temporary.path());
                    return Ok((
                        Fresh { temporary, closings, path: path.to_owned(), replace, goal, held },
                        made,
                    ));
                }
            }
        }
    }

    /// Gives the output its name, or copies it into its special file.
    ///
    /// # Errors
    /// `Usage` if something that must stay has got that name meanwhile; `Io` if it cannot be done. The output is then
    /// removed.
    pub fn commit(self) -> Result<()> {
        let Fresh { temporary, closings, path, replace, goal, held } = self;
        // Keep the lock until the output has its name.
        let _held = held;
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::AlreadyExists if replace == Replace::Never => taken(&path),
            _ => cannot("write", &path, cause),
        };
        if let Ok(meta) = fs::metadata(&path)
            && is_input(&meta)
        {
            return Err(input(&path));
        }
        judge(&closings, temporary.path(), &path)?;
        match goal {
            Goal::Special { into, mut written } => {
                let mut into = OutputFile::new(into, &path, &closings);
                let copied = written.rewind().and_then(|()| io::copy(&mut written, &mut into));
                copied.and_then(|_| into.flush()).map_err(failed)?;
                drop(into);
                judge(&closings, &path, &path)
            }
            Goal::File if replace == Replace::Never => {
                temporary.keep(|from| name(from, &path)).map_err(failed)
            }
            Goal::File => temporary.keep(|from| fs::rename(from, &path)).map_err(failed),
            Goal::Folder if path.symlink_metadata().is_err() => {
                temporary.keep(|from| fs::rename(from, &path)).map_err(failed)
            }
            Goal::Folder if replace == Replace::Never => Err(taken(&path)),
            Goal::Folder => {
                // A folder cannot be renamed over another: the old one is moved aside, and moved back if renaming the new one
                // fails.
                let mut aside = temporary.path().to_owned().into_os_string();
                aside.push(".old");
                fs::rename(&path, &aside).map_err(failed)?;
                if let Err(cause) = temporary.keep(|from| fs::rename(from, &path)) {
                    let _ = fs::rename(&aside, &path);
                    return Err(failed(cause));
                }
                fs::remove_dir_all(&aside).map_err(|cause| cannot("remove", Path::new(&aside), cause))
            }
        }
    }
}

/// Locks a hidden file or folder, if its file system supports locks.
fn hold(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    file.try_lock().ok()?;
    Some(file)
}

/// Removes hidden files for `name` that processes left which no longer run. Failures do not matter to the current output.
fn remove_left(path: &Path, name: &OsStr) {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let left = entry.path();
        let hidden = entry.file_name();
        let of = hidden.to_str().filter(|hidden| hidden.ends_with(PART)).and_then(hidden_for);
        let is_left = of.is_some_and(|(of, process)| name == of && !is_alive(process));
        if is_left && hold(&left).is_some() && !entry.metadata().is_ok_and(|meta| is_input(&meta)) {
            let _ = match entry.file_type() {
                Ok(kind) if kind.is_dir() => fs::remove_dir_all(&left),
                _ => fs::remove_file(&left),
            };
        }
    }
}

/// Whether a process runs. On systems without `/proc`, every process counts as running.
fn is_alive(process: &str) -> bool {
    let processes = Path::new("/proc");
    !processes.join("self").exists() || processes.join(process).exists()
}

/// Gives a file a name that must not exist: creating a link fails where a rename would replace.
fn name(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => Err(cause),
        // Not all file systems support hard links.
        Err(_) if to.symlink_metadata().is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}

/// The target of a symbolic link; `None` if the path is not a link.
fn follow_link(path: &Path) -> Result<Option<PathBuf>> {
    if !path.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
        return Ok(None);
    }
    fs::canonicalize(path).map(Some).map_err(|cause| {
        cannot("follow", path, cause)
            .hint("the name is that of a link; name another, or remove it".to_owned())
    })
}

/// The metadata of a device, a pipe or a socket; `None` for anything else.
fn is_special(path: &Path) -> Option<Metadata> {
    fs::metadata(path).ok().filter(|meta| !meta.is_file() && !meta.is_dir())
}

/// Opens a device or a pipe, or connects to a socket.
fn open_special(path: &Path, meta: &Metadata) -> io::Result<File> {
    #[cfg(unix)]
    if std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type()) {
        let stream = std::os::unix::net::UnixStream::connect(path)?;
        return Ok(std::os::fd::OwnedFd::from(stream).into());
    }
    let _ = meta;
    File::options().write(true).open(path)
}

/// True for special files that are written to directly, without losing earlier content: all but block devices.
fn is_sink(meta: &Metadata) -> bool {
    #[cfg(unix)]
    if std::os::unix::fs::FileTypeExt::is_block_device(&meta.file_type()) {
        return false;
    }
    !meta.is_file() && !meta.is_dir()
}

/// Refuses to overwrite anything that must stay.
fn check_place(path: &Path, replace: Replace, may_go: Option<&dyn Fn(&Path) -> bool>) -> Result<()> {
    let is_folder = may_go.is_some();
    let Ok(own) = path.symlink_metadata() else { return Ok(()) };
    let refuse = |what: &str, hint: &str| {
        Err(Error::usage(what).in_file(path.display().to_string()).hint(hint.to_owned()))
    };
    // For a link, its target counts; if the target does not exist, following the link reports that.
    let meta = if own.is_symlink() { fs::metadata(path).ok() } else { Some(own) };
    if let Some(meta) = &meta {
        if is_input(meta) || lies_in_input(path) || (is_folder && holds_input(path, MAX_DEPTH)) {
            return Err(input(path));
        }
        if is_sink(meta) {
            return match is_folder {
                false => Ok(()),
                true => {
                    refuse("a folder cannot be written into a device, a pipe or a socket", "name another")
                }
            };
        }
    }
    if replace == Replace::Never {
        return Err(taken(path));
    }
    if meta.as_ref().is_some_and(|meta| meta.is_dir() != is_folder) {
        return refuse(
            if is_folder { "a folder cannot replace a file" } else { "a file cannot replace a folder" },
            "name another, or remove it",
        );
    }
    if let Some(may_go) = may_go
        && path.exists()
    {
        let entries = fs::read_dir(path).map_err(|cause| cannot("list", path, cause))?;
        for entry in entries {
            let entry = entry.map_err(|cause| cannot("list", path, cause))?;
            if !may_go(&entry.path()) {
                return refuse(
                    &format!("the folder holds more than a trace: `{}`", entry.file_name().display()),
                    "name another, or remove it",
                );
            }
        }
    }
    Ok(())
}

/// True for a path inside a folder that is an input: everything in the folder belongs to the trace.
fn lies_in_input(path: &Path) -> bool {
    let Ok(path) = fs::canonicalize(path) else { return false };
    path.ancestors().skip(1).any(|folder| fs::metadata(folder).is_ok_and(|meta| is_input(&meta)))
}

/// True if a folder contains an input, down to `depth` levels.
fn holds_input(folder: &Path, depth: u32) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        fs::metadata(&path).is_ok_and(|meta| {
            is_input(&meta) || (meta.is_dir() && depth > 0 && holds_input(&path, depth - 1))
        })
    })
}

/// The error for a name that is taken.
#[cold]
fn taken(path: &Path) -> Error {
    Error::usage("there is something of that name already")
        .in_file(path.display().to_string())
        .hint("name another, or say --force to replace it".to_owned())
}

/// The error for an output that is an input.
#[cold]
fn input(path: &Path) -> Error {
    Error::usage("this is an input, and is never written over")
        .in_file(path.display().to_string())
        .hint("name another file or folder to write".to_owned())
}

/// The error for a file that cannot be written, listed, …. For a hidden path, it shows the final name of the output.
#[cold]
pub fn cannot(what: &str, path: &Path, cause: io::Error) -> Error {
    let path = final_name(path);
    Error::new(ErrorKind::Io, format!("cannot {what} it")).in_file(path.display().to_string()).because(cause)
}

/// A path as the user knows it: hidden names made by [`Fresh::begin`] and [`folder_beside`] become the name of the output.
/// The name of an intermediate file is left out, since the user has not asked for that file.
fn final_name(path: &Path) -> PathBuf {
    let mut known = PathBuf::new();
    for part in path.components() {
        let hidden = part.as_os_str().to_str().filter(|part| hidden_for(part).is_some());
        let shown = hidden.and_then(hidden_for).map(|(name, _)| OsStr::new(name));
        known.push(shown.unwrap_or(part.as_os_str()));
        if hidden.is_some_and(|hidden| hidden.ends_with(WAY)) {
            break;
        }
    }
    known
}

/// The output name of a hidden name, and the number of the process that made it.
fn hidden_for(hidden: &str) -> Option<(&str, &str)> {
    let hidden = hidden.strip_prefix('.')?;
    let hidden = hidden.strip_suffix(PART).or_else(|| hidden.strip_suffix(WAY))?;
    let (name, number) = hidden.rsplit_once('.')?;
    let (process, attempt) = number.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(process) && is_number(attempt)).then_some((name, process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn two_files_in_the_making_under_one_name_leave_each_other_alone() {
        let folder = std::env::temp_dir().join(format!("quipu-fresh-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("out");
        let (first, mut file) = Fresh::file(&path, Replace::Allowed).unwrap();
        let (second, mut other) = Fresh::file(&path, Replace::Allowed).unwrap();
        file.write_all(b"first").unwrap();
        other.write_all(b"second").unwrap();
        drop((file, other));
        drop(second);
        assert!(!path.exists());
        first.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_removed_by_the_next_and_nothing_else() {
        let home = std::env::temp_dir().join(format!("quipu-fresh-left-{}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let (ended_pid, own) = (ended.id(), std::process::id());
        ended.wait().unwrap();
        let at = |name: String| home.join(name);
        let stays = [
            at(format!(".out.{own}-7.part")),
            at(format!(".other.{ended_pid}-0.part")),
            at(format!(".out.{ended_pid}-0.part.old")),
            at(format!(".out.{ended_pid}-x.part")),
            at(format!(".out.{ended_pid}-0.way")),
            at(format!(".out.{ended_pid}-3.part")),
        ];
        stays.iter().for_each(|path| fs::write(path, b"stays").unwrap());
        // Lock it as a process on another machine would.
        let held = hold(&stays[5]).unwrap();
        let goes = [at(format!(".out.{ended_pid}-0.part")), at(format!(".out.{ended_pid}-1.part"))];
        fs::write(&goes[0], b"goes").unwrap();
        fs::create_dir(&goes[1]).unwrap();
        fs::write(goes[1].join("trace"), b"goes").unwrap();
        let (fresh, file) = Fresh::file(&home.join("out"), Replace::Never).unwrap();
        assert!(stays.iter().all(|path| path.exists()));
        assert!(goes.iter().all(|path| !path.exists()));
        drop((file, held));
        // The file that was locked before is not locked any more.
        let (second, other) = Fresh::file(&home.join("out"), Replace::Never).unwrap();
        assert!(!stays[5].exists());
        drop((second, other));
        fresh.commit().unwrap();
        assert_eq!(fs::read_dir(&home).unwrap().count(), stays.len());
        fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn errors_name_what_is_in_the_making_as_it_is_to_be_called() {
        let named = |path: &str| final_name(Path::new(path)).display().to_string();
        assert_eq!(named("mnt/.s.11662-0.part/stream-0.quipu"), "mnt/s/stream-0.quipu");
        // An intermediate file is on the way to the output, and not part of it.
        assert_eq!(named("/a/.out.zip.7-12.way/trace"), "/a/out.zip");
        assert_eq!(named("/a/.out.zip.7-12.way/.trace.7-0.part"), "/a/out.zip");
        for other in ["a/.hidden/b", "a/.x.part", "a/.x.1-.part", "x.1-2.part", "../b"] {
            assert_eq!(named(other), other);
        }
    }

    #[test]
    fn what_is_still_open_gets_no_name() {
        let home = std::env::temp_dir().join(format!("quipu-fresh-open-{}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        let path = home.join("out");
        let (fresh, file) = Fresh::file(&path, Replace::Never).unwrap();
        assert_eq!(fresh.commit().unwrap_err().kind(), ErrorKind::Internal);
        drop(file);
        let (fresh, folder) = Fresh::folder(&path, Replace::Never, &|_| true).unwrap();
        let file = folder.within("inner").create(&folder.join("file")).unwrap();
        assert_eq!(fresh.commit().unwrap_err().kind(), ErrorKind::Internal);
        drop(file);
        assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
        fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn what_appears_while_a_file_is_made_stays() {
        let folder = std::env::temp_dir().join(format!("quipu-fresh-late-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("out");
        let (fresh, _) = Fresh::file(&path, Replace::Never).unwrap();
        fs::write(&path, "somebody else's").unwrap();
        assert_eq!(fresh.commit().unwrap_err().kind(), ErrorKind::Usage);
        assert_eq!(fs::read(&path).unwrap(), b"somebody else's");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
