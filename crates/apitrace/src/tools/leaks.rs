//! `leaks`: objects that are created and never destroyed.
//!
//! Follows the calls that create and destroy objects of OpenGL and OpenGL ES: buffers, textures, framebuffers, renderbuffers,
//! vertex arrays, queries, samplers, pipelines, transform feedbacks, shaders, programs, display lists, syncs, and the
//! contexts themselves. Names belong to a context, or to a group of contexts that were created to share their objects. If the
//! trace does not say which context a thread uses, its objects belong to one placeholder context.
//!
//! An object is leaked if it exists when its last context is destroyed, or at the end of the trace. A program that just exits
//! leaks all its objects, which is not a fault; look at how the number grows.
//!
//! Memory grows with the number of objects that are alive at the same time, and of leaks (about 60 bytes each).
//!
//! * **Needs** `call-values`.
//! * **Options** `top` (leaked objects listed, default 100; JSON has all).

use super::{Seen, VALUES, grid, seen};
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Cell, Document};
use quipu_model::options::{Kind, OptionSpec, Options};
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Hex, Shape};
use quipu_model::{Batch, DynPass, Order, Pass, Report, Result, Shard, Tool, ToolInfo, Trace};
use std::collections::{BTreeMap, HashMap};

/// The tool `leaks`.
#[derive(Debug)]
pub struct Leaks;

const TOP: OptionSpec = OptionSpec::new("top", Kind::Count, "100", "number of leaked objects to list");

static INFO: ToolInfo = ToolInfo {
    name: "leaks",
    summary: "objects that are created and never destroyed, by kind and context",
    needs: VALUES,
    order: Order::Shards,
    options: &[TOP],
    in_report: false,
};

impl Tool for Leaks {
    fn result(&self) -> Shape {
        Leaked::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    /// An object created in one part of a trace may be destroyed in the next.
    fn wants_whole_traces(&self) -> bool {
        true
    }

    fn build(&self, options: &Options, _trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(Following { top: options.length(&TOP), ..Following::default() }))
    }
}

/// A kind of object: its name, the part that its functions have in their names, and whether contexts may share it.
struct KindInfo {
    name: &'static str,
    stem: &'static str,
    is_shared: bool,
}

const fn kind(name: &'static str, stem: &'static str, is_shared: bool) -> KindInfo {
    KindInfo { name, stem, is_shared }
}

/// Kinds whose names are created in lists: `glGenBuffers`, `glCreateBuffers`, `glDeleteBuffers`.
static LISTED: &[KindInfo] = &[
    kind("buffer", "Buffers", true),
    kind("texture", "Textures", true),
    kind("framebuffer", "Framebuffers", false),
    kind("renderbuffer", "Renderbuffers", true),
    kind("vertex array", "VertexArrays", false),
    kind("query", "Queries", false),
    kind("sampler", "Samplers", true),
    kind("pipeline", "ProgramPipelines", false),
    kind("transform feedback", "TransformFeedbacks", false),
    kind("semaphore", "Semaphores", true),
    kind("memory object", "MemoryObjects", true),
];

/// Kinds that are created one by one, or in ranges.
static SINGLE: &[KindInfo] = &[
    kind("shader", "Shader", true),
    kind("program", "Program", true),
    kind("sync", "Sync", true),
    kind("display list", "Lists", true),
    kind("context", "Context", false),
];

/// Whether contexts that share objects have objects of this kind in common.
fn is_shared(name: &str) -> bool {
    LISTED.iter().chain(SINGLE).any(|kind| kind.name == name && kind.is_shared)
}

