//! Effects of a function, as far as its name shows them: draws, ends a frame, changes nothing.
//!
//! The trace does not contain this information. Patterns are tried first, then the table in `data/call-flags.tsv`.
//! SPEC: apitrace.md#how-calls-come-out.

use crate::record::{
    END_FRAME, MARKER, MARKER_POP, MARKER_PUSH, NO_SIDE_EFFECTS, RENDER, SWAP_RENDERTARGET, VERBOSE,
};
use regex_lite::Regex;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// Patterns for whole names, tried in order, with the flags for each.
const PATTERNS: &[(&str, u32)] = &[
    (r"^gl([A-Z][a-z]+)*Draw(Range|Mesh)?(Arrays|Elements)([A-Z][a-zA-Z]*)?$", RENDER),
    (
        r"^gl(CallLists?|Clear|End|DrawPixels|DrawTransformFeedback([A-Z][a-zA-Z]*)?|BlitFramebuffer|Rect[dfis]v?|EvalMesh[0-9]+)[0-9A-Z]*$",
        RENDER,
    ),
    (r"^glBindFramebuffer[0-9A-Z]*$", SWAP_RENDERTARGET),
    (r"^gl(GetFloat|GetInteger|GetVertexAttrib|GetTex(ture)?(Level)?Parameter)\w+$", NO_SIDE_EFFECTS),
    (r"^ID3D1(0Device|1DeviceContext)\d*::(Draw\w*|ExecuteCommandList)$", RENDER),
    (r"^ID3D1(0Device|1DeviceContext)\d*::OMSetRenderTargets\w*$", SWAP_RENDERTARGET),
    (r"^IDXGI(Decode)?SwapChain\w*::Present\w*$", END_FRAME),
    (r"^ID3D1[01]Device\d*::(CheckFormatSupport|CheckMultisampleQualityLevels)$", NO_SIDE_EFFECTS | VERBOSE),
];

/// The compiled patterns.
static COMPILED: LazyLock<Vec<(Regex, u32)>> = LazyLock::new(|| {
    let compile = |(pattern, flags): &(&str, u32)| Regex::new(pattern).ok().map(|regex| (regex, *flags));
    PATTERNS.iter().filter_map(compile).collect()
});

/// Flags by name, from the table.
static TABLE: LazyLock<FxHashMap<&'static str, u32>> = LazyLock::new(|| {
    let line = |line: &'static str| {
        let (name, flags) = line.split_once('\t')?;
        Some((name, flags.split(',').fold(0, |all, flag| all | flag_of(flag))))
    };
    include_str!("../data/call-flags.tsv")
        .lines()
        .filter(|text| !text.starts_with('#'))
        .filter_map(line)
        .collect()
});

fn flag_of(name: &str) -> u32 {
    match name {
        "no-side-effects" => NO_SIDE_EFFECTS,
        "render" => RENDER,
        "swap-rendertarget" => SWAP_RENDERTARGET,
        "end-frame" => END_FRAME,
        "verbose" => VERBOSE,
        "marker" => MARKER,
        "marker-push" => MARKER_PUSH,
        "marker-pop" => MARKER_POP,
        _ => 0,
    }
}

/// The flags of a function; 0 for an unknown one.
pub fn of_function(name: &[u8]) -> u32 {
    let Ok(name) = std::str::from_utf8(name) else { return 0 };
    if name.starts_with("gl") || name.starts_with("ID") {
        let hit = COMPILED.iter().find(|(regex, _)| regex.is_match(name));
        if let Some((_, flags)) = hit {
            return *flags;
        }
    }
    TABLE.get(name).copied().unwrap_or(0)
}

/// The graphics API to which the functions of a trace belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Api {
    /// No function name identifies the API.
    #[default]
    Unknown,
    /// OpenGL over GLX, WGL or CGL.
    Gl,
    /// OpenGL, OpenGL ES or OpenVG over EGL.
    Egl,
    /// Direct3D.
    Dx,
}

impl Api {
    /// The API that the name of a function identifies.
    pub fn of_function(name: &[u8]) -> Api {
        let upper_or_end = |rest: &[u8]| rest.first().is_none_or(u8::is_ascii_uppercase);
        match name {
            [b'g', b'l', b'X', ..] | [b'C', b'G', b'L', ..] => Api::Gl,
            [b'w', b'g', b'l', rest @ ..] if upper_or_end(rest) => Api::Gl,
            [b'e', b'g', b'l', rest @ ..] if upper_or_end(rest) => Api::Egl,
            _ if [b"Direct".as_slice(), b"D3D", b"Create"].iter().any(|start| name.starts_with(start)) => {
                Api::Dx
            }
            _ => Api::Unknown,
        }
    }

    /// The name in apitrace's notation.
    pub fn name(self) -> &'static str {
        match self {
            Api::Unknown => "Unknown API",
            Api::Gl => "OpenGL + GLX/WGL/CGL",
            Api::Egl => "OpenGL/GLES1/GLES2/VG + EGL",
            Api::Dx => "DirectX",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles_and_every_word_of_the_table_is_known() {
        assert_eq!(COMPILED.len(), PATTERNS.len());
        assert_eq!(TABLE.len(), 421);
        assert!(TABLE.values().all(|flags| *flags != 0));
    }

    #[test]
    fn names_tell_flags() {
        for (name, flags) in [
            ("glDrawArrays", RENDER),
            ("glMultiDrawElementsBaseVertex", RENDER),
            ("glDrawRangeElements", RENDER),
            ("glClear", RENDER),
            ("glClearColor", 0),
            ("glEnd", RENDER),
            ("glEndList", 0),
            ("glBindFramebufferEXT", SWAP_RENDERTARGET),
            ("glGetIntegerv", NO_SIDE_EFFECTS),
            ("glXSwapBuffers", END_FRAME | SWAP_RENDERTARGET),
            ("IDXGISwapChain1::Present1", END_FRAME),
            ("ID3D11DeviceContext::DrawIndexed", RENDER),
            ("ID3D11Device::CheckFormatSupport", NO_SIDE_EFFECTS | VERBOSE),
            ("nothing", 0),
        ] {
            assert_eq!(of_function(name.as_bytes()), flags, "{name}");
        }
    }

    #[test]
    fn the_first_telling_function_names_the_library() {
        for (name, api) in [
            ("glXGetProcAddress", Api::Gl),
            ("wglMakeCurrent", Api::Gl),
            ("eglGetDisplay", Api::Egl),
            ("CreateDXGIFactory1", Api::Dx),
            ("glClear", Api::Unknown),
        ] {
            assert_eq!(Api::of_function(name.as_bytes()), api, "{name}");
        }
    }
}
