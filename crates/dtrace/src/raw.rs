//! Descriptions in the form of the device: structures of the traced host.
//!
//! SPEC: dtrace.md#structures

use crate::action::Action;
use crate::bytes::ByteOrder;
use crate::describe::{Dialect, Enabling, Rec};
use crate::validate::MAX_PARTS;
use quipu_model::{Error, Place, Result};

/// Size of a part in bytes.
pub const REC_BYTES: usize = 32;

/// Bytes of an enabling before its parts.
pub const ENABLING_HEAD: usize = 24;

/// Bytes of an aggregation before its parts.
pub const AGGREGATION_HEAD: usize = 40;

/// Reads the description of an enabling (`dtrace_eprobedesc_t`).
///
/// # Errors
/// `Truncated` if the bytes are too few for the number of parts, `Limit` for too many parts.
pub fn enabling(bytes: &[u8], order: ByteOrder, dialect: Dialect) -> Result<Enabling> {
    let (id, probe, size, n) = match (word(bytes, 0, order), word(bytes, 4, order), word(bytes, 16, order)) {
        (Some(id), Some(probe), Some(size)) => (id, probe, size, word(bytes, 20, order).unwrap_or(u32::MAX)),
        _ => return Err(cut(bytes.len(), ENABLING_HEAD)),
    };
    let uarg = order.u64_at(bytes, 8).unwrap_or(0);
    let recs = recs(bytes, ENABLING_HEAD, n, order, dialect)?;
    let align = recs.iter().map(|rec| u32::from(rec.alignment)).fold(4, u32::max);
    Ok(Enabling { id, probe, uarg, size, align, recs, host: 0 })
}

/// Writes the description of an enabling.
pub fn put_enabling(enabling: &Enabling, order: ByteOrder) -> Vec<u8> {
    let mut out = Vec::new();
    order.put(&mut out, enabling.id.into(), 4);
    order.put(&mut out, enabling.probe.into(), 4);
    order.put(&mut out, enabling.uarg, 8);
    order.put(&mut out, enabling.size.into(), 4);
    order.put(&mut out, enabling.recs.len() as u64, 4);
    enabling.recs.iter().for_each(|rec| put_rec(rec, order, &mut out));
    // The structure declares one part, so it has room for at least one.
    out.resize(out.len().max(ENABLING_HEAD + REC_BYTES), 0);
    out
}

/// The device's description of an aggregation, with its parts in one list.
#[derive(Clone, Debug, PartialEq)]
pub struct RawAggregation {
    /// The number of the aggregation.
    pub id: u32,
    /// The EPID of the enabling.
    pub epid: u32,
    /// Size of a record in bytes.
    pub size: u32,
    /// The parts: the variable, the key, the value.
    pub recs: Vec<Rec>,
}

/// Reads the description of an aggregation (`dtrace_aggdesc_t`).
///
/// # Errors
/// Returns the same errors as [`enabling`].
pub fn aggregation(bytes: &[u8], order: ByteOrder, dialect: Dialect) -> Result<RawAggregation> {
    let words = [20, 24, 28, 32].map(|at| word(bytes, at, order));
    let [Some(id), Some(epid), Some(size), Some(n)] = words else {
        return Err(cut(bytes.len(), AGGREGATION_HEAD));
    };
    Ok(RawAggregation { id, epid, size, recs: recs(bytes, AGGREGATION_HEAD, n, order, dialect)? })
}

fn word(bytes: &[u8], at: usize, order: ByteOrder) -> Option<u32> {
    order.u32_at(bytes, at)
}

fn cut(has: usize, needed: usize) -> Error {
    let place = Place { offset: Some(has as u64), ..Place::default() };
    Error::truncated(format!("a description has {has} bytes, not {needed}")).at(&place)
}

fn recs(bytes: &[u8], at: usize, n: u32, order: ByteOrder, dialect: Dialect) -> Result<Vec<Rec>> {
    let n = n as usize;
    if n > MAX_PARTS {
        return Err(Error::limit("parts of a record", n as u64, MAX_PARTS as u64));
    }
    let end = at + n * REC_BYTES;
    let all = bytes.get(at..end).ok_or_else(|| cut(bytes.len(), end))?;
    Ok(all.chunks_exact(REC_BYTES).map(|bytes| rec(bytes, order, dialect)).collect())
}

fn rec(bytes: &[u8], order: ByteOrder, dialect: Dialect) -> Rec {
    let short = |at: usize| order.number(&bytes[at..at + 2]) as u16; // Two bytes.
    let word = |at| order.u32_at(bytes, at).unwrap_or(0);
    let long = |at| order.u64_at(bytes, at).unwrap_or(0);
    Rec {
        action: Action::of(short(0), dialect),
        code: short(0),
        size: word(4),
        offset: word(8),
        alignment: short(12),
        format: short(14),
        arg: long(16),
        uarg: long(24),
        signed: None,
    }
}

fn put_rec(rec: &Rec, order: ByteOrder, out: &mut Vec<u8>) {
    order.put(out, rec.code.into(), 2);
    order.put(out, 0, 2);
    order.put(out, rec.size.into(), 4);
    order.put(out, rec.offset.into(), 4);
    order.put(out, rec.alignment.into(), 2);
    order.put(out, rec.format.into(), 2);
    order.put(out, rec.arg, 8);
    order.put(out, rec.uarg, 8);
}
