//! A source of bytes: a path, a folder, a pipe, memory.

use std::any::Any;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::codec::{Codec, SNIFF_BYTES};
use crate::container::{Container, Member};
use crate::descriptors::{FileId, FileReader};
use crate::error::{Error, ErrorKind, Result};
use crate::packed::{Origin, Packed};
use crate::pipe::{OpenLater, Pipe, Reader};
use crate::reading::Reading;
use crate::sequence::first_bytes;
use crate::spool::Spool;
use crate::tree::{self, CarrierDamage, Content, ContentPart, Held};

/// A source of bytes. Cheap to clone; holds no descriptor.
#[derive(Clone)]
pub struct Source(Arc<Inner>, Arc<Learned>);

struct Inner {
    name: Arc<str>,
    place: Place,
    /// Keeps the file or folder from being overwritten.
    _reading: Option<Reading>,
}

/// Facts about the bytes of a source that were computed once, one value of each type.
type Learned = Mutex<Vec<Arc<dyn Any + Send + Sync>>>;

enum Place {
    Folder(PathBuf),
    File(PathBuf),
    Memory(Arc<[u8]>),
    /// The content of a pipe, copied to a temporary file.
    Spooled(Spool),
    /// Bytes that another file carries.
    Content(Held),
    /// Entries like those of a folder, sorted by name.
    Tree(Vec<Source>),
    Pipe {
        pipe: Arc<Pipe>,
        path: Option<PathBuf>,
    },
}

impl Source {
    /// Opens a path: a file, a folder, a named pipe or device, a socket to connect to; `-` is standard input.
    ///
    /// # Errors
    /// `Missing` if there is no such file; `Io` if the system denies access to its metadata.
    pub fn open(path: &Path) -> Result<Source> {
        if path.as_os_str() == "-" {
            return Ok(Source::stdin());
        }
        let name: Arc<str> = path.to_string_lossy().into();
        let meta = std::fs::metadata(path).map_err(|cause| Error::io("cannot open", cause).in_file(&name))?;
        let place = if meta.is_dir() {
            Place::Folder(path.to_owned())
        } else if meta.is_file() {
            Place::File(path.to_owned())
        } else {
            Place::Pipe {
                pipe: Arc::new(Pipe::new(Box::new(OpenLater::new(path)))),
                path: Some(path.to_owned()),
            }
        };
        Ok(Source::of(Inner { name, place, _reading: Some(Reading::of(&meta)) }))
    }

    /// Standard input, as a pipe.
    pub fn stdin() -> Source {
        let stdin: Reader = Box::new(io::stdin());
        let place = Place::Pipe { pipe: Arc::new(Pipe::new(stdin)), path: None };
        Source::of(Inner { name: "standard input".into(), place, _reading: reading_of_stdin() })
    }

    /// Wraps any reader as a pipe: its bytes can be streamed once.
    pub fn from_reader(name: impl Into<String>, reader: impl Read + Send + 'static) -> Source {
        let reader: Reader = Box::new(reader);
        let name: String = name.into();
        Source::new(name.into(), Place::Pipe { pipe: Arc::new(Pipe::new(reader)), path: None })
    }

