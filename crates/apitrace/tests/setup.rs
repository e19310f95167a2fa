//! `trim --setup`: all objects that kept calls use are created, and unneeded calls are dropped.

// The helpers of a test may panic as the test may.

use crate::common;
use quipu_apitrace::callset::CallSet;
use quipu_apitrace::edits::trim::{Chooser, Selection};
use quipu_apitrace::edits::{rewrite, setup};
use quipu_apitrace::objects::{Class, roles};
use quipu_apitrace::reader::CallReader;
use quipu_apitrace::text::assemble;
use quipu_apitrace::trace::{self, ApiTrace};
use quipu_apitrace::write::WriteOptions;
use quipu_model::transform::Silent;
use quipu_model::values::{Kind, NO_NODE};
use quipu_model::{Error, OpenOptions, Paint, Reader, Scan, ShardId};
use quipu_source::Source;
use std::collections::{BTreeMap, BTreeSet};

fn frames(text: &str) -> Selection {
    let mut set = CallSet::default();
    set.add(text).unwrap();
    Selection { frames: Some(set), ..Selection::all() }
}

/// A trace with the chosen calls and those that they need.
fn trimmed(trace: &ApiTrace, selection: Selection) -> ApiTrace {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trimmed");
    let mut needed = setup::needed(trace, Chooser::new(selection), &Silent).unwrap();
    rewrite(trace, trace.header(), &path, &WriteOptions::USUAL, &mut needed, &Silent).unwrap();
    let source = Source::from_bytes("trimmed", std::fs::read(&path).unwrap());
    trace::open(&source, &OpenOptions::default()).unwrap()
}

fn open(name: &str) -> ApiTrace {
    trace::open(&common::source(name), &OpenOptions::default()).unwrap()
}

/// The name of an object: its kind and number.
type Name = (Class, u64);
type Names = BTreeSet<Name>;

/// Names of objects that calls create, and of those that calls use before they are created.
fn names(trace: &ApiTrace) -> (Names, BTreeMap<Name, String>) {
    let (mut made, mut missing) = (BTreeSet::new(), BTreeMap::new());
    let mut reader = CallReader::new(trace.container(), &Scan::new(ShardId(0))).unwrap();
    while let Some(batch) = reader.read().unwrap() {
        let values = &batch.values;
        for call in &values.calls {
            let function = batch.types.function(call.function).unwrap();
            let name = String::from_utf8_lossy(&function.name).into_owned();
            let roles = roles(function);
            let numbers = |root: u32| {
                let nodes = (root..values.behind(root)).map(|at| values.node(at));
                nodes.filter(|node| node.kind == Kind::Unsigned).map(|node| node.payload).collect::<Vec<_>>()
            };
            let number = |name: &str| {
                let index = function.args.iter().position(|arg| arg == name.as_bytes())?;
                let arg = values.args_of(call).iter().find(|arg| arg.index as usize == index)?;
                Some(values.node(arg.node).bits())
            };
            for arg in values.args_of(call) {
                let Some(class) = roles.args.get(arg.index as usize).copied().flatten() else { continue };
                for number in numbers(arg.node).into_iter().filter(|number| *number != 0) {
                    if roles.generates {
                        made.insert((class, number));
                    } else if !made.contains(&(class, number)) {
                        missing.insert((class, number), format!("{} {name}", call.number));
                    }
                }
            }
            if let Some(class) = roles.result
                && call.result != NO_NODE
            {
                let first = values.node(call.result).bits();
                let n = if name == "glGenLists" { number("range").unwrap_or(1) } else { 1 };
                made.extend((first..first + n).map(|name| (class, name)));
            }
        }
    }
    (made, missing)
}

