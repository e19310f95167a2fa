//! `graphics`: what is drawn with what: draws, textures, buffers, shaders, and what went wrong.
//!
//! *Uploads* are calls that hand raw memory to a texture or a buffer. The largest are listed; of textures whose
//! format is known, a page shows a picture of the first `pictures` distinct ones. *Errors* are results that say so: of `glGetError` and its like,
//! shaders that do not compile, programs that do not link, framebuffers that are not complete. Calls that never returned are
//! listed as well.
//!
//! Memory: what is listed, and at most 256 KiB of shader sources.
//!
//! * **Needs** `call-values`.
//! * **Options** `top` (rows of each list, default 20), `pictures` (default 24), `shaders` (default 24).
//! * **JSON** [`Contents`].

use super::picture::Pixels;
use super::{Seen, VALUES, seen};
use crate::flags::Api;
use crate::record::{INCOMPLETE, RENDER};
use quipu_model::doc::{Block, Cell, Document, Figure, Grid, Listing, Picture, Pictures};
use quipu_model::pass::Detail;
use quipu_model::trace::SettingInfo;
use quipu_model::values::Kind;
use quipu_model::{Args, Batch, DynPass, Order, Pass, Report, Result, Shard, Tool, ToolInfo, Trace};
use serde_json::{Value, json};
use std::any::Any;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The tool `graphics`.
#[derive(Debug)]
pub struct Graphics;

static INFO: ToolInfo = ToolInfo {
    name: "graphics",
    summary: "what is drawn with what: draws, textures, buffers, shaders, errors",
    needs: VALUES,
    order: Order::Shards,
    options: &[
        SettingInfo { name: "top", value: "N", default: "20", doc: "how many rows to list" },
        SettingInfo {
            name: "pictures",
            value: "N",
            default: "24",
            doc: "how many pictures of textures to keep",
        },
        SettingInfo { name: "shaders", value: "N", default: "24", doc: "how many shader sources to keep" },
    ],
    in_report: true,
};

impl Tool for Graphics {
    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, args: &Args, _trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let number = |name: &str, default: u64| -> Result<usize> {
            Ok(usize::try_from(args.number(name, default)?).unwrap_or(usize::MAX))
        };
        Ok(Box::new(Contents {
            top: number("top", 20)?,
            n_pictures: number("pictures", 24)?,
            n_shaders: number("shaders", 24)?,
            ..Contents::default()
        }))
    }
}

/// How many bytes of shader sources are kept.
const MAX_SOURCE_BYTES: usize = 256 << 10;
/// How many calls that never returned are kept.
const MAX_INCOMPLETE: usize = 100;

/// Calls of one sort, and bytes that they bring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Calls.
    pub calls: u64,
    /// Bytes of raw memory.
    pub bytes: u64,
}

/// One upload to a texture or buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Number of the call.
    pub call: u64,
    /// The function.
    pub function: String,
    /// What it is uploaded to.
    pub target: String,
    /// Size in pixels, or nothing.
    pub size: String,
    /// Format and type of the pixels, or usage of the buffer.
    pub format: String,
    /// Bytes.
    pub bytes: u64,
}

/// A result that says that something went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// How often.
    pub times: u64,
    /// Number of the first such call.
    pub first_call: u64,
}

