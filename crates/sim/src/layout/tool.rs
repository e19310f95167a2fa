//! `layout`: misses with other layouts of a type.
//!
//! All accesses run through the machine of `caches` unchanged, and again with a different layout of one type: accesses to the
//! type's regions go to the new addresses of the members, all others stay. The tool reports the misses of each level before
//! and after, for all accesses and for each member, and the new declaration.
//!
//! Regions have the type if the trace annotates them with it (of overlapping regions, the newest counts), or if a variable of
//! the program lies there. Types come from the program's debug information (`binary`) or a file of types (`types`).
//!
//! Layouts:
//!
//! * `order`: members in this order, each as soon as its alignment allows; members that are not named follow in their order.
//! * `split`: hot members are separated from all others, which follow in an array of their own, with the same index. Hot members
//!   are those given (`split=a,b` or `split=cold=c,d`), or, with `split=hot`, the fewest that have 90 % of the type's accesses.
//!   A single element gets a pointer of 8 bytes to its cold part in an array of cold parts; reading the pointer is not
//!   simulated.
//! * `arrays=soa`: an array for each member, if a region has several elements; `arrays=aos`: members that are arrays of the same
//!   length become one array of structures.
//! * `pad`: free bytes after a member, `pad=a=8`; padding up to the next line, `pad=a=line`; or separate lines for each element,
//!   `pad=line`; several are separated by commas. `align`: alignment of each element.
//! * `remap`: a file of Cacheray's simulator that gives the positions of members.
//!
//! `order` and `split` can be combined with `pad` and `align`. Without any of these, the tool proposes and simulates layouts:
//! members that are used together placed side by side (by how often two members of an element are among 32 accesses of a
//! thread to the type, packed greedily into lines), hot members first, large alignments first, hot members split off, an array
//! for each. The best has the fewest misses of the last level, or of the first level if the last differs by at most 1 %.
//!
//! A region stays where it is if its elements fit there in the new layout. One that grows moves to addresses that the trace
//! never uses, as an allocator would place it: in the place of a freed one of its size, or after the last one, 16 bytes apart.
//! An access to several members is divided if they are no longer adjacent, but counts once. Elements of the type within other
//! types are not moved, and pointers to members are not changed.
//!
//! The trace is read twice, so it cannot come from a pipe. Memory holds a machine for each layout, and the live regions.
//!
//! * **Needs** `accesses`; uses `regions`, `threads`, `accesses.fetch`. Without `regions`, it needs `binary`.

use super::arrange::{Arrangement, Gap, Room};
use super::levels::Levels;
use super::live::Live;
use super::propose::{hot, proposals};
use super::run::LayoutPass;
use super::source::{self, Declaration};
use super::survey::Survey;
use super::text::Language;
use super::units::Members;
use crate::fields::{TypeSource, missing_types};
use crate::options::{
    BASE, BINARY, COHERENCE, CONFIG, CORES, L1D_ASSOC, L1D_SIZE, L1I_ASSOC, L1I_SIZE, LINE_SIZE, LL_ASSOC,
    LL_SIZE, MACHINE, POLICY, PREFETCHER, TYPES, fit_trace, is_by_core, option,
};
use crate::place::Placing;
use crate::simulate::{OPTIONAL, Setup};
use crate::spec::{MachineSpec, Policy};
use crate::{caches, config};
use quipu_model::options::Kind;
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Columns, DynPass, Error, ErrorKind, Needs, OptionSpec, Options, Order, Result, Tool, ToolInfo, Trace,
    number,
};
use quipu_symbols::attribute::{ShapeId, Types};
use quipu_symbols::remap::Remap;
use std::sync::Arc;

/// The tool `layout`.
#[derive(Debug)]
pub struct LayoutTool;

const TYPE: OptionSpec = option(
    "type",
    Kind::Text,
    "none",
    "the type, in C, C++, Rust or LLVM syntax; without other options, layouts of it are proposed",
    "",
);
const ORDER: OptionSpec =
    option("order", Kind::Text, "none", "order of members; all others follow", "").value("MEMBERS");
const SPLIT: OptionSpec = option(
    "split",
    Kind::Text,
    "none",
    "split off hot members: their names, `cold=` and names, or `hot` to find them",
    "",
)
.value("MEMBERS");
const ARRAYS: OptionSpec = option(
    "arrays",
    Kind::Choice(&["soa", "aos"]),
    "none",
    "an array for each member, or one array of structures",
    "",
)
.value("soa|aos");
const PAD: OptionSpec = option(
    "pad",
    Kind::Text,
    "none",
    "padding: `MEMBER=BYTES`, `MEMBER=line`, or `line` to give each element lines of its own",
    "",
)
.value("ROOM")
.listed();
const ALIGN: OptionSpec = option("align", Kind::Bytes, "0", "alignment of each element", "");
const REMAP: OptionSpec =
    option("remap", Kind::Path, "none", "remap file of Cacheray's simulator, which places members", "");
