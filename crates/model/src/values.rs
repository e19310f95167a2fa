//! Structured values: calls with arguments of any shape, as flat arrays.
//!
//! A value is a [`Node`] in an array. The parts of a composite value follow its node directly, so a value with all its parts
//! is a run of consecutive nodes, and nothing is allocated for each call. Types (functions, structures, enumerations, sets of
//! flags, stack frames) are discovered while reading, like instructions: [`Types`] holds each once and only grows during a
//! read, and nodes carry an index into it.
//!
//! ```text
//! calls[i] ─▶ args[first..end] ─▶ (index, node) … ─▶ nodes:  array(2) uint uint   string ─▶ bytes
//! ```

use std::fmt;
use std::sync::Arc;

/// Index that means "no type".
pub const NO_TYPE: u32 = u32::MAX;
/// Index that means "no node".
pub const NO_NODE: u32 = u32::MAX;

/// The kind of value that a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A null pointer.
    Null,
    /// False.
    False,
    /// True.
    True,
    /// A negative number; the payload is its magnitude.
    Negative,
    /// A non-negative number.
    Unsigned,
    /// A 32-bit float; the payload is its bits.
    Float,
    /// A 64-bit float; the payload is its bits.
    Double,
    /// A string of bytes.
    Text,
    /// Raw memory.
    Blob,
    /// A string of 32-bit code units, stored little-endian in the bytes.
    Wide,
    /// A value of an enumeration; the payload is the number as a two's complement.
    Enum,
    /// A set of flags; the payload is the number.
    Flags,
    /// A list; its items follow.
    Array,
    /// A structure; its members follow, as many as its type lists.
    Struct,
    /// An address or handle.
    Pointer,
    /// The same thing in two forms, for people and for machines; both follow in this order.
    Pair,
}

/// One value, or the head of a composite one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Kind of value.
    pub kind: Kind,
    /// Index of its type, or [`NO_TYPE`].
    pub ty: u32,
    /// For scalars, the value. For strings and blobs, offset and length in the bytes. For composites, the number of parts and
    /// the index of the first node after all of them. The methods take it apart.
    pub payload: u64,
}

impl Node {
    /// A scalar without a type.
    pub fn scalar(kind: Kind, payload: u64) -> Node {
        Node { kind, ty: NO_TYPE, payload }
    }

    /// Both halves of the payload: offset and length for strings and blobs; number of parts and the index of the first node
    /// after all of them for composites.
    pub fn halves(self) -> (u32, u32) {
        ((self.payload >> 32) as u32, self.payload as u32) // The truncations take the halves.
    }

    /// Joins two halves into a payload.
    pub fn join(high: u32, low: u32) -> u64 {
        u64::from(high) << 32 | u64::from(low)
    }

    /// True if parts follow this node.
    pub fn is_composite(self) -> bool {
        matches!(self.kind, Kind::Array | Kind::Struct | Kind::Pair)
    }

    /// The value as 64 bits: numbers as a two's complement, floats as their bits, 0 for anything else.
    pub fn bits(self) -> u64 {
        match self.kind {
            Kind::True => 1,
            Kind::Negative => self.payload.wrapping_neg(),
            Kind::Unsigned | Kind::Float | Kind::Double | Kind::Enum | Kind::Flags | Kind::Pointer => {
                self.payload
            }
            _ => 0,
        }
    }
}

/// One argument of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Position among the arguments of the function.
    pub index: u32,
    /// Index of the node with its value.
    pub node: u32,
}

/// One call, whether or not it was recorded completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Number of the call, assigned by the trace in the order in which calls begin.
    pub number: u64,
    /// Thread that made the call.
    pub thread: u64,
    /// Its function, as an index into [`Types`].
    pub function: u32,
    /// Bits whose meaning the format defines.
    pub flags: u32,
    /// Bits that the trace stores for this call, unchanged.
    pub stored_flags: u64,
    /// Its arguments, as a range of [`Values::args`]: ascending by index, each index at most once. A missing index was not
    /// recorded.
    pub args: (u32, u32),
    /// Index of the node with the returned value, or [`NO_NODE`].
    pub result: u32,
    /// Its stack, innermost frame first, as a range of [`Values::frames`].
    pub stack: (u32, u32),
    /// Whether the stack was recorded, even if it is empty.
    pub has_stack: bool,
    /// Number of bytes of the plain stream from the end of the previous call, or the start, to the end of this one; 0 if it
    /// has no end.
    pub stream_bytes: u64,
}

/// The calls of one batch with all their values.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// The calls; call `i` is record `i` of the batch.
    pub calls: Vec<Call>,
    /// Arguments of all calls; calls refer to ranges.
    pub args: Vec<Arg>,
    /// Values of all calls.
    pub nodes: Vec<Node>,
    /// Bytes of all strings and blobs.
    pub bytes: Vec<u8>,
    /// Stack frames of all calls, as indexes into [`Types`]; calls refer to ranges.
    pub frames: Vec<u32>,
}

