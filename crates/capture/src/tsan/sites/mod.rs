//! Types of allocations, derived from debug information and from the source at the call sites.
//!
//! Compilers do not record the type of an allocation. But debug information records the location of the call and the types
//! of variables and members, and the source shows how they are used: `statement` analyses one function. Allocators are
//! layered, so the search goes from the call of `malloc` outwards, from caller to caller, until one determines a type. A
//! function that gets the size from its caller and returns the memory to it allocates on behalf of that caller; types found
//! in it are used only if no caller determines a better one. A header that a layer places in front of the memory, such as a
//! size, becomes a region of its own. Sizes refute candidates: a type is accepted only if the memory has room for it, an
//! array only if it consists of whole elements. Containers of C++ and Rust allocate in functions that have the type in their
//! name or as an argument.
//!
//! | file | what |
//! |---|---|
//! | `statement` | the meaning of a call in the function that makes it |
//! | `text` | sources split into words |

mod statement;
mod text;

pub use statement::Sort;

use quipu_symbols::dwarf::DebugInfo;
use quipu_symbols::dwarf::frames::CodeFrame;
use quipu_symbols::dwarf::types::Place;
use rustc_hash::FxHashMap;
use statement::{Candidate, Look, Meaning, Way, candidate_of};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use text::{File, Macros};

/// Most functions to examine, from the call outwards.
const MAX_LAYERS: usize = 32;

/// Type of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteType {
    /// Name in the notation of LLVM and the format: `struct.node`.
    pub name: String,
    /// Size of an element in bytes.
    pub size: u64,
    /// Kind of type.
    pub sort: Sort,
    /// Size in bytes of the headers of allocator layers in front of it.
    pub header: u64,
}

/// Reason why the type of an allocation is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unknown {
    /// The calling code has no debug information.
    NoDebugInfo,
    /// The source file is not at its path from compilation.
    NoSource,
    /// No function on the call stack determines a type.
    NotSaid,
    /// None of the candidate types fits the size.
    SizeRefutes,
}

impl Unknown {
    /// The reason as text.
    pub fn text(self) -> &'static str {
        match self {
            Unknown::NoDebugInfo => "the caller has no debug information",
            Unknown::NoSource => "the source is not found",
            Unknown::NotSaid => "no caller says a type",
            Unknown::SizeRefutes => "no type that is said fits the size",
        }
    }
}

/// Location of a code address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// The program or library, and the offset in it.
    pub module: Option<(PathBuf, u64)>,
    /// Function, according to debug information.
    pub function: Option<String>,
    /// Source file and line in that function, according to debug information.
    pub source: Option<(String, u64)>,
    /// The function inlined there, if any, and the location in it; the innermost of several.
    pub inlined: Option<(String, Option<(String, u64)>)>,
}

impl Spot {
    /// The location of `pc` in words: `main prog.c:12`, `prog+0x1234` or `0x401234`, depending on what is known; inlined
    /// functions are in parentheses.
    pub fn place(&self, pc: u64) -> String {
        let file_name =
            |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let line = |source: &Option<(String, u64)>| {
            source.as_ref().map(|(file, line)| format!("{}:{line}", file_name(Path::new(file))))
        };
        let words = |function: Option<&String>, source: Option<String>| {
            let known: Vec<String> = function.cloned().into_iter().chain(source).collect();
            (!known.is_empty()).then(|| known.join(" "))
        };
        let mut place = match (words(self.function.as_ref(), line(&self.source)), &self.module) {
            (Some(words), _) => words,
            (None, Some((module, offset))) => format!("{}+{offset:#x}", file_name(module)),
            (None, None) => format!("{pc:#x}"),
        };
        let inlined = self.inlined.as_ref();
        if let Some(words) = inlined.and_then(|(function, source)| words(Some(function), line(source))) {
            place.push_str(&format!(" ({words})"));
        }
        place
    }
}

