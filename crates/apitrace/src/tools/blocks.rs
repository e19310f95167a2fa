//! Decodes blocks of compressed textures into pixels: S3TC (DXT1, DXT3, DXT5), RGTC and LATC.
//!
//! A block covers four by four pixels: it has the two ends of a ramp, and for each pixel the number of a step on the ramp.
//! Ramps of colours have four steps, those of single components eight.

/// Number of pixels along each side of a block.
const SIDE: u64 = 4;

/// The layout of a format's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// A ramp of colours. If its ends are in the opposite order, the last step is black, and transparent if `has_holes`.
    Colors { has_holes: bool },
    /// Four bits of opacity for each pixel, then a ramp of colours.
    Opacities,
    /// A ramp of opacity, then one of colours.
    OpacityRamp,
    /// A ramp of one component, signed or not.
    One { is_signed: bool },
    /// Two such ramps: red and green.
    Two { is_signed: bool },
    /// Two such ramps: brightness and opacity.
    Bright { is_signed: bool },
}

impl Blocks {
    /// The blocks of the format with this OpenGL name; `None` if it is not supported.
    pub(crate) fn of(format: &str) -> Option<Blocks> {
        let name = format.strip_prefix("GL_COMPRESSED_")?;
        let name = name.strip_suffix("_EXT").or_else(|| name.strip_suffix("_ANGLE")).unwrap_or(name);
        Some(match name {
            "RGB_S3TC_DXT1" | "SRGB_S3TC_DXT1" => Blocks::Colors { has_holes: false },
            "RGBA_S3TC_DXT1" | "SRGB_ALPHA_S3TC_DXT1" => Blocks::Colors { has_holes: true },
            "RGBA_S3TC_DXT3" | "SRGB_ALPHA_S3TC_DXT3" => Blocks::Opacities,
            "RGBA_S3TC_DXT5" | "SRGB_ALPHA_S3TC_DXT5" => Blocks::OpacityRamp,
            "RED_RGTC1" | "LUMINANCE_LATC1" => Blocks::One { is_signed: false },
            "SIGNED_RED_RGTC1" | "SIGNED_LUMINANCE_LATC1" => Blocks::One { is_signed: true },
            "RG_RGTC2" | "RED_GREEN_RGTC2" => Blocks::Two { is_signed: false },
            "SIGNED_RG_RGTC2" | "SIGNED_RED_GREEN_RGTC2" => Blocks::Two { is_signed: true },
            "LUMINANCE_ALPHA_LATC2" => Blocks::Bright { is_signed: false },
            "SIGNED_LUMINANCE_ALPHA_LATC2" => Blocks::Bright { is_signed: true },
            _ => return None,
        })
    }

    /// Size of a block in bytes.
    fn size(self) -> u64 {
        match self {
            Blocks::Colors { .. } | Blocks::One { .. } => 8,
            _ => 16,
        }
    }

    /// Size in bytes of an image with these dimensions in pixels; `None` on overflow.
    pub(crate) fn image_bytes(self, width: u64, height: u64) -> Option<u64> {
        width.div_ceil(SIDE).checked_mul(height.div_ceil(SIDE))?.checked_mul(self.size())
    }

