//! `graphics`: draws, textures, buffers and shaders, and errors of graphics calls.
//!
//! *Uploads* are calls that pass raw memory to a texture or a buffer. The largest are listed; for textures in a known format,
//! a page shows pictures of the first `pictures` distinct ones. *Errors* are results that report one: those of `glGetError`
//! and similar functions, shaders that do not compile, programs that do not link, framebuffers that are not complete. Calls
//! that never returned are listed too.
//!
//! Memory holds the lists, and at most 256 KiB of shader sources.
//!
//! * **Needs** `call-values`.
//! * **Options** `top` (rows of each list, default 20), `pictures` (default 24), `shaders` (default 24).

use super::picture::Pixels;
use super::{Seen, VALUES, grid, seen};
use crate::flags::Api;
use crate::record::{INCOMPLETE, RENDER};
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Cell, Document, Figure, Listing, Picture, Pictures};
use quipu_model::number::counted;
use quipu_model::options::{self, OptionSpec, Options};
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::values::Kind;
use quipu_model::{Batch, DynPass, Order, Pass, Report, Result, Shard, Tool, ToolInfo, Trace};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The tool `graphics`.
#[derive(Debug)]
pub struct Graphics;

const TOP: OptionSpec = OptionSpec::new("top", options::Kind::Count, "20", "number of rows in each list");
const PICTURES: OptionSpec =
    OptionSpec::new("pictures", options::Kind::Count, "24", "how many texture images to keep");
const SHADERS: OptionSpec =
    OptionSpec::new("shaders", options::Kind::Count, "24", "number of shader sources to keep");

static INFO: ToolInfo = ToolInfo {
    name: "graphics",
    summary: "draws, textures, buffers and shaders, and errors of graphics calls",
    needs: VALUES,
    order: Order::Shards,
    options: &[TOP, PICTURES, SHADERS],
    in_report: true,
};

impl Tool for Graphics {
    fn result(&self) -> Shape {
        Contents::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, _trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(Looking {
            top: options.length(&TOP),
            n_pictures: options.length(&PICTURES),
            n_shaders: options.length(&SHADERS),
            ..Looking::default()
        }))
    }
}

/// Maximum number of bytes of shader sources kept.
const MAX_SOURCE_BYTES: usize = 256 << 10;
/// Maximum number of calls that never returned kept.
const MAX_INCOMPLETE: usize = 100;

result! {
    /// Contents of a trace of graphics calls.
    #[derive(Clone, Debug, Default)]
    pub struct Contents {
        pub api: &'static str => "Graphics API, according to the name of the first function.";
        pub draws: Vec<Draws> => "Calls that draw, most frequent first.";
        pub textures: Uploads => "Uploads to textures.";
        pub buffers: Uploads => "Uploads to buffers.";
        pub shaders: Shaders => "Shaders.";
        pub errors: Vec<Trouble> => "Results that report errors, by function.";
        pub incomplete: Unreturned => "Calls that never returned.";
    } beside {
        top: usize => "Number of rows to show in each list.";
        pictures: Vec<Picture> => "Pictures of textures.";
    }
}

result! {
    /// Calls of one function that draw in one mode.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Draws {
        pub function: String => "Name of the function.";
        pub mode: String => "Mode, such as `GL_TRIANGLES`; empty if there is none.";
        pub calls: u64 => "Number of calls.";
    }
}

result! {
    /// Uploads of one kind.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Uploads {
        pub calls: u64 => "Number of uploads.";
        pub bytes: u64 => "Bytes of raw memory.";
        pub largest: Vec<Upload> => "Largest uploads.";
    }
}

result! {
    /// One upload to a texture or buffer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Upload {
        pub call: u64 => "Number of the call.";
        pub function: String => "Name of the function.";
        pub target: String => "Target of the upload, such as `GL_TEXTURE_2D`.";
        pub size: String => "Size in pixels; empty for buffers.";
        pub format: String => "Format and type of the pixels, or usage of the buffer.";
        pub bytes: u64 => "Bytes uploaded.";
    }
}