/// What is in a trace of graphics calls.
///
/// JSON: `api`, `draws` (list of `function`, `mode`, `calls`), `textures` and `buffers` (each `calls`, `bytes`, `largest`: list of
/// `call`, `function`, `target`, `size`, `format`, `bytes`), `shaders` (`sources`, `distinct`, `listed`: list of `call`, `shader`, `text`), `errors` (list of
/// `function`, `result`, `times`, `first_call`), `incomplete` (`calls`, `listed`: list of `call`, `function`, `thread`).
#[derive(Clone, Debug, Default)]
pub struct Contents {
    top: usize,
    n_pictures: usize,
    n_shaders: usize,
    api: Api,
    duties: Vec<Option<Duty>>,
    draws: BTreeMap<(String, String), u64>,
    textures: Sum,
    largest_textures: Vec<Upload>,
    buffers: Sum,
    largest_buffers: Vec<Upload>,
    pictures: Vec<Picture>,
    /// Hashes of what has a picture, so that each has one only.
    pictured: Vec<u64>,
    sources: u64,
    listed: Vec<Source>,
    source_bytes: usize,
    errors: BTreeMap<(String, String), Trouble>,
    incomplete: u64,
    open: Vec<(u64, String, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    call: u64,
    shader: u64,
    text: String,
}

/// What is to be done about calls of a function.
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

impl Contents {
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
            self.incomplete += 1;
            if self.open.len() < MAX_INCOMPLETE {
                self.open.push((call.number, name(), call.thread));
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
        let trouble = self.errors.entry((function, result)).or_insert(Trouble { times: 0, first_call: call });
        trouble.times += 1;
    }

    fn texture(&mut self, seen: &Seen<'_>) {
        self.textures.calls += 1;
        let Some(blob) = seen.blob() else { return };
        self.textures.bytes += blob.len() as u64;
        let (width, height) = (seen.number("width"), seen.number("height"));
        let (format, kind) = (seen.word("format"), seen.word("type"));
        let depth = seen.number("depth").filter(|depth| *depth > 1);
        let sizes: Vec<String> = [width, height, depth].iter().flatten().map(u64::to_string).collect();
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
                format: &format,
                kind: &kind,
                bytes: blob,
            };
            if !self.pictured.contains(&hash)
                && let Some((width, height, png)) = pixels.picture()
            {
                self.pictured.push(hash);
                let name = format!("call {}", upload.call);
                let note = format!("{}, {format}", upload.size);
                self.pictures.push(Picture { name, note, width, height, png });
            }
        }
        keep_largest(&mut self.largest_textures, upload, self.top);
    }

    fn buffer(&mut self, seen: &Seen<'_>) {
        let Some(blob) = seen.blob() else {
            self.buffers.calls += 1;
            return;
        };
        self.buffers.calls += 1;
        self.buffers.bytes += blob.len() as u64;
        let upload = Upload {
            call: seen.call.number,
            function: String::from_utf8_lossy(seen.name()).into_owned(),
            target: seen.word("target"),
            size: String::new(),
            format: seen.word("usage"),
            bytes: blob.len() as u64,
        };
        keep_largest(&mut self.largest_buffers, upload, self.top);
    }

    fn shader(&mut self, seen: &Seen<'_>) {
        self.sources += 1;
        if self.listed.len() >= self.n_shaders || self.source_bytes >= MAX_SOURCE_BYTES {
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
        if self.listed.iter().any(|other| other.text == text) {
            return;
        }
        self.source_bytes += text.len();
        let shader = seen.nth(0).and_then(|index| seen.number_at(index)).unwrap_or(0);
        self.listed.push(Source { call: seen.call.number, shader, text });
    }
}

/// Adds an upload to a short list of the largest.
fn keep_largest(largest: &mut Vec<Upload>, upload: Upload, top: usize) {
    let key = |upload: &Upload| (Reverse(upload.bytes), upload.call);
    let at = largest.partition_point(|other| key(other) < key(&upload));
    if at < top {
        largest.insert(at, upload);
        largest.truncate(top);
    }
}

impl Pass for Contents {
    fn fork(&self, _shard: &Shard) -> Contents {
        let Contents { top, n_pictures, n_shaders, .. } = *self;
        Contents { top, n_pictures, n_shaders, ..Contents::default() }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        seen(batch).for_each(|seen| self.take(&seen));
        Ok(())
    }

