//! Events with undefined codes.
//!
//! Codes are kept as numbers, so that such events can be printed and copied; they are always reported.
//!
//! SPEC: prism.md#kinds-and-codes

use crate::event::{Event, access, context, control, format, sync};
use crate::rules;
use quipu_model::RuleInfo;
use std::fmt;

/// The highest operation number with a name.
const LAST_OPERATION: u8 = 6;

/// The type of wide accesses from Valgrind's front end, whose sizes overflow into the type: a 16-byte store or a 32-byte load.
const EITHER: u8 = access::LOAD | access::STORE;

/// An undefined code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unknown {
    /// An unknown tag in the fixed encoding.
    Tag(u8),
    /// An undefined type of a kind, with a description of the kind.
    Type(&'static str, u8),
}

impl Unknown {
    /// The undefined code of an event, if it has one.
    #[must_use]
    #[inline]
    pub fn of(event: &Event) -> Option<Unknown> {
        let beyond = |code: Option<u8>, last: u8| code.filter(|code| *code > last);
        // Type 0 is undefined, too: if the field is present, it has to say what the event is.
        let outside = |code: Option<u8>, last: u8| code.filter(|code| *code == 0 || *code > last);
        match event {
            Event::Memory(memory) => Unknown::found("type of an access", outside(memory.access, EITHER)),
            Event::Compute(compute) => {
                let format = Unknown::found("format of a computation", beyond(compute.format, format::FLOAT));
                let operation = beyond(compute.operation, LAST_OPERATION);
                format.or_else(|| Unknown::found("operation", operation))
            }
            Event::Control(flow) => {
                Unknown::found("type of control flow", outside(flow.kind, control::RETURN))
            }
            Event::Sync(event) => {
                let is_known = (sync::CREATE..=sync::SPIN_UNLOCK).contains(&event.kind);
                Unknown::found("type of synchronization", (!is_known).then_some(event.kind))
            }
            Event::Context(event) => {
                let is_known = (context::INSTRUCTION..=context::OPERATOR_EXIT).contains(&event.kind);
                Unknown::found("type of a context", (!is_known).then_some(event.kind))
            }
            Event::Config(_) => None,
            Event::Unknown(tag) => Some(Unknown::Tag(*tag)),
        }
    }

    #[inline]
    fn found(what: &'static str, code: Option<u8>) -> Option<Unknown> {
        code.map(|code| Unknown::Type(what, code))
    }

    /// The rule that the code violates.
    pub(crate) fn rule(self) -> &'static RuleInfo {
        match self {
            Unknown::Tag(_) => &rules::TAG,
            Unknown::Type(..) => &rules::TYPE,
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unknown::Tag(tag) => write!(f, "an event of the unknown tag `{tag}`"),
            Unknown::Type(what, code) => write!(f, "the unknown {what} `{code}`"),
        }
    }
}