result! {
    /// Shaders.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Shaders {
        pub sources: u64 => "Calls that set a source.";
        pub listed: Vec<Source> => "First distinct sources.";
    }
}

result! {
    /// The source of a shader.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Source {
        pub call: u64 => "Number of the call.";
        pub shader: u64 => "Name (number) of the shader.";
        pub text: String => "Text of the source.";
    }
}

result! {
    /// A result that reports an error.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Trouble {
        pub function: String => "Name of the function.";
        pub result: String => "Result that reports the error.";
        pub times: Times, flat => "Occurrences.";
    }
}

result! {
    /// Number and first occurrence of a result.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Times {
        pub times: u64 => "Number of occurrences.";
        pub first_call: u64 => "Number of the first such call.";
    }
}

result! {
    /// Calls that never returned.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Unreturned {
        pub calls: u64 => "Number of calls.";
        pub listed: Vec<Open> => "First such calls.";
    }
}

result! {
    /// A call that never returned.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Open {
        pub call: u64 => "Number of the call.";
        pub function: String => "Name of the function.";
        pub thread: u64 => "Thread that made the call.";
    }
}

/// State of the pass.
#[derive(Clone, Debug, Default)]
struct Looking {
    top: usize,
    n_pictures: usize,
    n_shaders: usize,
    api: Api,
    duties: Vec<Option<Duty>>,
    draws: BTreeMap<(String, String), u64>,
    textures: Uploads,
    buffers: Uploads,
    pictures: Vec<Picture>,
    /// Hashes of the images that have a picture, so that each has only one.
    pictured: Vec<u64>,
    shaders: Shaders,
    source_bytes: usize,
    errors: BTreeMap<(String, String), Times>,
    incomplete: Unreturned,
}

/// The treatment of calls of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Duty {
    Nothing,
    Texture,
    Buffer,
    Shader,
    /// A result other than this is an error.
    Status(&'static str),
    /// A parameter of 0 is an error.
    Parameter,
}

fn duty(name: &[u8]) -> Duty {
    let Ok(name) = std::str::from_utf8(name) else { return Duty::Nothing };
    let Some(rest) = name.strip_prefix("gl") else {
        return if name == "eglGetError" { Duty::Status("EGL_SUCCESS") } else { Duty::Nothing };
    };
    let is = |stem: &str| rest.starts_with(stem);
    match rest {
        "GetError" => Duty::Status("GL_NO_ERROR"),
        "GetShaderiv" | "GetProgramiv" => Duty::Parameter,
        _ if is("CheckFramebufferStatus") || is("CheckNamedFramebufferStatus") => {
            Duty::Status("GL_FRAMEBUFFER_COMPLETE")
        }
        _ if is("ShaderSource") => Duty::Shader,
        _ if is("TexImage")
            || is("TexSubImage")
            || is("CompressedTex")
            || is("TextureSubImage")
            || is("TextureImage") =>
        {
            Duty::Texture
        }
        _ if is("BufferData") || is("BufferSubData") || is("BufferStorage") || is("NamedBuffer") => {
            Duty::Buffer
        }
        _ => Duty::Nothing,
    }
}

