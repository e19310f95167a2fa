//! Small packed inputs for the tests, and a way to read them back.
//!
//! Bytes are packed by third-party writers, except for archives with unusual headers, which are assembled here.

use std::io::{Cursor, Write};

use quipu_source::{Ahead, Codec, Container, Error, Source, StreamOptions};

/// The codecs that are recognised in every file, in the order in which the tests use them.
pub const CODECS: [Codec; 7] =
    [Codec::Plain, Codec::Gzip, Codec::Zlib, Codec::Zip, Codec::Lz4, Codec::Snappy, Codec::Zstd];

/// Bytes like those of a trace: records of 12 bytes, partly regular.
pub fn trace_like(n_records: usize) -> Vec<u8> {
    let mut bytes = vec![0x19, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for record in 1..n_records {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let kind: u16 = [10, 10, 0, 1, 28, 48][(state % 6) as usize];
        let addr = 0x7f00_0000_0000 + (record as u64 % 300) * 4 + (state >> 60) * 4096;
        bytes.extend(kind.to_le_bytes());
        bytes.extend((state as u16 & 15).to_le_bytes());
        bytes.extend(addr.to_le_bytes());
    }
    bytes.truncate(n_records * 12);
    bytes
}

/// Packs bytes; a zip archive gets them as three members.
pub fn pack(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    match codec {
        Codec::Plain => bytes.to_vec(),
        Codec::Gzip => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
            out.write_all(bytes).unwrap();
            out.finish().unwrap()
        }
        Codec::Zlib => {
            let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
            out.write_all(bytes).unwrap();
            out.finish().unwrap()
        }
        Codec::Zip => {
            let cut = bytes.len() / 3;
            pack_zip(&[&bytes[..cut], &bytes[cut..2 * cut], &bytes[2 * cut..]])
        }
        Codec::Lz4 => pack_lz4(bytes, lz4_flex::frame::BlockMode::Linked),
        Codec::Snappy => {
            let mut out = snap::write::FrameEncoder::new(Vec::new());
            out.write_all(bytes).unwrap();
            out.into_inner().unwrap()
        }
        Codec::Zstd => {
            let mut out = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
            out.include_checksum(true).unwrap();
            out.write_all(bytes).unwrap();
            out.finish().unwrap()
        }
        Codec::SnappyChunks => {
            let mut out = b"at".to_vec();
            for chunk in bytes.chunks(1000) {
                let block = snap::raw::Encoder::new().compress_vec(chunk).unwrap();
                out.extend((block.len() as u32).to_le_bytes());
                out.extend(block);
            }
            out
        }
        Codec::Brotli => {
            let mut out = Vec::new();
            let params = brotli::enc::BrotliEncoderParams { quality: 5, lgwin: 24, ..Default::default() };
            brotli::BrotliCompress(&mut &bytes[..], &mut out, &params).unwrap();
            out
        }
    }
}