/// The effect of a call on objects, according to the name of its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Nothing,
    /// Creates the objects of a list.
    Gen(&'static str, bool),
    /// Destroys the objects of a list.
    Delete(&'static str, bool),
    /// Creates the object that it returns.
    Make(&'static str),
    /// Destroys the object in its last argument.
    Destroy(&'static str),
    GenLists,
    DeleteLists,
    CreateContext,
    DestroyContext,
    /// Lets the second context share the objects of the first.
    ShareLists,
    MakeCurrent,
}

/// A function name without its vendor suffix: `glGenBuffersARB` becomes `glGenBuffers`.
fn without_vendor(name: &str) -> &str {
    ["ARB", "EXT", "OES", "NV", "APPLE", "ANGLE", "KHR", "ATI"]
        .iter()
        .find_map(|vendor| name.strip_suffix(vendor))
        .unwrap_or(name)
}

fn deed(name: &[u8]) -> Deed {
    let Ok(name) = std::str::from_utf8(name) else { return Deed::Nothing };
    let Some(rest) = name.strip_prefix("gl").filter(|rest| !rest.starts_with('X')) else {
        return match name {
            "glXCreateContext"
            | "glXCreateNewContext"
            | "glXCreateContextAttribsARB"
            | "eglCreateContext"
            | "wglCreateContext"
            | "wglCreateContextAttribsARB"
            | "glXCreateContextWithConfigSGIX"
            | "CGLCreateContext" => Deed::CreateContext,
            "wglShareLists" => Deed::ShareLists,
            "glXDestroyContext" | "eglDestroyContext" | "wglDeleteContext" | "CGLDestroyContext" => {
                Deed::DestroyContext
            }
            "glXMakeCurrent"
            | "glXMakeContextCurrent"
            | "eglMakeCurrent"
            | "wglMakeCurrent"
            | "CGLSetCurrentContext" => Deed::MakeCurrent,
            _ => Deed::Nothing,
        };
    };
    let of_list = |stem: &str| LISTED.iter().find(|kind| kind.stem == without_vendor(stem));
    if let Some(kind) = rest.strip_prefix("Gen").or_else(|| rest.strip_prefix("Create")).and_then(of_list) {
        return Deed::Gen(kind.name, kind.is_shared);
    }
    if let Some(kind) = rest.strip_prefix("Delete").and_then(of_list) {
        return Deed::Delete(kind.name, kind.is_shared);
    }
    match without_vendor(rest) {
        "CreateShader" | "CreateShaderObject" => Deed::Make("shader"),
        "CreateProgram" | "CreateProgramObject" | "CreateShaderProgramv" => Deed::Make("program"),
        "FenceSync" => Deed::Make("sync"),
        "DeleteShader" => Deed::Destroy("shader"),
        "DeleteProgram" => Deed::Destroy("program"),
        "DeleteObject" => Deed::Destroy("shader or program"),
        "DeleteSync" => Deed::Destroy("sync"),
        "GenLists" => Deed::GenLists,
        "DeleteLists" => Deed::DeleteLists,
        _ => Deed::Nothing,
    }
}

result! {
    /// One object that was never destroyed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Leak {
        pub kind: &'static str => "Kind of the object.";
        pub name: u64 => "Name of the object; for contexts and syncs, the handle.";
        pub context: u64 as Hex => "Context in which it was created; 0 if the trace does not say.";
        pub made_by: u64 => "Number of the call that created it.";
        pub until: Option<u64> =>
            "Number of the call that destroyed its last context; null if it lived until the end of the trace.";
    }
}

result! {
    /// Numbers of objects of a kind.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Census {
        pub made: u64 => "Objects created.";
        pub destroyed: u64 => "Objects destroyed.";
        pub most: u64 => "Largest number of objects alive at the same time.";
        pub leaked: u64 => "Objects never destroyed.";
    } beside {
        alive: u64 => "Objects that are alive at present.";
    }
}

result! {
    /// Objects of a kind.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OfKind {
        pub kind: &'static str => "Kind of the objects.";
        pub census: Census, flat => "Numbers of objects.";
    }
}

