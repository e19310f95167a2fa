//! `types`: which types and fields the program's accesses and misses go to.
//!
//! All accesses run through the machine of `caches`, and each is reported by the type that its memory has: by field, by place of
//! allocation, by thread. Memory has a type where the trace annotates it (of regions over each other, the newest counts), and
//! where a variable of the program lies, if `base` says where the program was loaded. What has neither is *unknown*, and always
//! shown. A trace that says nothing of regions is reported by variables alone. Variables on the stack are unknown: no access
//! comes with the stack pointer that debug information counts from.
//!
//! Types come from the program's debug information (`binary`) or from a file of types as Cacheray's extractor writes it
//! (`types`), from the file where the program has none of a name; without both, types are told by the names of annotations. A
//! file of types knows no source lines, and a structure's size only up to its last member.
//!
//! * The elements of an array are one field, `slots[].key`. Members of a union that have the same bytes are one, `i|f`, and
//!   bit fields that share bytes; of other members that lie over each other, the one that fits the access best is meant.
//! * An access counts once for its type and once for each field that it touches. One that touches several fields, or a field and
//!   padding, is counted as such, and so is one that continues in the next line. A miss counts for the field that has the
//!   first byte that was wanted of the line.
//! * Fields are *hot* that together have 80 % of their type's accesses (the fewest that do), and *cold* that have less than 1 %.
//! * *Fetched* are a type's bytes in lines in which it was touched, *used* those that were touched; what of padding was
//!   fetched is lost in any case, what of cold fields was is lost until they move elsewhere. Memory that is freed and given
//!   out again counts anew. With lines of more than 64 bytes, all bytes of a 64th of a line count as one.
//! * *False sharing*: a turn is what one thread does to a line until another touches it. If either of two successive turns
//!   wrote, and neither touched a byte that the other wrote, the line moved from core to core for nothing. Turns are those of the
//!   trace's order, and prefetches do not count.
//!
//! In SQL, the table function `accesses_with_types(t)` has each access with its type, field and element.
//!
//! Memory grows with the pages touched (3 KiB for 4 KiB), the live regions, the distinct lines of each field, and fields
//! times threads.
//!
//! * **Needs** `accesses`; uses `regions`, `threads`, `accesses.fetch`. Without `regions`, it needs `binary`.

use super::TypeSource;
use crate::caches;
use crate::config;
use crate::options::{
    BASE, BINARY, COHERENCE, CONFIG, CORES, CPU_SCHEDULING, L1D_ASSOC, L1D_SIZE, L1I_ASSOC, L1I_SIZE,
    LINE_SIZE, LL_ASSOC, LL_SIZE, POLICY, PREFETCHER, TOP, TYPES, fit_cores,
};
use crate::simulate::{OPTIONAL, Setup};
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Columns, DynPass, Error, Needs, OptionSpec, Options, Order, Result, RowTool, Tool, ToolInfo, Trace,
};

/// The tool `types`.
#[derive(Debug)]
pub struct TypeTool;

const TYPES_TOP: OptionSpec = TOP.doc("how many types, places and lines to list");

/// Static description of the tool.
pub static INFO: ToolInfo = ToolInfo {
    name: "types",
    summary: "which types and fields accesses and misses go to",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: OPTIONAL.or(Columns::REGIONS) },
    order: Order::Time,
    options: &[
        BINARY,
        TYPES,
        BASE,
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
        let options = &fit_cores(options, trace);
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
        return Err(Error::missing(
            "tool `types` needs regions with types, which this trace does not carry, or a program with variables",
        )
        .hint("--binary PROGRAM, and --base ADDR if it was not loaded where its file says"));
    }
    Ok(types)
}

/// Lines are not longer than a page.
const MAX_LINE: u64 = 4096;
