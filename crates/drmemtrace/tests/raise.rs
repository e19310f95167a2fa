//! Raising files to later versions: what changes, what is kept, and what is refused.

// The helpers of a test may panic as the test may.

use crate::rewriting::{assert_same, entries, open, open_bytes, rewritten};
use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::check::{CHECK, CheckReport};
use quipu_drmemtrace::record::{Entry, FileType, Marker, Type};
use quipu_drmemtrace::trace::DrmemTrace;
use quipu_drmemtrace::write::{NoEdit, WriteOptions, rewrite_file};
use quipu_model::transform::Silent;
use quipu_model::{Format, Given, OpenOptions};
use quipu_source::{PackOptions, Packer, Packing, Pool, Source};
use quipu_testkit::report_of;
use std::io::Cursor;
use zerocopy::IntoBytes;

fn to(version: u64) -> WriteOptions {
    WriteOptions { pack: PackOptions::new(Packing::Plain), version: Some(version), ..WriteOptions::new() }
}

/// The reason why a file cannot be raised.
fn refusal(trace: &DrmemTrace, version: u64) -> String {
    let pool = Pool::new(1).unwrap();
    let packer = Packer::new(Cursor::new(Vec::new()), &pool, &PackOptions::new(Packing::Plain));
    rewrite_file(trace, 0, packer, NoEdit, &to(version), &Silent).unwrap_err().to_string()
}

fn broken(source: &Source) -> Vec<&'static str> {
    let trace = DRMEMTRACE.open(source, &OpenOptions::default()).unwrap();
    let report: CheckReport = report_of(&CHECK, &Given::default(), &*trace);
    report.broken().map(|(rule, _)| rule.name).collect()
}

/// The same entries with another version.
fn versioned(mut entries: Vec<Entry>, version: u64) -> Vec<Entry> {
    for entry in &mut entries {
        if entry.kind() == Type::HEADER || entry.is_marker(Marker::VERSION) {
            entry.addr.set(version);
        }
    }
    entries
}

/// The entries as in version 4: without outcomes and targets.
fn without_branches(entries: &[Entry]) -> Vec<Entry> {
    let mut old = versioned(entries.to_vec(), 4);
    old.retain(|entry| !entry.is_marker(Marker::BRANCH_TARGET));
    for entry in &mut old {
        if entry.kind() == Type::INSTR_TAKEN_JUMP || entry.kind() == Type::INSTR_UNTAKEN_JUMP {
            entry.kind.set(Type::INSTR_CONDITIONAL_JUMP.0);
        }
    }
    old
}

fn trace_of(entries: &[Entry]) -> DrmemTrace {
    open_bytes(entries.as_bytes().to_vec())
}

#[test]
fn version_six_without_signals_differs_by_its_number_only() {
    for name in ["allasm", "allasm.trim_timestamp", "allasm.regdeps", "as_traced"] {
        let (_, trace) = open(name);
        let same = entries(&rewritten(&trace, 0, NoEdit, &to(6)));
        let raised = rewritten(&trace, 0, NoEdit, &to(7));
        assert_same(&entries(&raised), &versioned(same, 7), name);
        if name != "allasm.regdeps" {
            assert_eq!(broken(&raised), [""; 0], "{name}");
        }
    }
}

#[test]
fn outcomes_and_targets_of_branches_are_found_again() {
    for name in ["tiny.gz", "tiny.func", "tiny.physical"] {
        let (_, trace) = open(name);
        let original = entries(&rewritten(&trace, 0, NoEdit, &to(7)));
        let raised = rewritten(&trace_of(&without_branches(&original)), 0, NoEdit, &to(5));
        assert_same(&entries(&raised), &versioned(original, 5), name);
    }
}

#[test]
fn what_was_not_recorded_is_not_made_up() {
    let (_, legacy) = open("small");
    assert!(refusal(&legacy, 7).contains("version 1 cannot become version 7: it does not say for which"));
    let (_, aarch64) = open("aarch64");
    assert!(refusal(&aarch64, 7).contains("version 5 cannot become version 7: it has system calls"));
    let (_, newest) = open("tiny.gz");
    assert!(refusal(&newest, 6).contains("version 7 cannot become version 6"));
    // Without its bit, the machine code still shows system calls.
    let mut old = without_branches(&entries(&rewritten(&newest, 0, NoEdit, &to(7))));
    old.retain(|entry| !entry.is_marker(Marker::SYSCALL) && !entry.is_marker(Marker::MAYBE_BLOCKING_SYSCALL));
    for entry in old.iter_mut().filter(|entry| entry.is_marker(Marker::FILETYPE)) {
        entry.addr.set(0x240);
    }
    assert!(refusal(&trace_of(&old), 7).contains("it has system calls"));
    for entry in old.iter_mut().filter(|entry| entry.is_marker(Marker::FILETYPE)) {
        entry.addr.set(FileType::ARCH_X86_64.0);
    }
    assert!(refusal(&trace_of(&old), 7).contains("nothing in it tells system calls"));
}