impl Looking {
    fn take(&mut self, seen: &Seen<'_>) {
        let (call, name) = (seen.call, || String::from_utf8_lossy(seen.name()).into_owned());
        let ty = call.function as usize;
        if self.duties.len() <= ty {
            self.duties.resize(ty + 1, None);
        }
        let duty = match self.duties[ty] {
            Some(duty) => duty,
            None => {
                if self.api == Api::Unknown {
                    self.api = Api::of_function(seen.name());
                }
                *self.duties[ty].insert(duty(seen.name()))
            }
        };
        if call.flags & INCOMPLETE != 0 {
            self.incomplete.calls += 1;
            if self.incomplete.listed.len() < MAX_INCOMPLETE {
                self.incomplete.listed.push(Open {
                    call: call.number,
                    function: name(),
                    thread: call.thread,
                });
            }
        }
        if call.flags & RENDER != 0 {
            *self.draws.entry((name(), seen.word("mode"))).or_default() += 1;
        }
        match duty {
            Duty::Nothing => {}
            Duty::Texture => self.texture(seen),
            Duty::Buffer => self.buffer(seen),
            Duty::Shader => self.shader(seen),
            Duty::Status(good) => {
                if seen.result().is_some() {
                    let word = seen.word_at(call.result);
                    if word != good {
                        self.trouble(name(), word, call.number);
                    }
                }
            }
            Duty::Parameter => {
                let what = seen.word("pname");
                if matches!(&*what, "GL_COMPILE_STATUS" | "GL_LINK_STATUS" | "GL_VALIDATE_STATUS")
                    && seen.number("params") == Some(0)
                {
                    self.trouble(name(), format!("{what} = 0"), call.number);
                }
            }
        }
    }

    fn trouble(&mut self, function: String, result: String, call: u64) {
        let trouble = self.errors.entry((function, result)).or_insert(Times { times: 0, first_call: call });
        trouble.times += 1;
    }

    fn texture(&mut self, seen: &Seen<'_>) {
        let Some(blob) = seen.blob() else { return };
        let (width, height) = (seen.number("width"), seen.number("height"));
        let (format, kind) = (seen.word("format"), seen.word("type"));
        let depth = seen.number("depth").filter(|depth| *depth > 1);
        let sizes = [width.map(|_| "width"), height.map(|_| "height"), depth.map(|_| "depth")];
        let sizes: Vec<String> = sizes.iter().flatten().map(|name| seen.signed(name)).collect();
        let internal = if format.is_empty() { seen.word("internalformat") } else { String::new() };
        let upload = Upload {
            call: seen.call.number,
            function: String::from_utf8_lossy(seen.name()).into_owned(),
            target: seen.word("target"),
            size: sizes.join(" × "),
            format: format!("{format}{internal} {kind}").trim().to_owned(),
            bytes: blob.len() as u64,
        };
        if self.pictures.len() < self.n_pictures {
            let hash = xxhash_rust::xxh64::xxh64(blob, blob.len() as u64);
            let pixels = Pixels {
                width: width.unwrap_or(0),
                height: height.unwrap_or(1),
                format: if format.is_empty() { &internal } else { &format },
                kind: &kind,
                bytes: blob,
            };
            if !self.pictured.contains(&hash)
                && let Some((width, height, png)) = pixels.picture()
            {
                self.pictured.push(hash);
                let name = format!("call {}", upload.call);
                let note = format!("{}, {format}{internal}", upload.size);
                let at = Some(upload.call);
                self.pictures.push(Picture { name, note, width, height, png, at });
            }
        }
        self.textures.add(upload, self.top);
    }

    fn buffer(&mut self, seen: &Seen<'_>) {
        let Some(blob) = seen.blob() else { return };
        let upload = Upload {
            call: seen.call.number,
            function: String::from_utf8_lossy(seen.name()).into_owned(),
            target: seen.word("target"),
            size: String::new(),
            format: seen.word("usage"),
            bytes: blob.len() as u64,
        };
        self.buffers.add(upload, self.top);
    }

    fn shader(&mut self, seen: &Seen<'_>) {
        self.shaders.sources += 1;
        if self.shaders.listed.len() >= self.n_shaders || self.source_bytes >= MAX_SOURCE_BYTES {
            return;
        }
        let Some(strings) = seen.arg("string").or_else(|| seen.nth(2)) else { return };
        let mut text = String::new();
        for part in seen.parts(strings) {
            let node = seen.values.node(part);
            if node.kind == Kind::Text {
                let left = MAX_SOURCE_BYTES.saturating_sub(self.source_bytes + text.len());
                let bytes = seen.values.bytes_of(node);
                text.push_str(&String::from_utf8_lossy(&bytes[..bytes.len().min(left)]));
            }
        }
        let shader = seen.nth(0).and_then(|index| seen.number_at(index)).unwrap_or(0);
        self.list_source(Source { call: seen.call.number, shader, text });
    }

