//! CBOR values (RFC 8949): one canonical encoding of each, and a decoder that also accepts other encodings and reports them.
//!
//! Canonical means the core deterministic encoding: shortest integers and lengths, definite lengths, map keys unique and
//! sorted by their encoded bytes, no tags, text in UTF-8. Metadata have no floating-point numbers, so an item with one is
//! read, but reported as not canonical.
//! Other encodings are read as follows: indefinite lengths as definite ones, tags are dropped, of a repeated key the first
//! is used, and invalid UTF-8 is read with replacement characters.

/// Maximum nesting depth of arrays and maps.
pub const MAX_DEPTH: usize = 16;

/// Maximum length of an item in bytes.
pub const MAX_ITEM_BYTES: usize = 1 << 20;

/// One CBOR item.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// The integer n.
    Uint(u64),
    /// The integer −1 − n.
    Nint(u64),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A text.
    Text(String),
    /// A list.
    Array(Vec<Value>),
    /// Pairs of key and value, in the order of the canonical encoding after decoding.
    Map(Vec<(Value, Value)>),
    /// True or false.
    Bool(bool),
    /// Null.
    #[default]
    Null,
    /// Another simple value.
    Simple(u8),
    /// A floating-point number.
    Float(f64),
}

impl Value {
    /// The integer, if this is one.
    #[must_use]
    pub fn as_int(&self) -> Option<i128> {
        match self {
            Value::Uint(n) => Some(i128::from(*n)),
            Value::Nint(n) => Some(-1 - i128::from(*n)),
            _ => None,
        }
    }

    /// The integer, if this is one and not negative.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Uint(n) => Some(*n),
            _ => None,
        }
    }

    /// The text, if this is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes, if this is a byte string.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The elements, if this is a list.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The value of an integer key, if this is a map that has the key.
    #[must_use]
    pub fn get(&self, key: u64) -> Option<&Value> {
        match self {
            Value::Map(pairs) => pairs.iter().find(|(k, _)| *k == Value::Uint(key)).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Makes an integer.
    ///
    /// # Panics
    /// Panics if `n` is outside −2⁶⁴ … 2⁶⁴−1.
    #[must_use]
    pub fn int(n: i128) -> Value {
        match u64::try_from(n) {
            Ok(n) => Value::Uint(n),
            Err(_) => Value::Nint(u64::try_from(-1 - n).expect("an integer of CBOR")),
        }
    }

    /// Appends the canonical encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Value::Uint(n) => head(0, *n, out),
            Value::Nint(n) => head(1, *n, out),
            Value::Bytes(bytes) => {
                head(2, bytes.len() as u64, out);
                out.extend_from_slice(bytes);
            }
            Value::Text(text) => {
                head(3, text.len() as u64, out);
                out.extend_from_slice(text.as_bytes());
            }
            Value::Array(items) => {
                head(4, items.len() as u64, out);
                items.iter().for_each(|item| item.encode(out));
            }
            Value::Map(pairs) => {
                let mut encoded: Vec<(Vec<u8>, &Value)> =
                    pairs.iter().map(|(key, value)| (key.to_bytes(), value)).collect();
                encoded.sort_by(|a, b| a.0.cmp(&b.0));
                encoded.dedup_by(|later, first| later.0 == first.0);
                head(5, encoded.len() as u64, out);
                for (key, value) in encoded {
                    out.extend_from_slice(&key);
                    value.encode(out);
                }
            }
            Value::Bool(yes) => out.push(0xF4 + u8::from(*yes)),
            Value::Null => out.push(0xF6),
            Value::Simple(n) if *n < 24 => out.push(0xE0 | n),
            Value::Simple(n) => out.extend_from_slice(&[0xF8, *n]),
            Value::Float(x) => float(*x, out),
        }
    }

    /// The canonical encoding.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

/// Appends the head of an item, its major type and number, in the shortest form.
fn head(major: u8, n: u64, out: &mut Vec<u8>) {
    let major = major << 5;
    match n {
        0..24 => out.push(major | n as u8),                         // Below 24.
        24..0x100 => out.extend_from_slice(&[major | 24, n as u8]), // Below 256.
        0x100..0x1_0000 => {
            out.push(major | 25);
            out.extend_from_slice(&(n as u16).to_be_bytes()); // Below 2^16.
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 26);
            out.extend_from_slice(&(n as u32).to_be_bytes()); // Below 2^32.
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&n.to_be_bytes());
        }
    }
}

