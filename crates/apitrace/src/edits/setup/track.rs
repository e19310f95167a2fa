//! Going through calls and noting what each of them writes and reads.
//!
//! Nothing is run: what is bound where, which context is current, how deep a stack of matrices is, follows from the arguments.
//! This file knows contexts, objects and slots; [`state`](super::state) and [`things`](super::things) know functions, by
//! what [`rules`](super::rules) say of them.

use super::args::Args;
use super::live::{Effects, Group, Log, Slot, Standing};
use super::rules::{Action, action};
use crate::objects::{Class, Roles, roles};
use crate::record::{END_FRAME, NO_SIDE_EFFECTS, RENDER, VERBOSE};
use quipu_model::values::{Call, Kind, NO_NODE, Types, Values};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

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
    pub(super) hash: u64,
}

/// An object.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) group: Group,
    /// What was drawn into it, which is not needed to draw into it again.
    pub(super) content: Group,
    /// Objects that it is made of.
    pub(super) parts: Vec<Group>,
    /// Images that are drawn into, by where they are attached.
    pub(super) images: FxHashMap<u64, Slot>,
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

/// Everything so far.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    pub(super) log: Log,
    pub(super) plans: Vec<Option<Plan>>,
    pub(super) slots: FxHashMap<(Group, Part), Slot>,
    pub(super) objects: FxHashMap<(Class, u32, u64), Object>,
    pub(super) contexts: Vec<Context>,
    pub(super) by_handle: FxHashMap<u64, usize>,
    pub(super) current: FxHashMap<u64, usize>,
    pub(super) n_spaces: u32,
    /// What running a list sets.
    pub(super) list_effects: FxHashMap<(u32, u64), Vec<(Slot, bool)>>,
    /// Buffers that are mapped: where, how long, and which.
    pub(super) mapped: Vec<(u64, u64, Group)>,
    pub(super) threads: Option<Group>,
    pub(super) effects: Effects,
}

const DRAW_FRAMEBUFFER: u64 = 0x8ca9;

impl Tracker {
    /// Notes the next call. Those that were chosen are kept in any case.
    pub(super) fn call(&mut self, call: &Call, values: &Values, types: &Types, is_chosen: bool) {
        self.effects.clear();
        let Some(position) = self.plan(call.function, types) else {
            self.log.push(Standing::Keep, &self.effects);
            return;
        };
        let Some(plan) = self.plans[position].take() else { return };
        let mut effects = std::mem::take(&mut self.effects);
        let mut standing = self.effects_of(&plan, call, values, is_chosen, &mut effects);
        if is_chosen {
            standing = Standing::Keep;
        }
        self.log.push(standing, &effects);
        self.effects = effects;
        self.plans[position] = Some(plan);
    }

    pub(super) fn plan(&mut self, function: u32, types: &Types) -> Option<usize> {
        let position = function as usize;
        if self.plans.len() <= position {
            self.plans.resize_with(position + 1, || None);
        }
        if self.plans[position].is_none() {
            let known = types.function(function)?;
            let name = String::from_utf8_lossy(&known.name);
            let mut action = action(&name);
            if known.flags & END_FRAME != 0 {
                action = Action::Swap;
            } else if action == Action::Unknown && known.flags & RENDER != 0 {
                action = Action::Draw;
            } else if action == Action::Unknown && known.flags & (NO_SIDE_EFFECTS | VERBOSE) != 0 {
                action = Action::Query;
            }
            let mut hasher = FxHasher::default();
            known.name.hash(&mut hasher);
            let is_gl = name.strip_prefix("gl").is_some_and(|rest| !rest.starts_with('X'));
            self.plans[position] = Some(Plan {
                action,
                roles: roles(known),
                args: known.args.clone(),
                is_gl,
                hash: hasher.finish(),
            });
        }
        Some(position)
    }

    pub(super) fn slot(&mut self, group: Group, part: Part) -> Slot {
        match self.slots.get(&(group, part)) {
            Some(slot) => *slot,
            None => {
                let slot = self.log.new_slot(group);
                self.slots.insert((group, part), slot);
                slot
            }
        }
    }

    /// The slot for the context that a thread uses.
    pub(super) fn thread_slot(&mut self, thread: u64) -> Slot {
        let group = match self.threads {
            Some(group) => group,
            None => *self.threads.insert(self.log.new_group()),
        };
        self.slot(group, Part::Current(thread))
    }