/// State of the pass.
#[derive(Debug, Default)]
struct Following {
    top: usize,
    /// The effect of each function, by type.
    deeds: Vec<Option<Deed>>,
    /// The current context of each thread.
    current: HashMap<u64, u64>,
    /// The share group of each context, by handle; a group has the handle of its first context.
    groups: HashMap<u64, u64>,
    /// Objects that are alive: kind, owner and name → the call and context that created them.
    alive: BTreeMap<(&'static str, u64, u64), (u64, u64)>,
    census: BTreeMap<&'static str, Census>,
    leaks: Vec<Leak>,
}

impl Following {
    /// The owner of objects that a thread creates (its context, or that context's share group), and the context itself.
    fn owner(&self, thread: u64, is_shared: bool) -> (u64, u64) {
        let context = self.current.get(&thread).copied().unwrap_or(0);
        let owner = if is_shared { self.groups.get(&context).copied().unwrap_or(context) } else { context };
        (owner, context)
    }

    fn make(&mut self, kind: &'static str, is_shared: bool, name: u64, seen: &Seen<'_>) {
        if name == 0 {
            return;
        }
        let (owner, context) = self.owner(seen.call.thread, is_shared);
        if self.alive.insert((kind, owner, name), (seen.call.number, context)).is_none() {
            let census = self.census.entry(kind).or_default();
            census.made += 1;
            census.alive += 1;
            census.most = census.most.max(census.alive);
        }
    }

    fn destroy(&mut self, kind: &'static str, is_shared: bool, name: u64, seen: &Seen<'_>) {
        let (owner, _) = self.owner(seen.call.thread, is_shared);
        if self.alive.remove(&(kind, owner, name)).is_some() {
            let census = self.census.entry(kind).or_default();
            census.destroyed += 1;
            census.alive -= 1;
        }
    }

    fn take(&mut self, seen: &Seen<'_>) {
        let ty = seen.call.function as usize;
        if self.deeds.len() <= ty {
            self.deeds.resize(ty + 1, None);
        }
        match *self.deeds[ty].get_or_insert_with(|| deed(seen.name())) {
            Deed::Nothing => {}
            Deed::Gen(kind, is_shared) => {
                for name in names(seen) {
                    self.make(kind, is_shared, name, seen);
                }
            }
            Deed::Delete(kind, is_shared) => {
                for name in names(seen) {
                    self.destroy(kind, is_shared, name, seen);
                }
            }
            Deed::Make(kind) => {
                if let Some(name) = seen.result() {
                    self.make(kind, true, name, seen);
                }
            }
            Deed::Destroy("shader or program") => {
                if let Some(name) = seen.nth(0).and_then(|index| seen.number_at(index)) {
                    self.destroy("shader", true, name, seen);
                    self.destroy("program", true, name, seen);
                }
            }
            Deed::Destroy(kind) => {
                if let Some(name) = seen.nth(0).and_then(|index| seen.number_at(index)) {
                    self.destroy(kind, true, name, seen);
                }
            }
            Deed::GenLists => {
                if let (Some(first), Some(range)) = (seen.result(), seen.number("range")) {
                    for name in first..first.saturating_add(range.min(MAX_RANGE)) {
                        self.make("display list", true, name, seen);
                    }
                }
            }
            Deed::DeleteLists => {
                if let (Some(first), Some(range)) = (seen.number("list"), seen.number("range")) {
                    for name in first..first.saturating_add(range.min(MAX_RANGE)) {
                        self.destroy("display list", true, name, seen);
                    }
                }
            }
            Deed::CreateContext => self.create_context(seen),
            Deed::DestroyContext => self.destroy_context(seen),
            Deed::ShareLists => {
                let context = |n| seen.nth(n).and_then(|index| seen.number_at(index));
                if let (Some(first), Some(second), false) = (context(0), context(1), seen.result() == Some(0))
                {
                    let group = self.groups.get(&first).copied().unwrap_or(first);
                    self.groups.insert(second, group);
                }
            }
            Deed::MakeCurrent => {
                let n_args = seen.function.args.len() as u32; // Few.
                let context = ["ctx", "hglrc"].iter().find_map(|name| seen.number(name));
                let last = || seen.nth(n_args.checked_sub(1)?).and_then(|index| seen.number_at(index));
                let has_failed = seen.result() == Some(0);
                if let (Some(context), false) = (context.or_else(last), has_failed) {
                    self.current.insert(seen.call.thread, context);
                }
            }
        }
    }