#[test]
fn all_objects_that_kept_calls_use_are_made_in_the_trimmed_trace() {
    for (name, sets) in [
        ("kinds", &["0", "1", "2", "3", "4", "1-2"][..]),
        ("glxgears-300", &["0", "5", "150", "299", "10-12"]),
        ("tri_glsl", &["0", "1"]),
        ("threads-3x20", &["0", "30", "59"]),
        ("kinds-backtrace", &["1", "2"]),
        ("tri", &["0"]),
    ] {
        let whole = open(name);
        let before = names(&whole).1;
        for set in sets {
            let part = trimmed(&whole, frames(set));
            let mut missing = names(&part).1;
            // Windows are created by the window system, and a trace may use names that it never created.
            missing.retain(|(class, name), _| {
                *class != Class::Drawable && !before.contains_key(&(*class, *name))
            });
            assert!(missing.is_empty(), "{name}, frames {set}: {missing:?}");
        }
    }
}

fn dumped(trace: &ApiTrace) -> Vec<String> {
    let settings = [("call-nos".to_owned(), "no".to_owned()), ("multiline".to_owned(), "no".to_owned())];
    let out = common::dump(trace, &common::options(true, &settings), &Paint::PLAIN);
    String::from_utf8(out)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .filter(|line| !line.starts_with("//"))
        .collect()
}

#[test]
fn the_chosen_frames_are_there_whole() {
    for name in ["glxgears-300", "threads-3x20", "kinds", "tri_glsl"] {
        let whole = open(name);
        let last = common::dump(&whole, &common::options(true, &[]), &Paint::PLAIN);
        assert!(!last.is_empty());
        let all = dumped(&whole);
        let part = dumped(&trimmed(&whole, frames("1")));
        let plain = {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("plain");
            let mut chooser = Chooser::new(frames("1"));
            rewrite(&whole, whole.header(), &path, &WriteOptions::USUAL, &mut chooser, &Silent).unwrap();
            let source = Source::from_bytes("plain", std::fs::read(&path).unwrap());
            dumped(&trace::open(&source, &OpenOptions::default()).unwrap())
        };
        assert!(part.ends_with(&plain), "{name}");
        // The kept calls are in their order, without repetitions.
        let mut rest = all.iter();
        assert!(part.iter().all(|line| rest.any(|other| other == line)), "{name}");
    }
}

#[test]
fn frames_of_gears_need_their_lists_and_little_more() {
    let whole = open("glxgears-300");
    let part = dumped(&trimmed(&whole, frames("200")));
    let count = |start: &str| part.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!(count("glNewList"), 3);
    assert_eq!(count("glEndList"), 3);
    assert_eq!(count("glXSwapBuffers"), 1);
    assert_eq!(count("glClear("), 1);
    assert_eq!(count("glPushMatrix"), count("glPopMatrix"));
    // The contents of earlier frames are dropped, except for one that may set the same state as lists do.
    assert!(count("glCallList(") <= 6, "{}", count("glCallList("));
    let first = dumped(&trimmed(&whole, frames("0")));
    assert!(part.len() <= first.len() + 10, "{} {}", part.len(), first.len());
}

