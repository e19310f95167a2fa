//! Encodes single events in either encoding, with only the requested fields.
//!
//! `quipu-prism` has the readers, and writers that take parsed events; this encodes numbers as a traced program has them. A
//! test of `quipu-prism` compares the two.
//!
//! SPEC: prism.md#fixed-encoding
//! SPEC: prism.md#variable-encoding

/// Kinds of events, numbered as in the variable encoding and as indices of the fields of [`Terms`](super::Terms); memory is
/// 0.
pub(super) const COMPUTE: usize = 1;
pub(super) const CONTROL: usize = 2;
pub(super) const SYNC: usize = 3;
pub(super) const CONTEXT: usize = 4;

/// Type of the synchronization event that makes another thread the current one.
pub(super) const SWAP: u8 = 5;

const TYPE: u8 = 0x80;
const SIZE: u8 = 0x40;
/// Addresses of accesses, operations of computations, targets of control flow.
const THIRD: u8 = 0x20;
/// Ids of accesses, arity of computations, indirect control flow.
const FOURTH: u8 = 0x10;
const IDS: u8 = 0x08;

/// Bytes of an event in the fixed encoding.
pub(super) const FIXED_BYTES: usize = 18;
/// Type of control flow that may or may not be taken.
const BRANCH: u8 = 2;
/// Type of a branch with unknown outcome in the variable encoding.
const BLIND_BRANCH: u8 = 5;
/// Unknown target of control flow in the variable encoding.
const NO_TARGET: u64 = (1 << 56) - 1;
/// Type of the synchronization event that has a second word.
const WAIT: u8 = 8;

/// Bytes of an event, and the number of bytes used.
pub(super) type Encoded = ([u8; FIXED_BYTES], usize);

/// The values of a computation.
#[derive(Clone, Copy, Debug)]
pub struct Compute<'a> {
    /// 1 integer, 2 floating point, 0 undefined.
    pub format: u8,
    /// Bytes of the result.
    pub width: u16,
    /// 1 add, 2 subtract, 3 multiply, 4 divide, 5 shift, 6 move, 0 undefined.
    pub operation: u8,
    /// Number of arguments.
    pub n_arguments: u8,
    /// Ids of the arguments; empty if there are none.
    pub ids: &'a [u8],
}

/// The values of control flow.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// 1 jump, 2 conditional branch, 3 call, 4 return.
    pub kind: u8,
    /// Whether it was taken; may be unknown only for a branch.
    pub taken: Option<bool>,
    /// Whether the target is computed.
    pub indirect: bool,
    /// The target, if known.
    pub target: Option<u64>,
}

#[inline]
fn when<T: Default>(fields: u8, field: u8, value: T) -> T {
    if fields & field != 0 { value } else { T::default() }
}

/// The logarithm of a size; `None` if the size is not a power of two up to 128.
#[inline]
fn logarithm(size: u16) -> Option<u8> {
    (size.is_power_of_two() && size <= 128).then(|| size.trailing_zeros() as u8)
}

/// Packs a byte and an address of at most 56 bits.
#[inline]
fn with_address(head: u8, address: u64) -> Option<[u8; 8]> {
    (address >> 56 == 0).then(|| (address << 8 | u64::from(head)).to_le_bytes())
}

#[inline]
pub(super) fn memory_variable(fields: u8, access: u8, size: u16, address: u64, id: u8) -> Option<Encoded> {
    let access = when(fields, TYPE, access);
    let size = if fields & SIZE != 0 { logarithm(size)? } else { 0 };
    if access > 3 {
        return None;
    }
    let head = access << 3 | size;
    let mut bytes = [0; FIXED_BYTES];
    let mut len = 1;
    if fields & THIRD != 0 {
        bytes[..8].copy_from_slice(&with_address(head, address)?);
        len = 8;
    } else {
        bytes[0] = head;
    }
    if fields & FOURTH != 0 {
        bytes[len] = id;
        len += 1;
    }
    Some((bytes, len))
}

#[inline]
pub(super) fn memory_fixed(fields: u8, access: u8, size: u16, address: u64) -> Encoded {
    let mut bytes = [0; FIXED_BYTES];
    bytes[0] = 1;
    bytes[1..9].copy_from_slice(&when(fields, THIRD, address).to_le_bytes());
    bytes[9..11].copy_from_slice(&when(fields, SIZE, size).to_le_bytes());
    bytes[11] = when(fields, TYPE, access);
    (bytes, FIXED_BYTES)
}

pub(super) fn compute_variable(fields: u8, compute: &Compute<'_>) -> Option<Encoded> {
    let format = when(fields, TYPE, compute.format);
    let width = if fields & SIZE != 0 { logarithm(compute.width)? } else { 0 };
    let operation = when(fields, THIRD, compute.operation);
    let n_arguments = if fields & FOURTH != 0 { compute.n_arguments } else { 1 };
    if format > 3 || operation > 63 || !(1..=4).contains(&n_arguments) {
        return None;
    }
    let mut bytes = [0; FIXED_BYTES];
    bytes[0] = 1 << 5 | format << 3 | width;
    bytes[1] = operation << 2 | (n_arguments - 1);
    let mut len = if fields & (THIRD | FOURTH) != 0 { 2 } else { 1 };
    if fields & FOURTH != 0 && fields & IDS != 0 {
        if compute.ids.len() != usize::from(n_arguments) {
            return None;
        }
        len += compute.ids.len();
        bytes[2..len].copy_from_slice(compute.ids);
    }
    Some((bytes, len))
}

