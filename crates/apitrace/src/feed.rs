//! Blocks of a stream → events: keeps the bytes of an event together that lies across blocks.

use crate::decode::{Decoder, Event, Fault, Header, Stop, header};
use crate::record::MAX_EVENT_BYTES;
use quipu_model::values::{Types, Values};
use quipu_model::{Error, ErrorKind, Finding, Place, Result, Severity};
use quipu_source::{Container, Stream, StreamOptions};

/// A stream on its way through the decoder.
#[derive(Debug)]
pub struct Feed {
    file: String,
    stream: Stream,
    /// The bytes at hand; those before `at` are used up.
    bytes: Vec<u8>,
    at: usize,
    /// Offset of `bytes[0]` in the stream.
    base: u64,
    block: Vec<u8>,
    /// True once the stream has ended or failed.
    is_over: bool,
    /// What the stream failed with.
    failure: Option<Error>,
    decoder: Option<Decoder>,
    header: Header,
    findings: Vec<Finding>,
}

impl Feed {
    /// Begins to read a container.
    pub fn new(container: &Container, options: &StreamOptions) -> Result<Feed> {
        Ok(Feed {
            file: container.name().to_owned(),
            stream: container.stream(container.all_members(), options)?,
            bytes: Vec::new(),
            at: 0,
            base: 0,
            block: Vec::new(),
            is_over: false,
            failure: None,
            decoder: None,
            header: Header::default(),
            findings: Vec::new(),
        })
    }

    /// Takes the next event; `None` at the end of the data.
    ///
    /// # Errors
    /// If the stream or the event is damaged: nothing behind that place can be told.
    pub fn event(&mut self, out: &mut Values, types: &mut Types) -> Result<Option<Event>> {
        if self.decoder.is_none() && !self.read_header()? {
            return Ok(None);
        }
        loop {
            let Some(decoder) = &mut self.decoder else { return Ok(None) };
            match decoder.event(&self.bytes, self.at, out, types) {
                Ok((event, next)) => {
                    self.at = next;
                    return Ok(Some(event));
                }
                Err(Stop::More(n_bytes)) => {
                    if !self.more(n_bytes)? {
                        return self.end().map(|()| None);
                    }
                }
                Err(Stop::Bad(fault)) => return Err(self.place(&fault)),
            }
        }
    }

    /// What the stream says of itself; empty before the first event was asked for.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The state of the decoder, once there was a header.
    pub fn decoder(&mut self) -> Option<&mut Decoder> {
        self.decoder.as_mut()
    }

    /// How many bytes of the stream are used up.
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// How many bytes of the stream there are, as far as it was read.
    pub fn n_bytes(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Takes what was odd so far.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.findings)
    }

    /// The error of a call that asks for too much memory together with others that are open.
    pub fn too_much_pending(&self, n_bytes: u64) -> Error {
        let limit = crate::record::MAX_PENDING_BYTES as u64;
        Error::limit("bytes in calls that were entered and not left", n_bytes, limit)
            .at(&self.here(self.offset()))
    }

    fn read_header(&mut self) -> Result<bool> {
        loop {
            match header(&self.bytes[self.at..]) {
                Ok((header, end)) => {
                    self.at += end;
                    self.decoder = Some(Decoder::new(&header));
                    self.header = header;
                    return Ok(true);
                }
                Err(Stop::More(n_bytes)) => {
                    if !self.more(n_bytes)? {
                        self.end()?;
                        return Ok(false);
                    }
                }
                Err(Stop::Bad(fault)) => return Err(self.place(&fault)),
            }
        }
    }

    /// Gets more bytes: `n_bytes`, and as many as are at hand, so that a long event is not tried too often. False if there
    /// are none.
    fn more(&mut self, n_bytes: u64) -> Result<bool> {
        self.bytes.drain(..self.at);
        self.base += self.at as u64;
        self.at = 0;
        let n_before = self.bytes.len();
        if n_before > MAX_EVENT_BYTES {
            let limit = MAX_EVENT_BYTES as u64;
            return Err(Error::limit("bytes in one event", n_before as u64, limit).at(&self.here(self.base)));
        }
        let enough = n_before + usize::try_from(n_bytes).unwrap_or(usize::MAX).min(n_before).max(1);
        while self.bytes.len() < enough && !self.is_over {
            match self.stream.next(&mut self.block) {
                Ok(Some(_)) if self.bytes.is_empty() => std::mem::swap(&mut self.bytes, &mut self.block),
                Ok(Some(_)) => self.bytes.extend_from_slice(&self.block),
                Ok(None) => self.is_over = true,
                Err(error) => {
                    self.is_over = true;
                    self.failure = Some(error.into());
                }
            }
        }
        Ok(self.bytes.len() > n_before)
    }

    /// Judges how the data ends: cut data is good as far as it goes.
    fn end(&mut self) -> Result<()> {
        let mut found = |rule, place: Place, message: String| {
            self.findings.push(Finding { rule, severity: Severity::Warning, place, message, count: 1 });
        };
        if let Some(error) = self.failure.take() {
            if error.kind() != ErrorKind::Truncated {
                return Err(error.at(&self.here(self.n_bytes())));
            }
            found("source/truncated", error.place().clone(), error.message().to_owned());
        }
        let place = Place { file: Some(self.file.clone()), offset: Some(self.base), ..Place::default() };
        match &self.decoder {
            None if self.bytes.is_empty() => {
                let what = "there is nothing in the trace: it ends before its first call was stored";
                found("apitrace/empty", place, what.to_owned());
            }
            None => found("apitrace/cut", place, "the trace ends within its header".to_owned()),
            Some(decoder) if !self.bytes.is_empty() => {
                let what = format!("the trace ends within an event, behind `{}` calls", decoder.n_entered());
                found("apitrace/cut", place, what);
            }
            Some(_) => {}
        }
        Ok(())
    }

    #[cold]
    fn place(&self, fault: &Fault) -> Error {
        let n_entered = self.decoder.as_ref().map_or(0, Decoder::n_entered);
        let message = match n_entered.checked_sub(1) {
            Some(call) => format!("{}, behind the entry of call `{call}`", fault.message),
            None => fault.message.clone(),
        };
        // A header is read from where it begins, events from where the bytes do.
        let offset = self.base + fault.at as u64;
        Error::new(fault.kind, message).at(&self.here(offset))
    }

    fn here(&self, offset: u64) -> Place {
        Place { file: Some(self.file.clone()), offset: Some(offset), ..Place::default() }
    }
}
