//! An opened file: how it is packed and which members it has.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::codec::Codec;
use crate::descriptors::FileId;
use crate::error::{Error, ErrorKind, Result};
use crate::landmarks::Landmark;
use crate::packed::{Origin, Packed};
use crate::source::Source;
use crate::stream::{Stream, StreamOptions};
use crate::zip;

/// An opened file: codec and members. Cheap to clone; holds no descriptor, map or buffer.
///
/// Every codec but zip has exactly one member, the whole file. A zip archive has those of its central directory, in
/// the order in which they lie in the file; where the directory is missing or lies, those found by walking over
/// the local headers, and [`Container::damage`] says so. A zip archive on a pipe has no list of members
/// ([`Container::is_indexed`] is false): they are known as they come.
#[derive(Clone)]
pub struct Container(Arc<Inner>);

struct Inner {
    source: Source,
    codec: Codec,
    file: Option<Arc<FileId>>,
    members: Vec<Member>,
    indexed: bool,
    /// The members lie one after the other as they are, without headers.
    is_unpacked: bool,
    damage: Vec<Error>,
    /// Looked for when they are first needed.
    landmarks: OnceLock<Vec<Landmark>>,
    /// Members whose bytes are not what was packed, as far as reading has shown.
    distrusted: Mutex<BTreeMap<u32, Distrusted>>,
    /// How often bytes were delivered that proved damaged later.
    n_delivered: AtomicU64,
    /// Whether files that are no archives are distrusted, too.
    sound_only: AtomicBool,
}

/// A member with damage.
#[derive(Clone, Debug)]
pub(crate) struct Distrusted {
    /// What is wrong.
    pub(crate) error: Error,
    /// Inflated bytes before this one are good.
    pub(crate) good_until: u64,
}

/// One run of bytes that can be read by itself: a whole file, or a member of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name in the archive, lossily decoded; empty for a file that is no archive.
    pub name: String,
    /// Offset in the file: of the local header in an archive, 0 otherwise.
    pub packed_at: u64,
    /// Packed size in bytes, without headers; `None` on a pipe.
    pub packed_len: Option<u64>,
    /// Inflated size in bytes as the container states it (verified only by reading), if it does.
    pub len: Option<u64>,
    /// CRC-32 of the inflated bytes as the archive states it.
    pub crc32: Option<u32>,
    /// How the bytes are packed.
    pub method: Method,
    /// Why the member cannot be read, if its header already tells.
    pub(crate) refusal: Option<Refusal>,
}

/// How the bytes of one member are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// As they are.
    Stored,
    /// Deflate (RFC 1951), bare or inside gzip or zlib.
    Deflate,
    /// LZ4 blocks.
    Lz4,
    /// Snappy blocks.
    Snappy,
    /// Zstandard.
    Zstd,
    /// Brotli.
    Brotli,
    /// A method number of the zip specification that this crate does not read.
    Other(u16),
}

/// A feature that makes a member unreadable for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Encrypted,
    StoredWithoutLength,
}

impl Container {
    /// Recognises and indexes the file of a source.
    pub(crate) fn open(source: &Source) -> Result<Container> {
        Container::open_as(source, source.codec()?)
    }

    /// Indexes the file of a source, which is packed this way.
    pub(crate) fn open_as(source: &Source, codec: Codec) -> Result<Container> {
        let name = source.shared_name();
        let file = source.file_id()?;
        let mut inner = Inner {
            source: source.clone(),
            codec,
            file,
            members: Vec::new(),
            indexed: true,
            is_unpacked: false,
            damage: Vec::new(),
            landmarks: OnceLock::new(),
            distrusted: Mutex::default(),
            n_delivered: AtomicU64::new(0),
            sound_only: AtomicBool::new(false),
        };
        let unpacked = source.unpacked_members();
        match (codec, source.can_seek()) {
            (Codec::Zip, _) if !unpacked.is_empty() => {
                inner.members = unpacked;
                inner.is_unpacked = true;
            }
            (Codec::Zip, true) => {
                let mut packed = Packed::with_request(inner.origin()?, zip::INDEX_READ_BYTES);
                let index = zip::index(&mut packed)
                    .map_err(|cause| Error::io("cannot read the archive's directory", cause).in_file(name))?;
                inner.members = index.members;
                inner.damage = index.damage.into_iter().map(|error| error.in_file(name)).collect();
            }
            (Codec::Zip, false) => inner.indexed = false,
            (_, can_seek) => {
                let size = inner.size_bytes();
                inner.members.push(Member {
                    name: String::new(),
                    packed_at: 0,
                    packed_len: size.filter(|_| can_seek),
                    len: size.filter(|_| codec == Codec::Plain && can_seek),
                    crc32: None,
                    method: Method::of(codec),
                    refusal: None,
                });
            }
        }
        Ok(Container(Arc::new(inner)))
    }