pub fn pack_lz4(bytes: &[u8], mode: lz4_flex::frame::BlockMode) -> Vec<u8> {
    let info = lz4_flex::frame::FrameInfo::new()
        .block_mode(mode)
        .block_size(lz4_flex::frame::BlockSize::Max64KB)
        .block_checksums(true)
        .content_checksum(true)
        .content_size(Some(bytes.len() as u64));
    let mut out = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// A zip archive written by the `zip` crate: deflated members `chunk.00000000`, …
pub fn pack_zip(members: &[&[u8]]) -> Vec<u8> {
    let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    for (index, bytes) in members.iter().enumerate() {
        out.start_file(format!("chunk.{index:08}"), options).unwrap();
        out.write_all(bytes).unwrap();
    }
    out.finish().unwrap().into_inner()
}

/// The result of reading a stream.
#[derive(Debug, Default)]
pub struct Read {
    /// The bytes of each member, by its index.
    pub members: Vec<Vec<u8>>,
    /// Members whose last block was delivered: they are sound.
    pub sound: Vec<u32>,
    pub errors: Vec<Error>,
    /// Length of each block.
    pub blocks: Vec<usize>,
}

impl Read {
    pub fn bytes(&self) -> Vec<u8> {
        self.members.concat()
    }
}

/// Reads all members and checks properties that every read must have.
pub fn read(container: &Container, options: &StreamOptions) -> Read {
    let mut stream = container.stream(container.all_members(), options).unwrap();
    let mut read = Read::default();
    let mut block = Vec::new();
    let mut at_member = 0;
    for _ in 0.. {
        assert!(read.errors.len() < 10_000, "errors without end");
        match stream.next(&mut block) {
            Ok(Some(at)) => {
                assert!(at.member >= at_member, "members come in order");
                at_member = at.member;
                read.members.resize(read.members.len().max(at.member as usize + 1), Vec::new());
                let member = &mut read.members[at.member as usize];
                assert_eq!(at.offset, member.len() as u64, "offsets have no gaps");
                assert!(block.len() <= options.block_bytes.max(1), "no block is too large");
                assert!(!read.sound.contains(&at.member), "nothing follows a last block");
                member.extend_from_slice(&block);
                read.blocks.push(block.len());
                if at.last {
                    read.sound.push(at.member);
                }
            }
            Ok(None) => break,
            Err(error) => {
                assert_eq!(error.file(), container.name(), "{error}");
                if let Some((index, _)) = error.member() {
                    let delivered = read.members.get(index as usize).map_or(0, Vec::len);
                    assert_eq!(error.offset(), Some(delivered as u64), "{error}");
                }
                read.errors.push(error);
            }
        }
    }
    assert!(stream.next(&mut block).unwrap().is_none(), "the end stays the end");
    read
}

pub fn memory(bytes: &[u8]) -> Source {
    Source::from_bytes("memory", bytes)
}

/// The same bytes as a pipe that delivers a few at a time.
pub fn pipe(bytes: &[u8]) -> Source {
    struct Drip(Cursor<Vec<u8>>);
    impl std::io::Read for Drip {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let few = out.len().min(1 + (self.0.position() as usize * 7) % 997);
            self.0.read(&mut out[..few])
        }
    }
    Source::from_reader("pipe", Drip(Cursor::new(bytes.to_vec())))
}

pub fn inline(block_bytes: usize) -> StreamOptions {
    StreamOptions { block_bytes, ahead: Ahead::Inline, workers: 1 }
}

pub fn ahead(block_bytes: usize, blocks: usize, workers: usize) -> StreamOptions {
    StreamOptions { block_bytes, ahead: Ahead::Thread { blocks }, workers }
}

/// A member of an archive that is assembled by hand.
#[derive(Clone)]
pub struct HandMember<'a> {
    pub name: &'a [u8],
    pub bytes: &'a [u8],
    pub stored: bool,
    /// Sizes after the data, in a descriptor with or without signature, 32 or 64 bits wide.
    pub descriptor: Option<Descriptor>,
    /// Sizes and offset in zip64 fields.
    pub zip64: bool,
    pub flags: u16,
    pub method: Option<u16>,
}

#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    pub signature: bool,
    pub wide: bool,
}

impl<'a> HandMember<'a> {
    pub fn new(name: &'a str, bytes: &'a [u8]) -> HandMember<'a> {
        HandMember {
            name: name.as_bytes(),
            bytes,
            stored: false,
            descriptor: None,
            zip64: false,
            flags: 0,
            method: None,
        }
    }
}