impl Values {
    /// The arguments of a call.
    pub fn args_of(&self, call: &Call) -> &[Arg] {
        self.args.get(call.args.0 as usize..call.args.1 as usize).unwrap_or(&[])
    }

    /// The stack of a call.
    pub fn stack_of(&self, call: &Call) -> &[u32] {
        self.frames.get(call.stack.0 as usize..call.stack.1 as usize).unwrap_or(&[])
    }

    /// The node at `index`; a null node if there is none.
    pub fn node(&self, index: u32) -> Node {
        self.nodes.get(index as usize).copied().unwrap_or(Node::scalar(Kind::Null, 0))
    }

    /// The index of the first node after the value at `index` and all its parts.
    pub fn behind(&self, index: u32) -> u32 {
        let node = self.node(index);
        if node.is_composite() {
            node.halves().1.max(index.saturating_add(1))
        } else {
            index.saturating_add(1)
        }
    }

    /// The bytes of a string or blob.
    pub fn bytes_of(&self, node: Node) -> &[u8] {
        let (start, len) = node.halves();
        let start = start as usize;
        self.bytes.get(start..start.saturating_add(len as usize)).unwrap_or(&[])
    }

    /// Appends a text and returns the index of its node.
    pub fn push_text(&mut self, text: &[u8]) -> u32 {
        let index = self.nodes.len() as u32; // A batch has far fewer than 2^32 nodes and bytes.
        self.nodes.push(Node::scalar(Kind::Text, Node::join(self.bytes.len() as u32, text.len() as u32)));
        self.bytes.extend_from_slice(text);
        index
    }

    /// Copies a call's arguments, result and stack to the end of `to`, and returns the call with its ranges there. Does not
    /// add it to the list of calls.
    pub fn copy_call(&self, call: &Call, to: &mut Values) -> Call {
        let mut copy = *call;
        copy.args.0 = to.args.len() as u32; // There are at most as many as bytes, which are fewer than 2^32.
        for arg in self.args_of(call) {
            let node = self.copy_value(arg.node, to);
            to.args.push(Arg { index: arg.index, node });
        }
        copy.args.1 = to.args.len() as u32;
        if call.result != NO_NODE {
            copy.result = self.copy_value(call.result, to);
        }
        copy.stack.0 = to.frames.len() as u32;
        to.frames.extend_from_slice(self.stack_of(call));
        copy.stack.1 = to.frames.len() as u32;
        copy
    }

    /// Copies a value with all its parts and returns its new index.
    fn copy_value(&self, index: u32, to: &mut Values) -> u32 {
        let start = to.nodes.len() as u32;
        for i in index..self.behind(index) {
            let mut node = self.node(i);
            match node.kind {
                Kind::Text | Kind::Blob | Kind::Wide => {
                    let bytes = self.bytes_of(node);
                    node.payload = Node::join(to.bytes.len() as u32, bytes.len() as u32);
                    to.bytes.extend_from_slice(bytes);
                }
                _ if node.is_composite() => {
                    let (n_parts, end) = node.halves();
                    node.payload = Node::join(n_parts, end.wrapping_sub(index).wrapping_add(start));
                }
                _ => {}
            }
            to.nodes.push(node);
        }
        start
    }

    /// Removes everything but keeps the buffers.
    pub fn clear(&mut self) {
        self.calls.clear();
        self.args.clear();
        self.nodes.clear();
        self.bytes.clear();
        self.frames.clear();
    }
}

/// A function: its name and those of its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionType {
    /// Id of the function in the trace.
    pub id: u64,
    /// Name of the function, as bytes.
    pub name: Vec<u8>,
    /// Names of its arguments, in order.
    pub args: Vec<Vec<u8>>,
    /// Bits that the format derives from the name; calls also have them.
    pub flags: u32,
}

/// A structure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StructType {
    /// Id of the structure in the trace.
    pub id: u64,
    /// Name of the structure; empty if it has none.
    pub name: Vec<u8>,
    /// Names of its members. An empty name belongs to a nested structure whose members count as members of this one.
    pub members: Vec<Vec<u8>>,
}

/// An enumeration or a set of flags: names for numbers.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct NamedNumbers {
    /// Id of the type in the trace.
    pub id: u64,
    /// Names and numbers in the order of the trace; numbers of enumerations as a two's complement.
    pub names: Vec<(Vec<u8>, u64)>,
    /// Positions in `names`, sorted by number; only the first of each number.
    by_number: Vec<u32>,
}

impl NamedNumbers {
    /// Creates the type from names in the order of the trace.
    pub fn new(id: u64, names: Vec<(Vec<u8>, u64)>) -> NamedNumbers {
        let mut by_number: Vec<u32> = (0..u32::try_from(names.len()).unwrap_or(u32::MAX)).collect();
        by_number.sort_by_key(|position| names[*position as usize].1);
        by_number.dedup_by_key(|position| names[*position as usize].1);
        NamedNumbers { id, names, by_number }
    }