pub(super) fn compute_fixed(fields: u8, compute: &Compute<'_>) -> Option<Encoded> {
    let mut bytes = [0; FIXED_BYTES];
    bytes[0] = 2;
    bytes[1] = when(fields, TYPE, compute.format);
    bytes[2] = if fields & FOURTH != 0 { compute.n_arguments.checked_add(1)? } else { 0 };
    bytes[3] = when(fields, THIRD, compute.operation);
    bytes[4] = u8::try_from(when(fields, SIZE, compute.width)).ok()?;
    Some((bytes, FIXED_BYTES))
}

pub(super) fn control_variable(fields: u8, control: &Control) -> Option<Encoded> {
    let is_blind = fields & SIZE != 0 && control.taken.is_none();
    let kind = match when(fields, TYPE, control.kind) {
        BRANCH if is_blind => BLIND_BRANCH,
        _ if is_blind && fields & TYPE == 0 => BLIND_BRANCH,
        kind if is_blind || kind > 7 || kind == BLIND_BRANCH => return None,
        kind => kind,
    };
    let taken = u8::from(when(fields, SIZE, control.taken.unwrap_or(false)));
    let head = 4 << 5 | kind << 2 | taken << 1 | u8::from(when(fields, FOURTH, control.indirect));
    let mut bytes = [0; FIXED_BYTES];
    bytes[0] = head;
    if fields & THIRD == 0 {
        return Some((bytes, 1));
    }
    if control.target == Some(NO_TARGET) {
        return None;
    }
    bytes[..8].copy_from_slice(&with_address(head, control.target.unwrap_or(NO_TARGET))?);
    Some((bytes, 8))
}

pub(super) fn control_fixed(fields: u8, control: &Control) -> Option<Encoded> {
    // As in the variable encoding: jumps, calls and returns are always taken.
    if fields & (SIZE | TYPE) == SIZE | TYPE && control.taken.is_none() && control.kind != BRANCH {
        return None;
    }
    let mut bytes = [0; FIXED_BYTES];
    bytes[0] = 3;
    bytes[1] = when(fields, TYPE, control.kind);
    bytes[2] = u8::from(when(fields, SIZE, control.taken == Some(true)))
        | u8::from(when(fields, FOURTH, control.indirect)) << 1
        | u8::from(when(fields, SIZE, control.taken.is_none())) << 2
        | u8::from(when(fields, THIRD, control.target.is_none())) << 3;
    bytes[3..11].copy_from_slice(&when(fields, THIRD, control.target.unwrap_or(0)).to_le_bytes());
    Some((bytes, FIXED_BYTES))
}

pub(super) fn sync_variable(kind: u8, data: u64, second: u64) -> Option<Encoded> {
    if kind > 31 {
        return None;
    }
    let mut bytes = [0; FIXED_BYTES];
    bytes[0] = 2 << 5 | kind;
    bytes[1..9].copy_from_slice(&data.to_le_bytes());
    bytes[9..17].copy_from_slice(&second.to_le_bytes());
    Some((bytes, if kind == WAIT { 17 } else { 9 }))
}

pub(super) fn sync_fixed(kind: u8, data: u64, second: u64) -> Encoded {
    let mut bytes = [0; FIXED_BYTES];
    (bytes[0], bytes[1]) = (5, kind);
    bytes[2..10].copy_from_slice(&data.to_le_bytes());
    bytes[10..].copy_from_slice(&if kind == WAIT { second } else { 0 }.to_le_bytes());
    (bytes, FIXED_BYTES)
}

/// Whether contexts of this type have a name.
pub(super) fn is_named(kind: u8) -> bool {
    matches!(kind, 3 | 4 | 6..=9)
}

#[inline]
pub(super) fn context_variable(kind: u8, address: u64) -> Option<Encoded> {
    if !matches!(kind, 1 | 2 | 5) {
        return None;
    }
    let mut bytes = [0; FIXED_BYTES];
    bytes[..8].copy_from_slice(&with_address(3 << 5 | kind, address)?);
    Some((bytes, 8))
}

#[inline]
pub(super) fn context_fixed(kind: u8, address: u64) -> Option<Encoded> {
    if is_named(kind) {
        return None;
    }
    let mut bytes = [0; FIXED_BYTES];
    (bytes[0], bytes[1]) = (4, kind);
    bytes[2..10].copy_from_slice(&address.to_le_bytes());
    Some((bytes, FIXED_BYTES))
}

/// Encodes a context whose name is at `index` of the names of its chunk. `len` includes the terminating zero.
pub(super) fn name_fixed(kind: u8, index: u32, len: u32) -> Encoded {
    let mut bytes = [0; FIXED_BYTES];
    (bytes[0], bytes[1]) = (4, kind);
    bytes[2..6].copy_from_slice(&index.to_le_bytes());
    bytes[6..10].copy_from_slice(&len.to_le_bytes());
    (bytes, FIXED_BYTES)
}
