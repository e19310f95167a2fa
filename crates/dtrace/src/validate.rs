//! Checks descriptions before they are used: the kernel can trust its own, but these may come from anywhere.
//!
//! SPEC: dtrace.md#hostile-and-damaged-data

use crate::action::{Action, Function};
use crate::describe::{Aggregation, Capture, Dialect, Enabling, Rec};
use quipu_model::buckets::{Linear, Logarithmic, QUANTIZE_CELLS};
use quipu_model::{Error, Result};

/// Maximum size of a record in bytes.
pub const MAX_RECORD_BYTES: u32 = 16 << 20;

/// Maximum number of parts of a record.
pub const MAX_PARTS: usize = 65_536;

/// Checks all descriptions of a capture.
///
/// # Errors
/// `Malformed` or `Limit` for the first fault; the caller adds the name of the file.
pub fn all(capture: &Capture) -> Result<()> {
    let enablings = capture.enablings.iter().try_for_each(|enabling| self::enabling(capture, enabling));
    enablings?;
    for pair in capture.enablings.windows(2) {
        if pair[0].id == pair[1].id {
            return Err(Error::malformed(format!("EPID {} is described twice", pair[0].id)));
        }
    }
    let mut ids: Vec<u32> = capture.aggregations.iter().map(|aggregation| aggregation.id).collect();
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::malformed(format!("aggregation {} is described twice", pair[0])));
    }
    capture.aggregations.iter().try_for_each(|aggregation| self::aggregation(capture, aggregation))?;
    for buffer in &capture.buffers {
        if buffer.oldest > 0 && buffer.oldest >= buffer.bytes.len() {
            let (oldest, size) = (buffer.oldest, buffer.bytes.len());
            let message = format!("the oldest record stands at {oldest}, the buffer has {size} bytes");
            return Err(Error::malformed(message).in_file(&*buffer.file));
        }
    }
    Ok(())
}

fn enabling(capture: &Capture, enabling: &Enabling) -> Result<()> {
    let what = || match capture.dialect {
        Dialect::Linux => format!("statement {}", enabling.id),
        _ => format!("EPID {}", enabling.id),
    };
    let header = capture.dialect.header_bytes();
    if enabling.id == 0 && capture.dialect != Dialect::Linux {
        return Err(Error::malformed("EPID 0 means that there is none, and is described"));
    }
    if enabling.recs.len() > MAX_PARTS {
        return Err(Error::limit("parts of a record", enabling.recs.len() as u64, MAX_PARTS as u64));
    }
    let is_open = capture.dialect == Dialect::Linux && enabling.size == 0;
    if !is_open && (enabling.size > MAX_RECORD_BYTES || (enabling.size > 0 && enabling.size < header)) {
        let (what, size) = (what(), enabling.size);
        return Err(Error::malformed(format!("{what}: a record has {size} bytes, a header {header}")));
    }
    let limit = if is_open { MAX_RECORD_BYTES } else { enabling.size };
    enabling.recs.iter().try_for_each(|rec| part(capture, rec, header, limit, &what))
}

fn part(capture: &Capture, rec: &Rec, header: u32, limit: u32, what: &dyn Fn() -> String) -> Result<()> {
    let wrong = |message: String| Err(Error::malformed(format!("{}: {message}", what())));
    let (offset, size) = (rec.offset, rec.size);
    let end = offset.checked_add(size);
    if size > 0 && (offset < header || end.is_none_or(|end| end > limit)) {
        return wrong(format!("{size} bytes at offset {offset} are outside of the record of {limit} bytes"));
    }
    if !matches!(rec.alignment, 1 | 2 | 4 | 8) {
        return wrong(format!("an alignment of {} bytes", rec.alignment));
    }
    if rec.format != 0 && capture.format(rec.format).is_none() {
        return wrong(format!("format {} has no text", rec.format));
    }
    match rec.action {
        Action::Stack if rec.arg == 0 || !matches!(u64::from(size).checked_div(rec.arg), Some(4 | 8)) => {
            wrong(format!("a stack of {} frames has {size} bytes", rec.arg))
        }
        Action::Ustack | Action::Jstack => {
            let (frames, strings) = (rec.arg & 0xffff_ffff, rec.arg >> 32);
            match (frames + 1) * 8 + strings > u64::from(size) {
                true => wrong(format!(
                    "a user stack of {frames} frames and {strings} bytes of names has {size} bytes"
                )),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn aggregation(capture: &Capture, aggregation: &Aggregation) -> Result<()> {
    let what = || format!("aggregation {}", aggregation.id);
    let wrong = |message: String| Err(Error::malformed(format!("{}: {message}", what())));
    if aggregation.id == 0 {
        return Err(Error::malformed("aggregation 0 means that there is none, and is described"));
    }
    if aggregation.keys.len() > MAX_PARTS {
        return Err(Error::limit("members of a key", aggregation.keys.len() as u64, MAX_PARTS as u64));
    }
    if aggregation.size > MAX_RECORD_BYTES {
        return Err(Error::limit(
            "bytes of an aggregation",
            u64::from(aggregation.size),
            u64::from(MAX_RECORD_BYTES),
        ));
    }
    for rec in &aggregation.keys {
        part(capture, rec, 4, aggregation.size, &what)?;
    }
    let is_linux = capture.dialect == Dialect::Linux;
    if !is_linux {
        part(capture, &aggregation.value, 4, aggregation.size, &what)?;
        if aggregation.value.offset < aggregation.key_end() as u32 {
            return wrong("the value stands within the key".to_owned());
        }
    } else if aggregation.value.size > MAX_RECORD_BYTES || aggregation.value.offset > MAX_RECORD_BYTES {
        return wrong(format!("the value has {} bytes", aggregation.value.size));
    }
    let size = u64::from(aggregation.value.size);
    let param = aggregation.param;
    let params = u64::from(!is_linux);
    let cells = match aggregation.function {
        Function::Count | Function::Sum | Function::Min | Function::Max => 1,
        Function::Avg => 2,
        Function::Stddev => 4,
        Function::Quantize => QUANTIZE_CELLS as u64,
        Function::Lquantize => {
            let linear = Linear::of(param);
            if linear.step == 0 {
                return wrong("the step of lquantize() is 0".to_owned());
            }
            linear.n_cells() as u64 + params
        }
        Function::Llquantize => {
            let ll = Logarithmic::of(param, is_linux);
            if !ll.is_sound() {
                return wrong(format!("no llquantize() has these parameters: {ll:?}"));
            }
            params + if is_linux { ll.n_signed_cells() as u64 } else { ll.n_cells() as u64 }
        }
    };
    if size != 8 * cells {
        let name = aggregation.function.name();
        return wrong(format!("a value of {name}() has {size} bytes, not {}", 8 * cells));
    }
    Ok(())
}
