//! What addresses are called, as the capture says.
//!
//! Printing on another machine has no kernel and no processes to ask, so only what travels with the buffers counts.

use crate::action::Action;
use crate::describe::{Capture, Rec};
use crate::put;

/// A range of addresses with a name.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Symbol {
    /// First address.
    pub lo: u64,
    /// After the last address.
    pub hi: u64,
    /// The module or file.
    pub object: String,
    /// Empty if only the module is known.
    #[serde(default)]
    pub name: String,
    /// True for addresses of processes.
    #[serde(default)]
    pub user: bool,
}

/// The symbols of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    kernel: Vec<Symbol>,
    user: Vec<Symbol>,
}

/// How an address is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// With its distance from the symbol.
    Whole,
    /// The symbol alone.
    Symbol,
    /// The module alone.
    Module,
}

/// An address that stands for its symbol or its module, as parts of records and of keys have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) address: u64,
    /// True for those of processes.
    pub(crate) is_user: bool,
    pub(crate) shown: Shown,
}

impl Address {
    /// What an action shows: whether of a process, and how; `None` if it has no single address.
    pub(crate) fn kind_of(action: Action) -> Option<(bool, Shown)> {
        Some(match action {
            Action::Sym => (false, Shown::Symbol),
            Action::Mod => (false, Shown::Module),
            Action::Usym => (true, Shown::Symbol),
            Action::Umod => (true, Shown::Module),
            Action::Uaddr => (true, Shown::Whole),
            _ => return None,
        })
    }

    /// The address of a part; `None` if it is none, or does not have the bytes of one.
    pub(crate) fn of(capture: &Capture, rec: &Rec, bytes: &[u8]) -> Option<Address> {
        let (is_user, shown) = Address::kind_of(rec.action)?;
        let bytes = match bytes.len() {
            // The process comes first.
            16 => &bytes[8..],
            4 | 8 => bytes,
            _ => return None,
        };
        Some(Address { address: capture.order.number(bytes), is_user, shown })
    }

    /// Appends what it is called.
    pub(crate) fn text(&self, capture: &Capture, out: &mut Vec<u8>) {
        capture.symbols.text(self.address, self.is_user, self.shown, out);
    }
}

impl Symbols {
    /// Sorts symbols.
    pub fn new(all: Vec<Symbol>) -> Symbols {
        let (mut user, mut kernel): (Vec<Symbol>, Vec<Symbol>) =
            all.into_iter().partition(|symbol| symbol.user);
        // Of symbols that overlap, the one that begins later is the narrower.
        user.sort_by_key(|symbol| symbol.lo);
        kernel.sort_by_key(|symbol| symbol.lo);
        Symbols { kernel, user }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Symbol> {
        self.kernel.iter().chain(&self.user)
    }

    /// False if an address is called something else.
    pub(crate) fn agrees(&self, other: &Symbol) -> bool {
        let all = if other.user { &self.user } else { &self.kernel };
        let is_same = |symbol: &Symbol| (&symbol.object, &symbol.name) == (&other.object, &other.name);
        let end = all.partition_point(|symbol| symbol.lo < other.hi);
        all[..end].iter().rev().take(8).all(|symbol| symbol.hi <= other.lo || is_same(symbol))
    }

    fn find(&self, address: u64, is_user: bool) -> Option<&Symbol> {
        let all = if is_user { &self.user } else { &self.kernel };
        let end = all.partition_point(|symbol| symbol.lo <= address);
        // A few narrower symbols may end before the address.
        all[..end].iter().rev().take(8).find(|symbol| address < symbol.hi)
    }

    /// Where the symbol or the module of an address begins, so that keys that mean the same become equal.
    pub fn start(&self, address: u64, is_user: bool, shown: Shown) -> u64 {
        match self.find(address, is_user) {
            None => address,
            Some(symbol) if shown == Shown::Module => {
                let all = if is_user { &self.user } else { &self.kernel };
                let same = all.iter().filter(|other| other.object == symbol.object);
                same.map(|other| other.lo).min().unwrap_or(symbol.lo)
            }
            Some(symbol) if symbol.name.is_empty() => address,
            Some(symbol) => symbol.lo,
        }
    }

    /// Appends the text of an address.
    pub fn text(&self, address: u64, is_user: bool, shown: Shown, out: &mut Vec<u8>) {
        let Some(symbol) = self.find(address, is_user) else {
            put::hex(out, address);
            return;
        };
        out.extend_from_slice(symbol.object.as_bytes());
        if shown == Shown::Module {
            return;
        }
        out.push(b'`');
        if symbol.name.is_empty() {
            put::hex(out, address);
            return;
        }
        out.extend_from_slice(symbol.name.as_bytes());
        if shown == Shown::Whole && address > symbol.lo {
            out.push(b'+');
            put::hex(out, address - symbol.lo);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(lo: u64, hi: u64, object: &str, name: &str) -> Symbol {
        Symbol { lo, hi, object: object.to_owned(), name: name.to_owned(), user: false }
    }

    #[test]
    fn addresses_are_shown_by_what_is_known_of_them() {
        let symbols = Symbols::new(vec![
            symbol(0x2000, 0x2100, "kernel", "b"),
            symbol(0x1000, 0x1100, "kernel", "a"),
            symbol(0x5000, 0x6000, "mod", ""),
        ]);
        let text = |address, shown| {
            let mut out = Vec::new();
            symbols.text(address, false, shown, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(0x1000, Shown::Whole), "kernel`a");
        assert_eq!(text(0x2004, Shown::Whole), "kernel`b+0x4");
        assert_eq!(text(0x2004, Shown::Symbol), "kernel`b");
        assert_eq!(text(0x2004, Shown::Module), "kernel");
        assert_eq!(text(0x5008, Shown::Whole), "mod`0x5008");
        assert_eq!(text(0x9999, Shown::Module), "0x9999");
        assert_eq!(symbols.start(0x2004, false, Shown::Symbol), 0x2000);
        assert_eq!(symbols.start(0x2004, false, Shown::Module), 0x1000);
        assert_eq!(symbols.start(0x2004, true, Shown::Module), 0x2004);
    }
}