/// A trace of one thread, x86-64 with encodings.
fn by_hand(version: u64, body: &[Entry]) -> Vec<Entry> {
    let m = Entry::marker;
    let mut entries = vec![
        Entry::new(Type::HEADER, 0, version),
        m(Marker::VERSION, version),
        m(Marker::FILETYPE, 0x240),
        Entry::new(Type::THREAD, 4, 7),
        Entry::new(Type::PID, 4, 7),
        m(Marker::CACHE_LINE_SIZE, 64),
        m(Marker::PAGE_SIZE, 4096),
        m(Marker::TIMESTAMP, 100),
        m(Marker::CPU_ID, 1),
    ];
    entries.extend_from_slice(body);
    entries.extend([Entry::new(Type::THREAD_EXIT, 4, 7), Entry::new(Type::FOOTER, 0, 0)]);
    entries
}

fn code(bytes: u64, size: u16) -> Entry {
    Entry::new(Type::ENCODING, size, bytes)
}

#[test]
fn an_instruction_that_did_not_retire_is_a_marker() {
    let m = Entry::marker;
    let instr = |pc: u64, size: u16| Entry::new(Type::INSTR, size, pc);
    // A load of (%rax) faults; a handler runs, and the load is executed again.
    let load = code(0x00_8b48, 3);
    let rest = [code(0x90, 1), instr(0x2000, 1)];
    let old = [load, instr(0x1000, 3), Entry::new(Type::READ, 8, 0x9000), m(Marker::KERNEL_EVENT, 0x1000)];
    let old = [
        &old[..],
        &rest,
        &[m(Marker::KERNEL_XFER, 0x2001), instr(0x1000, 3), Entry::new(Type::READ, 8, 0x9000)],
    ];
    let raised = rewritten(&trace_of(&by_hand(6, &old.concat())), 0, NoEdit, &to(7));
    let new = [m(Marker::UNCOMPLETED_INSTRUCTION, 0x00_8b48), m(Marker::KERNEL_EVENT, 0x1000)];
    let again = [m(Marker::KERNEL_XFER, 0x2001), load, instr(0x1000, 3), Entry::new(Type::READ, 8, 0x9000)];
    assert_same(&entries(&raised), &by_hand(7, &[&new[..], &rest, &again].concat()), "fault");
    // The next instruction was interrupted: all before it retired.
    let between =
        [load, instr(0x1000, 3), Entry::new(Type::READ, 8, 0x9000), m(Marker::KERNEL_EVENT, 0x1003)];
    let raised = rewritten(&trace_of(&by_hand(6, &between)), 0, NoEdit, &to(7));
    assert_same(&entries(&raised), &by_hand(7, &between), "between two");
    // rep movsb, and a jump to itself, may have retired.
    let repeated = [code(0xa4f3, 2), instr(0x1000, 2), m(Marker::KERNEL_EVENT, 0x1000)];
    assert!(refusal(&trace_of(&by_hand(6, &repeated)), 7).contains("may go on at its own address"));
    let jump =
        [code(0xfeeb, 2), Entry::new(Type::INSTR_DIRECT_JUMP, 2, 0x1000), m(Marker::KERNEL_EVENT, 0x1000)];
    assert!(refusal(&trace_of(&by_hand(6, &jump)), 7).contains("may go on at its own address"));
    // Before version 3 the address is unknown.
    assert!(refusal(&trace_of(&by_hand(2, &between)), 3).contains("version 2 cannot become version 3"));
}

#[test]
fn a_clock_reading_goes_before_the_branch_that_it_followed() {
    let m = Entry::marker;
    let (nop, jump) = ([code(0x90, 1), Entry::new(Type::INSTR, 1, 0x1000)], code(0x0074, 2));
    let clock = [m(Marker::TIMESTAMP, 110), m(Marker::CPU_ID, 2)];
    let branch = |kind: Type| [jump, Entry::new(kind, 2, 0x1001)];
    let behind = [code(0x90, 1), Entry::new(Type::INSTR, 1, 0x1003)];
    let conditional = branch(Type::INSTR_CONDITIONAL_JUMP);
    let old = by_hand(4, &[&nop[..], &conditional, &clock, &behind].concat());
    let raised = rewritten(&trace_of(&old), 0, NoEdit, &to(7));
    let untaken = branch(Type::INSTR_UNTAKEN_JUMP);
    assert_same(&entries(&raised), &by_hand(7, &[&nop[..], &clock, &untaken, &behind].concat()), "clock");
    assert_eq!(broken(&raised), [""; 0]);
    // A branch that nothing follows has no outcome.
    let raised = rewritten(&trace_of(&by_hand(4, &[&nop[..], &conditional].concat())), 0, NoEdit, &to(7));
    assert_same(&entries(&raised), &by_hand(7, &nop), "the last branch");
}
