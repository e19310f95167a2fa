//! An opened file: its packing and its members.

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
/// For all codecs but zip, there is exactly one member: the whole file. A zip archive has the members of its central
/// directory, in the order of their offsets; if the directory is missing or wrong, the members found by walking over the
/// local headers, and [`Container::damage`] reports that. A zip archive on a pipe has no list of members
/// ([`Container::is_indexed`] is false): they become known as they arrive.
#[derive(Clone)]
pub struct Container(Arc<Inner>);

struct Inner {
    source: Source,
    codec: Codec,
    file: Option<Arc<FileId>>,
    members: Vec<Member>,
    indexed: bool,
    /// Whether the members are stored one after the other, uncompressed and without headers.
    is_unpacked: bool,
    damage: Vec<Error>,
    /// Computed when first needed.
    landmarks: OnceLock<Vec<Landmark>>,
    /// Members whose bytes have proved damaged so far.
    distrusted: Mutex<BTreeMap<u32, Distrusted>>,
    /// Number of times that bytes were delivered which later proved damaged.
    n_delivered: AtomicU64,
    /// Whether streams over single files deliver sound bytes only; those over archives always do.
    sound_only: AtomicBool,
}

/// A member that proved damaged.
#[derive(Clone, Debug)]
pub(crate) struct Distrusted {
    /// The damage.
    pub(crate) error: Error,
    /// Offset in the inflated bytes: those before it are good.
    pub(crate) good_until: u64,
}

/// A run of bytes that can be read on its own: a whole file, or a member of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name in the archive, lossily decoded; empty if the file is not an archive.
    pub name: String,
    /// Offset in the file: that of the local header in an archive, 0 otherwise.
    pub packed_at: u64,
    /// Packed size in bytes, without headers; `None` on a pipe.
    pub packed_len: Option<u64>,
    /// Inflated size in bytes, if the container states it; only reading verifies it.
    pub len: Option<u64>,
    /// CRC-32 of the inflated bytes, if the archive states it.
    pub crc32: Option<u32>,
    /// Compression method of the bytes.
    pub method: Method,
    /// The reason why the member cannot be read, if its header already shows one.
    pub(crate) refusal: Option<Refusal>,
}

/// The compression method of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Stored without compression.
    Stored,
    /// Deflate (RFC 1951), raw or inside gzip or zlib.
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

/// A feature of a member that this crate does not support, so that it cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Encrypted,
    StoredWithoutLength,
}

impl Container {
    /// Recognises the codec of a source's file and indexes its members.
    pub(crate) fn open(source: &Source) -> Result<Container> {
        Container::open_as(source, source.codec()?)
    }

    /// Indexes the members of a source's file, which has this codec.
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

    /// The codec of the file.
    pub fn codec(&self) -> Codec {
        self.0.codec
    }

    /// The members in the order of their offsets in the file. Empty for a zip archive on a pipe.
    pub fn members(&self) -> &[Member] {
        &self.0.members
    }

    /// False for a zip archive on a pipe, whose members are unknown until they are read.
    pub fn is_indexed(&self) -> bool {
        self.0.indexed
    }

    /// The range that means "everything" in [`Container::stream`].
    pub fn all_members(&self) -> Range<usize> {
        0..if self.0.indexed { self.0.members.len() } else { usize::MAX }
    }

    /// Size of the file on disk, in bytes; `None` for a pipe.
    pub fn size_bytes(&self) -> Option<u64> {
        self.0.size_bytes()
    }

    /// Number of bytes on disk: those of the file, or of the file that carries it; `None` for a pipe.
    pub fn disk_bytes(&self) -> Option<u64> {
        match &self.0.file {
            Some(file) => Some(file.size),
            None => self.0.source.disk_bytes(),
        }
    }

    /// Damage of the container itself, such as a missing directory; reading continues in spite of it.
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
    /// Cheap: files are opened and threads started by the first [`Stream::next`]. A range is clipped to the existing members.
    /// Many streams may be open over one container at the same time.
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

    /// Like [`stream`](Container::stream), but from a place where inflating may begin, see [`Container::landmarks`]. Offsets
    /// count from there.
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

    /// Offset at which a stream over a member continues after a fault at offset `from`, if it does: the next byte of the
    /// member that the carrying file still has. Compressed files continue with their next member.
    pub fn next_readable(&self, member: usize, from: u64) -> Option<u64> {
        let member = self.0.members.get(member).filter(|_| self.lies_unpacked())?;
        let next = self.0.source.next_readable(member.packed_at.checked_add(from)?)? - member.packed_at;
        member.packed_len.is_none_or(|len| next < len).then_some(next)
    }

    /// True if members are plain bytes of the file, so that each can be read from any offset.
    pub(crate) fn lies_unpacked(&self) -> bool {
        self.0.codec == Codec::Plain || self.0.is_unpacked
    }

    /// The information that reading needs in order to continue at this offset after a fault, if the carrying file has it
    /// ([`said_at`](crate::tree::Content::said_at)).
    pub fn said_at(&self, at: u64) -> Option<Vec<u8>> {
        self.0.source.said_at(at).filter(|_| self.0.codec == Codec::Plain)
    }

    /// From now on, streams over a single file deliver no bytes that its checksums do not vouch for, as far as this is known
    /// when they get there. Members of archives are always treated like this. Otherwise, all bytes before the place where a
    /// fault shows are delivered: for readers that detect damage themselves.
    pub fn deliver_sound_only(&self) {
        self.0.sound_only.store(true, Ordering::Relaxed);
    }

    /// Whether streams over this container deliver no bytes that its checksums do not vouch for.
    pub fn delivers_sound_only(&self) -> bool {
        self.0.codec == Codec::Zip || self.0.sound_only.load(Ordering::Relaxed)
    }

    /// Offset at which the good bytes of a member end, if it is known to be damaged. From now on, no stream that delivers
    /// sound bytes only goes beyond that.
    ///
    /// A deflated member of an archive of up to 4 MiB is verified before its first byte is delivered. Everything else is
    /// delivered while it is read, and a checksum after it may then show that it was damaged: a caller that has got such
    /// bytes (see [`Container::n_delivered_damaged`]) must read again, and then gets only the sound ones.
    pub fn good_until(&self, member: u32) -> Option<u64> {
        self.distrusted(member).map(|distrusted| distrusted.good_until)
    }

    /// Number of times that any stream delivered bytes which later proved damaged. If it has grown during a read, reading
    /// again delivers fewer bytes, all of them good as far as checksums show. 0 for a pipe, which cannot be read again.
    pub fn n_delivered_damaged(&self) -> u64 {
        if self.0.source.can_seek() { self.0.n_delivered.load(Ordering::Relaxed) } else { 0 }
    }

    /// Records damage in a member, noticed after `n_delivered` of its bytes had been delivered.
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

    /// Creates a cursor over the packed bytes; takes the reader out of a pipe.
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
