//! Sections of an ELF file that hold debug information, uncompressed and relocated.
//!
//! Only those sections are read, so the cost for a program of gigabytes depends on the size of its debug information. Sizes
//! in the file are hostile: the unpacked size is bounded by the actual data. Other files interpret the bytes.

use super::DebugError;
use gimli::{DwarfPackageSections, DwarfSections, RunTimeEndian, SectionId};
use object::read::{CompressionFormat, Object, ObjectKind, ObjectSection, ReadCache};
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Compressed sections of one file may grow to this many bytes for each byte of the file…
const MAX_GROWTH: u64 = 64;
/// … and to this many in any case.
const ALWAYS_GROWS: u64 = 16 << 20;

/// Sections that no query needs. In a package, rows refer to them, so they are read there.
const NOT_ASKED: &[SectionId] = &[
    SectionId::DebugAranges,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugNames,
];

/// A source that can be read at any position.
pub(super) trait Bytes: Read + Seek {}
impl<T: Read + Seek> Bytes for T {}

/// The naming scheme of the sections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    /// `.debug_info`: programs, libraries, objects and separate debug files.
    Whole,
    /// `.debug_info.dwo`: the part of a unit that stayed beside its object.
    Split,
    /// The same, with many units packed into one file with an index.
    Package,
}

/// The loaded parts of one file.
pub(super) struct Loaded {
    /// The sections; empty for a package.
    pub(super) sections: DwarfSections<Vec<u8>>,
    /// The sections of a package.
    pub(super) package: Option<DwarfPackageSections<Vec<u8>>>,
    /// The file's byte order.
    pub(super) endian: RunTimeEndian,
    /// Its path, if it is a file.
    pub(super) path: Option<PathBuf>,
    /// The build's id.
    pub(super) build_id: Option<Vec<u8>>,
    /// Name and checksum of the file that has the debug information instead.
    pub(super) link: Option<(String, u32)>,
}

impl Loaded {
    /// True if there is any debug information.
    pub(super) fn has_units(&self) -> bool {
        let info =
            self.sections.debug_info.borrow(|bytes: &Vec<u8>| gimli::EndianSlice::new(bytes, self.endian));
        let types =
            self.sections.debug_types.borrow(|bytes: &Vec<u8>| gimli::EndianSlice::new(bytes, self.endian));
        info.units().next().is_ok_and(|unit| unit.is_some())
            || types.units().next().is_ok_and(|unit| unit.is_some())
    }
}

/// Loads a file by its path.
pub(super) fn load_path(path: &Path, flavour: Flavour) -> Result<Loaded, DebugError> {
    let open = || -> std::io::Result<_> { Ok((std::fs::File::open(path)?, std::fs::File::open(path)?)) };
    let (for_headers, for_sections) =
        open().map_err(|error| DebugError::new(format!("cannot read the file: {error}")).in_file(path))?;
    load(for_headers, for_sections, flavour, Some(path)).map_err(|error| error.in_file(path))
}

/// Loads bytes in memory.
pub(super) fn load_bytes(bytes: &[u8]) -> Result<Loaded, DebugError> {
    load(Cursor::new(bytes), Cursor::new(bytes), Flavour::Whole, None)
}

fn load(
    headers: impl Bytes,
    mut bytes: impl Bytes,
    flavour: Flavour,
    path: Option<&Path>,
) -> Result<Loaded, DebugError> {
    let size = bytes.seek(SeekFrom::End(0)).map_err(|error| DebugError::new(error.to_string()))?;
    let cache = ReadCache::new(headers);
    let elf = object::File::parse(&cache)
        .map_err(|error| DebugError::new(format!("no ELF file: {error}")).at(0))?;
    let mut left = size.saturating_mul(MAX_GROWTH).max(ALWAYS_GROWS);
    let mut section = |id: SectionId| -> Result<Vec<u8>, DebugError> {
        let name = if flavour == Flavour::Whole { Some(id.name()) } else { id.dwo_name() };
        match name {
            _ if flavour != Flavour::Package && NOT_ASKED.contains(&id) => Ok(Vec::new()),
            Some(name) => read_section(&elf, name, &mut bytes, &mut left),
            None => Ok(Vec::new()),
        }
    };
    let (sections, package) = match flavour {
        Flavour::Package => (DwarfSections::default(), Some(DwarfPackageSections::load(&mut section)?)),
        Flavour::Whole | Flavour::Split => (DwarfSections::load(&mut section)?, None),
    };
    Ok(Loaded {
        sections,
        package,
        endian: if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big },
        path: path.map(Path::to_owned),
        build_id: elf.build_id().ok().flatten().map(<[u8]>::to_vec),
        link: elf
            .gnu_debuglink()
            .ok()
            .flatten()
            .map(|(name, crc)| (String::from_utf8_lossy(name).into_owned(), crc)),
    })
}

/// The concatenated bytes of all sections with a name; empty if there are none.
fn read_section<'data, R: object::ReadRef<'data>>(
    elf: &object::File<'data, R>,
    name: &str,
    bytes: &mut impl Bytes,
    left: &mut u64,
) -> Result<Vec<u8>, DebugError> {
    // Units that linkers may drop have their own sections, all with one name; unlinked files have many of them.
    let mut same = elf.sections().filter(|section| section.name() == Ok(name)).peekable();
    let mut all = Vec::new();
    if same.peek().is_none()
        && let Some(section) = elf.section_by_name(name)
    {
        // By its old name, `.zdebug_…`.
        read_one(elf, &section, name, bytes, left, &mut all)?;
    }
    for section in same {
        read_one(elf, &section, name, bytes, left, &mut all)?;
    }
    Ok(all)
}

