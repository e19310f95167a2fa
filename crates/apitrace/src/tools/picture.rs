//! Scales the pixels of an upload down to a small picture.
//!
//! Supports the formats that client memory has in nearly all traces: 8-bit and 32-bit float components, packed 16-bit
//! formats, and compressed [`blocks`](super::blocks). Other formats have no picture.

use super::blocks::Blocks;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

/// Maximum width and height of a picture, in pixels.
const MAX_SIDE: u64 = 96;
/// Anything larger is not a texture.
const MAX_TEXTURE_SIDE: u64 = 1 << 15;

/// An image in client memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pixels<'a> {
    pub(crate) width: u64,
    pub(crate) height: u64,
    /// OpenGL names: `GL_RGBA`, `GL_UNSIGNED_BYTE`.
    pub(crate) format: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) bytes: &'a [u8],
}

/// Extracts one component of a pixel.
type Part = fn(&[u8], usize) -> u8;

/// Number of components of a format, and the component for each of red, green, blue and opacity; 4 stands for zero, 5 for
/// full.
fn order(format: &str) -> Option<(usize, [usize; 4])> {
    Some(match format.trim_end_matches("_EXT").trim_end_matches("_OES") {
        "GL_RGBA" => (4, [0, 1, 2, 3]),
        "GL_BGRA" => (4, [2, 1, 0, 3]),
        "GL_RGB" => (3, [0, 1, 2, 5]),
        "GL_BGR" => (3, [2, 1, 0, 5]),
        "GL_RG" => (2, [0, 1, 4, 5]),
        "GL_LUMINANCE_ALPHA" => (2, [0, 0, 0, 1]),
        "GL_LUMINANCE" => (1, [0, 0, 0, 5]),
        "GL_ALPHA" => (1, [0, 0, 0, 5]),
        "GL_RED" | "GL_DEPTH_COMPONENT" => (1, [0, 0, 0, 5]),
        _ => return None,
    })
}

/// Bytes of a row. Rows begin at multiples of four, OpenGL's default, unless there are too few bytes for that.
fn row_bytes(width: u64, pixel_bytes: u64, height: u64, len: u64) -> u64 {
    let aligned = (width * pixel_bytes).next_multiple_of(4);
    if aligned * height <= len + 3 { aligned } else { width * pixel_bytes }
}

impl Pixels<'_> {
    /// The picture as a PNG file, after its width and height. `None` if the format is unknown, or there are too few bytes.
    pub(crate) fn picture(&self) -> Option<(u32, u32, Vec<u8>)> {
        let (width, height) = (self.width, self.height);
        if width == 0 || height == 0 || width > MAX_TEXTURE_SIDE || height > MAX_TEXTURE_SIDE {
            return None;
        }
        let pixel: Box<dyn Fn(u64, u64) -> Option<[u8; 4]> + '_> = match Blocks::of(self.format) {
            Some(blocks) => {
                if blocks.image_bytes(width, height)? > self.bytes.len() as u64 {
                    return None;
                }
                Box::new(move |x, y| blocks.pixel(self.bytes, width, x, y))
            }
            None => Box::new(self.plain()?),
        };
        let step = width.max(height).div_ceil(MAX_SIDE);
        let (small_width, small_height) = (width.div_ceil(step), height.div_ceil(step));
        let mut rgba = Vec::new();
        for y in 0..small_height {
            // Each line begins with the number of its filter: none.
            rgba.push(0);
            for x in 0..small_width {
                rgba.extend(pixel(x * step, y * step)?);
            }
        }
        // Both are at most `MAX_SIDE`.
        let (small_width, small_height) = (small_width as u32, small_height as u32);
        Some((small_width, small_height, png(small_width, small_height, &rgba)?))
    }

    /// Returns a function that reads pixels of an uncompressed image, whose size must have been checked.
    fn plain(&self) -> Option<impl Fn(u64, u64) -> Option<[u8; 4]>> {
        let Pixels { width, height, bytes, .. } = *self;
        let (n_parts, order) = order(self.format)?;
        let (pixel_bytes, read): (usize, Part) = match self.kind {
            "GL_UNSIGNED_BYTE" | "GL_UNSIGNED_INT_8_8_8_8_REV" => (n_parts, |pixel, i| pixel[i]),
            "GL_UNSIGNED_SHORT_5_6_5" if n_parts == 3 => (2, |pixel, i| {
                let bits = u16::from_le_bytes([pixel[0], pixel[1]]);
                match i {
                    0 => (bits >> 11 << 3) as u8,
                    1 => (bits >> 5 << 2) as u8,
                    _ => (bits << 3) as u8,
                }
            }),
            "GL_FLOAT" => (4 * n_parts, |pixel, i| {
                let part = pixel.get(4 * i..).and_then(<[u8]>::first_chunk::<4>);
                part.map_or(0, |part| (f32::from_le_bytes(*part).clamp(0.0, 1.0) * 255.0) as u8)
            }),
            _ => return None,
        };
        let row = row_bytes(width, pixel_bytes as u64, height, bytes.len() as u64);
        if row * (height - 1) + width * pixel_bytes as u64 > bytes.len() as u64 {
            return None;
        }
        Some(move |x: u64, y: u64| {
            let at = (y * row) as usize + x as usize * pixel_bytes; // Within the bytes.
            let pixel = bytes.get(at..at + pixel_bytes)?;
            Some(order.map(|part| match part {
                4 => 0,
                5 => 255,
                part => read(pixel, part),
            }))
        })
    }
}