    /// Red, green, blue and opacity of a pixel in an image of the given width. `None` if the image ends before it.
    pub(crate) fn pixel(self, bytes: &[u8], width: u64, x: u64, y: u64) -> Option<[u8; 4]> {
        let block = (y / SIDE).checked_mul(width.div_ceil(SIDE))?.checked_add(x / SIDE)?;
        let start = usize::try_from(block.checked_mul(self.size())?).ok()?;
        let (first, rest) = bytes.get(start..)?.split_first_chunk::<8>()?;
        let second = || rest.first_chunk::<8>();
        let at = (y % SIDE * SIDE + x % SIDE) as u32; // At most 15.
        Some(match self {
            Blocks::Colors { has_holes } => {
                let (color, is_hole) = color(first, at, true);
                with_opacity(color, if is_hole && has_holes { 0 } else { 255 })
            }
            Blocks::Opacities => {
                let opacity = (u64::from_le_bytes(*first) >> (4 * at) & 15) as u8 * 17;
                with_opacity(color(second()?, at, false).0, opacity)
            }
            Blocks::OpacityRamp => with_opacity(color(second()?, at, false).0, component(first, at, false)),
            Blocks::One { is_signed } => {
                let value = component(first, at, is_signed);
                [value, value, value, 255]
            }
            Blocks::Two { is_signed } => {
                [component(first, at, is_signed), component(second()?, at, is_signed), 0, 255]
            }
            Blocks::Bright { is_signed } => {
                let value = component(first, at, is_signed);
                [value, value, value, component(second()?, at, is_signed)]
            }
        })
    }
}

fn with_opacity([red, green, blue]: [u8; 3], opacity: u8) -> [u8; 4] {
    [red, green, blue, opacity]
}

/// A pixel's colour, and whether it is a hole. Blocks with separate opacity have no holes.
fn color(block: &[u8; 8], at: u32, may_have_hole: bool) -> ([u8; 3], bool) {
    let [a, b, c, d, steps @ ..] = *block;
    let ends = [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])];
    let step = u32::from_le_bytes(steps) >> (2 * at) & 3;
    let [first, last] = ends.map(|bits| {
        // The upper bits fill the lower ones, so that white is white.
        let wide = |value: u16, n_bits: u32| (value << (8 - n_bits) | value >> (2 * n_bits - 8)) as u8;
        [wide(bits >> 11, 5), wide(bits >> 5 & 63, 6), wide(bits & 31, 5)]
    });
    let mix = |first_parts: u16, last_parts: u16| {
        let parts = first_parts + last_parts;
        std::array::from_fn(|i| {
            ((u16::from(first[i]) * first_parts + u16::from(last[i]) * last_parts) / parts) as u8
        })
    };
    let is_short = may_have_hole && ends[0] <= ends[1];
    match step {
        0 => (first, false),
        1 => (last, false),
        2 if is_short => (mix(1, 1), false),
        _ if is_short => ([0; 3], true),
        2 => (mix(2, 1), false),
        _ => (mix(1, 2), false),
    }
}