/// Appends a floating-point number in the shortest form that keeps its value.
fn float(x: f64, out: &mut Vec<u8>) {
    let single = x as f32;
    if x.is_nan() {
        out.extend_from_slice(&[0xF9, 0x7E, 0]);
    } else if let Some(half) = half(x) {
        out.push(0xF9);
        out.extend_from_slice(&half.to_be_bytes());
    } else if f64::from(single) == x {
        out.push(0xFA);
        out.extend_from_slice(&single.to_be_bytes());
    } else {
        out.push(0xFB);
        out.extend_from_slice(&x.to_be_bytes());
    }
}

/// The bits of a number in half precision, if that keeps its value.
fn half(x: f64) -> Option<u16> {
    let sign = u16::from(x.is_sign_negative()) << 15;
    let size = x.abs();
    let bits = if size.is_infinite() {
        0x7C00
    } else if size < 2f64.powi(-14) {
        (size * 2f64.powi(24)) as u16 // Below 1024.
    } else if size < 65520.0 {
        let exponent = (size.to_bits() >> 52) as i32 - 1023; // 11 bits.
        let fraction = (size / 2f64.powi(exponent) - 1.0) * 1024.0;
        ((exponent + 15) as u16) << 10 | fraction as u16 // Exponent −14 … 15, fraction below 1024.
    } else {
        return None;
    };
    (crate::f16_value(bits) == size).then_some(sign | bits)
}

/// A decoded item.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The decoded value.
    pub value: Value,
    /// Length of the encoded item in bytes.
    pub len_bytes: usize,
    /// Whether the encoding was canonical.
    pub canonical: bool,
}

/// Reason why an item cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes end within the item, or are not CBOR; the next item cannot be found.
    Malformed,
    /// The item is nested too deeply or too long; it has this many bytes, and the next item begins after them.
    Refused(usize),
}

/// Reads the item at the front of `bytes`, of at most [`MAX_ITEM_BYTES`].
///
/// # Errors
/// See [`Fault`].
pub fn decode(bytes: &[u8]) -> Result<Item, Fault> {
    decode_within(bytes, MAX_ITEM_BYTES)
}

/// Reads the item at the front of `bytes`, of at most `max_bytes`.
///
/// # Errors
/// See [`Fault`].
pub fn decode_within(bytes: &[u8], max_bytes: usize) -> Result<Item, Fault> {
    let (len_bytes, depth) = extent(bytes).ok_or(Fault::Malformed)?;
    if len_bytes > max_bytes || depth > MAX_DEPTH {
        return Err(Fault::Refused(len_bytes));
    }
    let mut parser = Parser { bytes: &bytes[..len_bytes], at: 0, canonical: true };
    let value = parser.value().ok_or(Fault::Malformed)?;
    Ok(Item { value, len_bytes, canonical: parser.canonical })
}

/// The head of an item.
struct Head {
    major: u8,
    /// The number; `None` for an indefinite length.
    n: Option<u64>,
    len_bytes: usize,
    shortest: bool,
}