/// A function on the call stack: the return address, and the number of the frame at that address, counting inlined functions
/// from the innermost.
type Layer = (u64, usize);

/// Caches of everything known about call sites.
#[derive(Debug, Default)]
pub struct Sites {
    modules: Vec<Module>,
    frames: FxHashMap<u64, Arc<[CodeFrame]>>,
    meanings: FxHashMap<(Layer, Way, Layer), Arc<Meaning>>,
    spots: FxHashMap<u64, Spot>,
    files: HashMap<PathBuf, Option<Arc<File>>>,
    units: HashMap<String, Unit>,
    source_map: Vec<(String, String)>,
}

/// Macros and sources of a compilation unit.
#[derive(Debug, Default)]
struct Unit {
    macros: Macros,
    /// Files without the lines that the preprocessor skips.
    files: HashMap<PathBuf, Arc<File>>,
}

#[derive(Debug)]
struct Module {
    base: u64,
    end: u64,
    path: PathBuf,
    info: Info,
}

#[derive(Debug)]
enum Info {
    Unread,
    Missing,
    Read(Box<DebugInfo>, HashSet<String>),
}

impl Sites {
    /// Registers a program or library loaded at `base`.
    pub fn module(&mut self, base: u64, n_bytes: u64, path: &[u8]) {
        let path = PathBuf::from(OsStr::from_bytes(path));
        if !self.modules.iter().any(|module| module.base == base && module.path == path) {
            let end = base.saturating_add(n_bytes);
            // Something else may have been loaded at these addresses before.
            self.modules.retain(|module| module.end <= base || module.base >= end);
            self.frames.clear();
            self.meanings.clear();
            self.spots.clear();
            self.modules.push(Module { base, end, path, info: Info::Unread });
        }
    }

    /// Path of the program: the first module.
    pub fn program(&self) -> Option<PathBuf> {
        self.modules.first().map(|module| module.path.clone())
    }

    /// Whether a code address is in the program, not in a library.
    pub fn is_in_program(&self, pc: u64) -> bool {
        self.modules.first().is_some_and(|program| (program.base..program.end).contains(&pc))
    }

    /// Finds sources whose paths begin with `from` under `to` instead.
    pub fn map_sources(&mut self, from: &str, to: &str) {
        self.source_map.push((from.to_owned(), to.to_owned()));
    }