/// A trace made of these calls, one a line.
fn written(calls: &str) -> ApiTrace {
    let text = format!(
        "quipu-text apitrace 1
version 6 semantic 6 property \"a\" = \"b\"
function 1 glXCreateContext(dpy, shareList)
function 2 glXMakeCurrent(dpy, drawable, ctx)
function 3 glXSwapBuffers(dpy, drawable)
function 10 glGenTextures(n, textures)
function 11 glBindTexture(target, texture)
function 12 glTexImage2D(target, level, pixels)
function 13 glTexSubImage2D(target, level, pixels)
function 14 glDeleteTextures(n, textures)
function 20 glGenFramebuffers(n, framebuffers)
function 21 glBindFramebuffer(target, framebuffer)
function 22 glFramebufferTexture2D(target, attachment, textarget, texture, level)
function 30 glDrawArrays(mode, first, count)
function 31 glClear(mask)
function 32 glEnable(cap)
function 33 glDisable(cap)
function 34 glColor3f(red, green, blue)
function 35 glMatrixMode(mode)
function 36 glLoadIdentity()
function 37 glPushMatrix()
function 38 glPopMatrix()
function 39 glTranslatef(x, y, z)
function 40 glCreateProgram()
function 41 glCreateShader(type)
function 42 glShaderSource(shader, count, string)
function 43 glAttachShader(program, shader)
function 44 glLinkProgram(program)
function 45 glUseProgram(program)
function 46 glUniform1f(location, v0)
function 47 glGetUniformLocation(program, name)
function 50 glGenBuffers(n, buffers)
function 51 glBindBuffer(target, buffer)
function 52 glBufferData(target, data)
function 53 glVertexAttribPointer(index, pointer)
function 54 glEnableVertexAttribArray(index)
function 60 glDispatchCompute(x)
function 61 glGetError()
function 62 glFooUnknown(bar)
function 63 glXDestroyContext(dpy, ctx)
function 64 glXCreateContextAttribsARB(dpy, config, share_context, direct)
function 65 eglCreateContext(dpy, config, share_context)
function 66 eglMakeCurrent(dpy, draw, read, ctx)
function 67 wglCreateContext(hdc)
function 68 wglShareLists(hglrc1, hglrc2)
function 69 wglMakeCurrent(hdc, hglrc)
function 70 glDisableVertexAttribArray(index)
function 71 glGenVertexArrays(n, arrays)
function 72 glBindVertexArray(array)
function 73 glBindTextures(first, count, textures)
function 74 glTextureSubImage2D(texture, level, pixels)
function 75 glGenProgramPipelines(n, pipelines)
function 76 glUseProgramStages(pipeline, stages, program)
function 77 glActiveShaderProgram(pipeline, program)
function 78 glBindProgramPipeline(pipeline)
function 79 glProgramUniform1f(program, location, v0)
function 80 glNamedFramebufferTexture(framebuffer, attachment, texture, level)
function 81 glBlitFramebuffer(mask)
function 82 glGetBufferParameteriv(target)
function 83 glXGetFBConfigAttrib(dpy, config, attribute, value)
glXCreateContext(dpy = 0x10000, shareList = null) = 0x20000
glXMakeCurrent(dpy = 0x10000, drawable = 1, ctx = 0x20000)
{calls}"
    );
    let mut stream = Vec::new();
    let mut no_blobs = |_: &str| Err(Error::usage("there are no files"));
    let done = assemble::stream(text.as_bytes(), "text", &mut no_blobs, &mut |part| {
        stream.extend_from_slice(part);
        Ok(())
    });
    if let Err(error) = done {
        panic!("{error}");
    }
    trace::open(&Source::from_bytes("written", stream), &OpenOptions::default()).unwrap()
}

const SWAP: &str = "glXSwapBuffers(dpy = 0x10000, drawable = 1)\n";
const DRAW: &str = "glDrawArrays(mode = 4, first = 0, count = 3)\n";

/// Checks which lines of the first frame are kept for the second; `*` marks the kept ones.
fn check(first: &str, second: &str) {
    let strip = |text: &str| -> String {
        text.lines().map(|line| line.trim().trim_start_matches("* ").to_owned() + "\n").collect()
    };
    let trace = written(&format!("{}{SWAP}{}{SWAP}", strip(first), strip(second)));
    let part = trimmed(&trace, frames("1"));
    let kept = dumped(&part);
    // In the form of a dump, for comparison.
    let marked: String = first
        .lines()
        .filter(|line| line.trim().starts_with("* "))
        .map(|line| line.trim().trim_start_matches("* ").to_owned() + "\n")
        .collect();
    let expected = dumped(&written(&format!("{marked}{}{SWAP}", strip(second))));
    assert_eq!(kept, expected, "{first}");
}