    /// Wraps bytes in memory. They are shared, not copied, except once when a `Vec` is turned into an `Arc`.
    pub fn from_bytes(name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Source {
        let name: String = name.into();
        Source::new(name.into(), Place::Memory(bytes.into()))
    }

    /// Wraps bytes that another file carries: a file, or an archive whose members are stored uncompressed.
    pub fn of_content(name: impl Into<String>, content: Arc<dyn Content>) -> Source {
        let name: String = name.into();
        Source::new(name.into(), Place::Content(Held(content)))
    }

    /// Creates a virtual folder from entries with these relative names; `/` separates folders.
    pub fn of_tree(name: impl Into<String>, entries: Vec<(String, Arc<dyn Content>)>) -> Source {
        let name: String = name.into();
        let entries = tree::folder(&name, entries);
        Source::new(name.into(), Place::Tree(entries))
    }

    /// Creates a virtual folder with these sources as its entries.
    pub fn of_files(name: impl Into<String>, files: Vec<Source>) -> Source {
        let name: String = name.into();
        Source::new(name.into(), Place::Tree(files))
    }

    /// A source that can be read several times. The content of a pipe is copied to a temporary file first, which is removed
    /// together with the last source that reads it. Other sources are returned unchanged.
    ///
    /// # Errors
    /// `Usage` if the pipe was handed out before; `Io` if it cannot be read, or the file cannot be written.
    pub fn spooled(&self) -> Result<Source> {
        let Place::Pipe { pipe, .. } = &self.0.place else { return Ok(self.clone()) };
        let (replay, reader) = pipe.take().ok_or_else(|| self.read_before())?;
        let spool = Spool::of(io::Cursor::new(replay).chain(reader))
            .map_err(|cause| Error::io("cannot copy into a temporary file", cause).in_file(&self.0.name))?;
        Ok(Source::new(self.0.name.clone(), Place::Spooled(spool)))
    }

    /// Returns a fact about the bytes that is needed several times: `learn` computes it the first time, and the source and its
    /// clones keep it. Two concurrent callers may both compute it.
    ///
    /// `learn` gets a source with the same bytes that keeps no facts. Its result may hold that source; if it held a clone
    /// of this one, the two would keep each other in memory forever.
    ///
    /// # Errors
    /// Those of `learn`.
    pub fn learned<T, E>(
        &self,
        learn: impl FnOnce(&Source) -> std::result::Result<T, E>,
    ) -> std::result::Result<Arc<T>, E>
    where
        T: Any + Send + Sync,
    {
        let lock = || self.1.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().iter().find_map(|known| Arc::clone(known).downcast::<T>().ok());
        if let Some(known) = known {
            return Ok(known);
        }
        let new = Arc::new(learn(&Source(Arc::clone(&self.0), Arc::default()))?);
        lock().push(new.clone());
        Ok(new)
    }

    #[cold]
    fn read_before(&self) -> Error {
        Error::new(ErrorKind::Usage, "a pipe can be read only once").in_file(&self.0.name)
    }

    fn new(name: Arc<str>, place: Place) -> Source {
        Source::of(Inner { name, place, _reading: None })
    }

    fn of(inner: Inner) -> Source {
        Source(Arc::new(inner), Arc::default())
    }

    /// The name for people: the path as given, or the name given to the constructor.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The path of a file, a folder, or a pipe that has one.
    pub fn path(&self) -> Option<&Path> {
        match &self.0.place {
            Place::Folder(path) | Place::File(path) | Place::Pipe { path: Some(path), .. } => Some(path),
            Place::Memory(_)
            | Place::Spooled(_)
            | Place::Content(_)
            | Place::Tree(_)
            | Place::Pipe { path: None, .. } => None,
        }
    }

    /// True for a folder, which has entries instead of bytes.
    pub fn is_folder(&self) -> bool {
        matches!(self.0.place, Place::Folder(_) | Place::Tree(_))
    }

    /// True if any part can be read at any time, any number of times: for files and memory.
    pub fn can_seek(&self) -> bool {
        matches!(self.0.place, Place::File(_) | Place::Memory(_) | Place::Spooled(_) | Place::Content(_))
    }

    /// The direct entries of a folder, files and folders, sorted by the bytes of their full paths.
    ///
    /// Nothing is opened. Entries that are neither files nor folders (sockets, devices, named pipes) are left out. A link
    /// counts as its target, and a broken link as a file, so that reading it gives an error. A source that is not a folder
    /// has itself as its only entry.
    ///
    /// # Errors
    /// `Missing` or `Io` if the folder cannot be listed.
    pub fn files(&self) -> Result<Vec<Source>> {
        if let Place::Tree(entries) = &self.0.place {
            return Ok(entries.clone());
        }
        let Place::Folder(folder) = &self.0.place else { return Ok(vec![self.clone()]) };
        let list = || -> io::Result<Vec<Source>> {
            let mut entries = Vec::new();
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                let path = entry.path();
                let mut kind = entry.file_type()?;
                if kind.is_symlink() {
                    kind = std::fs::metadata(&path).map_or(kind, |meta| meta.file_type());
                }
                let place = match () {
                    () if kind.is_dir() => Place::Folder(path),
                    () if kind.is_file() || kind.is_symlink() => Place::File(path),
                    () => continue,
                };
                entries.push(place);
            }
            entries.sort_by(|a, b| path_bytes(a).cmp(path_bytes(b)));
            Ok(entries.into_iter().map(named_by_path).collect())
        };
        list().map_err(|cause| Error::io("cannot list the folder", cause).in_file(&self.0.name))
    }

    /// The entry of a folder with this name (`trace`, `aux/v2p.textproto`), if it exists; `None` for anything else.
    pub fn child(&self, name: &str) -> Option<Source> {
        match &self.0.place {
            Place::Folder(folder) => Source::open(&folder.join(name)).ok(),
            Place::Tree(entries) => {
                let (first, rest) = name.split_once('/').unwrap_or((name, ""));
                let ours = |entry: &&Source| entry.name().rsplit('/').next() == Some(first);
                let entry = entries.iter().find(ours)?;
                if rest.is_empty() { Some(entry.clone()) } else { entry.child(rest) }
            }
            _ => None,
        }
    }

