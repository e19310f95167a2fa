//! What is known while calls are followed: functions, objects, contexts, and what a slot stands for.

use super::live::{Group, Slot};
use super::rules::Action;
use crate::objects::{Class, Roles};
use rustc_hash::FxHashMap;

/// What a slot stands for within its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// That an object is there.
    Exists,
    /// All of an object that has no parts.
    Whole,
    /// A level of a texture, or one side of one.
    Level(u64),
    /// What is drawn into a framebuffer of a window: colours, depths.
    Drawn(u8),
    /// What is bound at a target.
    Binding(Class, u64, u64),
    /// A value that functions of this name set, for these targets.
    Value(u64),
    /// A switch, of a texture unit where it has one.
    Switch(u64, u64),
    /// A matrix: its kind and how deep it lies.
    Matrix(u64, u64),
    /// Which texture unit, which kind of matrices is meant.
    ActiveTexture,
    /// Which texture unit arrays of coordinates are meant for.
    ClientTexture,
    MatrixMode,
    /// Everything that adds up.
    Sum,
    /// Which context a thread uses.
    Current(u64),
    /// What lists do.
    List(u64),
}

/// What is known of a function.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) action: Action,
    pub(super) roles: Roles,
    pub(super) args: Vec<Vec<u8>>,
    pub(super) is_gl: bool,
    /// Whether it takes an object away from another.
    pub(super) is_detach: bool,
    pub(super) hash: u64,
}

/// An object.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) group: Group,
    /// What was drawn into it, which is not needed to draw into it again.
    pub(super) content: Group,
    /// Objects that it is made of, in order.
    pub(super) parts: Vec<Group>,
    /// Objects that it uses at a place of its own, and their names: buffers of a vertex array, the program of a pipeline that
    /// gets values.
    pub(super) sources: FxHashMap<u64, (u64, Group)>,
    /// Images that are drawn into and what they belong to, by where they are attached.
    pub(super) images: FxHashMap<u64, (Slot, Group)>,
}

/// A context, and what is bound in it.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) group: Group,
    /// What is drawn into its window.
    pub(super) window: Group,
    /// Contexts that share objects have the same space; what is never shared is in a space of its own.
    pub(super) space: u32,
    pub(super) own_space: u32,
    pub(super) lists: Group,
    pub(super) active_texture: u64,
    pub(super) client_texture: u64,
    pub(super) bound: FxHashMap<(Class, u64, u64), u64>,
    pub(super) matrix_mode: u64,
    /// Calls that remembered matrices, by kind.
    pub(super) pushed: FxHashMap<u64, Vec<u32>>,
    pub(super) switches: FxHashMap<u64, bool>,
    pub(super) masks: [bool; 2],
    pub(super) is_drawing: bool,
    pub(super) is_capturing: bool,
    pub(super) attribute_depth: u32,
    /// The list that is recorded, and whether it is run at once.
    pub(super) list: Option<(u64, bool)>,
    /// What is bound, as a set; `None` if that changed.
    pub(super) set: Option<u32>,
}

impl Object {
    /// The objects that it needs.
    pub(super) fn uses(&self) -> impl Iterator<Item = Group> {
        let sources = self.sources.values().map(|(_, group)| *group);
        let images = self.images.values().map(|(_, group)| *group);
        self.parts.iter().copied().chain(sources).chain(images)
    }

    /// What it uses at a place of its own from here on.
    pub(super) fn set_source(&mut self, place: u64, source: Option<(u64, Group)>) {
        match source {
            Some(source) => self.sources.insert(place, source),
            None => self.sources.remove(&place),
        };
    }

    /// It is made of that object as well.
    pub(super) fn add_part(&mut self, part: Group) {
        if let Err(at) = self.parts.binary_search(&part) {
            self.parts.insert(at, part);
        }
    }
}