    fn create_context(&mut self, seen: &Seen<'_>) {
        // With CGL, the result is an error code, and the context is in an argument.
        let context = if seen.name().starts_with(b"CGL") { seen.number("ctx") } else { seen.result() };
        let Some(context) = context.filter(|context| *context != 0) else { return };
        let shared = ["shareList", "share_list", "share_context", "hShareContext", "share"];
        let shared = shared.iter().find_map(|name| seen.number(name)).filter(|other| *other != 0);
        let group = shared.map_or(context, |other| self.groups.get(&other).copied().unwrap_or(other));
        self.groups.insert(context, group);
        if self.alive.insert(("context", 0, context), (seen.call.number, context)).is_none() {
            let census = self.census.entry("context").or_default();
            census.made += 1;
            census.alive += 1;
            census.most = census.most.max(census.alive);
        }
    }

    fn destroy_context(&mut self, seen: &Seen<'_>) {
        let context = ["ctx", "hglrc"].iter().find_map(|name| seen.number(name));
        let Some(context) = context else { return };
        if self.alive.remove(&("context", 0, context)).is_some() {
            let census = self.census.entry("context").or_default();
            census.destroyed += 1;
            census.alive -= 1;
        }
        let group = self.groups.remove(&context).unwrap_or(context);
        let until = Some(seen.call.number);
        self.leak(until, |kind, owner| owner == context && !is_shared(kind));
        if !self.groups.values().any(|other| *other == group) {
            self.leak(until, |kind, owner| owner == group && is_shared(kind));
        }
    }

    /// Reports all objects of the matching owners as leaked.
    fn leak(&mut self, until: Option<u64>, is_gone: impl Fn(&str, u64) -> bool) {
        let gone: Vec<_> = self
            .alive
            .keys()
            .filter(|(kind, owner, _)| *kind != "context" && is_gone(kind, *owner))
            .copied()
            .collect();
        for key in gone {
            let Some((made_by, context)) = self.alive.remove(&key) else { continue };
            let (kind, _, name) = key;
            let census = self.census.entry(kind).or_default();
            census.leaked += 1;
            census.alive -= 1;
            self.leaks.push(Leak { kind, name, context, made_by, until });
        }
    }
}

/// Maximum number of display lists counted for one call.
const MAX_RANGE: u64 = 1 << 16;

/// The names in the list of a call: its last argument.
fn names(seen: &Seen<'_>) -> Vec<u64> {
    // `glCreateTextures(target, n, textures)` and its like have three.
    let last = (seen.function.args.len() as u32).saturating_sub(1); // Few.
    let Some(index) = seen.nth(last) else { return Vec::new() };
    seen.parts(index).into_iter().filter_map(|part| seen.number_at(part)).collect()
}

impl Pass for Following {
    fn fork(&self, _shard: &Shard) -> Following {
        Following { top: self.top, ..Following::default() }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        seen(batch).for_each(|seen| self.take(&seen));
        Ok(())
    }

    /// There is only one shard, so `self` is empty.
    fn merge(&mut self, later: Following) -> Result<()> {
        *self = later;
        Ok(())
    }

    fn finish(mut self) -> Result<Box<dyn Report>> {
        self.leak(None, |_, _| true);
        let contexts: Vec<_> = self.alive.iter().map(|((_, _, name), made)| (*name, made.0)).collect();
        for (name, made_by) in contexts {
            self.census.entry("context").or_default().leaked += 1;
            self.leaks.push(Leak { kind: "context", name, context: name, made_by, until: None });
        }
        self.leaks.sort_by_key(|leak| (leak.made_by, leak.name));
        let known = LISTED.iter().chain(SINGLE).map(|kind| kind.name);
        let kinds = known.filter_map(|kind| Some(OfKind { kind, census: *self.census.get(kind)? }));
        Ok(Box::new(Leaked { top: self.top, kinds: kinds.collect(), leaks: self.leaks }))
    }
}

result! {
    /// Objects that were never destroyed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Leaked {
        pub kinds: Vec<OfKind> => "Kinds that occur, in the order of the manual.";
        pub leaks: Vec<Leak> => "Leaked objects, in the order of creation.";
    } beside {
        top: usize => "Number of objects to show.";
    }
}