const LANGUAGE: OptionSpec = option(
    "language",
    Kind::Choice(&["c", "cpp", "rust"]),
    "as the type",
    "language of the new declaration",
    "",
)
.value("c|cpp|rust");

/// Static description of the tool.
pub static INFO: ToolInfo = ToolInfo {
    name: "layout",
    summary: "misses with other layouts of a type",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: OPTIONAL.or(Columns::REGIONS) },
    order: Order::Time,
    options: &[
        TYPE, BINARY, TYPES, BASE, ORDER, SPLIT, ARRAYS, PAD, ALIGN, REMAP, LANGUAGE, CORES, LINE_SIZE,
        L1I_SIZE, L1I_ASSOC, L1D_SIZE, L1D_ASSOC, LL_SIZE, LL_ASSOC, POLICY, PREFETCHER, COHERENCE, CONFIG,
        MACHINE,
    ],
    in_report: false,
};

/// Most types that an error lists as suggestions for an unknown one.
const HINTED_TYPES: usize = 12;

/// The simulation to run.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) members: Members,
    pub(super) machine: MachineSpec,
    /// Name of the machine's configuration, if it comes from one.
    pub(super) machine_name: Option<String>,
    pub(super) placing: Placing,
    pub(super) levels: Levels,
    /// Layouts to compare with the current one.
    pub(super) layouts: Vec<Arrangement>,
    /// Whether the layouts are proposals because the options request none.
    pub(super) is_proposal: bool,
    /// First address that the trace does not use.
    pub(super) fresh: u64,
    pub(super) base: u64,
    /// A tracker without regions, to start from.
    pub(super) live: Live,
    pub(super) survey: Survey,
    pub(super) language: Language,
}

impl Tool for LayoutTool {
    fn result(&self) -> Shape {
        super::LayoutReport::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    /// Which regions are live at the start of a part is unknown.
    fn wants_whole_traces(&self) -> bool {
        true
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let options = &fit_trace(options, trace);
        Ok(Box::new(LayoutPass::new(Arc::new(plan(options, trace)?))?))
    }
}

fn plan(options: &Options, trace: &dyn Trace) -> Result<Plan> {
    let name = options.text(&TYPE).ok_or_else(|| {
        Error::usage("tool `layout` wants to know which type")
            .hint("--type NAME; `quipu analyze types` lists them")
    })?;
    let (machine_name, machine) = machine(options)?;
    let line = machine.line_bytes;
    let Some(TypeSource { mut types, base, .. }) = TypeSource::of(options)? else {
        return Err(Error::usage("tool `layout` wants to know the members of the type")
            .hint("--binary PROGRAM with debug information, or --types FILE"));
    };
    if !trace.columns().has(Columns::REGIONS) && types.program().is_none() {
        return Err(missing_types(INFO.name, trace));
    }
    let Some((shape, _)) = types.find(name.as_bytes()) else {
        let known: Vec<String> = types.file_names().into_iter().take(HINTED_TYPES).collect();
        let error = Error::missing(format!("nothing is known of a type `{name}`"));
        return Err(if known.is_empty() {
            error
        } else {
            error.hint(format!("types: {}", known.join(", ")))
        });
    };
    let declaration = declaration(&mut types, name, shape);
    let members = Members::of(types.shape(shape), &declaration)?;
    let live = Live::new(types, shape);
    let survey = Survey::of(trace, &live, base, &members)?;
    if survey.arrays + survey.singles == 0 {
        return Err(Error::missing(format!("no memory has the type `{}` in this trace", members.name)));
    }
    let room = room(options, &members)?;
    let asked = asked(options, &members, &survey, &room, line)?;
    let is_proposal = asked.is_none();
    let layouts = asked.map_or_else(|| proposals(&members, &survey, line), |one| vec![one]);
    let language = match options.text(&LANGUAGE) {
        Some(text) => Language::named(text)?,
        None => members.language,
    };
    Ok(Plan {
        levels: Levels::of(&machine)?,
        placing: if is_by_core(trace) { Placing::Shards } else { Placing::Fewest },
        fresh: survey.fresh()?,
        members,
        machine,
        machine_name,
        layouts,
        is_proposal,
        base,
        live,
        survey,
        language,
    })
}

/// The machine that options describe, after the name of its configuration.
fn machine(options: &Options) -> Result<(Option<String>, MachineSpec)> {
    let Setup { name, machine, .. } = caches::settings(options, config::of(options)?)?;
    if machine.caches.iter().any(|cache| cache.policy == Policy::Opt) {
        return Err(Error::unsupported("tool `layout` has no caches that know the future"));
    }
    Ok((name, machine))
}

/// The declaration of a type, as far as the program or the file of types has it.
fn declaration(types: &mut Types, name: &str, shape: ShapeId) -> Declaration {
    let full_name = types.shape(shape).name.clone();
    if let Some(info) = types.shared_program()
        && let Some(id) = info.find(name).or_else(|| info.find(&full_name))
        && types.of_type(id).is_some_and(|(of, _)| of == shape)
    {
        return source::of_program(&info, info.behind_arrays(id));
    }
    let file = types.file_members(name).or_else(|| types.file_members(&full_name));
    file.map_or_else(Declaration::default, source::of_file)
}

/// Members named in a comma-separated list.
pub(super) fn list(members: &Members, text: &str) -> Result<Vec<usize>> {
    let (mut names, mut units) = (Vec::new(), Vec::new());
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let unit = members.named(name)?;
        if names.contains(&name) {
            return Err(Error::usage(format!("member `{name}` is named twice")));
        }
        names.push(name);
        // Bit fields that share bytes move together, so naming any of them selects all.
        if !units.contains(&unit) {
            units.push(unit);
        }
    }
    Ok(units)
}

