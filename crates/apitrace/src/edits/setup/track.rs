//! Follows calls and notes the state that each of them writes and reads.
//!
//! No call is executed: bindings, current contexts and depths of matrix stacks follow from the arguments. This file handles
//! contexts, objects and slots; [`state`](super::state) and [`things`](super::things) handle functions, according to
//! [`rules`](super::rules).

use super::args::CallArgs;
use super::live::{Effects, Group, Log, Slot, Standing};
use super::parts::{Context, Object, Part, Plan};
use super::rules::{Action, action};
use crate::objects::{Class, roles};
use crate::record::{END_FRAME, NO_SIDE_EFFECTS, RENDER, VERBOSE};
use quipu_model::values::{Call, Kind, NO_NODE, Types, Values};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};

/// The state that results from the calls so far.
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
    /// Slots that a display list sets when it is executed, with true if entirely.
    pub(super) list_effects: FxHashMap<(u32, u64), Vec<(Slot, bool)>>,
    /// Mapped buffers: address, length in bytes, and group.
    pub(super) mapped: Vec<(u64, u64, Group)>,
    pub(super) threads: Option<Group>,
    /// Groups of framebuffer configurations, by handle.
    pub(super) configs: FxHashMap<u64, Group>,
    pub(super) effects: Effects,
}

pub(super) const READ_FRAMEBUFFER: u64 = 0x8ca8;
pub(super) const DRAW_FRAMEBUFFER: u64 = 0x8ca9;
pub(super) const ELEMENT_ARRAY_BUFFER: u64 = 0x8893;