/// A PNG file with eight bits each for red, green, blue and opacity; each line begins with the number of its filter.
fn png(width: u32, height: u32, lines: &[u8]) -> Option<Vec<u8>> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |name: &[u8; 4], content: &[u8]| {
        file.extend((content.len() as u32).to_be_bytes()); // Small pictures only.
        let mut crc = flate2::Crc::new();
        crc.update(name);
        crc.update(content);
        file.extend_from_slice(name);
        file.extend_from_slice(content);
        file.extend(crc.sum().to_be_bytes());
    };
    let mut head = [width.to_be_bytes(), height.to_be_bytes()].concat();
    head.extend([8, 6, 0, 0, 0]);
    chunk(b"IHDR", &head);
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
    packer.write_all(lines).ok()?;
    chunk(b"IDAT", &packer.finish().ok()?);
    chunk(b"IEND", b"");
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixels<'a>(width: u64, height: u64, format: &'a str, kind: &'a str, bytes: &'a [u8]) -> Pixels<'a> {
        Pixels { width, height, format, kind, bytes }
    }

    /// The pixels of a picture of one line.
    fn shown(pixels: &Pixels<'_>) -> Vec<u8> {
        let (_, _, file) = pixels.picture().unwrap();
        let at = file.windows(4).position(|name| name == b"IDAT").unwrap();
        let mut lines = Vec::new();
        let mut packed = flate2::read::ZlibDecoder::new(&file[at + 4..]);
        std::io::Read::read_to_end(&mut packed, &mut lines).unwrap();
        lines[1..].to_vec()
    }

    #[test]
    fn each_format_has_its_own_order() {
        assert_eq!(shown(&pixels(1, 1, "GL_BGRA", "GL_UNSIGNED_BYTE", &[1, 2, 3, 4])), [3, 2, 1, 4]);
        assert_eq!(shown(&pixels(1, 1, "GL_RGB", "GL_UNSIGNED_BYTE", &[1, 2, 3])), [1, 2, 3, 255]);
        assert_eq!(shown(&pixels(1, 1, "GL_LUMINANCE", "GL_UNSIGNED_BYTE", &[9])), [9, 9, 9, 255]);
        assert_eq!(shown(&pixels(1, 1, "GL_RGB", "GL_UNSIGNED_SHORT_5_6_5", &[0, 0xf8])), [248, 0, 0, 255]);
        let one: Vec<u8> = [1.0f32, 0.0, f32::NAN].iter().flat_map(|part| part.to_le_bytes()).collect();
        assert_eq!(shown(&pixels(1, 1, "GL_RGB", "GL_FLOAT", &one)), [255, 0, 0, 255]);
    }

    #[test]
    fn compressed_images_have_pictures() {
        // Red on the left, blue on the right: two blocks, and two pixels of the second.
        let bytes = [[0x00, 0xf8, 0, 0, 0, 0, 0, 0], [0x1f, 0, 0, 0, 0, 0, 0, 0]].concat();
        let image = pixels(6, 1, "GL_COMPRESSED_RGB_S3TC_DXT1_EXT", "", &bytes);
        let (red, blue) = ([255, 0, 0, 255], [0, 0, 255, 255]);
        assert_eq!(shown(&image), [red, red, red, red, blue, blue].concat());
        assert!(Pixels { bytes: &bytes[..15], ..image }.picture().is_none());
        assert!(Pixels { width: 1 << 15, height: 1 << 15, ..image }.picture().is_none());
    }

    #[test]
    fn large_images_get_smaller_and_hostile_ones_have_no_picture() {
        let bytes = vec![7; 1000 * 10 * 4];
        let (width, height, _) = pixels(1000, 10, "GL_RGBA", "GL_UNSIGNED_BYTE", &bytes).picture().unwrap();
        assert_eq!((width, height), (91, 1));
        assert!(pixels(1001, 10, "GL_RGBA", "GL_UNSIGNED_BYTE", &bytes).picture().is_none());
        assert!(pixels(u64::MAX, u64::MAX, "GL_RGBA", "GL_UNSIGNED_BYTE", &bytes).picture().is_none());
        assert!(pixels(0, 1, "GL_RGBA", "GL_UNSIGNED_BYTE", &bytes).picture().is_none());
        assert!(pixels(1, 1, "GL_RGBA", "GL_INT", &bytes).picture().is_none());
    }
}