    /// Lists a source unless an equal one is listed, or the list is full.
    fn list_source(&mut self, source: Source) {
        if self.shaders.listed.len() < self.n_shaders
            && !self.shaders.listed.iter().any(|other| other.text == source.text)
        {
            self.source_bytes += source.text.len();
            self.shaders.listed.push(source);
        }
    }
}

impl Uploads {
    /// Counts an upload.
    fn add(&mut self, upload: Upload, top: usize) {
        self.calls += 1;
        self.bytes += upload.bytes;
        self.list(upload, top);
    }

    fn plus(&mut self, later: Uploads, top: usize) {
        self.calls += later.calls;
        self.bytes += later.bytes;
        later.largest.into_iter().for_each(|upload| self.list(upload, top));
    }

    /// Lists an upload if it is one of the largest.
    fn list(&mut self, upload: Upload, top: usize) {
        let key = |upload: &Upload| (Reverse(upload.bytes), upload.call);
        let at = self.largest.partition_point(|other| key(other) < key(&upload));
        if at < top {
            self.largest.insert(at, upload);
            self.largest.truncate(top);
        }
    }

    /// A table of the largest uploads; `None` if there are none.
    fn grid(&self, title: &str) -> Option<Block> {
        let has_size = self.largest.iter().any(|upload| !upload.size.is_empty());
        let head = match has_size {
            true => &["call", "function", "target", "pixels", "format", "bytes"][..],
            false => &["call", "function", "target", "usage", "bytes"],
        };
        let mut block = grid(title, head, self.largest.iter(), usize::MAX, |upload| {
            let mut row = vec![
                Cell::Text(upload.call.to_string()),
                Cell::Code(upload.function.clone()),
                Cell::Text(upload.target.clone()),
            ];
            row.extend(has_size.then(|| Cell::Text(upload.size.clone())));
            row.extend([Cell::Text(upload.format.clone()), Cell::Bytes(upload.bytes)]);
            row
        });
        if let Block::Grid(grid) = &mut block {
            grid.more = self.calls - self.largest.len() as u64;
        }
        (!self.largest.is_empty()).then_some(block)
    }
}

impl Pass for Looking {
    fn fork(&self, _shard: &Shard) -> Looking {
        let Looking { top, n_pictures, n_shaders, .. } = *self;
        Looking { top, n_pictures, n_shaders, ..Looking::default() }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        seen(batch).for_each(|seen| self.take(&seen));
        Ok(())
    }

    fn merge(&mut self, later: Looking) -> Result<()> {
        if self.api == Api::Unknown {
            self.api = later.api;
        }
        for (key, n) in later.draws {
            *self.draws.entry(key).or_default() += n;
        }
        self.textures.plus(later.textures, self.top);
        self.buffers.plus(later.buffers, self.top);
        for (picture, hash) in later.pictures.into_iter().zip(later.pictured) {
            if self.pictures.len() < self.n_pictures && !self.pictured.contains(&hash) {
                self.pictures.push(picture);
                self.pictured.push(hash);
            }
        }
        self.shaders.sources += later.shaders.sources;
        later.shaders.listed.into_iter().for_each(|source| self.list_source(source));
        for (key, times) in later.errors {
            self.errors.entry(key).or_insert(Times { times: 0, ..times }).times += times.times;
        }
        self.incomplete.calls += later.incomplete.calls;
        self.incomplete.listed.extend(later.incomplete.listed);
        self.incomplete.listed.truncate(MAX_INCOMPLETE);
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let draws = self.draws.into_iter();
        let mut draws: Vec<_> =
            draws.map(|((function, mode), calls)| Draws { function, mode, calls }).collect();
        draws.sort_by_key(|draws| Reverse(draws.calls));
        let errors = self.errors.into_iter();
        let errors = errors.map(|((function, result), times)| Trouble { function, result, times });
        Ok(Box::new(Contents {
            top: self.top,
            api: self.api.name(),
            draws,
            textures: self.textures,
            buffers: self.buffers,
            shaders: self.shaders,
            errors: errors.collect(),
            incomplete: self.incomplete,
            pictures: self.pictures,
        }))
    }
}

