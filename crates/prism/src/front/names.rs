//! Names of functions by address: the symbols of programs and libraries, where they are in memory.

use super::sync_of_function;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of addresses whose functions are remembered; beyond that, they are looked up again.
const MOST_KNOWN: usize = 1 << 20;

/// A function in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Offset of its code in the file.
    pub offset: u64,
    /// Number of bytes of its code; 0 if unknown.
    pub size: u64,
    /// Its name.
    pub name: Arc<[u8]>,
}

/// The functions of a file, by offset. Of several at one offset, one is chosen.
#[derive(Clone, Debug, Default)]
pub struct Functions(Arc<[Function]>);

impl Functions {
    /// Sorts functions. Of several names for one function, the name of a thread library's function wins, then the name with
    /// the fewest underscores at its beginning.
    #[must_use]
    pub fn new(mut all: Vec<Function>) -> Functions {
        let rank = |function: &Function| {
            let n_underscores = function.name.iter().take_while(|byte| **byte == b'_').count();
            (function.offset, sync_of_function(&function.name).is_none(), n_underscores)
        };
        all.sort_by(|a, b| (rank(a), &a.name).cmp(&(rank(b), &b.name)));
        all.dedup_by(|later, first| {
            let is_same = later.offset == first.offset;
            if is_same {
                first.size = first.size.max(later.size);
            }
            is_same
        });
        Functions(all.into())
    }

    /// The function whose code contains an offset.
    fn at(&self, offset: u64) -> Option<&Function> {
        let after = self.0.partition_point(|function| function.offset <= offset);
        let function = self.0.get(after.checked_sub(1)?)?;
        (offset - function.offset < function.size.max(1)).then_some(function)
    }
}

/// Code of a file in memory.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its addresses.
    pub addresses: Range<u64>,
    /// Offset of the first address in the file.
    pub offset: u64,
    /// The functions of the file.
    pub functions: Functions,
}

/// A function that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its number in [`Names`].
    pub(crate) number: u32,
    /// Whether the address is the one of its first instruction.
    pub(crate) is_start: bool,
}

/// A function with its meaning.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) name: Arc<[u8]>,
    /// The synchronization kind of a call, and whether it happens on entry.
    pub(crate) sync: Option<(u8, bool)>,
}

/// The modules of each program, and the functions that were found.
#[derive(Debug, Default)]
pub(crate) struct Names {
    modules: FxHashMap<u16, Vec<Module>>,
    cache: FxHashMap<(u16, u64), Option<Found>>,
    functions: Vec<Known>,
    numbers: FxHashMap<Arc<[u8]>, u32>,
}

impl Names {
    /// Whether there are no modules.
    pub(crate) fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// Adds code to a program. It replaces code at the same addresses.
    pub(crate) fn add(&mut self, program: u16, module: Module) {
        let (new, all) = (module.addresses.clone(), self.modules.entry(program).or_default());
        all.retain(|old| old.addresses.end <= new.start || new.end <= old.addresses.start);
        all.push(module);
        self.cache.retain(|(of, at), _| *of != program || !new.contains(at));
    }

    /// A program begins as a copy of another one.
    pub(crate) fn fork(&mut self, from: u16, to: u16) {
        if let Some(modules) = self.modules.get(&from).cloned() {
            self.modules.entry(to).or_insert(modules);
        }
    }

    /// The function at an address of a program.
    #[inline]
    pub(crate) fn at(&mut self, program: u16, address: u64) -> Option<Found> {
        match self.cache.get(&(program, address)) {
            Some(found) => *found,
            None => self.look_up(program, address),
        }
    }

    #[cold]
    fn look_up(&mut self, program: u16, address: u64) -> Option<Found> {
        let modules = self.modules.get(&program).map_or(&[][..], Vec::as_slice);
        let function = modules.iter().find(|module| module.addresses.contains(&address)).and_then(|module| {
            let offset = address - module.addresses.start + module.offset;
            module.functions.at(offset).map(|function| (function.name.clone(), function.offset == offset))
        });
        let found = function.map(|(name, is_start)| Found { number: self.number(&name), is_start });
        if self.cache.len() >= MOST_KNOWN {
            self.cache.clear();
        }
        self.cache.insert((program, address), found);
        found
    }

    /// The number of the function with this name.
    pub(crate) fn number(&mut self, name: &Arc<[u8]>) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.functions.len() as u32; // There are fewer symbols.
        self.functions.push(Known { name: name.clone(), sync: sync_of_function(name) });
        self.numbers.insert(name.clone(), number);
        number
    }

    /// The function with a number.
    pub(crate) fn get(&self, number: u32) -> Option<&Known> {
        self.functions.get(number as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(offset: u64, size: u64, name: &str) -> Function {
        Function { offset, size, name: name.as_bytes().into() }
    }

    #[test]
    fn functions_are_found_where_their_module_is() {
        let all = [
            function(0x100, 0x10, "pthread_spin_init"),
            function(0x100, 0x10, "pthread_spin_unlock"),
            function(0x200, 0, "__start"),
            function(0x200, 0x20, "_start"),
        ];
        let functions = Functions::new(all.into());
        let mut names = Names::default();
        names.add(0, Module { addresses: 0x7000..0x8000, offset: 0x80, functions: functions.clone() });
        names.fork(0, 1);
        let name = |names: &mut Names, program, address| {
            let found = names.at(program, address)?;
            let name = String::from_utf8_lossy(&names.get(found.number)?.name).into_owned();
            Some((name, found.is_start))
        };
        for program in [0, 1] {
            let unlock = Some(("pthread_spin_unlock".to_owned(), true));
            assert_eq!(name(&mut names, program, 0x7080), unlock, "the one that is synchronization");
            assert_eq!(name(&mut names, program, 0x7181), Some(("_start".to_owned(), false)));
            assert_eq!(name(&mut names, program, 0x7090), None);
        }
        assert_eq!(name(&mut names, 2, 0x7080), None);
        names.add(0, Module { addresses: 0x7000..0x9000, offset: 0, functions });
        assert_eq!(name(&mut names, 0, 0x7080), None, "replaced");
        assert!(name(&mut names, 0, 0x7100).is_some());
    }
}
