//! The state of the tracker: functions, objects, contexts, and the meaning of slots.

use super::live::{Group, Slot};
use super::rules::Action;
use crate::objects::{Class, Roles};
use rustc_hash::FxHashMap;

/// The meaning of a slot within its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// The existence of an object.
    Exists,
    /// The whole contents of an object without parts.
    Whole,
    /// A level of a texture, or of one face of a cube map.
    Level(u64),
    /// The contents of a window's framebuffer: colours, depths.
    Drawn(u8),
    /// The binding at a target.
    Binding(Class, u64, u64),
    /// A value that functions with this name set, for these targets.
    Value(u64),
    /// A capability set by `glEnable`, of a texture unit if it belongs to one.
    Switch(u64, u64),
    /// A matrix: its mode and its depth in the stack.
    Matrix(u64, u64),
    /// The selector of the active texture unit.
    ActiveTexture,
    /// The selector of the texture unit for coordinate arrays.
    ClientTexture,
    MatrixMode,
    /// All state that accumulates.
    Sum,
    /// The current context of a thread.
    Current(u64),
    /// The contents of a display list.
    List(u64),
}

/// Facts about a function.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) action: Action,
    pub(super) roles: Roles,
    pub(super) args: Vec<Vec<u8>>,
    pub(super) is_gl: bool,
    /// Whether it detaches one object from another.
    pub(super) is_detach: bool,
    pub(super) hash: u64,
}

/// A tracked object.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) group: Group,
    /// The group of the object's drawn contents; drawing into the object again does not read it.
    pub(super) content: Group,
    /// Objects that it consists of, sorted.
    pub(super) parts: Vec<Group>,
    /// Objects that it uses by place, with their names: the buffers of a vertex array, or the active program of a pipeline.
    pub(super) sources: FxHashMap<u64, (u64, Group)>,
    /// Images attached for drawing and the objects that own them, by attachment point.
    pub(super) images: FxHashMap<u64, (Slot, Group)>,
}

/// A context and its bindings.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) group: Group,
    /// The group of its window's contents.
    pub(super) window: Group,
    /// Contexts that share objects have the same space; classes of objects that are never shared use `own_space`.
    pub(super) space: u32,
    pub(super) own_space: u32,
    pub(super) lists: Group,
    pub(super) active_texture: u64,
    pub(super) client_texture: u64,
    pub(super) bound: FxHashMap<(Class, u64, u64), u64>,
    pub(super) matrix_mode: u64,
    /// Calls that pushed matrices, by mode.
    pub(super) pushed: FxHashMap<u64, Vec<u32>>,
    pub(super) switches: FxHashMap<u64, bool>,
    pub(super) masks: [bool; 2],
    pub(super) is_drawing: bool,
    pub(super) is_capturing: bool,
    pub(super) attribute_depth: u32,
    /// The display list being recorded, and whether it is also executed.
    pub(super) list: Option<(u64, bool)>,
    /// The set of all bound groups; `None` if it must be computed again.
    pub(super) set: Option<u32>,
}

impl Object {
    /// The objects that it depends on.
    pub(super) fn uses(&self) -> impl Iterator<Item = Group> {
        let sources = self.sources.values().map(|(_, group)| *group);
        let images = self.images.values().map(|(_, group)| *group);
        self.parts.iter().copied().chain(sources).chain(images)
    }

    /// Sets or removes the object used at `place`.
    pub(super) fn set_source(&mut self, place: u64, source: Option<(u64, Group)>) {
        match source {
            Some(source) => self.sources.insert(place, source),
            None => self.sources.remove(&place),
        };
    }

    /// Adds `part` to the objects that it consists of.
    pub(super) fn add_part(&mut self, part: Group) {
        if let Err(at) = self.parts.binary_search(&part) {
            self.parts.insert(at, part);
        }
    }
}