fn read_head(bytes: &[u8]) -> Option<Head> {
    let first = *bytes.first()?;
    let (major, info) = (first >> 5, first & 31);
    let wide = |len: usize| -> Option<u64> {
        Some(bytes.get(1..1 + len)?.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    };
    let (n, len_bytes, least) = match info {
        0..24 => (u64::from(info), 1, 0),
        24 => (wide(1)?, 2, 24),
        25 => (wide(2)?, 3, 0x100),
        26 => (wide(4)?, 5, 0x1_0000),
        27 => (wide(8)?, 9, 0x1_0000_0000),
        31 if matches!(major, 2..=5 | 7) => {
            return Some(Head { major, n: None, len_bytes: 1, shortest: false });
        }
        _ => return None,
    };
    Some(Head { major, n: Some(n), len_bytes, shortest: n >= least })
}

/// Length in bytes and nesting depth of the item at the front; `None` if it is not well-formed.
///
/// Does not recurse, so that hostile nesting only costs memory in proportion to its bytes.
fn extent(bytes: &[u8]) -> Option<(usize, usize)> {
    /// The missing part of an open container.
    enum Open {
        /// This number of items.
        Items(u64),
        /// Items until the break; `even`: whether their number so far is even, which a map (`pairs`) needs.
        Until { pairs: bool, even: bool },
        /// Chunks of a string of this major type until the break.
        Pieces(u8),
    }
    let mut open: Vec<Open> = Vec::new();
    let (mut at, mut deepest, mut tags) = (0, 0, 0_usize);
    loop {
        let head = read_head(&bytes[at..])?;
        at += head.len_bytes;
        let mut complete = true;
        match (head.major, head.n) {
            (7, None) => match open.pop()? {
                Open::Items(_) | Open::Until { pairs: true, even: false } => return None,
                Open::Until { .. } | Open::Pieces(_) => {}
            },
            (major, n) => {
                if let Some(Open::Pieces(wanted)) = open.last()
                    && (major != *wanted || n.is_none())
                {
                    return None;
                }
                match (major, n) {
                    (2 | 3, Some(len)) => {
                        at = at.checked_add(usize::try_from(len).ok()?).filter(|end| *end <= bytes.len())?;
                    }
                    (2 | 3, None) => {
                        open.push(Open::Pieces(major));
                        complete = false;
                    }
                    (4 | 5, Some(0)) => {}
                    (4 | 5, Some(n)) => {
                        open.push(Open::Items(n.checked_mul(u64::from(major - 3))?));
                        complete = false;
                    }
                    (4 | 5, None) => {
                        open.push(Open::Until { pairs: major == 5, even: true });
                        complete = false;
                    }
                    // A tag is part of the item after it.
                    (6, Some(_)) => {
                        tags += 1;
                        if at >= bytes.len() || tags > MAX_ITEM_BYTES {
                            return None;
                        }
                        continue;
                    }
                    (7, Some(n)) if head.len_bytes == 2 && n < 32 => return None,
                    _ => {}
                }
                let is_container = matches!(major, 4 | 5);
                deepest = deepest.max(open.len() + usize::from(is_container && complete));
            }
        }
        while complete {
            match open.last_mut() {
                None => return Some((at, deepest)),
                Some(Open::Items(1)) => {
                    open.pop();
                }
                Some(Open::Items(n)) => {
                    *n -= 1;
                    complete = false;
                }
                Some(Open::Until { even, .. }) => {
                    *even = !*even;
                    complete = false;
                }
                Some(Open::Pieces(_)) => complete = false,
            }
        }
    }
}

/// Reads items that [`extent`] has found well-formed and not too deep.
struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    canonical: bool,
}

impl Parser<'_> {
    fn head(&mut self) -> Option<Head> {
        let head = read_head(self.bytes.get(self.at..)?)?;
        self.at += head.len_bytes;
        // The width of a floating-point number is not a length.
        self.canonical &= head.shortest || head.major == 7;
        Some(head)
    }

    /// Skips a break; returns whether there was one.
    fn is_break(&mut self) -> bool {
        let is = self.bytes.get(self.at) == Some(&0xFF);
        self.at += usize::from(is);
        is
    }

    fn string(&mut self, head: &Head) -> Option<Vec<u8>> {
        let Some(n) = head.n else {
            let mut all = Vec::new();
            while !self.is_break() {
                let piece = self.head()?;
                all.extend_from_slice(&self.string(&piece)?);
            }
            return Some(all);
        };
        let end = self.at.checked_add(usize::try_from(n).ok()?)?;
        let bytes = self.bytes.get(self.at..end)?.to_vec();
        self.at = end;
        Some(bytes)
    }

    /// Whether the container has another element, and counts it. `left` is the number of elements left; `None` if it ends
    /// with a break.
    fn more(&mut self, left: &mut Option<u64>) -> bool {
        match left {
            Some(0) => false,
            Some(n) => {
                *n -= 1;
                true
            }
            None => !self.is_break(),
        }
    }

    fn value(&mut self) -> Option<Value> {
        let mut head = self.head()?;
        while head.major == 6 {
            self.canonical = false;
            head = self.head()?;
        }
        let mut left = head.n;
        Some(match head.major {
            0 => Value::Uint(head.n?),
            1 => Value::Nint(head.n?),
            2 => Value::Bytes(self.string(&head)?),
            3 => {
                let bytes = self.string(&head)?;
                Value::Text(String::from_utf8(bytes).unwrap_or_else(|error| {
                    self.canonical = false;
                    String::from_utf8_lossy(error.as_bytes()).into_owned()
                }))
            }
            4 => {
                let mut items = Vec::new();
                while self.more(&mut left) {
                    items.push(self.value()?);
                }
                Value::Array(items)
            }
            5 => self.map(left)?,
            _ => match (head.len_bytes, head.n?) {
                (1, 20) => Value::Bool(false),
                (1, 21) => Value::Bool(true),
                (1, 22) => Value::Null,
                (1 | 2, n) => Value::Simple(u8::try_from(n).ok()?),
                (len, n) => {
                    self.canonical = false;
                    Value::Float(match len {
                        3 => crate::f16_value(u16::try_from(n).ok()?),
                        5 => f64::from(f32::from_bits(u32::try_from(n).ok()?)),
                        _ => f64::from_bits(n),
                    })
                }
            },
        })
    }

    fn map(&mut self, mut left: Option<u64>) -> Option<Value> {
        let mut pairs: Vec<(Value, Value)> = Vec::new();
        let mut sorted = true;
        let mut before: Option<(usize, usize)> = None;
        while self.more(&mut left) {
            let start = self.at;
            let key = self.value()?;
            let here = (start, self.at);
            if let Some((from, to)) = before
                && self.bytes[from..to] >= self.bytes[here.0..here.1]
            {
                sorted = false;
            }
            before = Some(here);
            pairs.push((key, self.value()?));
        }
        if !sorted {
            self.canonical = false;
            pairs = first_of_each(pairs);
        }
        Some(Value::Map(pairs))
    }
}