    /// How the file is packed.
    pub fn codec(&self) -> Codec {
        self.0.codec
    }

    /// The members in the order in which they lie in the file. Empty for a zip archive on a pipe.
    pub fn members(&self) -> &[Member] {
        &self.0.members
    }

    /// False for a zip archive on a pipe, whose members are not known before they were read.
    pub fn is_indexed(&self) -> bool {
        self.0.indexed
    }

    /// The range that means "everything" in [`Container::stream`].
    pub fn all_members(&self) -> Range<usize> {
        0..if self.0.indexed { self.0.members.len() } else { usize::MAX }
    }

    /// Size of the file in bytes as it lies on disk; `None` for a pipe.
    pub fn size_bytes(&self) -> Option<u64> {
        self.0.size_bytes()
    }

    /// Bytes on disk: those of the file, or of what carries it; `None` for a pipe.
    pub fn disk_bytes(&self) -> Option<u64> {
        match &self.0.file {
            Some(file) => Some(file.size),
            None => self.0.source.disk_bytes(),
        }
    }

    /// What is wrong with the container itself, such as a missing directory; reading continues all the same.
    pub fn damage(&self) -> &[Error] {
        &self.0.damage
    }

    /// The name of the source.
    pub fn name(&self) -> &str {
        self.0.source.name()
    }

    /// The source that this container was opened from.
    pub fn source(&self) -> &Source {
        &self.0.source
    }

    /// One sequential read over a range of members, in the order of the file.
    ///
    /// Cheap: files are opened and threads started by the first [`Stream::next`]. A range that reaches past the last
    /// member is cut. Many streams may be open over one container at the same time.
    ///
    /// # Errors
    /// `Usage` if the source is a pipe and was handed out before: it can be read only once.
    pub fn stream(&self, members: Range<usize>, options: &StreamOptions) -> Result<Stream> {
        let members = if self.0.indexed {
            let n_members = self.0.members.len();
            members.start.min(n_members)..members.end.min(n_members)
        } else {
            members
        };
        Stream::new(self.clone(), members, options)
    }

    /// The same from a place on where inflating may begin, see [`Container::landmarks`]: offsets count from there.
    ///
    /// # Errors
    /// `Unsupported` if the source is a pipe or an archive.
    pub fn stream_at(&self, packed_at: u64, options: &StreamOptions) -> Result<Stream> {
        if !self.0.source.can_seek() || self.0.codec == Codec::Zip {
            let error = Error::new(ErrorKind::Unsupported, "reading cannot begin in the middle of this");
            return Err(error.in_file(self.shared_name()));
        }
        Stream::from_place(self.clone(), packed_at, options)
    }

    /// Where a stream over a member continues in it after a fault at this offset, if it does: at the next byte of it that what
    /// carries the file still has. Files that are packed continue with their next member.
    pub fn next_readable(&self, member: usize, from: u64) -> Option<u64> {
        let member = self.0.members.get(member).filter(|_| self.lies_unpacked())?;
        let next = self.0.source.next_readable(member.packed_at.checked_add(from)?)? - member.packed_at;
        member.packed_len.is_none_or(|len| next < len).then_some(next)
    }

    /// True if members are the bytes of the file as they are, so that each can be read from any place on.
    pub(crate) fn lies_unpacked(&self) -> bool {
        self.0.codec == Codec::Plain || self.0.is_unpacked
    }

