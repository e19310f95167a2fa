//! What is wrong with a stream, as data: a name that stays and keys that say where.

use std::fmt;

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

impl From<u64> for Key {
    fn from(n: u64) -> Key {
        Key::Number(n)
    }
}

impl From<u32> for Key {
    fn from(n: u32) -> Key {
        Key::Number(n.into())
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Key {
        Key::Text(text.to_owned())
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its name, as `docs/formats/stream.md` lists them.
    pub name: &'static str,
    /// Where and how much; `offset` is that of a frame in bytes.
    pub keys: Vec<(&'static str, Key)>,
}

impl Finding {
    /// A finding without keys.
    #[must_use]
    pub fn new(name: &'static str) -> Finding {
        Finding { name, keys: Vec::new() }
    }

    /// A finding of the frame at `offset`.
    #[must_use]
    pub fn at(name: &'static str, offset: u64) -> Finding {
        Finding::new(name).with("offset", offset)
    }

    /// Adds a key.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<Key>) -> Finding {
        self.keys.push((key, value.into()));
        self
    }

    /// The number under a key.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<u64> {
        self.keys.iter().find(|(name, _)| *name == key).and_then(|(_, value)| match value {
            Key::Number(n) => Some(*n),
            Key::Text(_) => None,
        })
    }
}

impl Finding {
    /// What is damaged, if it is a frame without data: `index`, `end`, `padding` or `metadata`.
    #[must_use]
    pub fn frame(&self) -> Option<&str> {
        self.keys.iter().find(|(name, _)| *name == "frame").and_then(|(_, value)| match value {
            Key::Text(text) => Some(&**text),
            Key::Number(_) => None,
        })
    }

    /// True if it is about a frame that readers can do without.
    #[must_use]
    pub fn is_auxiliary(&self) -> bool {
        self.frame().is_some_and(|frame| frame != "metadata")
    }

    /// True if records, or bytes of the stream, may be lost by it.
    #[must_use]
    pub fn loses(&self) -> bool {
        let does = matches!(
            self.name,
            "payload-crc"
                | "payload-invalid"
                | "unknown-encoding"
                | "unknown-codec"
                | "records-undecodable"
                | "truncated-frame"
                | "torn-frame"
                | "lost-sync"
                | "sequence-gap"
                | "frame-too-large"
                | "unknown-version"
                | "needs-newer-program"
                | "end-mismatch"
                | "buffer-reused"
        );
        does && !self.is_auxiliary()
    }

    /// True if all that the stream has is read all the same.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        let is_odd = matches!(
            self.name,
            "padding-not-zero"
                | "no-end-frame"
                | "leading-garbage"
                | "unfinished-frame"
                | "unknown-kind"
                | "index-mismatch"
                | "late-frame"
                | "time-order"
                | "metadata-invalid"
                | "metadata-not-canonical"
                | "findings-omitted"
        );
        is_odd || self.is_auxiliary()
    }

    /// How many data records are lost, if that is known: of metadata the number says nothing of those that need them, and
    /// headers of foreign bodies may have 0 where the writer did not count.
    #[must_use]
    pub fn lost_records(&self) -> Option<u64> {
        self.number("records").filter(|&n| n > 0 && self.frame().is_none())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        for (key, value) in &self.keys {
            match value {
                Key::Number(n) => write!(f, " {key}={n}")?,
                Key::Text(text) => write!(f, " {key}={}", text.escape_default())?,
            }
        }
        Ok(())
    }
}