    /// The first name listed for a number.
    pub fn name(&self, number: u64) -> Option<&[u8]> {
        let found =
            self.by_number.binary_search_by_key(&number, |position| self.names[*position as usize].1).ok()?;
        Some(&self.names[self.by_number[found] as usize].0)
    }
}

impl fmt::Debug for NamedNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedNumbers").field("id", &self.id).field("n_names", &self.names.len()).finish()
    }
}

/// A frame of a stack; unknown fields are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Id of the frame in the trace.
    pub id: u64,
    /// The program or library file.
    pub module: Option<Vec<u8>>,
    /// The function.
    pub function: Option<Vec<u8>>,
    /// The source file.
    pub file: Option<Vec<u8>>,
    /// The line of the source file.
    pub line: Option<u64>,
    /// Offset in bytes from the start of the function, or of the module.
    pub offset: Option<u64>,
}

/// One type of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A function.
    Function(FunctionType),
    /// A structure.
    Struct(StructType),
    /// An enumeration.
    Enum(NamedNumbers),
    /// A set of flags.
    Flags(NamedNumbers),
    /// A frame of a stack.
    Frame(Frame),
}

/// The types of one read, in order of first appearance. Append-only; copies share the types.
#[derive(Clone, Debug, Default)]
pub struct Types(Vec<Arc<Type>>);

impl Types {
    /// Adds a type and returns its index.
    pub fn push(&mut self, ty: Arc<Type>) -> u32 {
        let index = self.0.len() as u32; // Readers stop long before 2^32 types.
        self.0.push(ty);
        index
    }

    /// The type at `index`.
    pub fn get(&self, index: u32) -> Option<&Type> {
        self.0.get(index as usize).map(|ty| &**ty)
    }

    /// The function at `index`, if the type there is a function.
    pub fn function(&self, index: u32) -> Option<&FunctionType> {
        match self.get(index) {
            Some(Type::Function(function)) => Some(function),
            _ => None,
        }
    }

    /// All types, in order of first appearance.
    pub fn as_slice(&self) -> &[Arc<Type>] {
        &self.0
    }

    /// Number of types.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no types.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the types from position `len` onwards, for a reader that has to read an event again.
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_several_names_is_the_name() {
        let names = ["b", "a", "z"].map(|name| name.as_bytes().to_vec());
        let [b, a, z] = names;
        let numbers = NamedNumbers::new(1, vec![(b, 5), (a, 5), (z, u64::MAX)]);
        assert_eq!(numbers.name(5), Some(b"b".as_slice()));
        assert_eq!(numbers.name(u64::MAX), Some(b"z".as_slice()));
        assert_eq!(numbers.name(4), None);
    }

    #[test]
    fn behind_a_composite_lies_what_follows_its_parts() {
        let nodes = vec![
            Node { kind: Kind::Array, ty: NO_TYPE, payload: Node::join(2, 3) },
            Node::scalar(Kind::Unsigned, 7),
            Node::scalar(Kind::Negative, 1),
            Node::scalar(Kind::True, 0),
        ];
        let values = Values { nodes, ..Values::default() };
        assert_eq!((values.behind(0), values.behind(1), values.behind(9)), (3, 2, 10));
        assert_eq!(values.node(2).bits(), u64::MAX);
    }

    #[test]
    fn a_copied_call_has_the_same_values() {
        let nodes = vec![
            Node::scalar(Kind::Unsigned, 9),
            Node { kind: Kind::Pair, ty: NO_TYPE, payload: Node::join(2, 4) },
            Node { kind: Kind::Text, ty: NO_TYPE, payload: Node::join(1, 2) },
            Node { kind: Kind::Blob, ty: NO_TYPE, payload: Node::join(0, 3) },
        ];
        let args = vec![Arg { index: 3, node: 1 }];
        let from = Values { nodes, args, bytes: b"abc".to_vec(), frames: vec![7], ..Values::default() };
        let call = Call {
            number: 1,
            thread: 2,
            function: 0,
            flags: 0,
            stored_flags: 0,
            args: (0, 1),
            result: 0,
            stack: (0, 1),
            has_stack: true,
            stream_bytes: 0,
        };
        let mut to = from.clone();
        let copy = from.copy_call(&call, &mut to);
        let arg = to.args_of(&copy)[0];
        assert_eq!((arg.index, to.behind(arg.node)), (3, arg.node + 3));
        assert_eq!(to.bytes_of(to.node(arg.node + 1)), b"bc");
        assert_eq!(to.bytes_of(to.node(arg.node + 2)), b"abc");
        assert_eq!((to.node(copy.result).payload, to.stack_of(&copy)), (9, [7].as_slice()));
    }

    #[test]
    fn a_node_is_two_words() {
        assert_eq!(size_of::<Node>(), 16);
    }
}