#[test]
fn textures_that_are_used_are_made_and_filled() {
    check(
        "* glGenTextures(n = 2, textures = [1, 2])
         * glBindTexture(target = 3553, texture = 1)
           glTexImage2D(target = 3553, level = 0, pixels = hex \"00\")
         * glTexImage2D(target = 3553, level = 0, pixels = hex \"01\")
         * glTexSubImage2D(target = 3553, level = 0, pixels = hex \"02\")
           glBindTexture(target = 3553, texture = 2)
           glTexImage2D(target = 3553, level = 0, pixels = hex \"03\")
           glDrawArrays(mode = 4, first = 0, count = 3)
           glGetError() = 0",
        "glBindTexture(target = 3553, texture = 1)
         glDrawArrays(mode = 4, first = 0, count = 3)",
    );
}

#[test]
fn what_is_still_bound_is_bound_again() {
    check(
        "* glGenTextures(n = 1, textures = [1])
         * glBindTexture(target = 3553, texture = 1)
         * glTexImage2D(target = 3553, level = 0, pixels = hex \"01\")
           glDrawArrays(mode = 4, first = 0, count = 3)",
        DRAW,
    );
}

#[test]
fn pixels_that_were_drawn_into_a_used_texture_are_drawn_again() {
    let make = "* glGenTextures(n = 1, textures = [1])
         * glBindTexture(target = 3553, texture = 1)
         * glTexImage2D(target = 3553, level = 0, pixels = null)
         * glBindTexture(target = 3553, texture = 0)
         * glGenFramebuffers(n = 1, framebuffers = [5])
         * glBindFramebuffer(target = 36160, framebuffer = 5)
         * glFramebufferTexture2D(target = 36160, attachment = 36064, textarget = 3553, texture = 1, level = 0)\n";
    check(
        &format!(
            "{make}  glDrawArrays(mode = 1, first = 0, count = 3)
             * glClear(mask = 16384)
             * glDrawArrays(mode = 2, first = 0, count = 3)
             * glBindFramebuffer(target = 36160, framebuffer = 0)
               glDrawArrays(mode = 3, first = 0, count = 3)"
        ),
        &format!("glBindTexture(target = 3553, texture = 1)\n{DRAW}"),
    );
}

#[test]
fn pixels_that_are_cleared_first_are_not_drawn() {
    // The frame draws into the texture again, so its earlier contents are not needed.
    let trace = written(&format!(
        "glGenTextures(n = 1, textures = [1])
         glBindTexture(target = 3553, texture = 1)
         glTexImage2D(target = 3553, level = 0, pixels = null)
         glBindTexture(target = 3553, texture = 0)
         glGenFramebuffers(n = 1, framebuffers = [5])
         glBindFramebuffer(target = 36160, framebuffer = 5)
         glFramebufferTexture2D(target = 36160, attachment = 36064, textarget = 3553, texture = 1, level = 0)
         glDrawArrays(mode = 7, first = 0, count = 3)
         {SWAP}
         glBindFramebuffer(target = 36160, framebuffer = 5)
         glClear(mask = 16384)
         {DRAW}{SWAP}"
    ));
    let kept = dumped(&trimmed(&trace, frames("1")));
    assert!(!kept.iter().any(|line| line.contains("mode = 7")), "{kept:?}");
    assert!(kept.iter().any(|line| line.starts_with("glFramebufferTexture2D")), "{kept:?}");
}

#[test]
fn values_that_are_set_again_do_not_count() {
    check(
        "  glEnable(cap = 3042)
           glColor3f(red = 1.0f, green = 0.0f, blue = 0.0f)
         * glDisable(cap = 3042)
         * glEnable(cap = 2929)
         * glColor3f(red = 0.0f, green = 1.0f, blue = 0.0f)",
        DRAW,
    );
}

#[test]
fn matrices_are_followed_through_their_stack() {
    check(
        "* glMatrixMode(mode = 5888)
           glTranslatef(x = 9.0f, y = 0.0f, z = 0.0f)
         * glLoadIdentity()
         * glTranslatef(x = 1.0f, y = 0.0f, z = 0.0f)
           glPushMatrix()
           glTranslatef(x = 2.0f, y = 0.0f, z = 0.0f)
           glDrawArrays(mode = 4, first = 0, count = 3)
           glPopMatrix()",
        DRAW,
    );
    check(
        "* glMatrixMode(mode = 5888)
         * glLoadIdentity()
         * glPushMatrix()
         * glTranslatef(x = 2.0f, y = 0.0f, z = 0.0f)",
        &format!("{DRAW}glPopMatrix()\n"),
    );
}

#[test]
fn programs_have_their_shaders_and_the_last_values() {
    check(
        "* glCreateProgram() = 1
         * glCreateShader(type = 35633) = 2
         * glShaderSource(shader = 2, count = 1, string = [\"a\"])
         * glAttachShader(program = 1, shader = 2)
         * glLinkProgram(program = 1)
         * glGetUniformLocation(program = 1, name = \"x\") = 3
         * glUseProgram(program = 1)
           glUniform1f(location = 3, v0 = 1.0f)
         * glUniform1f(location = 3, v0 = 2.0f)
           glDrawArrays(mode = 4, first = 0, count = 3)",
        DRAW,
    );
    check(
        "  glCreateProgram() = 1
           glLinkProgram(program = 1)
           glDrawArrays(mode = 4, first = 0, count = 3)",
        DRAW,
    );
}

/// A linked program with one shader; the marked lines are kept for anything that needs it.
const PROGRAM: &str = "* glCreateProgram() = 1
    * glCreateShader(type = 35633) = 2
    * glShaderSource(shader = 2, count = 1, string = [\"a\"])
    * glAttachShader(program = 1, shader = 2)
    * glLinkProgram(program = 1)
    * glGetUniformLocation(program = 1, name = \"x\") = 3\n";

#[test]
fn a_program_that_is_only_used_or_given_a_value_is_linked() {
    check(PROGRAM, "glUseProgram(program = 1)");
    check(
        &format!("{PROGRAM}* glUseProgram(program = 1)\n  glUniform1f(location = 3, v0 = 1.0f)"),
        "glUniform1f(location = 3, v0 = 2.0f)",
    );
}

#[test]
fn where_vertices_come_from_needs_no_program() {
    check(
        &format!(
            "{}  glUseProgram(program = 1)
             * glGenBuffers(n = 2, buffers = [1, 2])
               glBindBuffer(target = 34962, buffer = 1)
               glVertexAttribPointer(index = 0, pointer = null)
               glEnableVertexAttribArray(index = 0)
             * glBindBuffer(target = 34962, buffer = 2)
             * glBufferData(target = 34962, data = hex \"00\")",
            PROGRAM.replace("* ", "  ")
        ),
        "glVertexAttribPointer(index = 0, pointer = null)
         glEnableVertexAttribArray(index = 0)",
    );
}

#[test]
fn arrays_that_are_set_again_or_off_need_no_more_than_that() {
    check(
        "* glGenBuffers(n = 1, buffers = [1])
         * glBindBuffer(target = 34962, buffer = 1)
         * glBufferData(target = 34962, data = hex \"00\")
           glVertexAttribPointer(index = 0, pointer = null)
           glEnableVertexAttribArray(index = 0)
           glDrawArrays(mode = 4, first = 0, count = 3)
           glDisableVertexAttribArray(index = 0)
         * glVertexAttribPointer(index = 0, pointer = 0x4)
         * glEnableVertexAttribArray(index = 0)",
        DRAW,
    );
}

#[test]
fn buffers_of_elements_belong_to_their_vertex_arrays() {
    check(
        "* glGenVertexArrays(n = 2, arrays = [1, 2])
         * glGenBuffers(n = 2, buffers = [1, 2])
         * glBindVertexArray(array = 1)
         * glBindBuffer(target = 34963, buffer = 1)
           glBindVertexArray(array = 2)
           glBindBuffer(target = 34963, buffer = 2)
           glBufferData(target = 34963, data = hex \"02\")
         * glBindVertexArray(array = 1)
         * glBufferData(target = 34963, data = hex \"01\")",
        DRAW,
    );
}

#[test]
fn objects_of_numbered_places_are_followed_after_they_are_bound() {
    check(
        "* glGenTextures(n = 2, textures = [1, 2])
         * glBindTextures(first = 0, count = 2, textures = [1, 2])
         * glTextureSubImage2D(texture = 2, level = 0, pixels = hex \"02\")",
        DRAW,
    );
}

#[test]
fn programs_of_pipelines_get_their_values() {
    check(
        &format!(
            "{PROGRAM}* glGenProgramPipelines(n = 1, pipelines = [7])
             * glUseProgramStages(pipeline = 7, stages = 1, program = 1)
             * glActiveShaderProgram(pipeline = 7, program = 1)
             * glBindProgramPipeline(pipeline = 7)
               glUniform1f(location = 3, v0 = 1.0f)
             * glUniform1f(location = 3, v0 = 2.0f)
               glProgramUniform1f(program = 1, location = 4, v0 = 1.0f)
             * glProgramUniform1f(program = 1, location = 4, v0 = 2.0f)"
        ),
        DRAW,
    );
}

#[test]
fn pixels_that_are_copied_from_a_framebuffer_are_drawn_before() {
    check(
        "* glGenTextures(n = 1, textures = [1])
         * glGenFramebuffers(n = 1, framebuffers = [5])
         * glNamedFramebufferTexture(framebuffer = 5, attachment = 36064, texture = 1, level = 0)
         * glBindFramebuffer(target = 36160, framebuffer = 5)
         * glDrawArrays(mode = 2, first = 0, count = 3)
         * glBindFramebuffer(target = 36009, framebuffer = 0)",
        "glBlitFramebuffer(mask = 16384)",
    );
}

#[test]
fn questions_that_were_chosen_have_something_to_ask_about() {
    check(
        "* glGenBuffers(n = 1, buffers = [1])
         * glBindBuffer(target = 34962, buffer = 1)
         * glBufferData(target = 34962, data = hex \"00\")
           glEnable(cap = 2929)",
        "glGetBufferParameteriv(target = 34962)",
    );
}

#[test]
fn what_is_needed_of_a_long_trace_is_what_is_needed_of_a_short_one() {
    // Enough calls to compact the log several times.
    let frame = |i: u32| {
        let hidden = i % 7;
        format!(
            "glBindTexture(target = 3553, texture = 1)
             glTexSubImage2D(target = 3553, level = {hidden}, pixels = hex \"00\")
             glTexImage2D(target = 3553, level = {hidden}, pixels = hex \"0{hidden}\")
             glUseProgram(program = 1)
             glUniform1f(location = 3, v0 = {i}.0f)
             glGenTextures(n = 1, textures = [2])
             glBindTexture(target = 3553, texture = 2)
             glTexImage2D(target = 3553, level = 0, pixels = hex \"02\")
             glPushMatrix()\n{DRAW}glPopMatrix()
             glDeleteTextures(n = 1, textures = [2])\n{SWAP}"
        )
    };
    let start = format!("glGenTextures(n = 1, textures = [1])\n{}", PROGRAM.replace("* ", ""));
    let all = |n: u32| written(&(start.clone() + &(0..n).map(frame).collect::<String>()));
    let kept = |n: u32| {
        let kept = dumped(&trimmed(&all(n), frames(&(n - 1).to_string())));
        let number = format!("v0 = {}", n - 1);
        kept.into_iter().map(|line| line.replace(&number, "v0 = N")).collect::<Vec<_>>()
    };
    let (short, long) = (kept(15), kept(7 * 3000 + 1));
    assert_eq!(short.len(), long.len());
    assert_eq!(short.last(), long.last());
    assert!(short.len() < 50, "{}", short.len());
}

#[test]
fn buffers_are_filled_that_vertices_come_from() {
    check(
        "* glGenBuffers(n = 1, buffers = [1])
         * glBindBuffer(target = 34962, buffer = 1)
           glBufferData(target = 34962, data = hex \"00\")
         * glBufferData(target = 34962, data = hex \"01\")
         * glVertexAttribPointer(index = 0, pointer = null)
         * glEnableVertexAttribArray(index = 0)
         * glBindBuffer(target = 34962, buffer = 0)
           glDrawArrays(mode = 4, first = 0, count = 3)",
        DRAW,
    );
}

#[test]
fn a_name_that_is_used_again_is_another_object() {
    check(
        "  glGenTextures(n = 1, textures = [1])
           glBindTexture(target = 3553, texture = 1)
           glTexImage2D(target = 3553, level = 0, pixels = hex \"01\")
           glDeleteTextures(n = 1, textures = [1])
         * glGenTextures(n = 1, textures = [1])
         * glBindTexture(target = 3553, texture = 1)
         * glTexImage2D(target = 3553, level = 0, pixels = hex \"02\")",
        DRAW,
    );
}

/// Another context, for each way to create one, and the call that makes it current: first without, then with sharing.
const OTHERS: &[(&str, &str, &str)] = &[
    (
        "glXCreateContext(dpy = 0x10000, shareList = null) = 0x30000",
        "glXCreateContext(dpy = 0x10000, shareList = 0x20000) = 0x30000",
        "glXMakeCurrent(dpy = 0x10000, drawable = 1, ctx = 0x30000)",
    ),
    (
        "glXCreateContextAttribsARB(dpy = 0x10000, config = 0x5, share_context = null, direct = 1) = 0x30000",
        "glXCreateContextAttribsARB(dpy = 0x10000, config = 0x5, share_context = 0x20000, direct = 1) = 0x30000",
        "glXMakeCurrent(dpy = 0x10000, drawable = 1, ctx = 0x30000)",
    ),
    (
        "eglCreateContext(dpy = 0x10000, config = 0x5, share_context = null) = 0x30000",
        "eglCreateContext(dpy = 0x10000, config = 0x5, share_context = 0x20000) = 0x30000",
        "eglMakeCurrent(dpy = 0x10000, draw = 0x7, read = 0x7, ctx = 0x30000)",
    ),
    (
        "wglCreateContext(hdc = 0x8) = 0x30000",
        "wglCreateContext(hdc = 0x8) = 0x30000\n* wglShareLists(hglrc1 = 0x20000, hglrc2 = 0x30000) = 1",
        "wglMakeCurrent(hdc = 0x8, hglrc = 0x30000)",
    ),
];

#[test]
fn contexts_that_share_have_each_others_objects() {
    let texture = "glGenTextures(n = 1, textures = [1])
        * glBindTexture(target = 3553, texture = 1)
        * glTexImage2D(target = 3553, level = 0, pixels = hex \"01\")";
    for (alone, sharing, switch) in OTHERS {
        let use_it = format!("{switch}\nglBindTexture(target = 3553, texture = 1)\n{DRAW}");
        check(&format!("* {sharing}\n* {texture}"), &use_it);
        // Without sharing, it has a texture of its own with that name.
        let texture = texture.replace("* ", "");
        let kept =
            dumped(&trimmed(&written(&format!("{alone}\n{texture}\n{SWAP}{use_it}{SWAP}")), frames("1")));
        assert!(!kept.iter().any(|line| line.starts_with("glTexImage2D")), "{alone}: {kept:?}");
    }
}

#[test]
fn what_nobody_knows_is_kept_with_what_it_may_need() {
    check(
        "* glEnable(cap = 3042)
         * glFooUnknown(bar = 1)
         * glDisable(cap = 3042)
         * glFooUnknown(bar = 2)",
        DRAW,
    );
}

#[test]
fn what_is_asked_about_the_configuration_of_a_context_is_kept() {
    // A replayer learns the number of samples for each pixel from this call.
    check(
        "  glXGetFBConfigAttrib(dpy = 0x10000, config = 0x4, attribute = 100001) -> (value = [4]) = 0
         * glXGetFBConfigAttrib(dpy = 0x10000, config = 0x5, attribute = 100001) -> (value = [2]) = 0
         * glXCreateContextAttribsARB(dpy = 0x10000, config = 0x5, share_context = null, direct = 1) = 0x30000",
        DRAW,
    );
}