    /// Stored size in bytes, of a file or memory; `None` for a pipe, a folder, or a file that has vanished.
    pub fn size_bytes(&self) -> Option<u64> {
        match &self.0.place {
            Place::File(path) => std::fs::metadata(path).ok().map(|meta| meta.len()),
            Place::Memory(bytes) => Some(bytes.len() as u64),
            Place::Spooled(spool) => std::fs::metadata(spool.path()).ok().map(|meta| meta.len()),
            Place::Content(content) => Some(content.0.len_bytes()),
            Place::Folder(_) | Place::Tree(_) | Place::Pipe { .. } => None,
        }
    }

    /// Number of bytes on disk: the stored size, or that of the carrying file, if it states one.
    pub fn disk_bytes(&self) -> Option<u64> {
        match &self.0.place {
            Place::Content(content) => content.0.disk_bytes().or_else(|| self.size_bytes()),
            _ => self.size_bytes(),
        }
    }

    /// Metadata under this name that the carrying file has about the bytes.
    pub fn said(&self, name: &str) -> Option<&str> {
        match &self.0.place {
            Place::Content(content) => content.0.said(name),
            _ => None,
        }
    }

    /// Damage of the carrying file that is known before the bytes are read.
    pub fn damage(&self) -> Option<&CarrierDamage> {
        match &self.0.place {
            Place::Content(content) => content.0.damage(),
            _ => None,
        }
    }

    /// Offset at which carried bytes can be read again after one that cannot.
    pub(crate) fn next_readable(&self, at: u64) -> Option<u64> {
        match &self.0.place {
            Place::Content(content) => content.0.next_readable(at),
            _ => None,
        }
    }

    /// Information in the carrying file about the bytes from this offset on.
    pub(crate) fn said_at(&self, at: u64) -> Option<Vec<u8>> {
        match &self.0.place {
            Place::Content(content) => content.0.said_at(at),
            _ => None,
        }
    }

    /// The members of an archive that are stored uncompressed in a carrying file.
    pub(crate) fn unpacked_members(&self) -> Vec<Member> {
        match &self.0.place {
            Place::Content(content) => tree::members(&*content.0),
            _ => Vec::new(),
        }
    }

    /// The first of these members.
    fn first_part(&self) -> Option<&ContentPart> {
        match &self.0.place {
            Place::Content(content) => content.0.parts().first(),
            _ => None,
        }
    }

    /// The first bytes after decompression, those of the first member if this is an archive: at most `n_bytes`.
    ///
    /// There are fewer if the bytes end or are damaged. Consumes nothing: bytes read from a pipe are kept (up to 1 MiB of
    /// packed bytes) and streamed again later. On a pipe, this waits for the writer.
    ///
    /// # Errors
    /// `Usage` for a folder, `Io` and `Missing` from the system.
    pub fn head(&self, n_bytes: usize) -> Result<Vec<u8>> {
        match self.first_part() {
            // The first part begins at the first byte.
            Some(first) => {
                let mut head = self.packed_head(n_bytes)?;
                head.truncate(usize::try_from(first.len).unwrap_or(usize::MAX));
                Ok(head)
            }
            None => self.head_as(self.codec()?, n_bytes),
        }
    }

    /// The first bytes, like [`Source::head`], of a file with a known codec, which is not recognised from its content.
    ///
    /// # Errors
    /// As for [`Source::head`].
    pub fn head_as(&self, codec: Codec, n_bytes: usize) -> Result<Vec<u8>> {
        let packed = Packed::for_blocks(self.peek_origin(self.file_id()?)?, n_bytes);
        first_bytes(packed, codec, n_bytes).map_err(|error| error.in_file(&self.0.name))
    }

    /// The first bytes as stored: at most `n_bytes`. Like [`Source::head`], this consumes nothing.
    ///
    /// # Errors
    /// As for [`Source::head`].
    pub fn packed_head(&self, n_bytes: usize) -> Result<Vec<u8>> {
        let mut packed = Packed::with_request(self.peek_origin(self.file_id()?)?, 0);
        let mut head = vec![0; n_bytes];
        let n =
            packed.read(&mut head).map_err(|cause| Error::io("cannot read", cause).in_file(&self.0.name))?;
        head.truncate(n);
        Ok(head)
    }