/// A pixel's value of one component. If signed, -1 is black and 1 is white.
fn component(block: &[u8; 8], at: u32, is_signed: bool) -> u8 {
    let [first, last, ..] = *block;
    let step = (u64::from_le_bytes(*block) >> (16 + 3 * at) & 7) as i32;
    let wide = |end: u8| if is_signed { i32::from(end.cast_signed().max(-127)) } else { i32::from(end) };
    let (least, most) = if is_signed { (-127, 127) } else { (0, 255) };
    let (first, last) = (wide(first), wide(last));
    let value = match step {
        0 => first,
        1 => last,
        step if first > last => (first * (8 - step) + last * (step - 1)) / 7,
        6 => least,
        7 => most,
        step => (first * (6 - step) + last * (step - 1)) / 5,
    };
    if is_signed { ((value + 127) * 255 / 254) as u8 } else { value as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixel(format: &str, bytes: &[u8], x: u64, y: u64) -> [u8; 4] {
        Blocks::of(format).unwrap().pixel(bytes, 4, x, y).unwrap()
    }

    #[test]
    fn steps_lie_between_the_ends_of_a_ramp() {
        // From red to blue; the first four pixels are the four steps.
        let block = [0x00, 0xf8, 0x1f, 0x00, 0b11_10_01_00, 0, 0, 0];
        let shown = |format| [0, 1, 2, 3].map(|x| pixel(format, &block, x, 0));
        let expected = [[255, 0, 0, 255], [0, 0, 255, 255], [170, 0, 85, 255], [85, 0, 170, 255]];
        assert_eq!(shown("GL_COMPRESSED_RGB_S3TC_DXT1_EXT"), expected);
        assert_eq!(shown("GL_COMPRESSED_SRGB_ALPHA_S3TC_DXT1_EXT"), expected);
    }

    #[test]
    fn ends_the_other_way_round_have_a_hole() {
        let block = [0x1f, 0x00, 0x00, 0xf8, 0, 0b11_10_01_00, 0, 0];
        let shown = |format| [0, 1, 2, 3].map(|x| pixel(format, &block, x, 1));
        let mut expected = [[0, 0, 255, 255], [255, 0, 0, 255], [127, 0, 127, 255], [0, 0, 0, 0]];
        assert_eq!(shown("GL_COMPRESSED_RGBA_S3TC_DXT1_EXT"), expected);
        expected[3][3] = 255;
        assert_eq!(shown("GL_COMPRESSED_RGB_S3TC_DXT1_EXT"), expected);
    }

    #[test]
    fn opacity_has_bits_or_a_ramp_of_its_own() {
        let color = [0x1f, 0x00, 0x00, 0xf8, 0b11_10_01_00, 0, 0, 0];
        let bits = [[0xf0, 0x84, 0, 0, 0, 0, 0, 0], color].concat();
        // With separate opacity there are no holes: the order of the ends does not matter.
        let shown = [0, 1, 2, 3].map(|x| pixel("GL_COMPRESSED_RGBA_S3TC_DXT3_EXT", &bits, x, 0));
        assert_eq!(shown, [[0, 0, 255, 0], [255, 0, 0, 255], [85, 0, 170, 68], [170, 0, 85, 136]]);
        // Steps 0, 1, 2 and 7 of a ramp down from 240 to 30, and of one up from 30 to 240.
        let steps = [0b10_001_000, 0b0000_1110, 0, 0, 0, 0];
        let ramp = |ends: [u8; 2]| [&ends[..], &steps, &color].concat();
        let opacities =
            |bytes: &[u8]| [0, 1, 2, 3].map(|x| pixel("GL_COMPRESSED_RGBA_S3TC_DXT5_EXT", bytes, x, 0)[3]);
        assert_eq!(opacities(&ramp([240, 30])), [240, 30, 210, 60]);
        assert_eq!(opacities(&ramp([30, 240])), [30, 240, 72, 255]);
    }

    #[test]
    fn single_components_may_have_a_sign() {
        let one = [0x81, 0x7f, 0b10_001_000, 0, 0, 0, 0, 0];
        let shown = |format, bytes: &[u8]| [0, 1].map(|x| pixel(format, bytes, x, 0));
        let red = "GL_COMPRESSED_SIGNED_RED_RGTC1";
        assert_eq!(shown(red, &one), [[0, 0, 0, 255], [255, 255, 255, 255]]);
        assert_eq!(shown("GL_COMPRESSED_RED_RGTC1", &one)[0], [129, 129, 129, 255]);
        let two = [one, [9, 7, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(shown("GL_COMPRESSED_RG_RGTC2", &two), [[129, 9, 0, 255], [127, 9, 0, 255]]);
    }

    #[test]
    fn images_that_end_too_early_have_no_pixel() {
        let blocks = Blocks::of("GL_COMPRESSED_RGBA_S3TC_DXT5_EXT").unwrap();
        assert_eq!(blocks.image_bytes(5, 4), Some(32));
        assert_eq!(blocks.image_bytes(u64::MAX, u64::MAX), None);
        assert_eq!(blocks.pixel(&[0; 31], 5, 4, 0), None);
        assert_eq!(blocks.pixel(&[0; 31], u64::MAX, u64::MAX, u64::MAX), None);
        assert_eq!(Blocks::of("GL_COMPRESSED_RGBA_ASTC_4x4_KHR"), None);
        assert_eq!(Blocks::of("GL_RGBA"), None);
    }
}
