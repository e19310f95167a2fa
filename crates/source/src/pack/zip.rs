//! The headers of an archive that is written from front to back.
//!
//! A member that was packed as a whole has its sizes in its local header from the start. A streamed member gets them when it
//! ends, by seeking back; its header reserves room for 64-bit sizes, as a field that readers skip if the sizes are not
//! needed. So a reader of the archive without its directory still finds each member.

const LOCAL: [u8; 4] = *b"PK\x03\x04";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const END: [u8; 4] = *b"PK\x05\x06";
const END64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR64: [u8; 4] = *b"PK\x06\x07";

/// 1980-01-01, the earliest date that an archive can have: the output depends on nothing but the bytes.
const DATE: u16 = 0x21;
/// "Version needed": 2.0 for deflate, 4.5 for 64-bit sizes.
const DEFLATE_VERSION: u16 = 20;
const ZIP64_VERSION: u16 = 45;
const DEFLATE_METHOD: u16 = 8;
/// In a 32-bit field: the value is in the field for 64-bit sizes.
const IN_ZIP64: u32 = u32::MAX;
/// Number of the extra field for 64-bit sizes.
const ZIP64_FIELD: u16 = 1;
/// Number of an extra field that only reserves room, as other programs use it for the same purpose.
const PADDING_FIELD: u16 = 0xd935;
/// Bytes of two 64-bit sizes.
const ROOM: u16 = 16;

/// The directory entry of a member.
#[derive(Clone, Debug)]
pub(super) struct ZipMember {
    pub(super) name: String,
    pub(super) at: u64,
    pub(super) packed_len: u64,
    pub(super) len: u64,
    pub(super) crc32: u32,
    /// Whether its local header reserves room for 64-bit sizes.
    pub(super) has_room: bool,
}

impl ZipMember {
    fn is_large(&self) -> bool {
        self.len >= u64::from(IN_ZIP64) || self.packed_len >= u64::from(IN_ZIP64)
    }

    /// The local header; its length does not depend on the sizes.
    pub(super) fn local_header(&self) -> Vec<u8> {
        let is_large = self.has_room && self.is_large();
        let mut bytes = LOCAL.to_vec();
        put16(&mut bytes, &[if is_large { ZIP64_VERSION } else { DEFLATE_VERSION }]);
        let extra_len = if self.has_room { 4 + ROOM } else { 0 };
        self.put_common(&mut bytes, is_large, extra_len);
        bytes.extend_from_slice(self.name.as_bytes());
        if self.has_room {
            put16(&mut bytes, &[if is_large { ZIP64_FIELD } else { PADDING_FIELD }, ROOM]);
            let sizes = if is_large { [self.len, self.packed_len] } else { [0, 0] };
            sizes.iter().for_each(|size| bytes.extend_from_slice(&size.to_le_bytes()));
        }
        bytes
    }

    fn directory_entry(&self, out: &mut Vec<u8>) {
        let mut extra = Vec::new();
        if self.is_large() {
            extra.extend_from_slice(&self.len.to_le_bytes());
            extra.extend_from_slice(&self.packed_len.to_le_bytes());
        }
        let at = u32::try_from(self.at).ok().filter(|at| *at != IN_ZIP64);
        if at.is_none() {
            extra.extend_from_slice(&self.at.to_le_bytes());
        }
        let version = if extra.is_empty() { DEFLATE_VERSION } else { ZIP64_VERSION };
        let extra_len = if extra.is_empty() { 0 } else { 4 + extra.len() as u16 }; // At most 28.
        out.extend_from_slice(&CENTRAL);
        put16(out, &[version, version]);
        self.put_common(out, self.is_large(), extra_len);
        put16(out, &[0, 0, 0]); // Comment, disk, internal attributes.
        put32(out, &[0, at.unwrap_or(IN_ZIP64)]);
        out.extend_from_slice(self.name.as_bytes());
        if !extra.is_empty() {
            put16(out, &[ZIP64_FIELD, extra.len() as u16]);
            out.extend_from_slice(&extra);
        }
    }

    /// Writes the fields that both headers share, from the flags to the lengths of name and extra field.
    fn put_common(&self, bytes: &mut Vec<u8>, is_large: bool, extra_len: u16) {
        put16(bytes, &[0, DEFLATE_METHOD, 0, DATE]);
        let narrow = |size: u64| if is_large { IN_ZIP64 } else { size as u32 }; // Not large, so it fits.
        put32(bytes, &[self.crc32, narrow(self.packed_len), narrow(self.len)]);
        put16(bytes, &[self.name.len() as u16, extra_len]); // Names are short enough.
    }
}

/// The directory of an archive that begins at offset `start`, up to the end of the file.
pub(super) fn directory(members: &[ZipMember], start: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    members.iter().for_each(|member| member.directory_entry(&mut bytes));
    let (len, count) = (bytes.len() as u64, members.len() as u64);
    let fits = count < u64::from(u16::MAX) && start + len < u64::from(IN_ZIP64);
    if !fits {
        let end64_at = start + len;
        bytes.extend_from_slice(&END64);
        bytes.extend_from_slice(&44_u64.to_le_bytes());
        put16(&mut bytes, &[ZIP64_VERSION, ZIP64_VERSION]);
        put32(&mut bytes, &[0, 0]);
        for value in [count, count, len, start] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes.extend_from_slice(&LOCATOR64);
        put32(&mut bytes, &[0]);
        bytes.extend_from_slice(&end64_at.to_le_bytes());
        put32(&mut bytes, &[1]);
    }
    let count16 = u16::try_from(count).unwrap_or(u16::MAX);
    let narrow = |value: u64| if fits { value as u32 } else { u32::try_from(value).unwrap_or(IN_ZIP64) };
    bytes.extend_from_slice(&END);
    put16(&mut bytes, &[0, 0, count16, count16]);
    put32(&mut bytes, &[narrow(len), narrow(start)]);
    put16(&mut bytes, &[0]);
    bytes
}

fn put16(bytes: &mut Vec<u8>, values: &[u16]) {
    values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
}

fn put32(bytes: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(len: u64, packed_len: u64, at: u64) -> ZipMember {
        ZipMember { name: "chunk.00000000".into(), at, packed_len, len, crc32: 0x1234_5678, has_room: true }
    }

    #[test]
    fn a_local_header_has_the_same_length_whatever_the_sizes() {
        let small = member(1, 1, 0).local_header();
        let large = member(5 << 32, 1 << 32, 0).local_header();
        assert_eq!(small.len(), large.len());
        assert_eq!(large[18..26], [0xff; 8], "the 32-bit sizes send to the 64-bit ones");
        assert_eq!(large[large.len() - 16..large.len() - 8], (5_u64 << 32).to_le_bytes());
    }

    #[test]
    fn members_beyond_four_gigabytes_stand_in_64_bit_fields() {
        let bytes = directory(&[member(5 << 32, 1 << 32, 0), member(10, 10, 3 << 32)], 4 << 32);
        let record = bytes.windows(4).position(|window| window == END64).unwrap();
        assert_eq!(bytes[record + 32..record + 40], 2_u64.to_le_bytes(), "members");
        assert_eq!(
            bytes[record + 48..record + 56],
            (4_u64 << 32).to_le_bytes(),
            "where the directory begins"
        );
        let at = bytes.windows(8).position(|window| window == (3_u64 << 32).to_le_bytes()).unwrap();
        assert!(at < record, "the second member's place stands in its own entry");
    }
}
