//! How entries of threads become those of a core. SPEC: drmemtrace.md#core-sharded-files.

use crate::record::{ENTRY_BYTES, Entry, FileType, IDLE_THREAD, Marker, Type};
use crate::table::{MEMREFS, NO_MARKER};
use quipu_model::lens::NO_CODE;
use quipu_model::trace::{CoreForm, CoreRow};
use quipu_model::{Column, Error, Result, Rows, ThreadId};
use zerocopy::IntoBytes;

/// The form that files of cores have.
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

    fn adopt_rows(&self, rows: &mut Rows, n: usize, at: CoreRow) {
        if rows.schema.name != MEMREFS.name {
            return;
        }
        let first = rows.len().saturating_sub(n);
        for row in first..rows.len() {
            let replaced = match rows.column("marker").map_or(NO_MARKER.into(), |markers| markers.get(row)) {
                kind if kind == u64::from(Marker::TIMESTAMP.0) => at.clock,
                kind if kind == u64::from(Marker::CPU_ID.0) => Some(at.core),
                _ => None,
            };
            let cells = [
                ("record", Some(at.record)),
                ("instr", Some(at.instr)),
                ("time", at.clock),
                ("value", replaced),
            ];
            for (name, value) in cells {
                if let (Some(value), Some(position)) = (value, rows.schema.position(name))
                    && let Some(Column::U64(values)) = rows.columns.get_mut(position)
                {
                    values[row] = value;
                }
            }
        }
    }

    fn rest_row(&self, rows: &mut Rows, at: CoreRow) -> Result<()> {
        if rows.schema.name != MEMREFS.name {
            let what = format!("a core that rests has no rows of the table `{}`", rows.schema.name);
            return Err(Error::unsupported(what));
        }
        let schema = rows.schema.clone();
        for (column, values) in schema.columns.iter().zip(&mut rows.columns) {
            values.push(match column.name.as_ref() {
                "record" => at.record,
                "instr" => at.instr,
                "tid" => IDLE_THREAD,
                "type" => Type::MARKER.0.into(),
                "marker" => Marker::CORE_IDLE.0.into(),
                "code" => NO_CODE.into(),
                "time" => at.clock.unwrap_or(0),
                _ => 0,
            })?;
        }
        Ok(())
    }
}