/// An archive assembled by hand, and the offset of its directory.
pub fn hand_zip(members: &[HandMember<'_>]) -> (Vec<u8>, usize) {
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for member in members {
        let packed = if member.stored {
            member.bytes.to_vec()
        } else {
            let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(6));
            deflate.write_all(member.bytes).unwrap();
            deflate.finish().unwrap()
        };
        let method = member.method.unwrap_or(if member.stored { 0 } else { 8 });
        let flags = member.flags | if member.descriptor.is_some() { 8 } else { 0 };
        let crc = libdeflater::crc32(member.bytes);
        let (packed_len, len) = (packed.len() as u64, member.bytes.len() as u64);
        let header_at = out.len() as u64;
        let narrow = |value: u64| if member.zip64 { u32::MAX } else { value as u32 };
        let local_extra = if member.zip64 && member.descriptor.is_none() {
            [&[1, 0, 16, 0], &len.to_le_bytes()[..], &packed_len.to_le_bytes()].concat()
        } else {
            Vec::new()
        };
        out.extend(b"PK\x03\x04\x2d\x00");
        out.extend(flags.to_le_bytes());
        out.extend(method.to_le_bytes());
        out.extend([0; 4]);
        if member.descriptor.is_some() {
            out.extend([0; 12]);
        } else {
            out.extend(crc.to_le_bytes());
            out.extend(narrow(packed_len).to_le_bytes());
            out.extend(narrow(len).to_le_bytes());
        }
        out.extend((member.name.len() as u16).to_le_bytes());
        out.extend((local_extra.len() as u16).to_le_bytes());
        out.extend(member.name);
        out.extend(&local_extra);
        out.extend(&packed);
        if let Some(descriptor) = member.descriptor {
            if descriptor.signature {
                out.extend(b"PK\x07\x08");
            }
            out.extend(crc.to_le_bytes());
            for size in [packed_len, len] {
                if descriptor.wide {
                    out.extend(size.to_le_bytes())
                } else {
                    out.extend((size as u32).to_le_bytes())
                }
            }
        }

        let extra = if member.zip64 {
            [
                // An unknown field comes first.
                &[0x99, 0x99, 2, 0, 7, 7][..],
                &[1, 0, 24, 0],
                &len.to_le_bytes(),
                &packed_len.to_le_bytes(),
                &header_at.to_le_bytes(),
            ]
            .concat()
        } else {
            Vec::new()
        };
        directory.extend(b"PK\x01\x02\x2d\x00\x2d\x00");
        directory.extend(flags.to_le_bytes());
        directory.extend(method.to_le_bytes());
        directory.extend([0; 4]);
        directory.extend(crc.to_le_bytes());
        directory.extend(narrow(packed_len).to_le_bytes());
        directory.extend(narrow(len).to_le_bytes());
        directory.extend((member.name.len() as u16).to_le_bytes());
        directory.extend((extra.len() as u16).to_le_bytes());
        directory.extend([0; 10]);
        directory.extend(narrow(header_at).to_le_bytes());
        directory.extend(member.name);
        directory.extend(&extra);
    }
    let directory_at = out.len();
    let n_members = members.len() as u64;
    out.extend(&directory);
    if members.iter().any(|member| member.zip64) {
        let end64_at = out.len() as u64;
        out.extend(b"PK\x06\x06");
        out.extend(44_u64.to_le_bytes());
        out.extend([0x2d, 0, 0x2d, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        for value in [n_members, n_members, directory.len() as u64, directory_at as u64] {
            out.extend(value.to_le_bytes());
        }
        out.extend(b"PK\x06\x07\0\0\0\0");
        out.extend(end64_at.to_le_bytes());
        out.extend(1_u32.to_le_bytes());
        out.extend(b"PK\x05\x06\0\0\0\0");
        out.extend([0xff; 12]);
        out.extend([0; 2]);
    } else {
        out.extend(b"PK\x05\x06\0\0\0\0");
        out.extend((n_members as u16).to_le_bytes());
        out.extend((n_members as u16).to_le_bytes());
        out.extend((directory.len() as u32).to_le_bytes());
        out.extend((directory_at as u32).to_le_bytes());
        out.extend([0; 2]);
    }
    (out, directory_at)
}