impl ReportBody for Leaked {
    fn document(&self, _detail: Detail) -> Document {
        let document = Document::new("Leaks");
        if self.kinds.is_empty() {
            return document.with(Block::Note("No call makes an object of OpenGL.".into()));
        }
        let head = ["kind", "made", "destroyed", "most at a time", "leaked"];
        let document =
            document.with(grid("", &head, self.kinds.iter(), usize::MAX, |OfKind { kind, census }| {
                let counts = [census.made, census.destroyed, census.most, census.leaked].map(Cell::Count);
                std::iter::once(Cell::from(*kind)).chain(counts).collect()
            }));
        if self.leaks.is_empty() {
            return document;
        }
        let until = |leak: &Leak| match leak.until {
            Some(call) => Cell::Text(format!("call {call}")),
            None => Cell::from("the end"),
        };
        let head = ["kind", "name", "context", "made by call", "not destroyed until"];
        document.with(grid("never destroyed", &head, self.leaks.iter(), self.top, |leak| {
            let name = match leak.kind {
                "context" | "sync" => Cell::Addr(leak.name),
                _ => Cell::Text(leak.name.to_string()),
            };
            let (context, made_by) = (Cell::Addr(leak.context), Cell::Text(leak.made_by.to_string()));
            vec![Cell::from(leak.kind), name, context, made_by, until(leak)]
        }))
    }
}

/// The leaks that apitrace's script reports: of buffers and textures only, without regard to contexts, when the last context
/// is destroyed and at the end of the trace. Calls without side effects are skipped.
///
/// SPEC: apitrace.md#the-command-line-of-apitrace.
#[derive(Debug, Default)]
pub struct OriginalLeaks {
    n_contexts: u64,
    alive: BTreeMap<(u64, usize, &'static str, u64), ()>,
    made_by: HashMap<(&'static str, u64), (u64, usize)>,
}

impl OriginalLeaks {
    /// Processes the calls of a batch; appends the lines that result.
    pub fn consume(&mut self, batch: &Batch, out: &mut Vec<u8>) {
        for seen in seen(batch) {
            match deed(seen.name()) {
                Deed::CreateContext => self.n_contexts += 1,
                Deed::DestroyContext => {
                    self.n_contexts = self.n_contexts.saturating_sub(1);
                    if self.n_contexts == 0 {
                        self.tell(&seen.call.number.to_string(), out);
                    }
                }
                Deed::Gen(kind @ ("buffer" | "texture"), _) if seen.name().starts_with(b"glGen") => {
                    for (i, name) in names(&seen).into_iter().enumerate() {
                        self.forget(kind, name);
                        self.alive.insert((seen.call.number, i, kind, name), ());
                        self.made_by.insert((kind, name), (seen.call.number, i));
                    }
                }
                Deed::Delete(kind @ ("buffer" | "texture"), _) => {
                    names(&seen).into_iter().for_each(|name| self.forget(kind, name));
                }
                _ => {}
            }
        }
    }

    fn forget(&mut self, kind: &'static str, name: u64) {
        if let Some((call, i)) = self.made_by.remove(&(kind, name)) {
            self.alive.remove(&(call, i, kind, name));
        }
    }

    /// Appends a line for each object that is alive, and forgets these objects.
    pub fn tell(&mut self, until: &str, out: &mut Vec<u8>) {
        for ((call, _, kind, name), ()) in std::mem::take(&mut self.alive) {
            out.extend_from_slice(
                format!("{call}: error: {kind} {name} was not destroyed until {until}\n").as_bytes(),
            );
        }
        self.made_by.clear();
    }
}
