//! What a Rust program says of itself while it is recorded: the calls of `quipu.h`, with Rust's types.
//!
//! Compile the program with the flags that `quipu rustc-flags` prints, and these calls tell which memory has which type, mark
//! places, and suspend recording. In a program that was compiled without them, and on other systems than Linux on x86-64,
//! they do nothing and cost a test. No feature has to be switched, and nothing is allocated.
//!
//! ```
//! struct Node {
//!     next: u32,
//!     key: u64,
//! }
//!
//! let pool: Vec<Node> = (0..1000).map(|key| Node { next: 0, key }).collect();
//! {
//!     let _region = quipu_annotate::region(&pool);
//!     quipu_annotate::mark("sum");
//!     assert_eq!(pool.iter().map(|node| node.key + u64::from(node.next)).sum::<u64>(), 499_500);
//! } // From here on nothing is known of the memory.
//!
//! let _pause = quipu_annotate::pause();
//! // Nothing of what this thread does is recorded until the end of the block.
//! ```

mod runtime;

use std::any::type_name;
use std::ffi::c_char;
use std::marker::PhantomData;

/// Longest name that is kept, in bytes, with the zero at its end.
const NAME_BYTES: usize = 256;

/// True if this program has the runtime in it, so that it can be recorded.
pub fn is_recordable() -> bool {
    runtime::is_there()
}

/// Memory with a type, for as long as this lives.
///
/// It holds an address and no reference: the memory can be changed meanwhile, moved, or given back, after which the address is
/// that of something else.
#[derive(Debug)]
#[must_use = "the region ends when this is dropped"]
pub struct Region {
    addr: usize,
}

impl Region {
    /// Memory at an address, with `n_elements` elements of `element_bytes` bytes, of a type with this name.
    ///
    /// A type of C or C++ has the name that debug information gives it, such as `struct node`.
    pub fn named(addr: *const u8, element_bytes: usize, n_elements: usize, name: &str) -> Region {
        tell(addr.addr(), element_bytes, n_elements, name);
        Region { addr: addr.addr() }
    }

    /// Lets the memory keep its type for good, as [`typed`] does.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        runtime::region_end(self.addr);
    }
}

/// From here on, until what is returned is dropped, these elements have their type.
pub fn region<T>(elements: &[T]) -> Region {
    typed(elements);
    Region { addr: elements.as_ptr().addr() }
}

/// From here on, until what is returned is dropped, this value has its type.
pub fn region_of<T>(value: &T) -> Region {
    region(std::slice::from_ref(value))
}

/// From here on these elements have their type: until [`untyped`], or until the memory is freed.
pub fn typed<T>(elements: &[T]) {
    typed_at(elements.as_ptr(), elements.len());
}

/// From here on the memory at this address holds this many elements: for what is not initialized yet, such as the room of a
/// `Vec::with_capacity`.
pub fn typed_at<T>(elements: *const T, n_elements: usize) {
    tell(elements.addr(), size_of::<T>(), n_elements, type_name::<T>());
}

/// From here on nothing is known of the memory that begins at this address.
pub fn untyped<T>(elements: *const T) {
    runtime::region_end(elements.addr());
}

/// A place to be found again.
pub fn mark(name: &str) {
    with_name(name, runtime::mark);
}

/// The name of this thread for people.
pub fn thread_name(name: &str) {
    with_name(name, runtime::thread_name);
}

/// Nothing of what this thread does is recorded as long as what is returned lives; nests.
pub fn pause() -> Pause {
    runtime::pause();
    Pause { of_this_thread: PhantomData }
}

/// A stretch of a thread that is not recorded; ends where this is dropped.
#[derive(Debug)]
#[must_use = "recording continues when this is dropped"]
pub struct Pause {
    /// It cannot end on another thread.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Pause {
    fn drop(&mut self) {
        runtime::resume();
    }
}

fn tell(addr: usize, element_bytes: usize, n_elements: usize, name: &str) {
    with_name(name, |name| runtime::region(addr, element_bytes, n_elements, name));
}

/// Calls `tell` with a name as C has it, cut off where it is too long or has a zero.
fn with_name(name: &str, tell: impl FnOnce(*const c_char)) {
    if !runtime::is_there() {
        return;
    }
    let mut text = [0_u8; NAME_BYTES];
    for (to, from) in text[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    tell(text.as_ptr().cast());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_runtime_nothing_happens() {
        assert!(!is_recordable());
        let mut cells = vec![1_u64, 2];
        {
            let _region = region(&cells);
            cells[0] = 3;
            Region::named(cells.as_ptr().cast(), 8, 2, "struct pair").keep();
        }
        typed_at(cells.as_ptr(), cells.capacity());
        untyped(cells.as_ptr());
        mark("here");
        thread_name("main");
        let _pause = pause();
        let _value = region_of(&cells[1]);
        assert_eq!(cells, [3, 2]);
    }
}