    fn merge(&mut self, later: Contents) -> Result<()> {
        if self.api == Api::Unknown {
            self.api = later.api;
        }
        for (key, n) in later.draws {
            *self.draws.entry(key).or_default() += n;
        }
        for (sum, later) in [(&mut self.textures, later.textures), (&mut self.buffers, later.buffers)] {
            sum.calls += later.calls;
            sum.bytes += later.bytes;
        }
        for upload in later.largest_textures {
            keep_largest(&mut self.largest_textures, upload, self.top);
        }
        for upload in later.largest_buffers {
            keep_largest(&mut self.largest_buffers, upload, self.top);
        }
        for (picture, hash) in later.pictures.into_iter().zip(later.pictured) {
            if self.pictures.len() < self.n_pictures && !self.pictured.contains(&hash) {
                self.pictures.push(picture);
                self.pictured.push(hash);
            }
        }
        self.sources += later.sources;
        for source in later.listed {
            if self.listed.len() < self.n_shaders
                && !self.listed.iter().any(|other| other.text == source.text)
            {
                self.source_bytes += source.text.len();
                self.listed.push(source);
            }
        }
        for (key, trouble) in later.errors {
            self.errors.entry(key).or_insert(Trouble { times: 0, ..trouble }).times += trouble.times;
        }
        self.incomplete += later.incomplete;
        self.open.extend(later.open);
        self.open.truncate(MAX_INCOMPLETE);
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        Ok(Box::new(self))
    }
}

fn upload_json(upload: &Upload) -> Value {
    json!({
        "call": upload.call,
        "function": upload.function,
        "target": upload.target,
        "size": upload.size,
        "format": upload.format,
        "bytes": upload.bytes,
    })
}

fn grid(title: &str, head: &[&str], rows: Vec<Vec<Cell>>, more: usize) -> Block {
    let head = head.iter().map(|name| (*name).to_owned()).collect();
    Block::Grid(Grid { title: title.to_owned(), head, rows, more: more as u64 })
}

impl Contents {
    fn draws(&self) -> Vec<(&(String, String), &u64)> {
        let mut draws: Vec<_> = self.draws.iter().collect();
        draws.sort_by_key(|(key, n)| (Reverse(**n), *key));
        draws
    }

    fn uploads(&self, title: &str, sum: &Sum, largest: &[Upload], document: &mut Document) {
        if largest.is_empty() {
            return;
        }
        let has_size = largest.iter().any(|upload| !upload.size.is_empty());
        let rows = largest.iter().map(|upload| {
            let mut row = vec![
                Cell::Text(upload.call.to_string()),
                Cell::Code(upload.function.clone()),
                Cell::Text(upload.target.clone()),
            ];
            if has_size {
                row.push(Cell::Text(upload.size.clone()));
            }
            row.extend([Cell::Text(upload.format.clone()), Cell::Bytes(upload.bytes)]);
            row
        });
        let mut head = vec!["call", "function", "target"];
        if has_size {
            head.push("pixels");
        }
        head.extend([if has_size { "format" } else { "usage" }, "bytes"]);
        let rows = rows.collect::<Vec<_>>();
        let more = usize::try_from(sum.calls).unwrap_or(usize::MAX).saturating_sub(rows.len());
        document.blocks.push(grid(title, &head, rows, more));
    }

    fn is_empty(&self) -> bool {
        self.draws.is_empty()
            && self.textures.calls + self.buffers.calls + self.sources + self.incomplete == 0
            && self.errors.is_empty()
    }
}

impl Report for Contents {
    fn json(&self) -> Value {
        let draws: Vec<Value> = self
            .draws()
            .into_iter()
            .map(|((function, mode), n)| json!({ "function": function, "mode": mode, "calls": n }))
            .collect();
        let uploads = |sum: &Sum, largest: &[Upload]| {
            let largest: Vec<Value> = largest.iter().map(upload_json).collect();
            json!({ "calls": sum.calls, "bytes": sum.bytes, "largest": largest })
        };
        let shaders: Vec<Value> = self
            .listed
            .iter()
            .map(|source| json!({ "call": source.call, "shader": source.shader, "text": source.text }))
            .collect();
        let errors: Vec<Value> = self
            .errors
            .iter()
            .map(|((function, result), trouble)| {
                json!({
                    "function": function,
                    "result": result,
                    "times": trouble.times,
                    "first_call": trouble.first_call,
                })
            })
            .collect();
        let open: Vec<Value> = self
            .open
            .iter()
            .map(|(call, function, thread)| json!({ "call": call, "function": function, "thread": thread }))
            .collect();
        json!({
            "api": self.api.name(),
            "draws": draws,
            "textures": uploads(&self.textures, &self.largest_textures),
            "buffers": uploads(&self.buffers, &self.largest_buffers),
            "shaders": { "sources": self.sources, "listed": shaders },
            "errors": errors,
            "incomplete": { "calls": self.incomplete, "listed": open },
        })
    }