    /// The type of an allocation of `n_elements` of `element_bytes`. The call returns to `pc`; `callers` are the return
    /// addresses of the functions around it, innermost first.
    ///
    /// # Errors
    /// The reason why it is unknown.
    pub fn type_of(
        &mut self,
        pc: u64,
        callers: impl Iterator<Item = u64>,
        element_bytes: u64,
        n_elements: u64,
    ) -> Result<SiteType, Unknown> {
        let mut n_bytes = element_bytes.saturating_mul(n_elements);
        let (mut way, mut callee, mut header, mut n_layers) = (Way::Result, (0, 0), 0, 0);
        let (mut fallback, mut why): (Option<Candidate>, _) = (None, Unknown::NotSaid);
        let found = |found: Candidate, header, n_bytes: u64| SiteType {
            // A structure with space after it counts as one element.
            size: if n_bytes.is_multiple_of(found.size) { found.size } else { n_bytes },
            name: found.name,
            sort: found.sort,
            header,
        };
        'layers: for pc in std::iter::once(pc).chain(callers) {
            let frames = self.frames_at(pc);
            if frames.is_empty() {
                why = if n_layers == 0 { Unknown::NoDebugInfo } else { why };
                break;
            }
            for nth in 0..frames.len() {
                let meaning = self.meaning((pc, nth), way, callee);
                let is_array = n_layers == 0 && n_elements > 1;
                let elements = is_array.then_some(element_bytes);
                let best = if meaning.n_calls > 1 {
                    only(&meaning.types, element_bytes)
                } else {
                    best(&meaning.types, n_bytes, elements)
                };
                if meaning.is_unread && why == Unknown::NotSaid {
                    why = Unknown::NoSource;
                }
                if best.is_none() && !meaning.types.is_empty() {
                    why = Unknown::SizeRefutes;
                }
                let says =
                    best.as_ref().is_some_and(|best| matches!(best.sort, Sort::Record | Sort::Pointer));
                let Some(passes) = meaning.passes else {
                    // The memory is not passed on, so this function decides; but a better type from a lower layer beats
                    // bytes.
                    let best = best.filter(|best| says || fallback.is_none() || best.sort == Sort::Number);
                    let best = best.or(fallback);
                    return best.map(|best| found(best, header, n_bytes)).ok_or(why);
                };
                if says && !meaning.is_for_caller && meaning.header == 0 {
                    return best.map(|best| found(best, header, n_bytes)).ok_or(why);
                }
                if says || fallback.is_none() {
                    fallback =
                        best.filter(|best| meaning.header == 0 && best.sort != Sort::Number).or(fallback);
                }
                if meaning.header > 0 && meaning.header < n_bytes {
                    header += meaning.header;
                    n_bytes -= meaning.header;
                }
                way = passes;
                callee = (pc, nth);
                n_layers += 1;
                if n_layers == MAX_LAYERS {
                    break 'layers;
                }
            }
        }
        fallback.map(|best| found(best, header, n_bytes)).ok_or(why)
    }

    /// The functions that contain the code before `pc`, innermost first: name, file and line.
    pub fn places(&mut self, pc: u64) -> Vec<(String, String, u64)> {
        let frames = self.frames_at(pc);
        let known = frames.iter().filter_map(|frame| {
            let place = frame.place.as_ref()?;
            Some((frame.name.clone(), place.file.clone(), place.line))
        });
        known.collect()
    }

    fn frames_at(&mut self, pc: u64) -> Arc<[CodeFrame]> {
        if let Some(known) = self.frames.get(&pc) {
            return known.clone();
        }
        let frames = self.find_frames(pc).unwrap_or_default();
        let frames: Arc<[CodeFrame]> = frames.into();
        self.frames.insert(pc, frames.clone());
        frames
    }

    fn find_frames(&mut self, pc: u64) -> Option<Vec<CodeFrame>> {
        let module = module_at(&mut self.modules, pc)?;
        let Info::Read(info, _) = &module.info else { return None };
        // The call instruction is before its return address.
        let address = pc.checked_sub(1)?.checked_sub(module.base)?;
        Some(info.frames_at(address))
    }

    /// Meaning in a function of its call to `callee`; an empty callee stands for functions that allocate.
    fn meaning(&mut self, layer: Layer, way: Way, callee: Layer) -> Arc<Meaning> {
        let key = (layer, way, callee);
        if let Some(known) = self.meanings.get(&key) {
            return known.clone();
        }
        let frames = self.frames_at(layer.0);
        let inner = self.frames_at(callee.0);
        let callee = inner.get(callee.1).map(|frame| own_name(&frame.name)).unwrap_or_default();
        let frame = frames.get(layer.1);
        let meaning = frame.and_then(|frame| self.find_meaning(layer.0, frame, &callee, way));
        let meaning = Arc::new(meaning.unwrap_or_default());
        self.meanings.insert(key, meaning.clone());
        meaning
    }

    fn find_meaning(&mut self, pc: u64, frame: &CodeFrame, callee: &str, way: Way) -> Option<Meaning> {
        let Sites { modules, files, units, source_map, .. } = self;
        let module = module_at(modules, pc)?;
        let Info::Read(info, functions) = &module.info else { return None };
        let address = pc.checked_sub(1)?.checked_sub(module.base)?;
        if let Some(meaning) = by_name(info, frame) {
            return Some(meaning);
        }
        let mut open = |path: &Path| open(files, source_map, path);
        let sources = info.sources_at(address);
        let unit = units.entry(sources.first().cloned().unwrap_or_default()).or_insert_with(|| {
            let mut macros = Macros::of(&sources, &mut open);
            // Macros with names of the program's own are from another build configuration.
            macros.forget(|name| functions.contains(name) || info.find(name).is_some());
            Unit { macros, files: HashMap::new() }
        });
        let mut file = None;
        if let Some(place) = &frame.place {
            let path = Path::new(&place.file);
            file = open(path);
            let lines = unit.macros.left_out(path);
            let is_out = lines.iter().any(|lines| lines.contains(&u32::try_from(place.line).unwrap_or(0)));
            // Compiled code was not skipped by the preprocessor, so if its line seems to be, the guess is wrong.
            if let Some(whole) = file.as_ref().filter(|_| !is_out && !lines.is_empty()) {
                let filtered = || Arc::new(whole.without(lines));
                file = Some(unit.files.entry(path.to_owned()).or_insert_with(filtered).clone());
            }
        }
        let macros = &unit.macros;
        let look = Look { info, frame, file: file.as_deref(), macros };
        Some(look.meaning(callee, way))
    }

    /// Location of the code before `pc`, a return address.
    pub fn spot(&mut self, pc: u64) -> &Spot {
        if !self.spots.contains_key(&pc) {
            let spot = self.find_spot(pc);
            self.spots.insert(pc, spot);
        }
        &self.spots[&pc]
    }

    fn find_spot(&mut self, pc: u64) -> Spot {
        let Some(module) = module_at(&mut self.modules, pc) else { return Spot::default() };
        let address = pc.saturating_sub(module.base);
        let mut spot = Spot { module: Some((module.path.clone(), address)), ..Spot::default() };
        if let Info::Read(info, _) = &module.info {
            let before = address.saturating_sub(1);
            let source = |place: Place| (place.file, place.line);
            let inlined = info.inlined_at(before);
            spot.function = info.objects().function_at(before).map(|function| function.name.clone());
            spot.source = info.line_of(before).map(source);
            if let [innermost, ..] = &inlined[..] {
                // The line belongs to the innermost function; the function itself contains the call of the outermost one.
                let line = std::mem::replace(
                    &mut spot.source,
                    inlined.last().and_then(|outermost| outermost.call.clone()).map(source),
                );
                spot.inlined = Some((innermost.name.clone(), line));
            }
        }
        spot
    }
}

