//! Names of addresses, from the symbols in the capture.
//!
//! Printing on another machine has no kernel and no processes to ask, so only symbols carried with the buffers are used.

use crate::action::Action;
use crate::describe::{Capture, Rec};
use crate::put;

/// A named range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Symbol {
    /// First address.
    pub lo: u64,
    /// End address, exclusive.
    pub hi: u64,
    /// Name of the module or file.
    pub object: String,
    /// Name of the symbol; empty if only the module is known.
    #[serde(default)]
    pub name: String,
    /// Whether the addresses are those of processes.
    #[serde(default)]
    pub user: bool,
}

/// The symbols of a capture, for kernel and processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    kernel: Vec<Symbol>,
    user: Vec<Symbol>,
}

/// Form in which an address is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The symbol and the offset from it.
    Whole,
    /// The symbol without an offset.
    Symbol,
    /// Only the module.
    Module,
}

/// Address in a part of a record or key, with the form in which it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) address: u64,
    /// Whether it is an address of a process.
    pub(crate) is_user: bool,
    pub(crate) shown: Shown,
}

impl Address {
    /// Whether an action records an address of a process, and the form in which it is shown; `None` if it has no single address.
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

    /// The address in a part; `None` if its action records none, or its size does not fit.
    pub(crate) fn of(capture: &Capture, rec: &Rec, bytes: &[u8]) -> Option<Address> {
        let (is_user, shown) = Address::kind_of(rec.action)?;
        let bytes = match bytes.len() {
            // The process id precedes the address.
            16 => &bytes[8..],
            4 | 8 => bytes,
            _ => return None,
        };
        Some(Address { address: capture.order.number(bytes), is_user, shown })
    }

    /// Appends the address in its form.
    pub(crate) fn text(&self, capture: &Capture, out: &mut Vec<u8>) {
        capture.symbols.text(self.address, self.is_user, self.shown, out);
    }
}

impl Symbols {
    /// Sorts symbols by address.
    pub fn new(all: Vec<Symbol>) -> Symbols {
        let (mut user, mut kernel): (Vec<Symbol>, Vec<Symbol>) =
            all.into_iter().partition(|symbol| symbol.user);
        // Of overlapping symbols, the one that begins later is the narrower.
        user.sort_by_key(|symbol| symbol.lo);
        kernel.sort_by_key(|symbol| symbol.lo);
        Symbols { kernel, user }
    }

    /// All symbols, those of the kernel first.
    pub fn iter(&self) -> impl Iterator<Item = &Symbol> {
        self.kernel.iter().chain(&self.user)
    }

    /// Whether all symbols that overlap the given one have its module and name.
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

    /// First address of the symbol or module that contains an address, so that keys that are shown alike become equal; the
    /// address itself if it has no symbol.
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

    /// Appends the text of an address in the given form.
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
