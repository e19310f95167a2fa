//! Messages: a head of 8 bytes, and a body whose length is in the head.
//!
//! `docs/collect.md` describes them (section on messages).

use std::fmt;

/// Bytes of a message head: kind, three zeros, length of the body.
pub const HEAD_BYTES: usize = 8;

/// First bytes of a HELLO body.
pub const MAGIC: [u8; 8] = *b"QUIPUNET";

/// The protocol version implemented here.
pub const VERSION: u16 = 1;

/// Bytes of the secret in a token.
pub const SECRET_BYTES: usize = 32;

/// Maximum bytes of the text of an ERROR.
pub const MAX_TEXT_BYTES: usize = 1024;

/// Maximum number of ranges in a HAVE.
pub const MAX_RANGES: usize = 65_536;

/// Bytes of a range in a HAVE.
pub const RANGE_BYTES: usize = 32;

/// Maximum bytes of a frame: the limit of stream readers, plus the longest header.
pub const MAX_FRAME_BYTES: u32 = (64 << 20) + 1024;

/// Kinds of messages. Odd ones are sent by the sender, even ones by the collector.
pub mod kind {
    /// The sender identifies itself.
    pub const HELLO: u8 = 1;
    /// The sender is admitted.
    pub const WELCOME: u8 = 2;
    /// Announces frames of a producer.
    pub const BEGIN: u8 = 3;
    /// Lists the frames of a producer that the collector has.
    pub const HAVE: u8 = 4;
    /// A frame.
    pub const FRAME: u8 = 5;
    /// Number of frames of this connection that are on disk.
    pub const ACK: u8 = 6;
    /// Nothing more will be sent.
    pub const DONE: u8 = 7;
    /// All frames are on disk.
    pub const BYE: u8 = 8;
    /// Asks for an acknowledgement.
    pub const PING: u8 = 9;
    /// Reason why the connection ends.
    pub const ERROR: u8 = 10;
}

/// The code of an ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Code {
    /// The two sides have no version in common.
    Version = 1,
    /// The token or certificate is wrong.
    Denied = 2,
    /// An invalid message or frame.
    Malformed = 3,
    /// A limit of the collector was exceeded.
    Limit = 4,
    /// Another connection now sends this producer.
    TakenOver = 5,
    /// The collector could not write to disk.
    Storage = 6,
    /// The collector is shutting down.
    Ending = 7,
    /// The connection was silent for too long.
    Silent = 8,
    /// A code that this version does not know.
    Unknown = 0xFFFF,
}

impl Code {
    /// The code with this number; `Unknown` if there is none.
    #[must_use]
    pub fn of(number: u16) -> Code {
        use Code::{Denied, Ending, Limit, Malformed, Silent, Storage, TakenOver, Unknown, Version};
        let all = [Version, Denied, Malformed, Limit, TakenOver, Storage, Ending, Silent];
        all.into_iter().find(|code| *code as u16 == number).unwrap_or(Unknown)
    }

    /// Whether the sender may succeed if it tries again later.
    #[must_use]
    pub fn is_passing(self) -> bool {
        matches!(self, Code::Limit | Code::Storage | Code::Ending | Code::Silent)
    }
}

/// The reason why a connection cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Code for the other side.
    pub code: Code,
    /// Text for people.
    pub text: String,
}

impl Fault {
    /// Creates a fault.
    pub fn new(code: Code, text: impl Into<String>) -> Fault {
        Fault { code, text: text.into() }
    }

    pub(crate) fn malformed(text: impl Into<String>) -> Fault {
        Fault::new(Code::Malformed, text)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

/// How a sender proves that it may send.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Proof {
    /// No proof: the connection stays on one machine, or TLS has checked a certificate.
    #[default]
    None,
    /// The secret of a token.
    Token([u8; SECRET_BYTES]),
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Proof::None => "None",
            Proof::Token(_) => "Token",
        })
    }
}

/// Contents of a HELLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Lowest version that the sender speaks.
    pub lowest: u16,
    /// Highest version that the sender speaks.
    pub highest: u16,
    /// Proof that the sender may send.
    pub proof: Proof,
}

/// Bytes of a HELLO body.
pub const HELLO_BYTES: usize = 8 + 4 + 4 + SECRET_BYTES;

impl Hello {
    /// Encodes the body.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HELLO_BYTES] {
        let mut body = [0; HELLO_BYTES];
        body[..8].copy_from_slice(&MAGIC);
        body[8..10].copy_from_slice(&self.lowest.to_le_bytes());
        body[10..12].copy_from_slice(&self.highest.to_le_bytes());
        if let Proof::Token(secret) = &self.proof {
            body[12] = 1;
            body[16..].copy_from_slice(secret);
        }
        body
    }

    /// Decodes a body; `None` if it is malformed.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Hello> {
        let body: &[u8; HELLO_BYTES] = body.try_into().ok()?;
        if body[..8] != MAGIC {
            return None;
        }
        let proof = match body[12] {
            0 => Proof::None,
            1 => Proof::Token(body[16..].try_into().ok()?),
            _ => return None,
        };
        Some(Hello {
            lowest: u16::from_le_bytes([body[8], body[9]]),
            highest: u16::from_le_bytes([body[10], body[11]]),
            proof,
        })
    }
}

/// Encodes a message head.
#[must_use]
pub fn head(kind: u8, len: u32) -> [u8; HEAD_BYTES] {
    let [a, b, c, d] = len.to_le_bytes();
    [kind, 0, 0, 0, a, b, c, d]
}