    /// The context that a thread uses; one that nobody made if it has none.
    pub(super) fn context(&mut self, thread: u64) -> usize {
        match self.current.get(&thread) {
            Some(context) => *context,
            None => {
                let context = self.new_context(None);
                self.current.insert(thread, context);
                context
            }
        }
    }

    pub(super) fn new_context(&mut self, shared: Option<usize>) -> usize {
        let space = match shared {
            Some(other) => self.contexts[other].space,
            None => {
                self.n_spaces += 1;
                self.n_spaces
            }
        };
        self.n_spaces += 1;
        let lists = match shared {
            Some(other) => self.contexts[other].lists,
            None => self.log.new_group(),
        };
        self.contexts.push(Context {
            group: self.log.new_group(),
            window: self.log.new_group(),
            space,
            own_space: self.n_spaces,
            lists,
            active_texture: 0,
            bound: FxHashMap::default(),
            matrix_mode: 0x1700,
            pushed: FxHashMap::default(),
            switches: FxHashMap::default(),
            masks: [true; 2],
            is_drawing: false,
            is_capturing: false,
            attribute_depth: 0,
            list: None,
            set: None,
        });
        self.contexts.len() - 1
    }

    pub(super) fn space(&self, context: usize, class: Class) -> u32 {
        let context = &self.contexts[context];
        match class {
            Class::Framebuffer
            | Class::VertexArray
            | Class::Query
            | Class::Pipeline
            | Class::TransformFeedback => context.own_space,
            _ => context.space,
        }
    }

    /// The object of a name; made when it is first heard of.
    pub(super) fn object(&mut self, context: usize, class: Class, name: u64) -> Object {
        let key = (class, self.space(context, class), name);
        if let Some(object) = self.objects.get(&key) {
            return object.clone();
        }
        let object = Object {
            group: self.log.new_group(),
            content: self.log.new_group(),
            parts: Vec::new(),
            images: FxHashMap::default(),
        };
        self.objects.insert(key, object.clone());
        object
    }

    pub(super) fn with_object(
        &mut self,
        context: usize,
        class: Class,
        name: u64,
        change: impl FnOnce(&mut Object),
    ) {
        self.object(context, class, name);
        let key = (class, self.space(context, class), name);
        if let Some(object) = self.objects.get_mut(&key) {
            change(object);
        }
        self.contexts[context].set = None;
    }

    /// Reads all that an object is and holds.
    pub(super) fn use_object(&mut self, context: usize, class: Class, name: u64, effects: &mut Effects) {
        if name == 0 {
            return;
        }
        let object = self.object(context, class, name);
        effects.read_group(object.group);
        effects.read_group(object.content);
        object.parts.iter().for_each(|part| effects.read_group(*part));
    }

    /// Everything that is bound, as a set of groups.
    pub(super) fn bound_set(&mut self, context: usize) -> u32 {
        if let Some(set) = self.contexts[context].set {
            return set;
        }
        let bound: Vec<(Class, u64, u64)> = self.contexts[context]
            .bound
            .iter()
            .filter(|(_, name)| **name != 0)
            .map(|((class, target, _), name)| (*class, *target, *name))
            .collect();
        let mut groups = vec![self.contexts[context].group];
        for (class, target, name) in bound {
            let object = self.object(context, class, name);
            groups.push(object.group);
            // What was drawn into a target is not needed to draw into it again.
            let is_drawn_into = class == Class::Framebuffer || (class == Class::Renderbuffer && target > 0);
            if !is_drawn_into {
                groups.push(object.content);
            }
            groups.extend(object.parts);
        }
        let set = self.log.set(groups);
        self.contexts[context].set = Some(set);
        set
    }

    /// The images that are drawn into: colours, then depths.
    pub(super) fn drawn(&mut self, context: usize) -> [Vec<Slot>; 2] {
        let name = self.contexts[context]
            .bound
            .get(&(Class::Framebuffer, DRAW_FRAMEBUFFER, 0))
            .copied()
            .unwrap_or(0);
        if name == 0 {
            let window = self.contexts[context].window;
            return [vec![self.slot(window, Part::Drawn(0))], vec![self.slot(window, Part::Drawn(1))]];
        }
        let object = self.object(context, Class::Framebuffer, name);
        let (mut colors, mut depths) = (Vec::new(), Vec::new());
        for (attachment, image) in object.images {
            // Depth, stencil, and both.
            if [0x8d00, 0x8d20, 0x821a].contains(&attachment) {
                depths.push(image)
            } else {
                colors.push(image)
            }
        }
        [colors, depths]
    }

