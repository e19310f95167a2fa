//! Flow indent: prints entries and returns of functions with indentation.
//!
//! SPEC: dtrace.md#flow-indent

use crate::describe::Probe;
use crate::put;

/// The kind of a firing for the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Entry,
    Return,
    Other,
}

/// The state of the flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    indent: usize,
    /// The probe and the enabling of the previous record.
    last: Option<(u32, u32)>,
}

/// Maximum indentation in columns.
const MAX_INDENT: usize = 4096;

impl Flow {
    /// Prints the columns before the values of a firing. `this` and `next` are probes with their enablings.
    pub(crate) fn prefix(
        &mut self,
        cpu: u32,
        probe: &Probe,
        this: (u32, u32),
        next: Option<(u32, u32)>,
        out: &mut Vec<u8>,
    ) {
        let is_another =
            |other: Option<(u32, u32)>| other.is_some_and(|other| other.0 == this.0 && other.1 != this.1);
        let kind = match probe.name.as_str() {
            // A second clause of a probe is not a second call.
            "entry" if !is_another(self.last) => Kind::Entry,
            name if name.ends_with("-entry") && !is_another(self.last) => Kind::Entry,
            "return" if !is_another(next) => Kind::Return,
            name if name.ends_with("-return") && !is_another(next) => Kind::Return,
            _ => Kind::Other,
        };
        self.last = Some(this);
        let is_syscall = probe.provider == "syscall";
        if kind == Kind::Return {
            self.indent = self.indent.saturating_sub(2);
        }
        put::signed(out, i64::from(cpu), 3);
        out.push(b' ');
        let start = out.len();
        put::fill(out, b' ', self.indent);
        out.extend_from_slice(match kind {
            Kind::Entry if is_syscall => b" => ",
            Kind::Entry => b" -> ",
            Kind::Return if is_syscall => b" <= ",
            Kind::Return => b" <- ",
            Kind::Other => b"| ",
        });
        out.extend_from_slice(probe.function.as_bytes());
        if kind == Kind::Other {
            out.push(b':');
            out.extend_from_slice(probe.name.as_bytes());
        }
        put::widen(out, start, 41);
        out.push(b' ');
        if kind == Kind::Entry {
            self.indent = (self.indent + 2).min(MAX_INDENT);
        }
    }

    /// Notes a firing without printing its prefix.
    pub(crate) fn pass(&mut self, this: (u32, u32)) {
        self.last = Some(this);
    }

    /// Resets the flow for another CPU.
    pub(crate) fn reset(&mut self) {
        *self = Flow::default();
    }
}