    /// What reading needs to continue at this offset after a fault, if what carries the file says it
    /// ([`said_at`](crate::tree::Content::said_at)).
    pub fn said_at(&self, at: u64) -> Option<Vec<u8>> {
        self.0.source.said_at(at).filter(|_| self.0.codec == Codec::Plain)
    }

    /// From now on a stream over a file that is no archive delivers nothing that its checksums do not vouch for, as far as
    /// that is known when it gets there. Members of archives are always treated like this. Without it, all bytes before
    /// the place where a fault shows are delivered: for readers that notice damage themselves.
    pub fn deliver_sound_only(&self) {
        self.0.sound_only.store(true, Ordering::Relaxed);
    }

    /// Whether streams over this deliver nothing that its checksums do not vouch for.
    pub fn delivers_sound_only(&self) -> bool {
        self.0.codec == Codec::Zip || self.0.sound_only.load(Ordering::Relaxed)
    }

    /// Where the good bytes of a member end, if it is known to be damaged. No stream that delivers sound bytes only goes
    /// beyond that from now on.
    ///
    /// A deflated member of an archive of up to 4 MiB is verified before its first byte is delivered. All else is
    /// delivered while it is read, and a checksum after it tells that it was damaged: a caller that got such bytes (see
    /// [`Container::n_delivered_damaged`]) reads again, and then gets what is sound.
    pub fn good_until(&self, member: u32) -> Option<u64> {
        self.distrusted(member).map(|distrusted| distrusted.good_until)
    }

    /// How often bytes were delivered, by any stream, that proved damaged later. If this has grown during a read, reading
    /// again brings fewer bytes, all of them good as far as checksums tell. 0 of a pipe, which cannot be read again.
    pub fn n_delivered_damaged(&self) -> u64 {
        if self.0.source.can_seek() { self.0.n_delivered.load(Ordering::Relaxed) } else { 0 }
    }

    /// Remembers damage in a member after `n_delivered` of its bytes were delivered.
    pub(crate) fn distrust(&self, member: u32, error: &Error, good_until: u64, n_delivered: u64) {
        if n_delivered > good_until {
            self.0.n_delivered.fetch_add(1, Ordering::Relaxed);
        }
        let mut distrusted = self.0.distrusted.lock().unwrap_or_else(PoisonError::into_inner);
        distrusted.entry(member).or_insert_with(|| Distrusted { error: error.clone(), good_until });
    }

    pub(crate) fn distrusted(&self, member: u32) -> Option<Distrusted> {
        self.0.distrusted.lock().unwrap_or_else(PoisonError::into_inner).get(&member).cloned()
    }

    pub(crate) fn known_landmarks(&self) -> &OnceLock<Vec<Landmark>> {
        &self.0.landmarks
    }

    pub(crate) fn is_unpacked(&self) -> bool {
        self.0.is_unpacked
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        self.0.source.shared_name()
    }

    /// A new cursor over the packed bytes; takes the reader out of a pipe.
    pub(crate) fn origin(&self) -> Result<Origin> {
        self.0.origin()
    }
}

impl Inner {
    fn origin(&self) -> Result<Origin> {
        self.source.origin(self.file.as_ref())
    }

    fn size_bytes(&self) -> Option<u64> {
        match &self.file {
            Some(file) => Some(file.size),
            None => self.source.size_bytes(),
        }
    }
}

impl Method {
    fn of(codec: Codec) -> Method {
        match codec {
            Codec::Plain | Codec::Zip => Method::Stored,
            Codec::Gzip | Codec::Zlib => Method::Deflate,
            Codec::Lz4 => Method::Lz4,
            Codec::Snappy | Codec::SnappyChunks => Method::Snappy,
            Codec::Brotli => Method::Brotli,
            Codec::Zstd => Method::Zstd,
        }
    }
}

impl Refusal {
    pub(crate) fn error(self) -> Error {
        Error::new(
            ErrorKind::Unsupported,
            match self {
                Refusal::Encrypted => "the member is encrypted",
                Refusal::StoredWithoutLength => "the member is stored without its length",
            },
        )
    }
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container")
            .field("name", &self.name())
            .field("codec", &self.0.codec)
            .field("n_members", &self.0.members.len())
            .field("damage", &self.0.damage)
            .finish()
    }
}