/// The module that contains an address; reads its debug information at the first use.
fn module_at(modules: &mut [Module], pc: u64) -> Option<&Module> {
    let module = modules.iter_mut().find(|module| (module.base..module.end).contains(&pc))?;
    if matches!(module.info, Info::Unread) {
        module.info = DebugInfo::open(&module.path).map_or(Info::Missing, |info| {
            let functions = info.objects().functions.iter().map(|known| known.name.clone()).collect();
            Info::Read(Box::new(info), functions)
        });
    }
    Some(module)
}

/// The best candidate that fits: records before pointers before numbers; among records the first, unless a later one has the
/// exact size or extends the best one so far.
fn best(types: &[Candidate], n_bytes: u64, element_bytes: Option<u64>) -> Option<Candidate> {
    let has_room = |kind: &&Candidate| {
        kind.size > 0
            && match element_bytes {
                // If the call gives an element size, the array has elements of that size; `calloc(n, 1)` only gives bytes.
                Some(bytes) => kind.size == bytes || bytes == 1 && n_bytes.is_multiple_of(kind.size),
                None if kind.sort == Sort::Record && kind.size > 8 => kind.least <= n_bytes,
                None => n_bytes > 0 && n_bytes.is_multiple_of(kind.size),
            }
    };
    let fits: Vec<&Candidate> = types.iter().filter(has_room).collect();
    let sorts = [Sort::Record, Sort::Pointer, Sort::Number, Sort::Bytes];
    let mut best = sorts.into_iter().find_map(|sort| fits.iter().copied().find(|kind| kind.sort == sort))?;
    for other in fits.iter().copied().filter(|kind| kind.sort == Sort::Record) {
        let is_exact = other.size == n_bytes && best.size != n_bytes;
        if is_exact || other.continues(best) {
            best = other;
        }
    }
    Some(best.clone())
}

