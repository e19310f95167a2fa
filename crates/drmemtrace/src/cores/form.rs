//! How entries of threads become those of a core. SPEC: docs/formats/drmemtrace.md, *Core-sharded files*.

use crate::record::{ENTRY_BYTES, Entry, FileType, Marker, Type};
use quipu_model::ThreadId;
use quipu_model::trace::CoreForm;
use zerocopy::IntoBytes;

/// The form that files of cores have.
pub(crate) static FORM: Form = Form;

/// The type of [`FORM`].
#[derive(Debug)]
pub(crate) struct Form;

impl CoreForm for Form {
    fn turn(&self, thread: ThreadId, process: u64, out: &mut Vec<u8>) {
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
}