/// Appends a message. Bodies have at most a few megabytes.
pub fn put(kind: u8, body: &[u8], out: &mut Vec<u8>) {
    let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&head(kind, len));
    out.extend_from_slice(body);
}

/// The side of a connection that sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// A sender.
    Sender,
    /// A collector.
    Collector,
}

impl From {
    /// Allowed lengths of the body of a message of this kind; `None` if this side does not send that kind.
    fn bodies(self, kind: u8) -> Option<std::ops::RangeInclusive<u32>> {
        const HELLO_LEN: u32 = HELLO_BYTES as u32;
        Some(match (self, kind) {
            (From::Sender, kind::HELLO) => HELLO_LEN..=HELLO_LEN,
            (From::Sender, kind::BEGIN) => 8..=8,
            (From::Sender, kind::FRAME) => 104..=MAX_FRAME_BYTES,
            (From::Sender, kind::DONE | kind::PING) => 0..=0,
            (From::Collector, kind::WELCOME | kind::ACK | kind::BYE) => 8..=8,
            (From::Collector, kind::HAVE) => 8..=(8 + MAX_RANGES * RANGE_BYTES) as u32,
            (From::Collector, kind::ERROR) => 2..=(2 + MAX_TEXT_BYTES) as u32,
            _ => return None,
        })
    }
}

/// A parsed part of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// A complete message: kind and body.
    Message(u8, &'a [u8]),
    /// The head of a FRAME: length of its body.
    Frame(u32),
    /// Bytes of a frame body, at least one.
    Bytes(&'a [u8]),
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Head,
    Body {
        kind: u8,
        len: usize,
    },
    /// Remaining bytes of a frame body.
    Frame(u32),
}

/// Splits input into messages, in chunks of any size.
#[derive(Debug)]
pub struct Parser {
    from: From,
    state: State,
    /// Bytes of an incomplete head or body.
    buffer: Vec<u8>,
    /// True if the buffer contains a message that was already returned.
    is_given: bool,
}

impl Parser {
    /// Creates a parser for messages from this side.
    #[must_use]
    pub fn new(from: From) -> Parser {
        Parser { from, state: State::Head, buffer: Vec::new(), is_given: false }
    }

    /// Moves bytes to the buffer until it has `len`; true once it has.
    fn gather(&mut self, len: usize, input: &mut &[u8]) -> bool {
        let n = (len - self.buffer.len()).min(input.len());
        let (taken, rest) = input.split_at(n);
        self.buffer.extend_from_slice(taken);
        *input = rest;
        self.buffer.len() == len
    }

    /// Parses the next part from the front of `input`; `None` if all of it was consumed and more is needed.
    ///
    /// # Errors
    /// If this side may not send that.
    pub fn next<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Result<Option<Part<'s>>, Fault> {
        if std::mem::take(&mut self.is_given) {
            self.buffer.clear();
        }
        loop {
            match self.state {
                State::Head => {
                    let is_whole = self.gather(HEAD_BYTES, input);
                    let Some(kind) = self.buffer.first().copied() else { return Ok(None) };
                    // The first byte is enough to recognise another protocol, whose peer might send only a few bytes.
                    if self.from.bodies(kind).is_none() {
                        return Err(Fault::malformed(format!("no message begins with kind {kind}")));
                    }
                    if !is_whole {
                        return Ok(None);
                    }
                    let len =
                        u32::from_le_bytes([self.buffer[4], self.buffer[5], self.buffer[6], self.buffer[7]]);
                    let is_odd = self.buffer[1..4] != [0; 3];
                    self.buffer.clear();
                    let bodies = self.from.bodies(kind).filter(|_| !is_odd);
                    let bodies = bodies
                        .ok_or_else(|| Fault::malformed(format!("no message begins with kind {kind}")))?;
                    if !bodies.contains(&len) {
                        let what = format!("a message of kind {kind} with a body of {len} bytes");
                        return Err(Fault::malformed(what));
                    }
                    if kind == kind::FRAME {
                        self.state = State::Frame(len);
                        return Ok(Some(Part::Frame(len)));
                    }
                    self.state = State::Body { kind, len: len as usize }; // 32 bits.
                }
                State::Body { kind, len } => {
                    if !self.gather(len, input) {
                        return Ok(None);
                    }
                    self.state = State::Head;
                    self.is_given = true;
                    return Ok(Some(Part::Message(kind, &self.buffer)));
                }
                State::Frame(0) => self.state = State::Head,
                State::Frame(left) => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let n = input.len().min(left as usize); // 32 bits.
                    let (bytes, rest) = input.split_at(n);
                    *input = rest;
                    self.state = State::Frame(left - n as u32); // At most `left`.
                    return Ok(Some(Part::Bytes(bytes)));
                }
            }
        }
    }
}

/// Makes a text from the other side safe to print: escapes control characters, including colours, and characters that change
/// the direction of text.
#[must_use]
pub fn harmless(text: &[u8]) -> String {
    let mut out = String::new();
    for c in String::from_utf8_lossy(text).chars() {
        match c {
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.extend(c.escape_unicode());
            }
            c if c.is_control() && u32::from(c) < 0x80 => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Decodes the number in an 8-byte body.
pub(crate) fn number(body: &[u8]) -> u64 {
    body.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