/// The candidate for a line with several calls: only the size can tell which call it was, so it has to match one type
/// exactly.
fn only(types: &[Candidate], element_bytes: u64) -> Option<Candidate> {
    let mut same = types.iter().filter(|kind| kind.size == element_bytes);
    let first = same.next()?;
    same.all(|other| other.name == first.name).then(|| first.clone())
}

/// Type of an allocation according to the name of a function, or to its template arguments.
fn by_name(info: &DebugInfo, frame: &CodeFrame) -> Option<Meaning> {
    let of_name = of_allocator(&frame.name).and_then(|name| info.find(name));
    let is_rust = ["alloc::", "hashbrown::", "core::", "std::collections::"]
        .iter()
        .any(|start| frame.name.starts_with(start))
        && frame.place.as_ref().is_some_and(|place| place.file.ends_with(".rs"));
    let ids: Vec<_> = match of_name {
        Some(id) => vec![id],
        None if is_rust => frame.arguments.clone(),
        None => return None,
    };
    let types: Vec<Candidate> = ids.into_iter().filter_map(|id| candidate_of(info, id)).collect();
    Some(Meaning { types, passes: Some(Way::Result), n_calls: 1, ..Meaning::default() })
}

/// The name of a function without scope and template arguments.
fn own_name(path: &str) -> String {
    let mut depth = 0;
    let plain: String = path
        .chars()
        .filter(|c| {
            depth += i32::from(*c == '<') - i32::from(*c == '>');
            depth == 0 && *c != '>'
        })
        .collect();
    plain.rsplit("::").next().unwrap_or_default().to_owned()
}

fn open(
    files: &mut HashMap<PathBuf, Option<Arc<File>>>,
    source_map: &[(String, String)],
    path: &Path,
) -> Option<Arc<File>> {
    if let Some(known) = files.get(path) {
        return known.clone();
    }
    let text = path.to_string_lossy();
    let moved =
        source_map.iter().filter_map(|(from, to)| Some(format!("{to}{}", text.strip_prefix(from.as_str())?)));
    let mut places = moved.map(PathBuf::from).chain(std::iter::once(path.to_owned()));
    let file = places.find_map(|place| File::open(&place).ok()).map(Arc::new);
    files.insert(path.to_owned(), file.clone());
    file
}

/// The type in the name of an allocating function of the C++ library.
fn of_allocator(function: &str) -> Option<&str> {
    for maker in ["std::make_unique<", "std::make_shared<"] {
        if let Some(arguments) = function.strip_prefix(maker) {
            return Some(first_argument(arguments));
        }
    }
    let (class, method) = function.rsplit_once("::")?;
    if !method.starts_with("allocate") {
        return None;
    }
    let (_, arguments) = class.split_once("allocator<")?;
    Some(arguments.strip_suffix('>')?.trim())
}

/// The first template argument.
fn first_argument(arguments: &str) -> &str {
    let mut depth = 0;
    let end = arguments.find(|c: char| {
        depth += i32::from(matches!(c, '<' | '(')) - i32::from(matches!(c, '>' | ')'));
        depth < 0 || depth == 0 && c == ','
    });
    arguments[..end.unwrap_or(arguments.len())].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocator_has_its_type_in_its_name() {
        assert_eq!(of_allocator("std::__new_allocator<ns::Node<int> >::allocate"), Some("ns::Node<int>"));
        assert_eq!(of_allocator("std::make_unique<ns::Node<int, 3>, int>"), Some("ns::Node<int, 3>"));
        assert_eq!(of_allocator("std::make_shared<Node>"), Some("Node"));
        assert_eq!(of_allocator("make_allocator"), None);
        assert_eq!(own_name("ns::Pool<int, ns::A>::take<3>"), "take");
    }
}
