//! Parses statements of a text into events of a stream.
//!
//! Values (in [`values`](super::values)) are written while they are read: there is no syntax tree. The same [`Walker`] as for
//! the opposite direction keeps the types declared so far, and notes which of their signatures the stream contains.

use super::lexer::{Lexer, Spot};
use super::names::Space;
use super::walk::{Walked, Walker};
use crate::decode;
use crate::encode::{self, string, uint};
use crate::record::*;
use quipu_model::Result;
use quipu_model::values::{Frame, FunctionType, NamedNumbers, StructType, Type};
use rustc_hash::FxHashMap;
use std::io::BufRead;

/// Reads the contents of a file of raw memory, given its name.
pub(super) type Blobs<'b> = dyn FnMut(&str) -> Result<Vec<u8>> + 'b;

/// Parser of a text.
pub(super) struct Parser<'b, R> {
    pub(super) lexer: Lexer<R>,
    pub(super) walker: Walker,
    pub(super) blobs: &'b mut Blobs<'b>,
    /// Open calls by their labels in the text: their numbers and functions.
    pub(super) open: FxHashMap<u64, (u64, u32)>,
    /// Number of calls entered.
    pub(super) n_calls: u64,
}

impl<'b, R: BufRead> Parser<'b, R> {
    /// Parses the part of a text before its statements; writes the header of the stream, if the text has one.
    pub(super) fn new(
        input: R,
        name: &str,
        blobs: &'b mut Blobs<'b>,
        out: &mut Vec<u8>,
    ) -> Result<Parser<'b, R>> {
        let mut lexer = Lexer::new(input, name)?;
        let spot = lexer.spot();
        let mut is_text = lexer.word()?.as_deref() == Some("quipu") && lexer.digits()? == "-text";
        is_text = is_text && lexer.word()?.as_deref() == Some("apitrace");
        is_text = is_text && lexer.number("the version of the grammar")? == 1;
        if !is_text {
            return Err(lexer.error(spot, format_args!("a text begins with `{}`", super::MAGIC)));
        }
        let mut parser =
            Parser { lexer, walker: Walker::new(0), blobs, open: FxHashMap::default(), n_calls: 0 };
        parser.header(out)?;
        Ok(parser)
    }

    pub(super) fn header(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if self.lexer.peek()?.is_none() {
            return Ok(());
        }
        let spot = self.lexer.spot();
        match self.lexer.word()?.as_deref() {
            Some("version") => {}
            Some("raw") => return self.raw_header(out),
            _ => return Err(self.lexer.error(spot, "expected `version` and the version of the stream")),
        }
        let spot = self.lexer.spot();
        let version = self.lexer.number("the version of the stream")?;
        if version > NEWEST_VERSION {
            let message =
                format!("there is no version `{version}` of the stream, the newest is `{NEWEST_VERSION}`");
            return Err(self.lexer.error(spot, message));
        }
        self.walker = Walker::new(version);
        uint(version, out);
        if version < VERSION_PROPERTIES {
            return Ok(());
        }
        let spot = self.lexer.spot();
        if self.lexer.word()?.as_deref() != Some("semantic") {
            return Err(self
                .lexer
                .error(spot, "expected `semantic` and the version by which calls are replayed"));
        }
        uint(self.lexer.number("the semantic version")?, out);
        // Only properties are read here; a word other than `property` begins the first statement, which reports a late
        // property as a mistake.
        while self.lexer.peek()? == Some(b'p') {
            let spot = self.lexer.spot();
            match self.lexer.word()?.as_deref() {
                Some("property") => {}
                Some(word) => {
                    let word = word.to_owned();
                    uint(0, out);
                    return self.named_call(spot, None, 0, &word, out);
                }
                None => break,
            }
            let spot = self.lexer.spot();
            let name = self.lexer.string()?;
            if name.is_empty() {
                return Err(self.lexer.error(spot, "a property has a name"));
            }
            self.lexer.expect(b'=')?;
            let value = self.lexer.string()?;
            string(&name, out);
            string(&value, out);
        }
        uint(0, out);
        Ok(())
    }

    /// Parses a header given as raw bytes.
    fn raw_header(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let spot = self.lexer.spot();
        let bytes = self.raw_bytes()?;
        match decode::header(&bytes) {
            Ok((header, end)) if end == bytes.len() => self.walker = Walker::new(header.version),
            _ => return Err(self.lexer.error(spot, "these bytes are not the header of a stream")),
        }
        out.extend_from_slice(&bytes);
        Ok(())
    }

    /// Parses the next statement and appends its events; false at the end of the text.
    pub(super) fn statement(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let (mut label, mut thread) = (None, 0);
        match self.lexer.peek()? {
            None => return Ok(false),
            Some(byte) if byte.is_ascii_digit() => {
                label = Some(self.lexer.number("the number of a call")?);
                self.lexer.expect(b':')?;
            }
            Some(_) => {}
        }
        if self.lexer.takes(b'@')? {
            let spot = self.lexer.spot();
            thread = self.lexer.number("a thread")?;
            if self.walker.version() < VERSION_THREADS {
                return Err(self.lexer.error(spot, "streams of this version have no threads"));
            }
        }
        let spot = self.lexer.spot();
        let Some(word) = self.lexer.word()? else {
            if self.lexer.peek()? != Some(b'"') {
                return Err(self.lexer.unexpected("a statement"));
            }
            let name = self.lexer.string()?;
            self.call(spot, label, thread, false, &name, out)?;
            return Ok(true);
        };
        let is_call = label.is_some() || thread != 0;
        match word.as_str() {
            "raw" => self.raw(label, out)?,
            "function" | "struct" | "enum" | "flags" | "frame" | "leave" | "tail" | "version"
            | "semantic" | "property"
                if is_call =>
            {
                return Err(self.lexer.error(spot, format_args!("expected a call, found `{word}`")));
            }
            "function" | "struct" | "enum" | "flags" | "frame" => self.declare(spot, &word)?,
            "leave" => self.leave(out)?,
            "tail" => {
                let bytes = self.raw_bytes()?;
                out.extend_from_slice(&bytes);
                if self.lexer.peek()?.is_some() {
                    return Err(self.lexer.unexpected("nothing after `tail`"));
                }
            }
            "version" | "semantic" | "property" => {
                let message = format!("`{word}` stands at the front, before all types and calls");
                return Err(self.lexer.error(spot, message));
            }
            _ => self.named_call(spot, label, thread, &word, out)?,
        }
        Ok(true)
    }

    /// Parses a call that begins with `word`: `enter`, or the name of its function.
    pub(super) fn named_call(
        &mut self,
        spot: Spot,
        label: Option<u64>,
        thread: u64,
        word: &str,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if word != "enter" {
            return self.call(spot, label, thread, false, word.as_bytes(), out);
        }
        let spot = self.lexer.spot();
        let name = self.name("a function")?;
        self.call(spot, label, thread, true, &name, out)
    }

    pub(super) fn raw_bytes(&mut self) -> Result<Vec<u8>> {
        let spot = self.lexer.spot();
        match self.lexer.word()?.as_deref() {
            Some("hex") => self.hex(),
            Some("blob") => self.blob(spot),
            _ => Err(self.lexer.error(spot, "expected `hex` or `blob`")),
        }
    }

    pub(super) fn hex(&mut self) -> Result<Vec<u8>> {
        let spot = self.lexer.spot();
        let digits = self.lexer.string()?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (pairs, rest) = digits.as_chunks::<2>();
        let bytes: Option<Vec<u8>> =
            pairs.iter().map(|[high, low]| Some((digit(*high)? * 16 + digit(*low)?) as u8)).collect();
        match bytes.filter(|_| rest.is_empty()) {
            Some(bytes) => Ok(bytes),
            None => Err(self.lexer.error(spot, "expected pairs of hex digits")),
        }
    }

    pub(super) fn blob(&mut self, spot: Spot) -> Result<Vec<u8>> {
        let name = self.lexer.string()?;
        let name = String::from_utf8(name).map_err(|_| self.lexer.error(spot, "names of files are UTF-8"))?;
        (self.blobs)(&name).map_err(|error| self.lexer.error(spot, "raw memory is missing").because(error))
    }

    /// Parses an event given as raw bytes; its types and its call count like those of other events.
    pub(super) fn raw(&mut self, label: Option<u64>, out: &mut Vec<u8>) -> Result<()> {
        let spot = self.lexer.spot();
        let bytes = self.raw_bytes()?;
        match self.walker.event(&bytes, 0) {
            Ok((walked, end)) if end == bytes.len() => match walked {
                Walked::Enter { number, function } => {
                    self.open.insert(label.unwrap_or(number), (number, function));
                    self.n_calls += 1;
                }
                Walked::Leave { number, .. } => self.open.retain(|_, (open, _)| *open != number),
            },
            _ => return Err(self.lexer.error(spot, "these bytes are not one event")),
        }
        out.extend_from_slice(&bytes);
        Ok(())
    }

    /// Parses a name, with or without quotes.
    pub(super) fn name(&mut self, what: &str) -> Result<Vec<u8>> {
        if let Some(word) = self.lexer.word()? {
            return Ok(word.into_bytes());
        }
        if self.lexer.peek()? == Some(b'"') { self.lexer.string() } else { Err(self.lexer.unexpected(what)) }
    }

    pub(super) fn declare(&mut self, spot: Spot, word: &str) -> Result<()> {
        let id = self.lexer.number("the number of a type")?;
        let ty = match word {
            "function" => {
                let name = self.name("the name of a function")?;
                Type::Function(FunctionType { id, name, args: self.names(b'(', b')')?, flags: 0 })
            }
            "struct" => {
                let name = self.name("the name of a structure")?;
                Type::Struct(StructType { id, name, members: self.names(b'{', b'}')? })
            }
            "enum" => {
                let names = self.numbers()?;
                if self.walker.version() < VERSION_WHOLE_ENUMS && names.len() != 1 {
                    let message = "in streams of this version, an enumeration has one name";
                    return Err(self.lexer.error(spot, message));
                }
                Type::Enum(NamedNumbers::new(id, names))
            }
            "flags" => Type::Flags(NamedNumbers::new(id, self.numbers()?)),
            _ => Type::Frame(self.frame(id)?),
        };
        match self.walker.table.add(ty) {
            Some(_) => Ok(()),
            None => Err(self.lexer.error(spot, format_args!("there is a {word} `{id}` already"))),
        }
    }

    pub(super) fn names(&mut self, open: u8, close: u8) -> Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        self.lexer.expect(open)?;
        if self.lexer.takes(close)? {
            return Ok(names);
        }
        loop {
            names.push(self.name("a name")?);
            if self.lexer.takes(close)? {
                return Ok(names);
            }
            self.lexer.expect(b',')?;
        }
    }

    pub(super) fn numbers(&mut self) -> Result<Vec<(Vec<u8>, u64)>> {
        let mut names = Vec::new();
        self.lexer.expect(b'{')?;
        while !self.lexer.takes(b'}')? {
            let name = self.name("a name")?;
            self.lexer.expect(b'=')?;
            names.push((name, self.integer()?));
            self.lexer.takes(b',')?;
        }
        Ok(names)
    }

    /// Parses a number with an optional sign; the result is two's complement.
    pub(super) fn integer(&mut self) -> Result<u64> {
        let is_negative = self.lexer.takes(b'-')?;
        let spot = self.lexer.spot();
        let number = self.lexer.number("a number")?;
        if is_negative && number > 1 << 63 {
            return Err(self.lexer.error(spot, format_args!("`-{number}` has more than 64 bits")));
        }
        Ok(if is_negative { number.wrapping_neg() } else { number })
    }

    pub(super) fn frame(&mut self, id: u64) -> Result<Frame> {
        let mut frame = Frame { id, ..Frame::default() };
        self.lexer.expect(b'{')?;
        while !self.lexer.takes(b'}')? {
            let spot = self.lexer.spot();
            match self.lexer.word()?.as_deref() {
                Some("module") => frame.module = Some(self.lexer.string()?),
                Some("function") => frame.function = Some(self.lexer.string()?),
                Some("file") => frame.file = Some(self.lexer.string()?),
                Some("line") => frame.line = Some(self.lexer.number("a line")?),
                Some("offset") => frame.offset = Some(self.lexer.number("an offset")?),
                _ => {
                    let message = "expected `module`, `function`, `file`, `line` or `offset`";
                    return Err(self.lexer.error(spot, message));
                }
            }
        }
        Ok(frame)
    }

    pub(super) fn call(
        &mut self,
        spot: Spot,
        label: Option<u64>,
        thread: u64,
        stays_open: bool,
        name: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let function = if self.lexer.takes(b'#')? {
            let id = self.lexer.number("the number of a function")?;
            self.walker.table.by_id(Space::Function, id)
        } else {
            self.walker.table.function(name)
        };
        let Some(function) = function else {
            let shown = String::from_utf8_lossy(name);
            let error = self.lexer.error(spot, format_args!("there is no function `{shown}`"));
            return Err(error.hint("say `function NUMBER NAME(ARGUMENTS)` before its first call"));
        };
        out.push(EVENT_ENTER);
        if self.walker.version() >= VERSION_THREADS {
            uint(thread, out);
        }
        self.signature(function, out);
        // The text has marks after the arguments, the stream has them first.
        let (mut args, mut marks) = (Vec::new(), Vec::new());
        self.args(Some(function), &mut args)?;
        self.marks(&mut marks)?;
        out.append(&mut marks);
        out.append(&mut args);
        out.push(DETAIL_END);
        let number = self.walker.note_enter();
        self.n_calls += 1;
        let label = label.unwrap_or(number);
        if stays_open {
            if self.open.insert(label, (number, function)).is_some() {
                return Err(self.lexer.error(spot, format_args!("call `{label}` is open already")));
            }
            return Ok(());
        }
        out.push(EVENT_LEAVE);
        uint(number, out);
        if self.lexer.takes_arrow()? {
            self.args(Some(function), out)?;
        }
        self.result(out)?;
        out.push(DETAIL_END);
        Ok(())
    }

    pub(super) fn leave(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let is_number = self.lexer.takes(b'#')?;
        let spot = self.lexer.spot();
        let label = self.lexer.number("the number of a call")?;
        let (number, function) = match self.open.remove(&label) {
            Some((number, function)) if !is_number => (number, Some(function)),
            // The number of a call that was never entered is written unchanged.
            _ if is_number => (label, None),
            _ => return Err(self.lexer.error(spot, format_args!("call `{label}` is not open"))),
        };
        out.push(EVENT_LEAVE);
        uint(number, out);
        let (mut args, mut marks) = (Vec::new(), Vec::new());
        self.args(function, &mut args)?;
        self.marks(&mut marks)?;
        out.append(&mut marks);
        out.append(&mut args);
        self.result(out)?;
        out.push(DETAIL_END);
        Ok(())
    }

    pub(super) fn result(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if self.lexer.takes(b'=')? {
            out.push(DETAIL_RESULT);
            self.value(out, 0)?;
        }
        Ok(())
    }

    pub(super) fn args(&mut self, function: Option<u32>, out: &mut Vec<u8>) -> Result<()> {
        self.lexer.expect(b'(')?;
        if self.lexer.takes(b')')? {
            return Ok(());
        }
        let n_named = match function.and_then(|function| self.walker.table.get(function)) {
            Some(Type::Function(function)) => function.args.len() as u64,
            _ => 0,
        };
        loop {
            let spot = self.lexer.spot();
            let index = if self.lexer.takes(b'#')? {
                let index = self.lexer.number("the position of an argument")?;
                // Readers accept no index beyond this.
                let limit = n_named + MAX_EXTRA_ARGS;
                if index >= limit {
                    let message =
                        format!("the position of an argument is `{index}`, and must be below `{limit}`");
                    return Err(self.lexer.error(spot, message));
                }
                index
            } else {
                let name = self.name("an argument")?;
                let names = match function.and_then(|function| self.walker.table.get(function)) {
                    Some(Type::Function(function)) => &function.args[..],
                    _ => &[],
                };
                match names.iter().position(|known| *known == name) {
                    Some(index) => index as u64,
                    None => {
                        let name = String::from_utf8_lossy(&name);
                        let error = self.lexer.error(spot, format_args!("there is no argument `{name}`"));
                        let names: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
                        return Err(error.hint(match names[..] {
                            [] => "arguments without a name are written `#0 = …`".to_owned(),
                            _ => format!("arguments of the function: {}", names.join(", ")),
                        }));
                    }
                }
            };
            self.lexer.expect(b'=')?;
            out.push(DETAIL_ARG);
            uint(index, out);
            self.value(out, 0)?;
            if self.lexer.takes(b')')? {
                return Ok(());
            }
            self.lexer.expect(b',')?;
        }
    }

    pub(super) fn marks(&mut self, out: &mut Vec<u8>) -> Result<()> {
        while self.lexer.takes(b'!')? {
            let spot = self.lexer.spot();
            match self.lexer.word()?.as_deref() {
                Some("fake") => {
                    out.push(DETAIL_FLAGS);
                    uint(1, out);
                }
                Some("flags") => {
                    out.push(DETAIL_FLAGS);
                    uint(self.lexer.number("the flags of a call")?, out);
                }
                Some("stack") => self.stack(out)?,
                _ => return Err(self.lexer.error(spot, "expected `fake`, `flags` or `stack`")),
            }
        }
        Ok(())
    }

    pub(super) fn stack(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let mut frames = Vec::new();
        self.lexer.expect(b'[')?;
        if !self.lexer.takes(b']')? {
            loop {
                let spot = self.lexer.spot();
                let id = self.lexer.number("the number of a frame")?;
                match self.walker.table.by_id(Space::Frame, id) {
                    Some(frame) => frames.push(frame),
                    None => return Err(self.lexer.error(spot, format_args!("there is no frame `{id}`"))),
                }
                if self.lexer.takes(b']')? {
                    break;
                }
                self.lexer.expect(b',')?;
            }
        }
        out.push(DETAIL_STACK);
        uint(frames.len() as u64, out);
        frames.into_iter().for_each(|frame| self.signature(frame, out));
        Ok(())
    }

    /// Writes the id of a type, and at its first use the signature.
    pub(super) fn signature(&mut self, position: u32, out: &mut Vec<u8>) {
        let is_new = self.walker.table.say(position);
        let whole_enums = self.walker.version() >= VERSION_WHOLE_ENUMS;
        let Some(ty) = self.walker.table.get(position) else { return };
        uint(super::names::key_of(ty).1, out);
        match ty {
            _ if !is_new => {}
            Type::Enum(names) if !whole_enums => {
                if let Some((name, number)) = names.names.first() {
                    string(name, out);
                    encode::sint(*number, out);
                }
            }
            ty => encode::body(ty, out),
        }
    }
}