fn room(options: &Options, members: &Members) -> Result<Room> {
    let align = options.count(&ALIGN);
    if align > 1 && (!align.is_power_of_two() || align > 1 << 21) {
        return Err(Error::usage(format!("option `align` wants a power of two up to 2M, found `{align}`")));
    }
    let mut room = Room { align, ..Room::default() };
    for one in options.texts(&PAD) {
        let Some((name, n)) = one.split_once('=') else {
            if one.trim() != "line" {
                return Err(Error::usage(format!(
                    "option `pad` wants `MEMBER=BYTES`, `MEMBER=line` or `line`, found `{one}`"
                )));
            }
            room.whole_lines = true;
            continue;
        };
        let gap = match n.trim() {
            "line" => Gap::Line,
            n => Gap::Bytes(number::bytes(n).ok().filter(|n| *n <= 1 << 16).ok_or_else(|| {
                Error::usage(format!("option `pad` wants a number of bytes up to 64K, found `{n}`"))
            })?),
        };
        room.gaps.push((members.named(name)?, gap));
    }
    Ok(room)
}

/// The layout that options request; `None` if they request none.
fn asked(
    options: &Options,
    members: &Members,
    survey: &Survey,
    room: &Room,
    line: u64,
) -> Result<Option<Arrangement>> {
    let wanted = [ORDER, SPLIT, ARRAYS, REMAP].map(|spec| options.text(&spec));
    let names = ["order", "split", "arrays", "remap"];
    let both: Vec<&str> =
        names.iter().zip(&wanted).filter(|(_, of)| of.is_some()).map(|(name, _)| *name).collect();
    if both.len() > 1 {
        return Err(Error::usage(format!("options `{}` and `{}` exclude each other", both[0], both[1])));
    }
    let [order, split, arrays, remap] = wanted;
    let needs_no_room = || match room.is_none() {
        true => Ok(()),
        false => Err(Error::usage("options `pad` and `align` go with `order` and `split` or alone")),
    };
    if let Some(text) = order {
        let first = list(members, text)?;
        let fixed = |unit: &usize| members.units[*unit].is_pinned && !first.contains(unit);
        let mut order: Vec<usize> = (0..members.units.len()).filter(fixed).collect();
        order.extend(&first);
        order.extend((0..members.units.len()).filter(|unit| !order.contains(unit)).collect::<Vec<_>>());
        let what = format!("members in the order {text}");
        return Ok(Some(Arrangement::ordered(members, &order, room, line, what)));
    }
    if let Some(text) = split {
        let hot = match text {
            "hot" | "cold" | "hot|cold" | "true" => hot(members, survey),
            text => match text.strip_prefix("cold=") {
                Some(cold) => {
                    let cold = list(members, cold)?;
                    (0..members.units.len()).filter(|unit| !cold.contains(unit)).collect()
                }
                None => list(members, text.strip_prefix("hot=").unwrap_or(text))?,
            },
        };
        if hot.is_empty() || hot.len() == members.units.len() {
            return Err(Error::usage(format!(
                "nothing is left to split off: `{}` of `{}` members are hot",
                hot.len(),
                members.units.len()
            )));
        }
        return Ok(Some(Arrangement::split(members, &hot, room, line)));
    }
    if let Some(text) = arrays {
        needs_no_room()?;
        return match text {
            "soa" => Ok(Some(Arrangement::arrays(members))),
            "aos" => Arrangement::inside(members).map(Some),
            _ => Err(Error::usage(format!("option `arrays` is `soa` or `aos`, found `{text}`"))),
        };
    }
    if let Some(path) = remap {
        let text = config::text_of(path)?;
        let file = Remap::parse(&text)
            .map_err(|error| Error::new(ErrorKind::Malformed, error.to_string()).in_file(path))?;
        let names = [format!("struct {}", members.name), members.name.clone()];
        let found = names.iter().find_map(|name| file.find(name)).ok_or_else(|| {
            Error::missing(format!("the remap file says nothing of `struct {}`", members.name)).in_file(path)
        })?;
        return Arrangement::remapped(members, found, room, line).map(Some);
    }
    if room.is_none() {
        return Ok(None);
    }
    Ok(Some(Arrangement::widened(members, room, line, room.told(members))))
}