impl Tracker {
    /// Notes the next call. Chosen calls are always kept.
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
        if self.log.is_long() {
            self.compact();
        }
    }

    /// Drops state that no later call can read.
    fn compact(&mut self) {
        let (mut groups, mut slots) = (FxHashSet::default(), Vec::new());
        // No later call can read a context whose handle now stands for another.
        let known: FxHashSet<usize> = self.by_handle.values().chain(self.current.values()).copied().collect();
        let mut spaces = FxHashSet::default();
        for (i, context) in self.contexts.iter_mut().enumerate() {
            // Compaction renumbers sets.
            context.set = None;
            if known.contains(&i) {
                groups.extend([context.group, context.window, context.lists]);
                spaces.extend([context.space, context.own_space]);
            } else {
                context.bound = FxHashMap::default();
                context.pushed = FxHashMap::default();
                context.switches = FxHashMap::default();
            }
        }
        self.objects.retain(|(_, space, _), _| spaces.contains(space));
        self.list_effects.retain(|(space, _), _| spaces.contains(space));
        for object in self.objects.values() {
            groups.extend([object.group, object.content]);
            groups.extend(object.uses());
            slots.extend(object.images.values().map(|(slot, _)| *slot));
        }
        groups.extend(self.threads);
        groups.extend(self.configs.values());
        groups.extend(self.mapped.iter().map(|(_, _, group)| *group));
        slots.extend(self.list_effects.values().flatten().map(|(slot, _)| *slot));
        self.slots.retain(|(group, _), _| groups.contains(group));
        let groups: Vec<Group> = groups.into_iter().collect();
        self.log.compact(&groups, &slots);
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
                is_detach: name.starts_with("glDetach"),
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

    /// The slot for the current context of a thread.
    pub(super) fn thread_slot(&mut self, thread: u64) -> Slot {
        let group = match self.threads {
            Some(group) => group,
            None => *self.threads.insert(self.log.new_group()),
        };
        self.slot(group, Part::Current(thread))
    }

    /// The current context of a thread; if it has none, a new one that no call made.
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
            client_texture: 0,
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

    /// The object with a name; created on first use.
    pub(super) fn object(&mut self, context: usize, class: Class, name: u64) -> Object {
        let key = (class, self.space(context, class), name);
        if let Some(object) = self.objects.get(&key) {
            return object.clone();
        }
        let object = Object {
            group: self.log.new_group(),
            content: self.log.new_group(),
            parts: Vec::new(),
            sources: FxHashMap::default(),
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

    /// Makes the call depend on an object, its contents, and the objects that it uses.
    pub(super) fn use_object(&mut self, context: usize, class: Class, name: u64, effects: &mut Effects) {
        if name == 0 {
            return;
        }
        let object = self.object(context, class, name);
        effects.read_group(object.group);
        effects.read_group(object.content);
        object.uses().for_each(|part| effects.read_group(part));
    }

    /// Name of the object bound at a place; an element array buffer belongs to the current vertex array.
    pub(super) fn bound_name(&self, context: usize, place: (Class, u64, u64)) -> u64 {
        let bound = &self.contexts[context].bound;
        if (place.0, place.1) != (Class::Buffer, ELEMENT_ARRAY_BUFFER) {
            return bound.get(&place).copied().unwrap_or(0);
        }
        let array = bound.get(&(Class::VertexArray, 0, 0)).copied().unwrap_or(0);
        let key = (Class::VertexArray, self.space(context, Class::VertexArray), array);
        let source = self.objects.get(&key).and_then(|array| array.sources.get(&ELEMENT_ARRAY_BUFFER));
        source.map_or(0, |(name, _)| *name)
    }

    /// The slot of the binding at a place. For an element array buffer, which belongs to the current vertex array, the call
    /// also reads the binding of that.
    pub(super) fn binding(
        &mut self,
        context: usize,
        place: (Class, u64, u64),
        effects: &mut Effects,
    ) -> Slot {
        let group = self.contexts[context].group;
        if (place.0, place.1) != (Class::Buffer, ELEMENT_ARRAY_BUFFER) {
            return self.slot(group, Part::Binding(place.0, place.1, place.2));
        }
        let array = self.bound_name(context, (Class::VertexArray, 0, 0));
        let slot = self.slot(group, Part::Binding(Class::VertexArray, 0, 0));
        effects.read(slot);
        let array = self.object(context, Class::VertexArray, array).group;
        self.slot(array, Part::Level(ELEMENT_ARRAY_BUFFER))
    }

    /// Everything bound in the context, as a set of groups.
    pub(super) fn bound_set(&mut self, context: usize) -> u32 {
        if let Some(set) = self.contexts[context].set {
            return set;
        }
        let mut bound: Vec<(Class, u64, u64)> = self.contexts[context]
            .bound
            .iter()
            .filter(|(_, name)| **name != 0)
            .map(|((class, target, _), name)| (*class, *target, *name))
            .collect();
        // Vertex array 0 counts as bound too.
        if self.bound_name(context, (Class::VertexArray, 0, 0)) == 0 {
            bound.push((Class::VertexArray, 0, 0));
        }
        let mut groups = vec![self.contexts[context].group];
        for (class, target, name) in bound {
            let object = self.object(context, class, name);
            groups.push(object.group);
            // Drawing into a target does not depend on its earlier contents.
            let is_drawn_into = class == Class::Framebuffer || (class == Class::Renderbuffer && target > 0);
            if !is_drawn_into {
                groups.push(object.content);
            }
            groups.extend(object.uses());
        }
        let set = self.log.set(groups);
        self.contexts[context].set = Some(set);
        set
    }

    /// The images drawn into: colours, then depths.
    pub(super) fn drawn(&mut self, context: usize) -> [Vec<Slot>; 2] {
        let name = self.bound_name(context, (Class::Framebuffer, DRAW_FRAMEBUFFER, 0));
        self.images_of(context, name)
    }

    /// The images that pixels are read from: colours, then depths.
    pub(super) fn shown(&mut self, context: usize) -> [Vec<Slot>; 2] {
        let name = self.bound_name(context, (Class::Framebuffer, READ_FRAMEBUFFER, 0));
        self.images_of(context, name)
    }

    /// The images of a framebuffer, or of the window if the name is 0: colours, then depths.
    pub(super) fn images_of(&mut self, context: usize, name: u64) -> [Vec<Slot>; 2] {
        if name == 0 {
            let window = self.contexts[context].window;
            return [vec![self.slot(window, Part::Drawn(0))], vec![self.slot(window, Part::Drawn(1))]];
        }
        let object = self.object(context, Class::Framebuffer, name);
        let (mut colors, mut depths) = (Vec::new(), Vec::new());
        for (attachment, (image, _)) in object.images {
            // Depth, stencil, and both attachments.
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
        let args = CallArgs { plan, call, values };
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

    /// Handles a call of a window system or of Direct3D, or a function of C such as `memcpy`.
    pub(super) fn outside(
        &mut self,
        args: &CallArgs<'_>,
        is_chosen: bool,
        effects: &mut Effects,
    ) -> Standing {
        let CallArgs { plan, call, values } = args;
        match plan.action {
            Action::Swap => {
                let context = self.context(call.thread);
                let window = self.contexts[context].window;
                for part in 0..2 {
                    let slot = self.slot(window, Part::Drawn(part));
                    effects.write(slot);
                    // The frame shown depends on what was drawn.
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
            Action::Config => {
                let config = args.number("config").unwrap_or(0);
                let group = self.config(config);
                let slot = self.slot(group, Part::Whole);
                effects.modify(slot);
                Standing::Normal
            }
            Action::Query | Action::Draw => Standing::Drop,
            _ => {
                if let Some(config) = args.number("config") {
                    let group = self.config(config);
                    effects.read_group(group);
                }
                // The call may return a new context, which may share objects with another.
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

    /// The group of a framebuffer configuration.
    fn config(&mut self, config: u64) -> Group {
        match self.configs.get(&config) {
            Some(group) => *group,
            None => {
                let group = self.log.new_group();
                self.configs.insert(config, group);
                group
            }
        }
    }

    /// Handles a call that is recorded into a display list.
    pub(super) fn recorded(
        &mut self,
        context: usize,
        list: u64,
        runs: bool,
        args: &CallArgs<'_>,
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
            // The call only extends the display list; the objects that it names must exist.
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
