//! `types`: the program's accesses and misses by type and field.
//!
//! All accesses run through the machine of `caches`, and are reported by the type of their memory: by field, by allocation
//! site, by thread. Memory has a type if the trace annotates it (of overlapping regions, the newest counts), or if a variable
//! of the program lies there, provided that `base` gives the load address. Other memory is *unknown*, and always shown. A
//! trace without regions is reported by variables alone. Variables on the stack are unknown, because traces lack the stack
//! pointer that debug information refers to.
//!
//! Types come from the program's debug information (`binary`) or from a file of types written by Cacheray's extractor
//! (`types`), which is used for names that the program lacks; without both, types are distinguished by the names in
//! annotations. A file of types has no source lines, and gives a structure's size only up to its last member.
//!
//! Recording a program writes a file of places beside the trace (`places`), which `quipu analyze`, `report` and `layout` find
//! by themselves. With it, an allocation site is a line of code that allocates, with its function and file, and the line that
//! calls this function. Without it, all equal annotations are one site.
//!
//! * The elements of an array are one field, `slots[].key`. Members of a union with the same bytes are one field, `i|f`, and so
//!   are bit fields that share bytes; of other overlapping members, the one that fits the access best counts.
//! * An access counts once for its type and once for each field that it touches. Accesses to several fields, or to a field and
//!   padding, are also counted separately, as are those that straddle lines. A miss counts for the field with the first
//!   requested byte of the line.
//! * *Hot* fields are the smallest set that has 80 % of their type's accesses; *cold* fields have less than 1 % each.
//! * *Fetched* bytes are those of a type in lines in which it was touched, *used* bytes those that were touched. Fetched padding
//!   is always wasted, fetched cold fields until they are moved elsewhere. Memory that is freed and allocated again counts
//!   again. With lines of more than 64 bytes, all bytes of a 64th of a line count as one.
//! * *False sharing*: a turn is the accesses of one thread to a line until another thread touches it. If at least one of two
//!   successive turns wrote, and neither touched a byte that the other wrote, the transfer was false sharing. Turns follow the
//!   trace's order, and prefetches do not count.
//!
//! In SQL, the table function `accesses_with_types(t)` gives the type, field and element of each access.
//!
//! Memory grows with the pages touched (3 KiB per 4 KiB page), the live regions, the distinct lines of each field, and fields
//! times threads.
//!
//! * **Needs** `accesses`; uses `regions`, `threads`, `accesses.fetch`. Without `regions`, it needs `binary`.

use super::{TypeSource, missing_types};
use crate::caches;
use crate::config;
use crate::options::{
    BASE, BINARY, COHERENCE, CONFIG, CORES, CPU_SCHEDULING, L1D_ASSOC, L1D_SIZE, L1I_ASSOC, L1I_SIZE,
    LINE_SIZE, LL_ASSOC, LL_SIZE, MACHINE, PLACES, POLICY, PREFETCHER, TOP, TYPES, fit_trace,
};
use crate::simulate::{OPTIONAL, Setup};
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Columns, DynPass, Error, Needs, OptionSpec, Options, Order, Result, RowTool, Tool, ToolInfo, Trace,
};

/// The tool `types`.
#[derive(Debug)]
pub struct TypeTool;

const TYPES_TOP: OptionSpec = TOP.doc("number of types, sites and lines to list");

/// Static description of the tool.
pub static INFO: ToolInfo = ToolInfo {
    name: "types",
    summary: "accesses and misses by type and field",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: OPTIONAL.or(Columns::REGIONS) },
    order: Order::Time,
    options: &[
        BINARY,
        TYPES,
        BASE,
        PLACES,
        TYPES_TOP,
        CORES,
        LINE_SIZE,
        L1I_SIZE,
        L1I_ASSOC,
        L1D_SIZE,
        L1D_ASSOC,
        LL_SIZE,
        LL_ASSOC,
        POLICY,
        PREFETCHER,
        COHERENCE,
        CPU_SCHEDULING,
        CONFIG,
        MACHINE,
    ],
    in_report: true,
};

impl Tool for TypeTool {
    fn result(&self) -> Shape {
        crate::TypeReport::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn rows(&self) -> Option<&'static dyn RowTool> {
        Some(&super::rows::Each)
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let options = &fit_trace(options, trace);
        settings(options, trace)?.pass(options, INFO.name, trace)
    }
}

/// Builds settings from options.
///
/// # Errors
/// `Usage` for an invalid value; `Missing` if there is no source of types.
pub fn settings(options: &Options, trace: &dyn Trace) -> Result<Setup> {
    let machine = caches::settings(options, config::of(options)?)?;
    let types = source(options, trace)?;
    if machine.machine.line_bytes > MAX_LINE {
        return Err(Error::usage(format!(
            "tool `types` takes lines of at most `{MAX_LINE}` bytes, found `{}`",
            machine.machine.line_bytes
        )));
    }
    let types = Some(types.unwrap_or_default());
    Ok(Setup { top: 0, types, tells_types: Some(options.length(&TYPES_TOP)), ..machine })
}

/// The source of types that options name.
///
/// # Errors
/// Those of [`TypeSource::of`]; `Missing` if neither the files nor the trace describe memory.
pub(super) fn source(options: &Options, trace: &dyn Trace) -> Result<Option<TypeSource>> {
    let types = TypeSource::of(options)?;
    let has_variables = types.as_ref().is_some_and(TypeSource::has_variables);
    if !trace.columns().has(Columns::REGIONS) && !has_variables {
        return Err(missing_types(INFO.name, trace));
    }
    Ok(types)
}

/// Lines are not longer than a page.
const MAX_LINE: u64 = 4096;