fn read_one<'data, R: object::ReadRef<'data>>(
    elf: &object::File<'data, R>,
    section: &object::Section<'data, '_, R>,
    name: &str,
    bytes: &mut impl Bytes,
    left: &mut u64,
    all: &mut Vec<u8>,
) -> Result<(), DebugError> {
    let wrong = |what: String| DebugError::new(what).in_section(name);
    let range = section.compressed_file_range().map_err(|error| wrong(error.to_string()))?;
    let io = |error: std::io::Error| wrong(format!("cannot read the section: {error}")).at(range.offset);
    bytes.seek(SeekFrom::Start(range.offset)).map_err(io)?;
    if range.uncompressed_size > *left {
        let what =
            format!("`{}` bytes uncompressed are more than the file can hold", range.uncompressed_size);
        return Err(wrong(what).at(range.offset));
    }
    let stored = bytes.by_ref().take(range.compressed_size);
    let mut out = Vec::new();
    match range.format {
        CompressionFormat::None => {
            read_to_end(stored, &mut out).map_err(io)?;
        }
        CompressionFormat::Zlib => {
            let inflated = flate2::read::ZlibDecoder::new(std::io::BufReader::new(stored));
            read_to_end(inflated.take(range.uncompressed_size), &mut out).map_err(io)?;
        }
        CompressionFormat::Zstandard => {
            let inflated = zstd::stream::read::Decoder::new(stored).map_err(io)?;
            read_to_end(inflated.take(range.uncompressed_size), &mut out).map_err(io)?;
        }
        other => return Err(wrong(format!("compression `{other:?}` is unknown")).at(range.offset)),
    }
    let found = u64::try_from(out.len()).unwrap_or(u64::MAX);
    *left = left.saturating_sub(found);
    if found != range.uncompressed_size {
        let what = format!("expected `{}` bytes, found `{found}`", range.uncompressed_size);
        return Err(wrong(what).at(range.offset));
    }
    if elf.kind() == ObjectKind::Relocatable {
        relocate(elf, section, &mut out);
    }
    if all.is_empty() {
        *all = out;
    } else {
        all.append(&mut out);
    }
    Ok(())
}

/// `read_to_end` without size hints: the vector grows with the data.
fn read_to_end(mut from: impl Read, out: &mut Vec<u8>) -> std::io::Result<usize> {
    from.read_to_end(out)
}

/// Applies relocations to an object that was not linked. Those that cannot be applied are skipped: that affects addresses,
/// but no types.
fn relocate<'data, R: object::ReadRef<'data>>(
    elf: &object::File<'data, R>,
    section: &object::Section<'data, '_, R>,
    bytes: &mut [u8],
) {
    let mut map = object::read::RelocationMap::default();
    let mut places = Vec::new();
    for (offset, relocation) in section.relocations() {
        let size = usize::from(relocation.size() / 8);
        if matches!(size, 4 | 8) && map.add(elf, offset, relocation).is_ok() {
            places.push((offset, size));
        }
    }
    for (offset, size) in places {
        let Ok(start) = usize::try_from(offset) else { continue };
        let Some(place) = start.checked_add(size).and_then(|end| bytes.get_mut(start..end)) else { continue };
        let mut word = [0; 8];
        if elf.is_little_endian() {
            word[..size].copy_from_slice(place);
            let value = map.relocate(offset, u64::from_le_bytes(word)).to_le_bytes();
            place.copy_from_slice(&value[..size]);
        } else {
            word[8 - size..].copy_from_slice(place);
            let value = map.relocate(offset, u64::from_be_bytes(word)).to_be_bytes();
            place.copy_from_slice(&value[8 - size..]);
        }
    }
}

/// The separate file with the debug information of `main`, if there is one where debuggers look for it.
pub(super) fn separate(main: &Loaded) -> Option<Loaded> {
    let path = main.path.as_deref()?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut places: Vec<(PathBuf, Option<u32>)> = Vec::new();
    if let Some((first, rest)) = main.build_id.as_deref().and_then(<[u8]>::split_first) {
        let hex: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!(".build-id/{first:02x}/{hex}.debug");
        places.push((folder.join(&name), None));
        places.push((folder.join(".debug").join(&name), None));
        places.push((Path::new("/usr/lib/debug").join(name), None));
    }
    if let Some((name, crc)) = &main.link {
        // A name with folders in it could lead anywhere.
        let name = Path::new(name).file_name()?;
        places.push((folder.join(name), Some(*crc)));
        places.push((folder.join(".debug").join(name), Some(*crc)));
        if let Ok(whole) = folder.canonicalize() {
            let below = whole.strip_prefix("/").unwrap_or(&whole).join(name);
            places.push((Path::new("/usr/lib/debug").join(below), Some(*crc)));
        }
    }
    places.into_iter().find_map(|(place, crc)| {
        if place == path || !place.is_file() {
            return None;
        }
        let other = load_path(&place, Flavour::Whole).ok()?;
        // The build id is more specific than a checksum and costs nothing.
        let belongs = match (&main.build_id, &other.build_id, crc) {
            (Some(ours), Some(theirs), _) => ours == theirs,
            (_, _, Some(crc)) => checksum(&place).is_ok_and(|found| found == crc),
            _ => false,
        };
        (belongs && other.has_units()).then_some(other)
    })
}

/// The checksum for a link to a debug file.
fn checksum(path: &Path) -> std::io::Result<u32> {
    let mut crc = flate2::CrcReader::new(std::fs::File::open(path)?);
    std::io::copy(&mut crc, &mut std::io::sink())?;
    Ok(crc.crc().sum())
}
