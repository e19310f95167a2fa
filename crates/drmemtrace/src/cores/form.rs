//! Turns entries of threads into entries of a core. SPEC: drmemtrace.md#core-sharded-files.

use crate::record::{ENTRY_BYTES, Entry, FileType, IDLE_THREAD, Marker, Type};
use crate::table::Memrefs;
use quipu_model::column::Maybe;
use quipu_model::lens::NO_CODE;
use quipu_model::trace::{CoreForm, CoreRow};
use quipu_model::{Error, Result, TableBuf, ThreadId};
use zerocopy::IntoBytes;

/// The form of core-sharded files.
pub(crate) static FORM: Form = Form;

/// The type of [`FORM`].
#[derive(Debug)]
pub(crate) struct Form;

impl CoreForm for Form {
    fn turn(&self, thread: ThreadId, process: u64, records: &[u8], out: &mut Vec<u8>) {
        if Entry::slice(records).0.first().is_some_and(|entry| entry.kind() == Type::HEADER) {
            return;
        }
        for (kind, value) in [(Type::THREAD, thread.packed()), (Type::PID, process)] {
            let entry = Entry { kind: kind.0.into(), size: 0.into(), addr: value.into() };
            out.extend_from_slice(entry.as_bytes());
        }
    }

    fn rest(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(Entry::marker(Marker::CORE_IDLE, 0).as_bytes());
    }

    fn adopt(&self, records: &mut [u8], core: u64, clock: Option<u64>) {
        for bytes in records.chunks_exact_mut(ENTRY_BYTES) {
            let Some(entry) = Entry::slice(bytes).0.first() else { continue };
            if entry.kind() != Type::MARKER {
                continue;
            }
            let value = match Marker(entry.size.get()) {
                Marker::FILETYPE => Some(entry.addr.get() | FileType::CORE_SHARDED.0),
                Marker::TIMESTAMP => clock,
                Marker::CPU_ID => Some(core),
                _ => None,
            };
            if let Some(value) = value {
                bytes[ENTRY_BYTES - size_of::<u64>()..].copy_from_slice(&value.to_le_bytes());
            }
        }
    }

    fn adopt_rows(&self, rows: &mut dyn TableBuf, n: usize, at: CoreRow) {
        let Some(rows) = rows.get_mut::<Memrefs>() else { return };
        for row in rows.len().saturating_sub(n)..rows.len() {
            (rows.record[row], rows.instr[row]) = (at.record, at.instr);
            if let Some(clock) = at.clock {
                rows.time[row] = clock;
            }
            let replaced = match Marker(rows.marker[row]) {
                Marker::TIMESTAMP => at.clock,
                Marker::CPU_ID => Some(at.core),
                _ => None,
            };
            if let Some(value) = replaced {
                rows.value.values[row] = value;
            }
        }
    }

    fn rest_row(&self, rows: &mut dyn TableBuf, at: CoreRow) -> Result<()> {
        let Some(rows) = rows.get_mut::<Memrefs>() else {
            let what = format!("a core that rests has no rows of the table `{}`", rows.schema().name);
            return Err(Error::unsupported(what));
        };
        let (mut addr, mut value) = (Maybe::default(), Maybe::default());
        addr.push(None);
        value.push(Some(0));
        let rest = Memrefs {
            record: vec![at.record],
            instr: vec![at.instr],
            pid: vec![0],
            tid: vec![IDLE_THREAD],
            kind: vec![Type::MARKER.0],
            marker: vec![Marker::CORE_IDLE.0],
            size: vec![0],
            addr,
            pc: vec![0],
            target: vec![0],
            value,
            code: vec![NO_CODE],
            new_encoding: vec![0],
            kernel: vec![0],
            time: vec![at.clock.unwrap_or(0)],
        };
        rows.append(&rest, 0..1, |code| code);
        Ok(())
    }
}