    pub(super) fn effects_of(
        &mut self,
        plan: &Plan,
        call: &Call,
        values: &Values,
        is_chosen: bool,
        effects: &mut Effects,
    ) -> Standing {
        let args = Args { plan, call, values };
        if !plan.is_gl || plan.action == Action::Swap {
            return self.outside(&args, is_chosen, effects);
        }
        let context = self.context(call.thread);
        if let Some((list, runs)) = self.contexts[context].list
            && plan.action != Action::EndList
        {
            return self.recorded(context, list, runs, &args, is_chosen, effects);
        }
        let standing = self.gl(context, &args, is_chosen, effects);
        let current = self.thread_slot(call.thread);
        effects.read(current);
        standing
    }

    /// A call of a window system, of Direct3D, or of the language.
    pub(super) fn outside(&mut self, args: &Args<'_>, is_chosen: bool, effects: &mut Effects) -> Standing {
        let Args { plan, call, values } = args;
        match plan.action {
            Action::Swap => {
                let context = self.context(call.thread);
                let window = self.contexts[context].window;
                for part in 0..2 {
                    let slot = self.slot(window, Part::Drawn(part));
                    effects.write(slot);
                    // What is shown is what was drawn.
                    if is_chosen {
                        effects.read(slot);
                    }
                }
                Standing::Kill
            }
            Action::MakeCurrent => {
                let handle =
                    ["ctx", "hglrc", "context"].iter().find_map(|name| args.number(name)).unwrap_or(0);
                let is_new = handle != 0 && !self.by_handle.contains_key(&handle);
                if is_new {
                    let context = self.new_context(None);
                    self.by_handle.insert(handle, context);
                }
                match self.by_handle.get(&handle) {
                    Some(context) => self.current.insert(call.thread, *context),
                    None => self.current.remove(&call.thread),
                };
                let slot = self.thread_slot(call.thread);
                effects.write(slot);
                Standing::Normal
            }
            Action::Copy => {
                let address = args.number("dest").unwrap_or(0);
                let found =
                    self.mapped.iter().find(|(start, len, _)| (*start..start + len).contains(&address));
                match found.copied() {
                    Some((_, _, group)) => {
                        let slot = self.slot(group, Part::Whole);
                        effects.modify(slot);
                        Standing::Normal
                    }
                    None => Standing::Keep,
                }
            }
            Action::Query | Action::Draw => Standing::Drop,
            _ => {
                // A context may come back, which may share objects with another.
                if call.result != NO_NODE && values.node(call.result).kind == Kind::Pointer {
                    let names = ["shareList", "share_list", "share_context", "hShareContext", "share"];
                    let share = names.iter().find_map(|name| args.number(name)).filter(|handle| *handle != 0);
                    if args.is_about_contexts() {
                        let shared = share.and_then(|handle| self.by_handle.get(&handle).copied());
                        let context = self.new_context(shared);
                        self.by_handle.insert(values.node(call.result).payload, context);
                    }
                }
                if let (Some(one), Some(other)) = (args.number("hglrc1"), args.number("hglrc2")) {
                    let contexts = (self.by_handle.get(&one).copied(), self.by_handle.get(&other).copied());
                    if let (Some(one), Some(other)) = contexts {
                        self.contexts[other].space = self.contexts[one].space;
                        self.contexts[other].lists = self.contexts[one].lists;
                    }
                }
                Standing::Keep
            }
        }
    }

    /// A call that goes into a list.
    pub(super) fn recorded(
        &mut self,
        context: usize,
        list: u64,
        runs: bool,
        args: &Args<'_>,
        is_chosen: bool,
        effects: &mut Effects,
    ) -> Standing {
        let standing = self.gl(context, args, is_chosen, effects);
        if standing == Standing::Drop {
            return standing;
        }
        let key = (self.contexts[context].space, list);
        let set = self.list_effects.entry(key).or_default();
        for (slot, is_whole) in effects.written() {
            set.retain(|(known, _)| *known != slot);
            set.push((slot, is_whole));
        }
        let slot = self.slot(self.contexts[context].lists, Part::List(list));
        if !runs {
            // Nothing happens but that the list grows; what objects it names must be there.
            effects.clear();
            let names: Vec<(Class, u64)> = args.objects().collect();
            names.into_iter().for_each(|(class, name)| self.use_object(context, class, name, effects));
        }
        effects.modify(slot);
        let current = self.thread_slot(args.call.thread);
        effects.read(current);
        Standing::Normal
    }
}