    /// The last bytes as stored: at most `n_bytes`; empty for a pipe, whose end is unknown.
    ///
    /// # Errors
    /// As for [`Source::head`].
    pub fn packed_tail(&self, n_bytes: usize) -> Result<Vec<u8>> {
        let Some(size) = self.size_bytes().filter(|_| self.can_seek()) else { return Ok(Vec::new()) };
        let mut packed = Packed::with_request(self.peek_origin(self.file_id()?)?, 0);
        let mut tail = vec![0; n_bytes];
        let n = packed
            .seek(size.saturating_sub(n_bytes as u64))
            .and_then(|()| packed.read(&mut tail))
            .map_err(|cause| Error::io("cannot read", cause).in_file(&self.0.name))?;
        tail.truncate(n);
        Ok(tail)
    }

    /// Opens the file with this codec, whatever it looks like: for codecs that cannot be recognised.
    ///
    /// # Errors
    /// As for [`Source::container`].
    pub fn container_as(&self, codec: Codec) -> Result<Container> {
        Container::open_as(self, codec)
    }

    /// Recognises the codec by content and indexes the members of an archive.
    ///
    /// # Errors
    /// `Usage` for a folder, `Io` and `Missing` from the system. Damage inside the file is not an error here: see
    /// [`Container::damage`].
    pub fn container(&self) -> Result<Container> {
        Container::open(self)
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// The file as it is now; `None` for anything but a file.
    pub(crate) fn file_id(&self) -> Result<Option<Arc<FileId>>> {
        match &self.0.place {
            Place::File(path) => FileId::of(path).map(Some).map_err(|error| error.in_file(&self.0.name)),
            Place::Spooled(spool) => {
                FileId::of(spool.path()).map(Some).map_err(|error| error.in_file(&self.0.name))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn codec(&self) -> Result<Codec> {
        if self.first_part().is_some() {
            return Ok(Codec::Zip);
        }
        // A live pipe may deliver its bytes slowly: ask for many only if a few are not conclusive.
        let few = match self.packed_head(16) {
            // The carrying file has lost the first bytes, and states how to read the others.
            Err(_) if self.next_readable(0).is_some_and(|next| self.said_at(next).is_some()) => {
                return Ok(Codec::Plain);
            }
            head => Codec::of(&head?),
        };
        match few {
            Codec::Plain | Codec::Zlib | Codec::Zstd => Ok(Codec::of(&self.packed_head(SNIFF_BYTES)?)),
            _ => Ok(few),
        }
    }

    /// The packed bytes; takes the reader out of a pipe.
    pub(crate) fn origin(&self, file: Option<&Arc<FileId>>) -> Result<Origin> {
        match &self.0.place {
            Place::Pipe { pipe, .. } => {
                let (replay, reader) = pipe.take().ok_or_else(|| self.read_before())?;
                Ok(Origin::Pipe { replay, reader })
            }
            _ => self.peek_origin(file.cloned()),
        }
    }

    fn peek_origin(&self, file: Option<Arc<FileId>>) -> Result<Origin> {
        let usage = |what| Err(Error::new(ErrorKind::Usage, what).in_file(&self.0.name));
        match (&self.0.place, file) {
            (Place::File(_) | Place::Spooled(_), Some(file)) => Ok(Origin::File(FileReader::new(file))),
            (Place::Memory(bytes), _) => Ok(Origin::Memory(bytes.clone())),
            (Place::Pipe { pipe, .. }, _) => Ok(Origin::Peek(pipe.clone())),
            (Place::Content(content), _) => Ok(Origin::Content(content.0.clone())),
            (Place::Folder(_) | Place::Tree(_) | Place::File(_) | Place::Spooled(_), _) => {
                usage("a folder has no bytes of its own; read its files")
            }
        }
    }
}

/// Standard input may be a file that a shell opened.
#[cfg(unix)]
fn reading_of_stdin() -> Option<Reading> {
    use std::os::fd::AsFd;
    let file = io::stdin().as_fd().try_clone_to_owned().map(std::fs::File::from).ok()?;
    Some(Reading::of(&file.metadata().ok()?))
}

#[cfg(not(unix))]
fn reading_of_stdin() -> Option<Reading> {
    None
}

fn path_bytes(place: &Place) -> &[u8] {
    match place {
        Place::Folder(path) | Place::File(path) => path.as_os_str().as_encoded_bytes(),
        _ => &[],
    }
}

fn named_by_path(place: Place) -> Source {
    let name: Arc<str> = String::from_utf8_lossy(path_bytes(&place)).into();
    Source::new(name, place)
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.0.name)
    }
}
