//! The level of detail: the fields that the events of a stream have.
//!
//! SPEC: prism.md#configuration

use crate::event::{Config, Event, Kind};
use std::fmt;

/// A byte of fields for each kind, as configuration events carry them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Detail {
    /// [`Detail::TYPE`], [`Detail::SIZE`], [`Detail::ADDRESS`], [`Detail::ID`]; or, as for all kinds, [`Detail::OFF`].
    pub memory: u8,
    /// [`Detail::TYPE`] (the format), [`Detail::SIZE`] (the width), [`Detail::OPERATION`], [`Detail::ARITY`], [`Detail::IDS`].
    pub compute: u8,
    /// [`Detail::TYPE`], [`Detail::TAKEN`], [`Detail::TARGET`], [`Detail::INDIRECT`].
    pub control: u8,
    /// Stored, but only [`Detail::OFF`] has an effect.
    pub sync: u8,
    /// Stored, but only [`Detail::OFF`] has an effect.
    pub context: u8,
}

impl Detail {
    /// The type of accesses and control flow, the format of computations.
    pub const TYPE: u8 = 0x80;
    /// The size of accesses, the width of computations.
    pub const SIZE: u8 = 0x40;
    /// Addresses of accesses.
    pub const ADDRESS: u8 = 0x20;
    /// Ids of accesses.
    pub const ID: u8 = 0x10;
    /// Operations of computations.
    pub const OPERATION: u8 = 0x20;
    /// Numbers of arguments of computations.
    pub const ARITY: u8 = 0x10;
    /// Ids of arguments; without arity there are none.
    pub const IDS: u8 = 0x08;
    /// Whether control flow was taken.
    pub const TAKEN: u8 = 0x40;
    /// Targets of control flow.
    pub const TARGET: u8 = 0x20;
    /// Whether targets are computed.
    pub const INDIRECT: u8 = 0x10;

    /// For any kind: its events are not wanted at all. Front ends do not send them, except for swaps, which name the thread
    /// of the other events.
    pub const OFF: u8 = 0x01;

    /// No events.
    pub const NOTHING: Detail = Detail {
        memory: Detail::OFF,
        compute: Detail::OFF,
        control: Detail::OFF,
        sync: Detail::OFF,
        context: Detail::OFF,
    };
    /// Kinds of events only, without fields.
    pub const NONE: Detail = Detail { memory: 0, compute: 0, control: 0, sync: 0, context: 0 };
    /// All fields.
    pub const ALL: Detail = Detail { memory: 0xf0, compute: 0xf8, control: 0xf0, sync: 0, context: 0 };
    /// The fields that show which thread or function reads data that another wrote: places of accesses, formats of
    /// computations.
    pub const COMMUNICATION: Detail = Detail { memory: 0xe0, compute: 0x80, control: 0, sync: 0, context: 0 };
    /// The fields that the fixed encoding can store.
    pub const FIXED: Detail = Detail { memory: 0xe0, compute: 0xf0, control: 0xf0, sync: 0, context: 0 };
    /// The fields of the fixed encoding that Prism's front end for Valgrind fills: other fields hold bytes of earlier events.
    pub const VALGRIND: Detail = Detail { memory: 0xe0, compute: 0x90, control: 0x80, sync: 0, context: 0 };
    /// The fields on which the front end of the branch `variable-serde` agrees outside the stream.
    pub const SIGRIND: Detail = Detail { memory: 0xe0, compute: 0x80, control: 0, sync: 0, context: 0 };

    /// Parses the name of a level, or three bytes of fields in hexadecimal with colons between them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Detail> {
        Some(match text {
            "all" => Detail::ALL,
            "communication" => Detail::COMMUNICATION,
            "fixed" => Detail::FIXED,
            "none" => Detail::NONE,
            "sigrind" => Detail::SIGRIND,
            "valgrind" => Detail::VALGRIND,
            _ => {
                let fields: Vec<u8> = text
                    .split(':')
                    .map(|field| u8::from_str_radix(field, 16))
                    .collect::<Result<_, _>>()
                    .ok()?;
                let [memory, compute, control] = fields.try_into().ok()?;
                Detail { memory, compute, control, sync: 0, context: 0 }
            }
        })
    }

    /// Sets the fields of a kind.
    pub fn configure(&mut self, config: Config) {
        match config.kind {
            Kind::Memory => self.memory = config.fields,
            Kind::Compute => self.compute = config.fields,
            Kind::Control => self.control = config.fields,
            Kind::Sync => self.sync = config.fields,
            Kind::Context => self.context = config.fields,
            Kind::Config => {}
        }
    }

    /// The configuration events at the beginning of a stored stream with this detail.
    #[must_use]
    pub fn events(&self) -> [Config; 3] {
        [
            Config { kind: Kind::Memory, fields: self.memory },
            Config { kind: Kind::Compute, fields: self.compute },
            Config { kind: Kind::Control, fields: self.control },
        ]
    }

    /// The same, with the events of a kind turned off.
    #[must_use]
    pub const fn without(mut self, kind: Kind) -> Detail {
        match kind {
            Kind::Memory => self.memory = Detail::OFF,
            Kind::Compute => self.compute = Detail::OFF,
            Kind::Control => self.control = Detail::OFF,
            Kind::Sync => self.sync = Detail::OFF,
            Kind::Context => self.context = Detail::OFF,
            Kind::Config => {}
        }
        self
    }

    /// Whether the kind of an event is wanted.
    #[must_use]
    #[inline]
    pub fn wants(&self, event: &Event) -> bool {
        let fields = match event {
            Event::Memory(_) => self.memory,
            Event::Compute(_) => self.compute,
            Event::Control(_) => self.control,
            Event::Sync(_) if event.swap().is_none() => self.sync,
            Event::Context(_) => self.context,
            Event::Sync(_) | Event::Config(_) | Event::Unknown(_) => 0,
        };
        fields & Detail::OFF == 0
    }

    /// The union of two levels; a kind is off only if it is off in both.
    #[must_use]
    pub fn with(self, other: Detail) -> Detail {
        let both = |one: u8, other: u8| match (one & Detail::OFF != 0, other & Detail::OFF != 0) {
            (true, _) => other,
            (_, true) => one,
            _ => one | other,
        };
        Detail {
            memory: both(self.memory, other.memory),
            compute: both(self.compute, other.compute),
            control: both(self.control, other.control),
            sync: both(self.sync, other.sync),
            context: both(self.context, other.context),
        }
    }
}

impl fmt::Display for Detail {
    /// Writes the fields of accesses, computations and control flow in hexadecimal, with colons between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:02x}:{:02x}", self.memory, self.compute, self.control)
    }
}
