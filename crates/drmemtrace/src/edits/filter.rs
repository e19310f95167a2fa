//! Filters that keep or drop kinds of records, in the order in which DynamoRIO applies its filters (spec 17).
//!
//! Every filter sees every entry, and an entry is kept if no filter drops it. Dropping an instruction does not drop its
//! data: a filter of types that drops instructions leaves data without an instruction.

use super::cache::{DataCache, InstrCache};
use super::clock_trim::{ClockTrim, ClockTrimming};
use crate::kernel::Regions;
use crate::record::{Entry, FileType, Marker, Type};
use crate::write::{At, EntryEdit};
use quipu_isa::regdeps::{self, Encoder};
use quipu_model::{Error, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Kernel code that is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelCode {
    /// None.
    #[default]
    Keep,
    /// All regions.
    Drop,
    /// Context switches and interrupts.
    DropButSyscalls,
}

/// Entries that a filter drops or changes. The default does nothing.
#[derive(Clone, Debug, Default)]
pub struct FilterSpec {
    /// Filtering ends at the first clock reading that is not below this, and everything is kept from there on; without such
    /// a reading it ends with the file.
    pub stop_timestamp: Option<u64>,
    /// Size of a data cache in bytes: loads, stores and prefetches that hit it are left out.
    pub data_cache_bytes: Option<u64>,
    /// Size of an instruction cache in bytes: instructions that hit it are left out, and counted.
    pub instr_cache_bytes: Option<u64>,
    /// Entry types that are left out.
    pub drop_types: FxHashSet<u16>,
    /// Kinds of markers that are left out.
    pub drop_markers: FxHashSet<u16>,
    /// The only kinds of markers that are kept, in addition to those that every trace needs; `None` keeps all.
    pub keep_markers: Option<FxHashSet<u16>>,
    /// The only addresses whose accesses are kept; empty for all.
    pub addrs: Vec<RangeInclusive<u64>>,
    /// Trims as DynamoRIO does.
    pub trim: Option<ClockTrim>,
    /// True if encodings are replaced by synthetic ones, which only keep dependencies.
    pub to_regdeps: bool,
    /// True if encodings are left out.
    pub drop_encodings: bool,
    /// True if data records are left out, as if the tracer had recorded instructions only.
    pub instr_only: bool,
    /// The only functions whose markers are kept; `None` for all.
    pub keep_functions: Option<FxHashSet<u64>>,
    /// New values of all markers of a kind, by kind.
    pub marker_values: FxHashMap<u16, u64>,
    /// Kernel code that is left out.
    pub kernel: KernelCode,
    /// New ids of threads, by old id.
    pub rename_threads: FxHashMap<u64, u64>,
    /// True if entries are laid out as by DynamoRIO's filter: where chunks end, and where branch targets stand.
    pub original_layout: bool,
}

/// The only function whose calls are kept in published `REGDEPS` traces: system call 202, futex.
const FUTEX: u64 = (1 << 32) + 202;

impl FilterSpec {
    /// Selects synthetic encodings in the form in which traces are published (spec 12): processors become unknown, and the
    /// markers of system calls, signals and functions other than futex are left out. With the markers around it, all kernel
    /// code is left out, as it would appear in the flow of the program. Values and functions that were selected before stay
    /// selected.
    pub fn publish_regdeps(&mut self) {
        self.to_regdeps = true;
        self.kernel = KernelCode::Drop;
        let told = [
            Marker::SYSCALL_IDX,
            Marker::SYSCALL,
            Marker::SYSCALL_TRACE_START,
            Marker::SYSCALL_TRACE_END,
            Marker::SYSCALL_FAILED,
            Marker::SIGNAL_NUMBER,
            Marker::UNCOMPLETED_INSTRUCTION,
        ];
        self.drop_markers.extend(told.map(|marker| marker.0));
        self.marker_values.entry(Marker::CPU_ID.0).or_insert(u64::MAX);
        self.keep_functions.get_or_insert_with(|| std::iter::once(FUTEX).collect());
    }

    fn drops_instrs(&self) -> bool {
        self.instr_cache_bytes.is_some() || self.drop_types.iter().any(|kind| Type(*kind).is_any_instr())
    }
}

/// State of filtering one file.
#[derive(Debug)]
pub struct Filter {
    spec: Arc<FilterSpec>,
    is_active: bool,
    /// The dropped types as a bit set.
    drop_types: u64,
    data_cache: Option<DataCache>,
    instr_cache: Option<InstrCache>,
    trim: Option<ClockTrimming>,
    encoder: Option<Encoder>,
    filetype: FileType,
    regions: Regions,
    /// True if markers of the latest function are left out.
    in_dropped_function: bool,
    /// True if the first processor was read and the instruction count after it was not written yet.
    count_is_due: bool,
    /// True if threads take turns in the file, so that it continues after the end of one.
    has_turns: bool,
    fault: Option<Error>,
}

/// Markers that a valid trace needs, or that show how its instructions follow each other; a choice of markers to keep does
/// not drop them.
const NEEDED_MARKERS: [Marker; 22] = [
    Marker::TIMESTAMP,
    Marker::CPU_ID,
    Marker::FILETYPE,
    Marker::CACHE_LINE_SIZE,
    Marker::VERSION,
    Marker::PAGE_SIZE,
    Marker::CHUNK_INSTR_COUNT,
    Marker::BRANCH_TARGET,
    Marker::VECTOR_LENGTH,
    Marker::KERNEL_EVENT,
    Marker::KERNEL_XFER,
    Marker::HARDWARE_EVENT,
    Marker::HARDWARE_CONTEXT_RETURN,
    Marker::RSEQ_ABORT,
    Marker::RSEQ_ENTRY,
    Marker::WINDOW_ID,
    Marker::INSTRUCTION_COUNT,
    Marker::FILTER_ENDPOINT,
    Marker::SYSCALL_TRACE_START,
    Marker::SYSCALL_TRACE_END,
    Marker::CONTEXT_SWITCH_START,
    Marker::CONTEXT_SWITCH_END,
];

impl Filter {
    /// Makes a filter for one file with this file type in its header.
    ///
    /// # Errors
    /// `Usage` for impossible cache sizes; `Unsupported` if encodings cannot be made synthetic, or if the trace has no file
    /// type to state that instructions are left out or that filtering ends.
    pub fn new(spec: Arc<FilterSpec>, filetype: FileType) -> Result<Filter> {
        let is_told_there = spec.drops_instrs() || spec.stop_timestamp.is_some();
        if is_told_there && filetype == FileType::default() && !spec.original_layout {
            return Err(Error::unsupported(
                "the trace has no file type, which would have to say that instructions are left out or that filtering \
                 ends; those of version 1 have none",
            ));
        }
        // Synthetic encodings stay as they are.
        let is_wanted = spec.to_regdeps && !filetype.any(FileType::ARCH_REGDEPS);
        let encoder = if is_wanted { Some(encoder(filetype)?) } else { None };
        Ok(Filter {
            is_active: true,
            drop_types: spec
                .drop_types
                .iter()
                .filter(|kind| **kind < 64)
                .fold(0, |types, kind| types | 1 << kind),
            data_cache: spec.data_cache_bytes.map(DataCache::new).transpose()?,
            instr_cache: spec.instr_cache_bytes.map(InstrCache::new).transpose()?,
            trim: spec.trim.map(ClockTrim::start),
            encoder,
            filetype,
            regions: Regions::default(),
            in_dropped_function: false,
            count_is_due: false,
            has_turns: filetype.any(FileType::CORE_SHARDED),
            fault: None,
            spec,
        })
    }

    /// Sets that threads take turns in the file, as they always do in files of cores.
    pub fn with_turns(mut self, has_turns: bool) -> Filter {
        self.has_turns |= has_turns;
        self
    }

    /// True if filtering has to end with the file, because no clock reading has ended it. DynamoRIO does not mark that end.
    fn must_end(&self) -> bool {
        self.is_active && self.spec.stop_timestamp.is_some() && !self.spec.original_layout
    }

    /// Ends all filters, with a marker.
    fn stop(&mut self, before: &mut Vec<Entry>) {
        self.is_active = false;
        before.push(Entry::marker(Marker::FILTER_ENDPOINT, 0));
    }

    /// True if the filters of markers and types keep the entry.
    fn keeps_kind(&self, entry: &Entry) -> bool {
        let kind = entry.kind();
        let is_dropped = kind.0 < 64 && self.drop_types >> kind.0 & 1 == 1;
        if is_dropped || (self.spec.instr_only && is_data(kind)) {
            return false;
        }
        if kind != Type::MARKER {
            return true;
        }
        self.keeps_marker(Marker(entry.size.get()))
    }

    fn keeps_marker(&self, marker: Marker) -> bool {
        // Kernel code of a system call follows the call's number, and where filtering ends, numbers have to be everywhere if
        // they are anywhere.
        let is_counted_on = || {
            let has_code =
                self.filetype.any(FileType::KERNEL_SYSCALLS) && self.spec.kernel != KernelCode::Drop;
            marker == Marker::SYSCALL && (has_code || self.spec.stop_timestamp.is_some())
        };
        let is_needed = || NEEDED_MARKERS.contains(&marker) || is_counted_on();
        !self.spec.drop_markers.contains(&marker.0)
            && self.spec.keep_markers.as_ref().is_none_or(|keep| keep.contains(&marker.0) || is_needed())
    }

    fn keeps_addr(&self, entry: &Entry) -> bool {
        if self.spec.addrs.is_empty() || !is_data(entry.kind()) {
            return true;
        }
        let first = entry.addr.get();
        let last = first.saturating_add(u64::from(entry.size.get().saturating_sub(1)));
        self.spec.addrs.iter().any(|range| *range.start() <= last && first <= *range.end())
    }

    fn keeps_function(&mut self, entry: &Entry) -> bool {
        let Some(keep) = &self.spec.keep_functions else { return true };
        if entry.kind() != Type::MARKER {
            return true;
        }
        match Marker(entry.size.get()) {
            Marker::FUNC_ID => self.in_dropped_function = !keep.contains(&entry.addr.get()),
            Marker::FUNC_RETADDR | Marker::FUNC_ARG | Marker::FUNC_RETVAL => {}
            _ => return true,
        }
        !self.in_dropped_function
    }

    fn keeps_kernel(&mut self, entry: &Entry) -> bool {
        let regions = self.regions.pass(entry);
        match self.spec.kernel {
            KernelCode::Keep => true,
            KernelCode::Drop => !regions.any(),
            KernelCode::DropButSyscalls => !regions.but_syscalls(),
        }
    }

    /// Applies the filters in DynamoRIO's order, together with our own. Every filter sees the entry.
    fn stays(&mut self, entry: &mut Entry, at: &At) -> bool {
        let mut stays = self.data_cache.as_mut().is_none_or(|cache| cache.keeps(entry));
        stays &= self.keeps_kind(entry);
        stays &= self.keeps_addr(entry);
        if let Some(trim) = &mut self.trim {
            stays &= trim.keeps(entry, at, &mut self.fault);
        }
        stays &= self.keeps_function(entry);
        if entry.kind() == Type::MARKER
            && let Some(value) = self.spec.marker_values.get(&entry.size.get())
        {
            entry.addr.set(*value);
        }
        stays & self.keeps_kernel(entry)
    }

    fn rename(&self, entry: &mut Entry) {
        let names_thread = match entry.kind() {
            Type::THREAD | Type::THREAD_EXIT => true,
            Type::MARKER => {
                matches!(Marker(entry.size.get()), Marker::DIRECT_THREAD_SWITCH | Marker::SYSCALL_SCHEDULE)
            }
            _ => false,
        };
        if names_thread && let Some(new) = self.spec.rename_threads.get(&entry.addr.get()) {
            entry.addr.set(*new);
        }
    }
}

impl EntryEdit for Filter {
    fn judge(&mut self, entry: &mut Entry, at: &At, before: &mut Vec<Entry>) -> bool {
        if entry.is_marker(Marker::CORE_WAIT) {
            // Only a core that waits at this moment has it.
            return false;
        }
        if let Some(stop) = self.spec.stop_timestamp.filter(|_| self.is_active)
            && entry.is_marker(Marker::TIMESTAMP)
            && entry.addr.get() >= stop
        {
            self.stop(before);
        }
        if !self.spec.rename_threads.is_empty() {
            self.rename(entry);
        }
        if !self.is_active {
            // A source that was already filtered continues with its own counts.
            let cache = self.instr_cache.as_mut().filter(|_| !self.filetype.is_ifiltered());
            before.extend(cache.and_then(|cache| cache.last_count(entry)));
            return true;
        }
        if self.count_is_due {
            self.count_is_due = false;
            before.extend(self.instr_cache.as_mut().and_then(InstrCache::first_count));
        }
        let mut stays = self.stays(entry, at);
        if let Some(cache) = &mut self.instr_cache {
            stays &= cache.keeps(entry, stays, before);
            self.count_is_due |= entry.is_marker(Marker::CPU_ID);
        }
        if entry.kind() == Type::THREAD_EXIT && !self.has_turns && self.must_end() {
            self.stop(before);
        }
        stays
    }

    fn end(&mut self, _: &At, before: &mut Vec<Entry>) {
        if self.must_end() {
            self.stop(before);
        }
    }

    fn recodes(&self) -> bool {
        self.encoder.is_some() || self.drops_encodings()
    }

    fn recode(&mut self, instr: &Entry, pieces: &mut Vec<Entry>) {
        if self.drops_encodings() {
            pieces.clear();
        } else if let Some(encoder) = &mut self.encoder {
            recode(encoder, instr, pieces);
        }
    }

    fn keeps_targets(&self) -> bool {
        let spec = &self.spec;
        let is_dropped = spec.drop_markers.contains(&Marker::BRANCH_TARGET.0)
            || spec.drop_types.contains(&Type::MARKER.0)
            || spec.instr_cache_bytes.is_some();
        !(is_dropped && self.is_active)
    }

    fn filetype(&self, filetype: FileType) -> FileType {
        let spec = &self.spec;
        let mut bits = filetype.0;
        if spec.stop_timestamp.is_some() {
            bits |= FileType::BIMODAL_FILTERED_WARMUP.0;
        }
        if spec.drops_instrs() {
            bits |= FileType::IFILTERED.0;
        }
        // Prefetches and flushes are data of their instructions, too; DynamoRIO does not mark them as missing.
        let is_told =
            |kind| kind == Type::READ || kind == Type::WRITE || !spec.original_layout && is_data(kind);
        let drops_data = spec.drop_types.iter().any(|kind| is_told(Type(*kind)));
        if drops_data || spec.data_cache_bytes.is_some() || !spec.addrs.is_empty() {
            bits |= FileType::DFILTERED.0;
        }
        if spec.instr_only {
            bits |= FileType::INSTRUCTION_ONLY.0;
        }
        if self.drops_encodings() && spec.stop_timestamp.is_none() {
            bits &= !FileType::ENCODINGS.0;
        }
        // DynamoRIO keeps these bits, and so do published traces.
        if !spec.original_layout && !spec.to_regdeps && spec.stop_timestamp.is_none() {
            for (marker, bit) in [
                (Marker::SYSCALL, FileType::SYSCALL_NUMBERS),
                (Marker::MAYBE_BLOCKING_SYSCALL, FileType::BLOCKING_SYSCALLS),
            ] {
                bits &= if self.keeps_marker(marker) { u64::MAX } else { !bit.0 };
            }
        }
        if spec.to_regdeps {
            bits = bits & !ARCHS.0 | FileType::ARCH_REGDEPS.0;
        }
        if spec.kernel == KernelCode::Drop {
            bits &= !FileType::KERNEL_SYSCALLS.0;
        }
        FileType(bits)
    }

    fn has_original_layout(&self) -> bool {
        self.spec.original_layout
    }

    fn fault(&mut self) -> Option<Error> {
        self.fault.take()
    }

    fn file_name(&self, name: &str) -> String {
        // Tracers write the thread into the name, with at least five digits.
        let renamed = self.spec.rename_threads.iter().find_map(|(old, new)| {
            let old = [format!(".{old:05}."), format!(".{old}.")]
                .into_iter()
                .find(|part| name.contains(part.as_str()))?;
            Some(name.replacen(&old, &format!(".{new:05}."), 1))
        });
        renamed.unwrap_or_else(|| name.to_owned())
    }
}

impl Filter {
    fn drops_encodings(&self) -> bool {
        let spec = &self.spec;
        self.is_active && (spec.drop_encodings || spec.drop_types.contains(&Type::ENCODING.0))
    }

    /// The file-type bits of the file before filtering.
    pub fn source_filetype(&self) -> FileType {
        self.filetype
    }
}

const ARCHS: FileType = FileType::ARCH_AARCH64
    .or(FileType::ARCH_ARM32)
    .or(FileType::ARCH_X86_32)
    .or(FileType::ARCH_X86_64)
    .or(FileType::ARCH_REGDEPS);

fn is_data(kind: Type) -> bool {
    kind == Type::READ || kind == Type::WRITE || kind.is_prefetch() || (18..=21).contains(&kind.0)
}

fn encoder(filetype: FileType) -> Result<Encoder> {
    let arch = filetype
        .arch()
        .ok_or_else(|| Error::unsupported("the trace does not say for which architecture it is"))?;
    Encoder::new(arch).ok_or_else(|| {
        Error::unsupported(format!("instructions of {arch} cannot be made into synthetic ones"))
    })
}

/// Replaces the pieces of an encoding by those of the synthetic one. An encoding that cannot be decoded becomes one without
/// registers.
fn recode(encoder: &mut Encoder, instr: &Entry, pieces: &mut Vec<Entry>) {
    let mut bytes = Vec::with_capacity(16);
    for piece in pieces.iter() {
        let n = usize::from(piece.size.get()).min(8);
        bytes.extend_from_slice(&piece.addr.get().to_le_bytes()[..n]);
    }
    let mut code = [0; regdeps::MAX_BYTES];
    let n = encoder.encode(instr.addr.get(), &bytes, &mut code);
    pieces.clear();
    pieces.extend(code[..n].chunks(8).map(|part| {
        let mut value = [0; 8];
        value[..part.len()].copy_from_slice(part);
        Entry::new(Type::ENCODING, part.len() as u16, u64::from_le_bytes(value))
    }));
}
