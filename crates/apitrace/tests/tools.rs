//! The analyses' numbers match those counted from the text of apitrace's dump, and those counted by hand.

// The helpers of a test may panic as the test may.

use crate::common;
use quipu_apitrace::tools::TOOLS;
use quipu_apitrace::tools::calls::{CallCounts, Calls};
use quipu_apitrace::tools::frames::{FrameCounts, Frames};
use quipu_apitrace::tools::graphics::{Contents, Graphics};
use quipu_apitrace::tools::leaks::{Leaked, Leaks};
use quipu_model::doc::{Block, Cell};
use quipu_model::pass::Detail;
use quipu_model::{Given, Report, Tool};
use quipu_testkit::report_of;
use regex_lite::Regex;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A tool's report on a fixture, as JSON.
fn analyzed<R: Report + Clone>(tool: &dyn Tool, trace: &str) -> Value {
    report_of::<R>(tool, &Given::default(), &*common::open(trace)).json()
}

/// One call of a dump.
#[derive(Debug)]
struct Dumped {
    number: u64,
    function: String,
    fake: u64,
    incomplete: u64,
    blobs: u64,
    blob_bytes: u64,
    ends_frame: bool,
}

/// The calls of a text that apitrace printed.
fn dumped(text: &[u8]) -> Vec<Dumped> {
    let text = String::from_utf8_lossy(text);
    let head = Regex::new(r"^(\d+) (?:@\d+ )?(\w+(?:::\w+)*)\(").unwrap();
    let blob = Regex::new(r"blob\((\d+)\)").unwrap();
    let mut calls: Vec<Dumped> = Vec::new();
    for line in text.lines() {
        if let Some(found) = head.captures(line) {
            let (number, function) = (found[1].parse().unwrap(), found[2].to_owned());
            let (fake, incomplete, blobs, blob_bytes, ends_frame) = (0, 0, 0, 0, false);
            calls.push(Dumped { number, function, fake, incomplete, blobs, blob_bytes, ends_frame });
        }
        // A string may contain line ends.
        let Some(call) = calls.last_mut() else { continue };
        for found in blob.captures_iter(line) {
            call.blobs += 1;
            call.blob_bytes += found[1].parse::<u64>().unwrap();
        }
        call.fake |= u64::from(line.ends_with("// fake"));
        call.incomplete |= u64::from(line.ends_with("// incomplete"));
        call.ends_frame |= line.is_empty();
    }
    calls
}

/// Traces whose dump lists every call, so that the numbers can be counted in it.
const DUMPED: &[&str] =
    &["kinds", "glxgears-300", "threads-3x20", "tri", "tri_glsl", "kinds-segv-in-driver", "incomplete-call"];

#[test]
fn calls_are_counted_as_the_dump_shows_them() {
    for name in DUMPED {
        let ours = analyzed::<CallCounts>(&Calls, name);
        let mut expected: BTreeMap<String, [u64; 5]> = BTreeMap::new();
        for call in dumped(&common::golden(&format!("golden/{name}.dump-v.txt.gz"))) {
            let sums = expected.entry(call.function).or_default();
            for (sum, one) in
                sums.iter_mut().zip([1, call.incomplete, call.fake, call.blobs, call.blob_bytes])
            {
                *sum += one;
            }
        }
        let keys = ["calls", "incomplete", "fake", "blobs", "blob_bytes"];
        let sums = |of: &Value| keys.map(|key| of[key].as_u64().unwrap());
        let functions = ours["functions"].as_array().unwrap();
        let found: BTreeMap<String, [u64; 5]> =
            functions.iter().map(|of| (of["function"].as_str().unwrap().to_owned(), sums(of))).collect();
        assert_eq!(found, expected, "{name}");
        let calls: Vec<u64> = functions.iter().map(|of| of["calls"].as_u64().unwrap()).collect();
        assert!(calls.is_sorted_by(|a, b| a >= b), "{name}: {calls:?}");
        // Sums over threads and over frames equal those over functions.
        for by in ["threads", "frames"] {
            for (i, key) in keys.iter().enumerate() {
                let sum: u64 = ours[by].as_array().unwrap().iter().map(|of| of[key].as_u64().unwrap()).sum();
                assert_eq!(sum, expected.values().map(|sums| sums[i]).sum::<u64>(), "{name} {by} {key}");
            }
        }
    }
}

