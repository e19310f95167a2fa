//! Cases that need an archive, a folder or broken packing.

use crate::check_rules::trace::*;
use quipu_drmemtrace::record::{Marker, Type};
use quipu_drmemtrace::schedule::Stretch;
use std::fs;
use std::path::Path;
use zerocopy::IntoBytes;

/// A file's bytes that break a rule, and the other rules that they inevitably break.
pub(crate) struct Packed {
    pub(crate) rule: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) also: &'static [&'static str],
}

fn packed(rule: &'static str, also: &'static [&'static str], bytes: Vec<u8>) -> Packed {
    Packed { rule, bytes, also }
}

/// A header with this number of instructions in each chunk.
fn start(chunk: u64) -> Entries {
    let mut entries = all(&[bare_header(X64), at(100)]);
    entries[6].addr = chunk.into();
    entries
}

fn seam(ordinal: u64, clock: u64, cpu: u64) -> Entries {
    all(&[m(Marker::RECORD_ORDINAL, ordinal), m(Marker::TIMESTAMP, clock), m(Marker::CPU_ID, cpu)])
}

fn footer(number: u64) -> Entries {
    m(Marker::CHUNK_FOOTER, number)
}

/// Two chunks of two instructions.
pub(crate) fn two_chunks(first: &[Entries], second: &[Entries]) -> Vec<u8> {
    archive(&[all(&[start(2), first.concat()]), all(&[second.concat(), end()])])
}

/// Seven records and two instructions come before the footer, which counts too.
const ORDINAL: u64 = 10;

/// An archive that breaks no rule.
pub(crate) fn clean() -> Vec<u8> {
    two_chunks(&[nop(1), nop(2), footer(0)], &[seam(ORDINAL, 100, 1), nop(3), nop(4)])
}

/// A member of an archive of templates: a header, and kernel code of a switch of this type.
fn template(kind: u64, end: Entries) -> Entries {
    let bare = ind(Type::INSTR_RETURN, 0x9001, &[0x48, 0xcf], 0xf00d);
    all(&[
        bare_header(TEMPLATE),
        at(100),
        m(Marker::CONTEXT_SWITCH_START, kind),
        i(Type::INSTR, 0x9000, &[0x58]),
        read(8),
        bare,
        // One read for all of the restored state.
        read(40),
        m(Marker::CONTEXT_SWITCH_END, kind),
        end,
    ])
}

/// Archives of templates, in which each member has a header and the last one has the end: a complete one, and others, with
/// the rule that each breaks.
pub(crate) fn templates() -> Vec<(Option<&'static str>, Vec<u8>)> {
    let without_read = {
        let mut member = template(1, footer(0));
        member.retain(|entry| entry.size.get() != 40 || entry.kind() != Type::READ);
        member
    };
    vec![
        (None, archive(&[template(1, footer(0)), template(2, end())])),
        (Some("template-switches"), archive(&[template(1, footer(0)), template(1, end())])),
        (Some("exit-missing"), archive(&[template(1, footer(0)), template(2, e(Type::FOOTER, 0, 0))])),
        (Some("missing-reads"), archive(&[without_read, template(2, end())])),
    ]
}

/// Cases of chunks and packing.
pub(crate) fn archives() -> Vec<Packed> {
    let whole = clean();
    let mut wrong_sum = whole.clone();
    // The bytes of a member are stored after its name of 14 bytes; a change breaks the data, or its checksum.
    wrong_sum[30 + 14 + 6] ^= 1;
    let mut wrong_method = whole.clone();
    for at in 0..whole.len() - 12 {
        // The method comes after the signature, version and flags; the directory has one more version.
        match &whole[at..at + 4] {
            b"PK\x03\x04" => wrong_method[at + 8] = 99,
            b"PK\x01\x02" => wrong_method[at + 10] = 99,
            _ => {}
        }
    }
    let seconds = || [seam(ORDINAL, 100, 1), nop(3), nop(4)];
    vec![
        packed("source/truncated", &["partial-entry", "exit-missing"], bytes_of_gzip()),
        packed("source/malformed", &["no-header"], wrong_sum),
        packed("source/unsupported", &["no-header"], wrong_method),
        // A Zstandard frame that asks for a window of two terabytes.
        packed(
            "source/limit",
            &["no-header"],
            vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 1, 2, 3, 4, 5, 6, 7, 8],
        ),
        packed("partial-entry", &[], {
            let mut bytes = bytes(&trace(X64, &[nop(1)]));
            bytes.extend([1, 2, 3]);
            bytes
        }),
        packed("chunk-cut", &[], two_chunks(&[nop(1), nop(2)], &seconds())),
        packed("chunk-ordinal", &[], two_chunks(&[nop(1), nop(2), footer(5)], &seconds())),
        packed("chunk-instrs", &[], two_chunks(&[nop(1), footer(0)], &[seam(9, 100, 1), nop(2), nop(3)])),
        packed(
            "chunk-start",
            &[],
            two_chunks(&[nop(1), nop(2), footer(0)], &[seam(ORDINAL, 101, 1), nop(3)]),
        ),
        packed("record-ordinal", &[], two_chunks(&[nop(1), nop(2), footer(0)], &[seam(77, 100, 1), nop(3)])),
        packed(
            "chunk-encoding",
            &["pc-discontinuity"],
            two_chunks(&[nop(1), nop(2), footer(0)], &[seam(ORDINAL, 100, 1), e(Type::INSTR, 1, 1)]),
        ),
        packed("switch-trace-missing", &[], {
            let thread = |tid: u64| all(&[e(Type::THREAD, 0, tid), e(Type::PID, 0, 70)]);
            bytes(&trace(KERNEL | 0x10000, &[nop(1), thread(8), nop(2), thread(TID), switch(1, 3), nop(3)]))
        }),
    ]
}