/// Sorts pairs in canonical order and keeps the first of each key.
fn first_of_each(pairs: Vec<(Value, Value)>) -> Vec<(Value, Value)> {
    let mut keyed: Vec<(Vec<u8>, (Value, Value))> =
        pairs.into_iter().map(|pair| (pair.0.to_bytes(), pair)).collect();
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    keyed.dedup_by(|later, first| later.0 == first.0);
    keyed.into_iter().map(|(_, pair)| pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_encodings_are_read_and_called_so() {
        let cases: [(&[u8], Value); 7] = [
            (&[0x18, 0x05], Value::Uint(5)),
            (&[0x9F, 0x01, 0xFF], Value::Array(vec![Value::Uint(1)])),
            (&[0xC1, 0x01], Value::Uint(1)),
            (&[0x7F, 0x61, b'a', 0x61, b'b', 0xFF], Value::Text("ab".into())),
            (&[0xA2, 0x01, 0x02, 0x01, 0x03], Value::Map(vec![(Value::Uint(1), Value::Uint(2))])),
            (&[0x61, 0xFF], Value::Text("\u{FFFD}".into())),
            (&[0xF9, 0x3C, 0x00], Value::Float(1.0)),
        ];
        for (bytes, value) in cases {
            let item = decode(bytes).unwrap();
            assert_eq!(
                (item.value, item.len_bytes, item.canonical),
                (value, bytes.len(), false),
                "{bytes:02x?}"
            );
        }
    }

    #[test]
    fn keys_out_of_order_are_sorted() {
        let item = decode(&[0xA2, 0x02, 0x00, 0x01, 0x00]).unwrap();
        assert!(!item.canonical);
        assert_eq!(item.value.to_bytes(), [0xA2, 0x01, 0x00, 0x02, 0x00]);
    }

    #[test]
    fn nesting_has_a_limit_and_the_next_item_is_found() {
        let deep = |n: usize| [vec![0x81; n], vec![0x00]].concat();
        assert!(decode(&deep(MAX_DEPTH)).unwrap().canonical);
        assert_eq!(decode(&deep(MAX_DEPTH + 1)), Err(Fault::Refused(MAX_DEPTH + 2)));
        assert_eq!(decode(&deep(1 << 20)), Err(Fault::Refused((1 << 20) + 1)));
        assert_eq!(decode(&[0x81; 1000]), Err(Fault::Malformed));
    }

    #[test]
    fn malformed_items_are_refused() {
        for bytes in [
            &[][..],
            &[0x1C],
            &[0xFF],
            &[0x42, 0x00],
            &[0xBF, 0x01, 0xFF],
            &[0x5F, 0x61, b'a', 0xFF],
            &[0xF8, 0x10],
        ] {
            assert_eq!(decode(bytes), Err(Fault::Malformed), "{bytes:02x?}");
        }
        // A length beyond the memory of any machine.
        assert_eq!(decode(&[0x5B, 255, 255, 255, 255, 255, 255, 255, 255]), Err(Fault::Malformed));
        assert_eq!(decode(&[0xBB, 255, 255, 255, 255, 255, 255, 255, 255]), Err(Fault::Malformed));
    }

    #[test]
    fn numbers_take_the_shortest_form() {
        let bytes = |value: Value| value.to_bytes();
        assert_eq!(bytes(Value::Uint(23)), [0x17]);
        assert_eq!(bytes(Value::Uint(24)), [0x18, 24]);
        assert_eq!(bytes(Value::int(-257)), [0x39, 1, 0]);
        assert_eq!(bytes(Value::Uint(1 << 32)), [0x1B, 0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(bytes(Value::Float(1.5)), [0xF9, 0x3E, 0]);
        assert_eq!(bytes(Value::Float(100_000.0)), [0xFA, 0x47, 0xC3, 0x50, 0]);
        assert_eq!(bytes(Value::Float(0.1)).len(), 9);
    }
}