#[test]
fn calls_of_threads_are_those_that_the_dump_gives_them() {
    let text = common::golden("golden-cli/dump-threads2.out.gz");
    let text = String::from_utf8(text).unwrap();
    let ours = analyzed::<CallCounts>(&Calls, "threads-3x20");
    let threads: Vec<u64> =
        ours["threads"].as_array().unwrap().iter().map(|of| of["thread"].as_u64().unwrap()).collect();
    let whole: Vec<u64> =
        ours["threads"].as_array().unwrap().iter().map(|of| of["calls"].as_u64().unwrap()).collect();
    assert_eq!(threads, [0, 1, 2]);
    let expected: Vec<u64> = threads
        .iter()
        .map(|thread| {
            let head = Regex::new(&format!(r"^\d+ @{thread} \w+\(")).unwrap();
            text.lines().filter(|line| head.is_match(line)).count() as u64
        })
        .collect();
    assert_eq!(whole, expected);
}

#[test]
fn draws_are_those_that_the_original_selects() {
    let expected = dumped(&common::golden("golden-cli/dump-draw.out.gz"));
    let ours = analyzed::<CallCounts>(&Calls, "kinds");
    let functions = ours["functions"].as_array().unwrap();
    for of in functions {
        let function = of["function"].as_str().unwrap();
        let n_draws = expected.iter().filter(|call| call.function == function).count();
        assert_eq!(of["draws"], n_draws, "{function}");
    }
    let contents = analyzed::<Contents>(&Graphics, "kinds");
    let draws = contents["draws"].as_array().unwrap();
    assert_eq!(draws.iter().map(|draw| draw["calls"].as_u64().unwrap()).sum::<u64>(), expected.len() as u64);
    let frames = analyzed::<FrameCounts>(&Frames, "kinds");
    let frames = frames["frames"].as_array().unwrap();
    assert_eq!(
        frames.iter().map(|frame| frame["draws"].as_u64().unwrap()).sum::<u64>(),
        expected.len() as u64
    );
}

#[test]
fn frames_end_where_the_dump_has_an_empty_line() {
    for name in DUMPED {
        let calls = dumped(&common::golden(&format!("golden/{name}.dump-v.txt.gz")));
        let ours = analyzed::<FrameCounts>(&Frames, name);
        let mut expected = Vec::new();
        let mut open: Option<(u64, u64, u64, u64)> = None;
        for call in &calls {
            let (first, _, n, bytes) = open.unwrap_or((call.number, 0, 0, 0));
            let now = (first, call.number, n + 1, bytes + call.blob_bytes);
            open = if call.ends_frame {
                expected.push(now);
                None
            } else {
                Some(now)
            };
        }
        let parts = |of: &Value| {
            let number = |key: &str| of[key].as_u64().unwrap();
            (number("first_call"), number("last_call"), number("calls"), number("blob_bytes"))
        };
        let found = ours["frames"].as_array().unwrap();
        assert_eq!(found.iter().map(parts).collect::<Vec<_>>(), expected, "{name}");
        assert_eq!(Some(&ours["unfinished"]).filter(|of| !of.is_null()).map(parts), open, "{name}");
        let mut sizes: Vec<u64> = expected.iter().map(|frame| frame.2).collect();
        sizes.sort_unstable();
        let spread = &ours["calls_per_frame"];
        if sizes.is_empty() {
            assert!(spread.is_null(), "{name}");
        } else {
            assert_eq!(spread["least"], sizes[0], "{name}");
            assert_eq!(spread["median"], sizes[sizes.len() / 2], "{name}");
            assert_eq!(spread["most"], sizes[sizes.len() - 1], "{name}");
        }
    }
}

/// Compares with `SizeInBytes` in the output of `apitrace info --dump-frames` (apitrace 11.1).
#[test]
fn frames_take_bytes_of_the_stream_as_the_original_says() {
    for (name, expected) in [("tri_glsl", &[296441, 80611][..]), ("kinds", &[127998, 551, 551, 551, 551])] {
        let ours = analyzed::<FrameCounts>(&Frames, name);
        let frames = ours["frames"].as_array().unwrap();
        let bytes: Vec<u64> = frames.iter().map(|frame| frame["stream_bytes"].as_u64().unwrap()).collect();
        assert_eq!(bytes, expected, "{name}");
    }
}