    fn document(&self, detail: Detail) -> Document {
        let mut document = Document::new("Graphics");
        if self.is_empty() {
            if detail == Detail::Full {
                document.blocks.push(Block::Note("Nothing is drawn or uploaded.".into()));
            }
            return document;
        }
        let figure = |label: &str, value: Cell, note: String| Figure { label: label.to_owned(), value, note };
        let n_draws: u64 = self.draws.values().sum();
        let n_errors: u64 = self.errors.values().map(|trouble| trouble.times).sum();
        let uploads = |sum: &Sum| format!("{} uploads", sum.calls);
        document.blocks.push(Block::Figures(vec![
            figure("API", Cell::from(self.api.name()), String::new()),
            figure("draws", Cell::Count(n_draws), String::new()),
            figure("textures", Cell::Bytes(self.textures.bytes), uploads(&self.textures)),
            figure("buffers", Cell::Bytes(self.buffers.bytes), uploads(&self.buffers)),
            figure("shader sources", Cell::Count(self.sources), String::new()),
            figure("errors returned", Cell::Count(n_errors), String::new()),
            figure("incomplete calls", Cell::Count(self.incomplete), String::new()),
        ]));
        if !self.errors.is_empty() {
            let rows = self.errors.iter().take(self.top).map(|((function, result), trouble)| {
                vec![
                    Cell::Code(function.clone()),
                    Cell::Text(result.clone()),
                    Cell::Count(trouble.times),
                    Cell::Text(trouble.first_call.to_string()),
                ]
            });
            let (rows, n_errors) = (rows.collect(), self.errors.len());
            let more = n_errors.saturating_sub(self.top);
            document.blocks.push(grid(
                "errors returned",
                &["function", "result", "times", "first call"],
                rows,
                more,
            ));
        }
        if !self.open.is_empty() {
            let rows = self.open.iter().take(self.top).map(|(call, function, thread)| {
                vec![
                    Cell::Text(call.to_string()),
                    Cell::Code(function.clone()),
                    Cell::Text(thread.to_string()),
                ]
            });
            let n_open = usize::try_from(self.incomplete).unwrap_or(usize::MAX);
            let (rows, more) = (rows.collect(), n_open.saturating_sub(self.top));
            document.blocks.push(grid(
                "calls that never returned",
                &["call", "function", "thread"],
                rows,
                more,
            ));
        }
        if detail == Detail::Brief {
            return document;
        }
        let draws = self.draws();
        let rows = draws.iter().take(self.top).map(|((function, mode), n)| {
            vec![Cell::Code(function.clone()), Cell::Text(mode.clone()), Cell::Count(**n)]
        });
        if !draws.is_empty() {
            let more = draws.len().saturating_sub(self.top);
            document.blocks.push(grid("draws", &["function", "mode", "calls"], rows.collect(), more));
        }
        if !self.pictures.is_empty() {
            let (title, pictures) = ("textures".to_owned(), self.pictures.clone());
            document.blocks.push(Block::Pictures(Pictures { title, pictures }));
        }
        self.uploads("largest uploads to textures", &self.textures, &self.largest_textures, &mut document);
        self.uploads("largest uploads to buffers", &self.buffers, &self.largest_buffers, &mut document);
        for source in &self.listed {
            let title = format!("shader {}, call {}", source.shader, source.call);
            document.blocks.push(Block::Listing(Listing { title, text: source.text.clone() }));
        }
        document
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
