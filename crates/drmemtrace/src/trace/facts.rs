//! The properties of a trace, and its shards.

use super::beside::{Wanted, schedule_facts};
use super::file::File;
use crate::INFO;
use crate::header::{self, Header};
use crate::listing::Listing;
use crate::record::{FileType, UNIX_EPOCH_MICROS, VERSION_BRANCH_INFO, VERSION_FREQUENT_TIMESTAMPS};
use quipu_model::trace::{Carries, Clock, Fact, Function, Recorded};
use quipu_model::{Columns, Finding, Meta, Shard, ShardId, ShardKind, ThreadId};
use std::sync::Arc;

pub(super) fn shard(index: usize, file: &File) -> Shard {
    let header = &file.header;
    let kind = if header.filetype.any(FileType::CORE_SHARDED) {
        ShardKind::Core
    } else if header.is_mixed {
        ShardKind::Mixed
    } else {
        ShardKind::Thread
    };
    Shard {
        id: ShardId(index as u32), // No folder holds 2^32 files.
        name: file.name.clone(),
        kind,
        thread: (kind != ShardKind::Core).then_some(ThreadId::from_packed(header.tid)),
        process: (kind != ShardKind::Core).then_some(header.pid),
        pieces: file.pieces.len() as u32, // At most one for each half megabyte.
        packed_bytes: file.container.size_bytes(),
        ..Shard::default()
    }
}

fn has_branch_info(filetype: FileType, files: &[Arc<File>]) -> bool {
    !filetype.is_ifiltered() && files.iter().all(|file| file.header.version >= VERSION_BRANCH_INFO)
}

pub(super) fn columns(filetype: FileType, files: &[Arc<File>]) -> Columns {
    let mut columns = Columns::RAW
        | Columns::ACCESSES
        | Columns::ACCESS_PC
        | Columns::ACCESS_FETCH
        | Columns::INSTRS
        | Columns::INSTR_CLASS
        | Columns::CALLS
        | Columns::THREADS
        | Columns::THREAD_CLOCK
        | Columns::THREAD_CPU
        | Columns::MARKS;
    if has_branch_info(filetype, files) {
        columns |= Columns::INSTR_TAKEN | Columns::INSTR_TARGET;
    }
    if filetype.any(FileType::ENCODINGS) {
        columns |= Columns::INSTR_CODE;
    }
    columns
}

/// Kinds of data that a trace with these file-type bits contains or lacks, each with its restrictions.
fn carries(filetype: FileType, columns: Columns, functions: &[Function]) -> Vec<Carries> {
    let has = |what, has, note| Carries::new(what, has, note);
    let data = !filetype.any(FileType::INSTRUCTION_ONLY);
    vec![
        has("instructions", true, if filetype.is_ifiltered() { "filtered" } else { "" }),
        has("data accesses", data, if data && filetype.is_dfiltered() { "filtered" } else { "" }),
        has(
            "encodings",
            filetype.any(FileType::ENCODINGS),
            if filetype.any(FileType::ARCH_REGDEPS) { "dependencies only" } else { "" },
        ),
        has("branch outcomes", columns.has(Columns::INSTR_TAKEN), ""),
        has("indirect targets", columns.has(Columns::INSTR_TARGET), ""),
        has("system call numbers", filetype.any(FileType::SYSCALL_NUMBERS), ""),
        has("blocking calls", filetype.any(FileType::BLOCKING_SYSCALLS), ""),
        has(
            "kernel code",
            filetype.has_kernel(),
            if filetype.any(FileType::KERNEL_SYSCALL_INSTR_ONLY) { "instructions only" } else { "" },
        ),
        has("function names", !functions.is_empty(), ""),
    ]
}

pub(super) fn meta(
    files: &[Arc<File>],
    filetype: FileType,
    columns: Columns,
    functions: Vec<Function>,
    mut findings: Vec<Finding>,
    (listing, wanted): (&Listing, &Wanted<'_>),
) -> Meta {
    let versions = files.iter().map(|file| file.header.version);
    let mut versions: Vec<u64> = versions.filter(|version| header::is_possible_version(*version)).collect();
    versions.sort_unstable();
    versions.dedup();
    let mut facts = vec![
        Fact::new("filetype", "file type", format!("{:#x}", filetype.0)),
        Fact::new("filetype_names", "file type bits", filetype.names().collect::<Vec<_>>()),
    ];
    let first = |get: fn(&Header) -> Option<u64>| files.iter().find_map(|file| get(&file.header));
    if let Some(bytes) = first(|header| header.vector_bytes) {
        facts.push(Fact::new("vector_bytes", "vector length", bytes));
    }
    if let Some(chunk) = first(|header| Some(header.chunk_instrs).filter(|n| *n > 0)) {
        facts.push(Fact::new("chunk_instrs", "instructions per chunk", chunk));
    }
    if let Some(start) = files.iter().filter_map(|file| file.header.first_timestamp).min() {
        facts.push(Fact::new("first_timestamp", "first timestamp", start));
    }
    let containers: Vec<&str> = {
        let mut names: Vec<&str> = files.iter().map(|file| file.container.codec().name()).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    facts.push(Fact::new("containers", "containers", containers));
    facts.push(Fact::new(
        "chunks",
        "chunks",
        files.iter().map(|f| f.container.members().len()).sum::<usize>(),
    ));
    facts.extend(schedule_facts(listing, wanted, &mut findings));
    let inflated: Option<u64> = files
        .iter()
        .map(|file| match file.container.is_indexed() {
            true => file.container.members().iter().map(|member| member.len).sum::<Option<u64>>(),
            false => None,
        })
        .sum::<Option<u64>>();
    Meta {
        format: INFO.name.into(),
        title: title(filetype),
        is_ended: None,
        // No version is known if headers are damaged, which findings report.
        version: Some(versions.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
            .filter(|versions| !versions.is_empty()),
        arch: filetype.arch(),
        clock: Some(Clock {
            per_second: 1_000_000,
            unix_epoch: Some(UNIX_EPOCH_MICROS),
            frames_calls: files.iter().all(|file| file.header.version >= VERSION_FREQUENT_TIMESTAMPS),
        }),
        line_bytes: first(|header| header.line_bytes),
        page_bytes: first(|header| header.page_bytes),
        n_files: files.len() as u64,
        packed_bytes: files.iter().map(|file| file.container.size_bytes()).sum(),
        disk_bytes: files.iter().map(|file| file.container.disk_bytes()).sum(),
        inflated_bytes: inflated,
        carries: carries(filetype, columns, &functions),
        instrs: if filetype.is_ifiltered() { Recorded::Filtered } else { Recorded::All },
        data: match (filetype.any(FileType::INSTRUCTION_ONLY), filetype.is_dfiltered()) {
            (true, _) => Recorded::Nothing,
            (false, true) => Recorded::Filtered,
            (false, false) => Recorded::All,
        },
        functions,
        arranged: Vec::new(),
        facts,
        findings,
    }
}

fn title(filetype: FileType) -> String {
    let mut title = String::from("instruction and memory trace");
    if filetype.any(FileType::INSTRUCTION_ONLY) {
        title = "instruction trace".to_owned();
    }
    if filetype.any(FileType::KERNEL_SYSCALL_TRACE_TEMPLATES) {
        title = "templates of kernel code".to_owned();
    }
    if filetype.any(FileType::CORE_SHARDED) {
        title.push_str(", one file per core");
    }
    title
}