/// The expected values were read off the dump of `kinds` by eye.
#[test]
fn contents_of_a_trace_are_what_its_calls_say() {
    let ours = analyzed::<Contents>(&Graphics, "kinds");
    assert_eq!(ours["api"], "OpenGL + GLX/WGL/CGL");
    let upload = |call: u64, function: &str, target: &str, size: &str, format: &str, bytes: u64| {
        json!({
            "call": call, "function": function, "target": target, "size": size, "format": format, "bytes": bytes,
        })
    };
    assert_eq!(
        ours["textures"],
        json!({ "calls": 2, "bytes": 17408, "largest": [
            upload(12, "glTexImage2D", "GL_TEXTURE_2D", "64 × 64", "GL_RGBA GL_UNSIGNED_BYTE", 16384),
            upload(16, "glTexSubImage2D", "GL_TEXTURE_2D", "16 × 16", "GL_BGRA GL_UNSIGNED_BYTE", 1024),
        ] })
    );
    assert_eq!(
        ours["buffers"],
        json!({ "calls": 3, "bytes": 58, "largest": [
            upload(24, "glBufferData", "GL_ARRAY_BUFFER", "", "GL_STATIC_DRAW", 48),
            upload(32, "glBufferData", "GL_ELEMENT_ARRAY_BUFFER", "", "GL_DYNAMIC_DRAW", 6),
            upload(33, "glBufferSubData", "GL_ELEMENT_ARRAY_BUFFER", "", "", 4),
        ] })
    );
    let shaders = ours["shaders"]["listed"].as_array().unwrap();
    assert_eq!(ours["shaders"]["sources"], 3);
    assert_eq!(
        shaders.iter().map(|of| (&of["call"], &of["shader"])).collect::<Vec<_>>(),
        [(&json!(36), &json!(2)), (&json!(41), &json!(3)), (&json!(46), &json!(4)),]
    );
    assert_eq!(shaders[2]["text"], "// part one\n// part two");
    let error =
        json!({ "function": "glGetError", "result": "GL_INVALID_VALUE", "times": 1, "first_call": 90 });
    assert_eq!(ours["errors"], json!([error]));
    assert_eq!(ours["incomplete"], json!({ "calls": 0, "listed": [] }));
}

#[test]
fn calls_that_never_returned_are_listed_and_shaders_that_do_not_compile_are_errors() {
    let ours = analyzed::<Contents>(&Graphics, "incomplete-call");
    let open = json!({ "call": 7, "function": "glGetIntegerv", "thread": 0 });
    assert_eq!(ours["incomplete"], json!({ "calls": 1, "listed": [open] }));
    let trace = common::written(
        "function 0 glGetShaderiv(shader, pname, params)\n\
         enum 0 { GL_COMPILE_STATUS = 35713 }\n\
         function 1 glGetProgramiv(program, pname, params)\n\
         enum 1 { GL_LINK_STATUS = 35714 }\n\
         function 2 glCheckFramebufferStatus(target)\n\
         enum 2 { GL_FRAMEBUFFER_UNSUPPORTED = 36061 }\n\
         0: glGetShaderiv(shader = 1, pname = GL_COMPILE_STATUS) -> (params = [1])\n\
         1: glGetShaderiv(shader = 2, pname = GL_COMPILE_STATUS) -> (params = [0])\n\
         2: glGetShaderiv(shader = 3, pname = GL_COMPILE_STATUS) -> (params = [0])\n\
         3: glGetProgramiv(program = 4, pname = GL_LINK_STATUS) -> (params = [0])\n\
         4: glCheckFramebufferStatus(target = 36160) = GL_FRAMEBUFFER_UNSUPPORTED\n",
    );
    let ours = report_of::<Contents>(&Graphics, &Given::default(), &trace).json();
    let trouble = |function: &str, result: &str, times: u64, first_call: u64| {
        json!({
            "function": function, "result": result, "times": times, "first_call": first_call,
        })
    };
    assert_eq!(
        ours["errors"],
        json!([
            trouble("glCheckFramebufferStatus", "GL_FRAMEBUFFER_UNSUPPORTED", 1, 4),
            trouble("glGetProgramiv", "GL_LINK_STATUS = 0", 1, 3),
            trouble("glGetShaderiv", "GL_COMPILE_STATUS = 0", 2, 1),
        ])
    );
}