impl Contents {
    fn is_empty(&self) -> bool {
        let n_uploads = self.textures.calls + self.buffers.calls;
        self.draws.is_empty()
            && n_uploads + self.shaders.sources + self.incomplete.calls == 0
            && self.errors.is_empty()
    }
}

impl ReportBody for Contents {
    fn document(&self, detail: Detail) -> Document {
        let mut document = Document::new("Graphics");
        if self.is_empty() {
            if detail == Detail::Full {
                document.blocks.push(Block::Note("Nothing is drawn or uploaded.".into()));
            }
            return document;
        }
        let figure = |label: &str, value: Cell, note: String| Figure { label: label.to_owned(), value, note };
        let n_draws: u64 = self.draws.iter().map(|draws| draws.calls).sum();
        let n_errors: u64 = self.errors.iter().map(|trouble| trouble.times.times).sum();
        let uploads = |uploads: &Uploads| counted(uploads.calls, "upload");
        document.blocks.push(Block::Figures(vec![
            figure("API", Cell::from(self.api), String::new()),
            figure("draws", Cell::Count(n_draws), String::new()),
            figure("textures", Cell::Bytes(self.textures.bytes), uploads(&self.textures)),
            figure("buffers", Cell::Bytes(self.buffers.bytes), uploads(&self.buffers)),
            figure("shader sources", Cell::Count(self.shaders.sources), String::new()),
            figure("errors returned", Cell::Count(n_errors), String::new()),
            figure("incomplete calls", Cell::Count(self.incomplete.calls), String::new()),
        ]));
        if !self.errors.is_empty() {
            let head = ["function", "result", "times", "first call"];
            document.blocks.push(grid("errors returned", &head, self.errors.iter(), self.top, |trouble| {
                vec![
                    Cell::Code(trouble.function.clone()),
                    Cell::Text(trouble.result.clone()),
                    Cell::Count(trouble.times.times),
                    Cell::Text(trouble.times.first_call.to_string()),
                ]
            }));
        }
        let Unreturned { calls, listed } = &self.incomplete;
        if !listed.is_empty() {
            let head = ["call", "function", "thread"];
            let mut block = grid("calls that never returned", &head, listed.iter(), self.top, |open| {
                vec![
                    Cell::Text(open.call.to_string()),
                    Cell::Code(open.function.clone()),
                    Cell::Text(open.thread.to_string()),
                ]
            });
            if let Block::Grid(grid) = &mut block {
                grid.more = calls - grid.rows.len() as u64;
            }
            document.blocks.push(block);
        }
        if detail == Detail::Brief {
            return document;
        }
        if !self.draws.is_empty() {
            let head = ["function", "mode", "calls"];
            document.blocks.push(grid("draws", &head, self.draws.iter(), self.top, |draws| {
                vec![
                    Cell::Code(draws.function.clone()),
                    Cell::Text(draws.mode.clone()),
                    Cell::Count(draws.calls),
                ]
            }));
        }
        if !self.pictures.is_empty() {
            let (title, pictures) = ("textures".to_owned(), self.pictures.clone());
            document.blocks.push(Block::Pictures(Pictures { title, pictures }));
        }
        document.blocks.extend(self.textures.grid("largest uploads to textures"));
        document.blocks.extend(self.buffers.grid("largest uploads to buffers"));
        for source in &self.shaders.listed {
            let title = format!("shader {}, call {}", source.shader, source.call);
            document.blocks.push(Block::Listing(Listing { title, text: source.text.clone() }));
        }
        document
    }
}