/// Half of a gzip file.
fn bytes_of_gzip() -> Vec<u8> {
    let path = quipu_testkit::fixtures("drmemtrace").join("tiny.gz");
    let file = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).next().unwrap();
    let bytes = fs::read(file).unwrap();
    bytes[..bytes.len() / 2].to_vec()
}

/// A folder that breaks a rule.
pub(crate) struct Folder {
    pub(crate) rule: &'static str,
    fill: fn(&Path),
    pub(crate) also: &'static [&'static str],
}

impl Folder {
    pub(crate) fn fill(&self, path: &Path) {
        (self.fill)(path);
    }
}

/// Writes a trace of one thread that is on processor 1 at 100 and at 110.
fn write_trace(path: &Path) {
    fs::write(path.join("drmemtrace.a.7.trace"), bytes(&trace(X64, &[nop(1), at(110), nop(2)]))).unwrap();
}

fn write_serial(path: &Path, stretches: &[Stretch]) {
    fs::write(path.join("serial_schedule.bin"), stretches.as_bytes()).unwrap();
}

fn write_cpus(path: &Path, member: &str, stretches: &[Stretch]) {
    use std::io::Write;
    let mut zip = zip::ZipWriter::new(fs::File::create(path.join("cpu_schedule.bin.zip")).unwrap());
    zip.start_file(member, zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(stretches.as_bytes()).unwrap();
    zip.finish().unwrap();
}

/// A folder with correct schedules, in full and collapsed.
pub(crate) fn write_clean(path: &Path) {
    write_trace(path);
    write_serial(path, &[Stretch::new(TID, 100, 1, 0)]);
    write_cpus(path, "1", &[Stretch::new(TID, 100, 1, 0), Stretch::new(TID, 110, 1, 1)]);
}

/// Cases of files beside traces.
pub(crate) fn folders() -> Vec<Folder> {
    let folder = |rule, fill| Folder { rule, fill, also: &[] };
    vec![
        folder("stray-file", |path| {
            write_trace(path);
            fs::write(path.join("notes.txt"), "no trace").unwrap();
        }),
        folder("repeated-file", |path| {
            write_trace(path);
            fs::copy(path.join("drmemtrace.a.7.trace"), path.join("drmemtrace.a (copy).7.trace")).unwrap();
        }),
        folder("several-windows", |path| {
            for window in ["window.0000", "window.0001"] {
                fs::create_dir(path.join(window)).unwrap();
                write_trace(&path.join(window));
            }
        }),
        folder("function-list", |path| {
            write_trace(path);
            fs::write(path.join("funclist.log"), "nonsense\n").unwrap();
        }),
        folder("schedule-file", |path| {
            write_trace(path);
            fs::write(path.join("serial_schedule.bin"), [1, 2, 3]).unwrap();
        }),
        folder("serial-schedule-count", |path| {
            write_trace(path);
            write_serial(path, &[Stretch::new(TID, 100, 1, 0); 3]);
        }),
        folder("serial-schedule-count", |path| {
            write_trace(path);
            // An empty gzip file beside a filled one.
            let empty = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0";
            fs::write(path.join("serial_schedule.bin.gz"), empty).unwrap();
            write_cpus(path, "1", &[Stretch::new(TID, 100, 1, 0), Stretch::new(TID, 110, 1, 1)]);
        }),
        folder("serial-schedule-entry", |path| {
            write_trace(path);
            write_serial(path, &[Stretch::new(TID, 101, 1, 0)]);
        }),
        folder("cpu-schedule-count", |path| {
            write_trace(path);
            write_cpus(path, "1", &[Stretch::new(TID, 100, 1, 0); 3]);
        }),
        folder("cpu-schedule-entry", |path| {
            write_trace(path);
            write_cpus(path, "1", &[Stretch::new(TID, 100, 1, 0), Stretch::new(TID, 110, 1, 2)]);
        }),
    ]
}