#[test]
fn leaks_are_those_of_the_original_and_of_the_kinds_that_it_does_not_know() {
    let ours = analyzed::<Leaked>(&Leaks, "kinds");
    let leaks = ours["leaks"].as_array().unwrap();
    let mut known = String::new();
    for leak in leaks.iter().filter(|leak| leak["kind"] == "texture" || leak["kind"] == "buffer") {
        let (call, kind) = (&leak["made_by"], leak["kind"].as_str().unwrap());
        assert!(leak["until"].is_null());
        known += &format!("{call}: error: {kind} {} was not destroyed until <EOF>\n", leak["name"]);
    }
    let golden = String::from_utf8(common::golden("golden-cli/leaks-kinds.err")).unwrap();
    assert_eq!(Some((&*known, "0\n")), golden.rsplit_once("rc "));
    // The rest was read off the dump by eye.
    let rest: Vec<_> = leaks
        .iter()
        .filter(|leak| !matches!(leak["kind"].as_str(), Some("texture" | "buffer" | "context")))
        .map(|leak| {
            (
                leak["kind"].as_str().unwrap(),
                leak["name"].as_u64().unwrap(),
                leak["made_by"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        rest,
        [
            ("program", 1, 34),
            ("shader", 2, 35),
            ("shader", 3, 40),
            ("framebuffer", 1, 79),
            ("display list", 1, 113),
        ]
    );
    assert!(leaks.iter().all(|leak| leak["context"] == "0x55c32fe4f3d0"));
    let census = |kind: &str| {
        let kinds = ours["kinds"].as_array().unwrap();
        let of = kinds.iter().find(|of| of["kind"] == kind).unwrap();
        ["made", "destroyed", "most", "leaked"].map(|key| of[key].as_u64().unwrap())
    };
    assert_eq!(census("shader"), [3, 1, 3, 2]);
    assert_eq!(census("sync"), [1, 1, 1, 0]);
    assert_eq!(census("context"), [1, 0, 1, 1]);
}

/// Three contexts: 0xb shares with 0xa, 0xc shares with none.
const CONTEXTS: &str = "\
    function 0 glXCreateContext(dpy, vis, shareList, direct)\n\
    function 1 glXMakeCurrent(dpy, drawable, ctx)\n\
    function 2 glXDestroyContext(dpy, ctx)\n\
    function 3 glGenTextures(n, textures)\n\
    function 4 glDeleteTextures(n, textures)\n\
    function 5 glGenFramebuffers(n, framebuffers)\n\
    0: glXCreateContext(dpy = 0x1, vis = null, shareList = null, direct = true) = 0xa\n\
    1: glXCreateContext(dpy = 0x1, vis = null, shareList = 0xa, direct = true) = 0xb\n\
    2: glXCreateContext(dpy = 0x1, vis = null, shareList = null, direct = true) = 0xc\n\
    3: glXMakeCurrent(dpy = 0x1, drawable = 1, ctx = 0xa) = true\n\
    4: glGenTextures(n = 2) -> (textures = [1, 2])\n\
    5: glGenFramebuffers(n = 1) -> (framebuffers = [1])\n\
    6: glXMakeCurrent(dpy = 0x1, drawable = 1, ctx = 0xc) = true\n\
    7: glDeleteTextures(n = 1, textures = [1])\n\
    8: glGenTextures(n = 1) -> (textures = [1])\n\
    9: @1 glXMakeCurrent(dpy = 0x1, drawable = 1, ctx = 0xb) = true\n\
    10: @1 glDeleteTextures(n = 1, textures = [1])\n\
    11: @1 glGenFramebuffers(n = 1) -> (framebuffers = [1])\n";

fn leaks(text: &str) -> Vec<(String, u64, String, u64, Option<u64>)> {
    let ours = report_of::<Leaked>(&Leaks, &Given::default(), &common::written(text)).json();
    let leak = |leak: &Value| {
        let text = |key: &str| leak[key].as_str().unwrap().to_owned();
        let number = |key: &str| leak[key].as_u64();
        (text("kind"), number("name").unwrap(), text("context"), number("made_by").unwrap(), number("until"))
    };
    ours["leaks"].as_array().unwrap().iter().map(leak).collect()
}

fn leak(
    kind: &str,
    name: u64,
    context: u64,
    made_by: u64,
    until: Option<u64>,
) -> (String, u64, String, u64, Option<u64>) {
    (kind.to_owned(), name, format!("{context:#x}"), made_by, until)
}

#[test]
fn contexts_that_share_have_one_set_of_textures_and_framebuffers_of_their_own() {
    assert_eq!(
        leaks(CONTEXTS),
        [
            leak("context", 0xa, 0xa, 0, None),
            leak("context", 0xb, 0xb, 1, None),
            leak("context", 0xc, 0xc, 2, None),
            // Texture 1 is deleted in the context that shares it, not in the other that has a texture 1 too.
            leak("texture", 2, 0xa, 4, None),
            leak("framebuffer", 1, 0xa, 5, None),
            leak("texture", 1, 0xc, 8, None),
            leak("framebuffer", 1, 0xb, 11, None),
        ]
    );
}

#[test]
fn what_belongs_to_a_context_is_gone_with_it_and_what_is_shared_with_the_last() {
    let text = format!(
        "{CONTEXTS}\
         12: glXDestroyContext(dpy = 0x1, ctx = 0xa)\n\
         13: glXDestroyContext(dpy = 0x1, ctx = 0xb)\n"
    );
    assert_eq!(
        leaks(&text),
        [
            leak("context", 0xc, 0xc, 2, None),
            leak("texture", 2, 0xa, 4, Some(13)),
            leak("framebuffer", 1, 0xa, 5, Some(12)),
            leak("texture", 1, 0xc, 8, None),
            leak("framebuffer", 1, 0xb, 11, Some(13)),
        ]
    );
}

#[test]
fn lists_can_be_shared_after_contexts_were_made() {
    let text = "\
        function 0 wglCreateContext(hdc)\n\
        function 1 wglShareLists(hglrc1, hglrc2)\n\
        function 2 wglMakeCurrent(hdc, hglrc)\n\
        function 3 glGenBuffers(n, buffers)\n\
        function 4 glDeleteBuffers(n, buffers)\n\
        0: wglCreateContext(hdc = 0x1) = 0xa\n\
        1: wglCreateContext(hdc = 0x1) = 0xb\n\
        2: wglShareLists(hglrc1 = 0xa, hglrc2 = 0xb) = 1\n\
        3: wglMakeCurrent(hdc = 0x1, hglrc = 0xb) = 1\n\
        4: glGenBuffers(n = 1) -> (buffers = [7])\n\
        5: wglMakeCurrent(hdc = 0x1, hglrc = 0xa) = 1\n\
        6: glDeleteBuffers(n = 1, buffers = [7])\n";
    assert_eq!(leaks(text), [leak("context", 0xa, 0xa, 0, None), leak("context", 0xb, 0xb, 1, None)]);
}

#[test]
fn reports_do_not_depend_on_threads_or_batches() {
    for name in ["kinds", "threads-3x20", "incomplete-call"] {
        let trace = common::open(name);
        for tool in TOOLS {
            quipu_testkit::same_report_for_any_threads(&*trace, *tool);
        }
    }
}

#[test]
fn sizes_below_zero_are_shown_so() {
    let text = "function 0 glTexImage2D(width, height, pixels)\n\
        glTexImage2D(width = -2, height = 2, pixels = hex \"01020304\")\n";
    let ours = report_of::<Contents>(&Graphics, &Given::default(), &common::written(text)).json();
    assert_eq!(ours["textures"]["largest"][0]["size"], "-2 × 2");
}

/// The calls of a frame on a page, and the calls that the frame has.
#[test]
fn frames_with_most_calls_list_the_functions_that_they_call() {
    for (trace, n_shown) in [("kinds", 5), ("glxgears-300", 24)] {
        let report = report_of::<FrameCounts>(&Frames, &Given::default(), &*common::open(trace));
        let document = Report::document(&report, Detail::Full);
        let folds = document.blocks.iter().find_map(|block| match block {
            Block::Folds(folds) => Some(folds),
            _ => None,
        });
        let folds = folds.unwrap();
        assert_eq!((folds.whole, folds.folds.len()), (report.frames.len() as u64, n_shown), "{trace}");
        let mut shown: Vec<u64> = Vec::new();
        for fold in &folds.folds {
            let frame = report.frames[fold.at as usize].calls;
            assert_eq!(fold.covers, frame.first_call..=frame.last_call);
            let Some(Block::Grid(grid)) = fold.blocks.last() else { panic!("{fold:?}") };
            let calls = grid.rows.iter().map(|row| match row[1] {
                Cell::Count(calls) => calls,
                _ => panic!("{row:?}"),
            });
            assert_eq!(calls.sum::<u64>(), frame.calls, "frame {} of {trace}", fold.at);
            shown.push(frame.calls);
        }
        // No other frame has more calls than the smallest of these.
        let least = shown.iter().min().unwrap();
        let larger = report.frames.iter().filter(|frame| frame.calls.calls > *least).count();
        assert!(larger <= n_shown, "{larger} of {trace}");
    }
}
