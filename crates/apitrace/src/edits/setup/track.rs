//! Going through calls and noting what each of them writes and reads.
//!
//! Nothing is run: what is bound where, which context is current, how deep a stack of matrices is, follows from the arguments.
//! What each function does is in [`rules`](super::rules).

use super::live::{Effects, Group, Log, Slot, Standing};
use super::rules::{Action, action};
use crate::objects::{Class, Roles, roles};
use crate::record::{END_FRAME, NO_SIDE_EFFECTS, RENDER, VERBOSE};
use quipu_model::values::{Call, Kind, NO_NODE, Node, Types, Values};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// What a slot stands for within its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
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
struct Plan {
    action: Action,
    roles: Roles,
    args: Vec<Vec<u8>>,
    is_gl: bool,
    hash: u64,
}

/// An object.
#[derive(Clone, Debug)]
struct Object {
    group: Group,
    /// What was drawn into it, which is not needed to draw into it again.
    content: Group,
    /// Objects that it is made of.
    parts: Vec<Group>,
    /// Images that are drawn into, by where they are attached.
    images: FxHashMap<u64, Slot>,
}

/// A context, and what is bound in it.
#[derive(Debug)]
struct Context {
    group: Group,
    /// What is drawn into its window.
    window: Group,
    /// Contexts that share objects have the same space; what is never shared is in a space of its own.
    space: u32,
    own_space: u32,
    lists: Group,
    active_texture: u64,
    bound: FxHashMap<(Class, u64, u64), u64>,
    matrix_mode: u64,
    /// Calls that remembered matrices, by kind.
    pushed: FxHashMap<u64, Vec<u32>>,
    switches: FxHashMap<u64, bool>,
    masks: [bool; 2],
    is_drawing: bool,
    is_capturing: bool,
    attribute_depth: u32,
    /// The list that is recorded, and whether it is run at once.
    list: Option<(u64, bool)>,
    /// What is bound, as a set; `None` if that changed.
    set: Option<u32>,
}

/// Everything so far.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    pub(super) log: Log,
    plans: Vec<Option<Plan>>,
    slots: FxHashMap<(Group, Part), Slot>,
    objects: FxHashMap<(Class, u32, u64), Object>,
    contexts: Vec<Context>,
    by_handle: FxHashMap<u64, usize>,
    current: FxHashMap<u64, usize>,
    n_spaces: u32,
    /// What running a list sets.
    list_effects: FxHashMap<(u32, u64), Vec<(Slot, bool)>>,
    /// Buffers that are mapped: where, how long, and which.
    mapped: Vec<(u64, u64, Group)>,
    threads: Option<Group>,
    effects: Effects,
}

const FRAMEBUFFER: u64 = 0x8d40;
const READ_FRAMEBUFFER: u64 = 0x8ca8;
const DRAW_FRAMEBUFFER: u64 = 0x8ca9;
const ARRAY_BUFFER: u64 = 0x8892;
const ELEMENT_ARRAY_BUFFER: u64 = 0x8893;
const UNPACK_BUFFER: u64 = 0x88ec;
const SCISSOR_TEST: u64 = 0x0c11;
const CUBE_MAP: u64 = 0x8513;
const COLOR_BIT: u64 = 0x4000;
const DEPTH_BIT: u64 = 0x100;
const TEXTURE_MATRIX: u64 = 0x1702;
const COMPILE_AND_EXECUTE: u64 = 0x1301;

/// Arguments that say which of several values is set.
const SELECTORS: &[&str] = &[
    "index",
    "unit",
    "buf",
    "i",
    "attribindex",
    "bindingindex",
    "location",
    "slot",
    "viewport",
    "texunit",
    "maskNumber",
    "coord",
    "light",
    "face",
    "plane",
    "target",
    "pname",
    "cap",
    "map",
];

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

    fn plan(&mut self, function: u32, types: &Types) -> Option<usize> {
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

    fn slot(&mut self, group: Group, part: Part) -> Slot {
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
    fn thread_slot(&mut self, thread: u64) -> Slot {
        let group = match self.threads {
            Some(group) => group,
            None => *self.threads.insert(self.log.new_group()),
        };
        self.slot(group, Part::Current(thread))
    }

    /// The context that a thread uses; one that nobody made if it has none.
    fn context(&mut self, thread: u64) -> usize {
        match self.current.get(&thread) {
            Some(context) => *context,
            None => {
                let context = self.new_context(None);
                self.current.insert(thread, context);
                context
            }
        }
    }

    fn new_context(&mut self, shared: Option<usize>) -> usize {
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

    fn space(&self, context: usize, class: Class) -> u32 {
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
    fn object(&mut self, context: usize, class: Class, name: u64) -> Object {
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

    fn with_object(&mut self, context: usize, class: Class, name: u64, change: impl FnOnce(&mut Object)) {
        self.object(context, class, name);
        let key = (class, self.space(context, class), name);
        if let Some(object) = self.objects.get_mut(&key) {
            change(object);
        }
        self.contexts[context].set = None;
    }

    /// Reads all that an object is and holds.
    fn use_object(&mut self, context: usize, class: Class, name: u64, effects: &mut Effects) {
        if name == 0 {
            return;
        }
        let object = self.object(context, class, name);
        effects.read_group(object.group);
        effects.read_group(object.content);
        object.parts.iter().for_each(|part| effects.read_group(*part));
    }

    /// Everything that is bound, as a set of groups.
    fn bound_set(&mut self, context: usize) -> u32 {
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
    fn drawn(&mut self, context: usize) -> [Vec<Slot>; 2] {
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

    fn effects_of(
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
    fn outside(&mut self, args: &Args<'_>, is_chosen: bool, effects: &mut Effects) -> Standing {
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
    fn recorded(
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

    fn gl(&mut self, context: usize, args: &Args<'_>, is_chosen: bool, effects: &mut Effects) -> Standing {
        let group = self.contexts[context].group;
        match args.plan.action {
            Action::Keep | Action::Attributes => {
                if args.plan.action == Action::Attributes {
                    let is_push = args.plan.args.iter().any(|arg| arg == b"mask");
                    let depth = &mut self.contexts[context].attribute_depth;
                    *depth = if is_push { *depth + 1 } else { depth.saturating_sub(1) };
                }
                Standing::Keep
            }
            Action::Query => {
                self.name_objects(context, args, effects);
                Standing::Drop
            }
            Action::Pack(target) => {
                let bound =
                    self.contexts[context].bound.get(&(Class::Buffer, target, 0)).copied().unwrap_or(0);
                self.name_objects(context, args, effects);
                self.read_everything(context, effects);
                let [colors, depths] = self.drawn(context);
                colors.into_iter().chain(depths).for_each(|slot| effects.read(slot));
                if bound == 0 {
                    return Standing::Drop;
                }
                let buffer = self.object(context, Class::Buffer, bound).group;
                let slot = self.slot(buffer, Part::Whole);
                effects.modify(slot);
                Standing::Normal
            }
            Action::Draw | Action::Begin | Action::Vertex | Action::End | Action::CallList => {
                self.draw(context, args, is_chosen, effects)
            }
            Action::Clear => self.clear(context, args, is_chosen, effects),
            Action::State => {
                if args.plan.args.iter().any(|arg| arg == b"flag" || arg == b"red")
                    && let Some(mask) = self.mask(args)
                {
                    self.contexts[context].masks[mask.0] = mask.1;
                }
                let (part, needs_unit) = self.value(context, args);
                let slot = self.slot(group, part);
                self.set(context, slot, effects);
                if needs_unit {
                    let unit = self.slot(group, Part::ActiveTexture);
                    effects.read(unit);
                }
                if self.contexts[context].is_drawing {
                    self.draw(context, args, is_chosen, effects);
                }
                Standing::Normal
            }
            Action::Switch => {
                let cap = args.number("cap").unwrap_or(0);
                let is_on = args.plan.hash == hash_of(b"glEnable");
                self.contexts[context].switches.insert(cap, is_on);
                let slot = self.slot(group, Part::Switch(cap, self.contexts[context].active_texture));
                self.set(context, slot, effects);
                let unit = self.slot(group, Part::ActiveTexture);
                effects.read(unit);
                Standing::Normal
            }
            Action::ActiveTexture => {
                self.contexts[context].active_texture = args.number("texture").unwrap_or(0);
                let slot = self.slot(group, Part::ActiveTexture);
                self.set(context, slot, effects);
                Standing::Normal
            }
            Action::Accumulate => {
                let slot = self.slot(group, Part::Sum);
                effects.modify(slot);
                self.read_everything(context, effects);
                Standing::Normal
            }
            Action::MatrixMode
            | Action::LoadMatrix
            | Action::MultMatrix
            | Action::PushMatrix
            | Action::PopMatrix => self.matrix(context, args, is_chosen, effects),
            Action::Generate | Action::GenLists => self.generate(context, args, effects),
            Action::Delete | Action::DeleteLists => self.delete(context, args, effects),
            Action::Bind(class) => self.bind(context, class, args, effects),
            Action::BindAt(class) => {
                let target = args.number("target").unwrap_or(0);
                let place = ["index", "unit"].iter().find_map(|name| args.number(name)).unwrap_or(0);
                let name = args.objects().next().map_or(0, |(_, name)| name);
                // Numbered places are others than the ones without.
                self.bound(context, (class, target, place + 1), name, effects);
                Standing::Normal
            }
            Action::Replace(class) | Action::Change(class) | Action::Finish(class) => {
                self.change(context, class, args, effects)
            }
            Action::Map => {
                self.change(context, Class::Buffer, args, effects);
                let target = args.number("target").unwrap_or(0);
                let bound =
                    self.contexts[context].bound.get(&(Class::Buffer, target, 0)).copied().unwrap_or(0);
                if args.call.result != NO_NODE {
                    let address = args.values.node(args.call.result).bits();
                    let len = args.number("length").unwrap_or(1 << 32);
                    let buffer = self.object(context, Class::Buffer, bound).group;
                    self.mapped.retain(|(start, _, _)| *start != address);
                    self.mapped.push((address, len, buffer));
                }
                Standing::Normal
            }
            Action::Uniform => {
                let name = self.contexts[context].bound.get(&(Class::Program, 0, 0)).copied().unwrap_or(0);
                let binding = self.slot(group, Part::Binding(Class::Program, 0, 0));
                effects.read(binding);
                let program = self.object(context, Class::Program, name).group;
                let location = args.number("location").unwrap_or(u64::MAX);
                let slot = self.slot(program, Part::Level(location));
                // Several values may reach into other locations.
                let is_one = args.number("count").is_none_or(|count| count == 1);
                if is_one {
                    effects.write(slot)
                } else {
                    effects.modify(slot)
                }
                Standing::Normal
            }
            Action::Source => self.source(context, args, effects),
            Action::Named => self.named(context, args, effects),
            Action::NewList => {
                let list = args.number("list").unwrap_or(0);
                let runs = args.number("mode") == Some(COMPILE_AND_EXECUTE);
                self.contexts[context].list = Some((list, runs));
                self.list_effects.insert((self.contexts[context].space, list), Vec::new());
                let slot = self.slot(self.contexts[context].lists, Part::List(list));
                effects.write(slot);
                self.name_objects(context, args, effects);
                Standing::Normal
            }
            Action::EndList => {
                if let Some((list, _)) = self.contexts[context].list.take() {
                    let slot = self.slot(self.contexts[context].lists, Part::List(list));
                    effects.modify(slot);
                }
                Standing::Normal
            }
            Action::Capture => {
                let is_begin = args.plan.args.iter().any(|arg| arg == b"primitiveMode");
                self.contexts[context].is_capturing = is_begin;
                self.read_everything(context, effects);
                Standing::Keep
            }
            Action::Unknown | Action::MakeCurrent | Action::Copy | Action::Swap => {
                self.name_objects(context, args, effects);
                self.read_everything(context, effects);
                Standing::Keep
            }
        }
    }

    /// A slot is set: whole, unless what is set may come back.
    fn set(&mut self, context: usize, slot: Slot, effects: &mut Effects) {
        if self.contexts[context].attribute_depth == 0 { effects.write(slot) } else { effects.modify(slot) }
    }

    /// All state of a context and all that is bound in it.
    fn read_everything(&mut self, context: usize, effects: &mut Effects) {
        let set = self.bound_set(context);
        effects.read_set(set);
    }

    /// The objects that a call names must be there, with all they hold.
    fn name_objects(&mut self, context: usize, args: &Args<'_>, effects: &mut Effects) {
        let names: Vec<(Class, u64)> = args.objects().collect();
        for (class, name) in names {
            if class == Class::List {
                let slot = self.slot(self.contexts[context].lists, Part::List(name));
                effects.read(slot);
            }
            self.use_object(context, class, name, effects);
        }
    }

    fn draw(&mut self, context: usize, args: &Args<'_>, is_chosen: bool, effects: &mut Effects) -> Standing {
        match args.plan.action {
            Action::Begin => self.contexts[context].is_drawing = true,
            Action::End => self.contexts[context].is_drawing = false,
            _ => {}
        }
        self.read_everything(context, effects);
        self.name_objects(context, args, effects);
        for slot in self.drawn(context).into_iter().flatten() {
            effects.draw(slot);
            if is_chosen {
                effects.read(slot);
            }
        }
        if args.plan.action == Action::CallList {
            self.call_list(context, args, effects);
        }
        // A shader may copy images from what is drawn, and captured vertices go to buffers.
        if self.contexts[context].is_capturing { Standing::Keep } else { Standing::Normal }
    }

    /// What running a list sets.
    fn call_list(&mut self, context: usize, args: &Args<'_>, effects: &mut Effects) {
        match args.number("list") {
            Some(list) => {
                let key = (self.contexts[context].space, list);
                for (slot, is_whole) in self.list_effects.get(&key).cloned().unwrap_or_default() {
                    if is_whole { effects.write(slot) } else { effects.modify(slot) }
                }
            }
            // Several lists, whose numbers follow from a base: any of them.
            None => effects.read_group(self.contexts[context].lists),
        }
    }

    fn clear(&mut self, context: usize, args: &Args<'_>, is_chosen: bool, effects: &mut Effects) -> Standing {
        let mask = args.number("mask").unwrap_or(0);
        let state = &self.contexts[context];
        let is_whole = state.switches.get(&SCISSOR_TEST) != Some(&true);
        let masks = state.masks;
        let drawn = self.drawn(context);
        self.read_everything(context, effects);
        for (slots, (bit, is_open)) in drawn.into_iter().zip([COLOR_BIT, DEPTH_BIT].into_iter().zip(masks)) {
            for slot in slots {
                if mask & bit != 0 && is_whole && is_open {
                    effects.write(slot);
                } else if mask & bit != 0 || (bit == DEPTH_BIT && mask & !(COLOR_BIT | DEPTH_BIT) != 0) {
                    effects.modify(slot);
                    if is_chosen {
                        effects.read(slot);
                    }
                }
            }
        }
        Standing::Normal
    }

    /// Which mask a call sets, of colours or depths, and whether it is open.
    fn mask(&self, args: &Args<'_>) -> Option<(usize, bool)> {
        match args.plan.hash {
            hash if hash == hash_of(b"glDepthMask") => Some((1, args.number("flag") != Some(0))),
            hash if hash == hash_of(b"glColorMask") => {
                let is_open =
                    ["red", "green", "blue", "alpha"].iter().all(|name| args.number(name) != Some(0));
                Some((0, is_open))
            }
            _ => None,
        }
    }

    /// Which value a call sets; and whether that depends on the texture unit.
    fn value(&self, context: usize, args: &Args<'_>) -> (Part, bool) {
        let mut hasher = FxHasher::default();
        args.plan.hash.hash(&mut hasher);
        for name in SELECTORS {
            args.number(name).hash(&mut hasher);
        }
        let needs_unit = args.plan.args.iter().any(|arg| arg == b"pname")
            && args.plan.args.first().is_some_and(|arg| arg == b"target" || arg == b"coord");
        if needs_unit {
            self.contexts[context].active_texture.hash(&mut hasher);
        }
        (Part::Value(hasher.finish()), needs_unit)
    }

    fn matrix(
        &mut self,
        context: usize,
        args: &Args<'_>,
        is_chosen: bool,
        effects: &mut Effects,
    ) -> Standing {
        let group = self.contexts[context].group;
        let mode_slot = self.slot(group, Part::MatrixMode);
        if args.plan.action == Action::MatrixMode {
            self.contexts[context].matrix_mode = args.number("mode").unwrap_or(0);
            self.set(context, mode_slot, effects);
            return Standing::Normal;
        }
        effects.read(mode_slot);
        let mut mode = self.contexts[context].matrix_mode;
        if mode == TEXTURE_MATRIX {
            mode |= self.contexts[context].active_texture << 32;
            let unit = self.slot(group, Part::ActiveTexture);
            effects.read(unit);
        }
        let next = self.log.next();
        let pushed = self.contexts[context].pushed.entry(mode).or_default();
        let depth = pushed.len() as u64;
        match args.plan.action {
            Action::PushMatrix => {
                pushed.push(next);
                let (outer, inner) = (
                    self.slot(group, Part::Matrix(mode, depth)),
                    self.slot(group, Part::Matrix(mode, depth + 1)),
                );
                effects.write(inner);
                effects.read(outer);
                Standing::Normal
            }
            Action::PopMatrix => {
                let push = pushed.pop();
                let inner = self.slot(group, Part::Matrix(mode, depth));
                if let Some(push) = push {
                    self.log.pair(push, next);
                    effects.write(inner);
                    // A matrix that is forgotten must have been remembered.
                    if is_chosen {
                        effects.read(inner);
                    }
                }
                Standing::Kill
            }
            action => {
                let slot = self.slot(group, Part::Matrix(mode, depth));
                if action == Action::LoadMatrix {
                    self.set(context, slot, effects)
                } else {
                    effects.modify(slot)
                }
                Standing::Normal
            }
        }
    }

    fn generate(&mut self, context: usize, args: &Args<'_>, effects: &mut Effects) -> Standing {
        let names: Vec<(Class, u64)> = match args.plan.action {
            Action::GenLists => {
                let first = args.result().unwrap_or(0);
                let range = args.number("range").unwrap_or(1).min(1 << 16);
                (first..first.saturating_add(range)).map(|name| (Class::List, name)).collect()
            }
            _ => args.objects().collect(),
        };
        for (class, name) in names {
            if name == 0 {
                continue;
            }
            // A new object, whatever had the name before.
            let key = (class, self.space(context, class), name);
            self.objects.remove(&key);
            let object = self.object(context, class, name);
            let exists = self.slot(object.group, Part::Exists);
            self.log.begin(exists);
            effects.write(exists);
            if class == Class::List {
                // Lists are read by their content.
                let content = self.slot(self.contexts[context].lists, Part::List(name));
                effects.write(content);
            }
        }
        Standing::Normal
    }

    fn delete(&mut self, context: usize, args: &Args<'_>, effects: &mut Effects) -> Standing {
        let names: Vec<(Class, u64)> = match args.plan.action {
            Action::DeleteLists => {
                let first = args.number("list").unwrap_or(0);
                let range = args.number("range").unwrap_or(1).min(1 << 16);
                (first..first.saturating_add(range)).map(|name| (Class::List, name)).collect()
            }
            _ => args.objects().collect(),
        };
        let mut exist = Vec::new();
        for (class, name) in names.into_iter().filter(|(_, name)| *name != 0) {
            let object = self.object(context, class, name);
            let exists = self.slot(object.group, Part::Exists);
            exist.push(exists);
            effects.read(exists);
        }
        self.log.end(exist);
        Standing::Drop
    }

    fn bind(&mut self, context: usize, class: Class, args: &Args<'_>, effects: &mut Effects) -> Standing {
        let target = args.number("target").unwrap_or(0);
        let name = args.objects().next().map_or(0, |(_, name)| name);
        let group = self.contexts[context].group;
        match class {
            Class::Framebuffer => {
                let targets: &[u64] = match target {
                    FRAMEBUFFER => &[READ_FRAMEBUFFER, DRAW_FRAMEBUFFER],
                    DRAW_FRAMEBUFFER => &[DRAW_FRAMEBUFFER],
                    _ => &[READ_FRAMEBUFFER],
                };
                targets.iter().for_each(|target| self.bound(context, (class, *target, 0), name, effects));
            }
            Class::Texture => {
                let unit = self.contexts[context].active_texture;
                let active = self.slot(group, Part::ActiveTexture);
                effects.read(active);
                self.bound(context, (class, target, unit), name, effects);
            }
            Class::Buffer if target == ELEMENT_ARRAY_BUFFER => {
                // It belongs to the vertex array in use.
                let array =
                    self.contexts[context].bound.get(&(Class::VertexArray, 0, 0)).copied().unwrap_or(0);
                let object = self.object(context, Class::VertexArray, array);
                let binding = self.slot(group, Part::Binding(Class::VertexArray, 0, 0));
                effects.read(binding);
                let slot = self.slot(object.group, Part::Level(ELEMENT_ARRAY_BUFFER));
                effects.write(slot);
                if name != 0 {
                    let buffer = self.object(context, Class::Buffer, name).group;
                    self.with_object(context, Class::VertexArray, array, |object| object.parts.push(buffer));
                }
                self.bound(context, (class, target, 0), name, effects);
            }
            _ => self.bound(context, (class, target, 0), name, effects),
        }
        Standing::Normal
    }

    /// Something is bound.
    fn bound(&mut self, context: usize, place: (Class, u64, u64), name: u64, effects: &mut Effects) {
        let slot = self.slot(self.contexts[context].group, Part::Binding(place.0, place.1, place.2));
        self.set(context, slot, effects);
        self.contexts[context].bound.insert(place, name);
        self.contexts[context].set = None;
        if name != 0 {
            let object = self.object(context, place.0, name);
            let exists = self.slot(object.group, Part::Exists);
            effects.read(exists);
        }
    }

    /// What is bound at a target changes.
    fn change(&mut self, context: usize, class: Class, args: &Args<'_>, effects: &mut Effects) -> Standing {
        let group = self.contexts[context].group;
        let target = args.number("target").unwrap_or(0);
        let (place, part) = match class {
            Class::Texture => {
                let active = self.slot(group, Part::ActiveTexture);
                effects.read(active);
                let is_side = (0x8515..=0x851a).contains(&target);
                let level = args.number("level").unwrap_or(0) | if is_side { target << 16 } else { 0 };
                let target = if is_side { CUBE_MAP } else { target };
                ((class, target, self.contexts[context].active_texture), level)
            }
            Class::Framebuffer => {
                let target = if target == READ_FRAMEBUFFER { READ_FRAMEBUFFER } else { DRAW_FRAMEBUFFER };
                ((class, target, 0), args.number("attachment").unwrap_or(0))
            }
            _ => ((class, target, 0), 0),
        };
        let binding = self.slot(group, Part::Binding(place.0, place.1, place.2));
        effects.read(binding);
        let name = self.contexts[context].bound.get(&place).copied().unwrap_or(0);
        // Framebuffer 0 and texture 0 are things of the context itself.
        let object = self.object(context, class, name);
        if name == 0 {
            let slot = self.slot(group, Part::Sum);
            effects.modify(slot);
        }
        let slot = self.slot(object.group, Part::Level(part));
        let is_whole = matches!(args.plan.action, Action::Replace(_));
        if is_whole {
            effects.write(slot)
        } else {
            effects.modify(slot)
        }
        if class == Class::Texture || class == Class::Renderbuffer {
            let image = self.slot(object.content, Part::Level(part));
            if is_whole {
                effects.write(image)
            } else {
                effects.modify(image)
            }
            // Pixels come from memory as it is to be unpacked, or from what was drawn.
            let unpack =
                self.contexts[context].bound.get(&(Class::Buffer, UNPACK_BUFFER, 0)).copied().unwrap_or(0);
            self.use_object(context, Class::Buffer, unpack, effects);
            effects.read_group(group);
            if args.is_copy() {
                let [colors, depths] = self.drawn(context);
                colors.into_iter().chain(depths).for_each(|slot| effects.read(slot));
            }
        }
        if class == Class::Framebuffer {
            self.attach(context, name, part, args);
        }
        self.name_objects_but_content(context, args, effects);
        Standing::Normal
    }

    /// An image is attached to a framebuffer, or taken away.
    fn attach(&mut self, context: usize, framebuffer: u64, attachment: u64, args: &Args<'_>) {
        let image = args.objects().find(|(class, _)| matches!(class, Class::Texture | Class::Renderbuffer));
        let Some((class, name)) = image else { return };
        if name == 0 {
            self.with_object(context, Class::Framebuffer, framebuffer, |object| {
                object.images.remove(&attachment);
            });
            return;
        }
        let side = args.number("textarget").filter(|side| (0x8515..=0x851a).contains(side)).unwrap_or(0);
        let level = args.number("level").unwrap_or(0) | side << 16;
        let object = self.object(context, class, name);
        let slot = self.slot(object.content, Part::Level(level));
        self.with_object(context, Class::Framebuffer, framebuffer, |framebuffer| {
            framebuffer.images.insert(attachment, slot);
            framebuffer.parts.push(object.group);
            framebuffer.parts.sort_unstable();
            framebuffer.parts.dedup();
        });
    }

    /// The objects that a call names must be there, not what was drawn into them.
    fn name_objects_but_content(&mut self, context: usize, args: &Args<'_>, effects: &mut Effects) {
        let names: Vec<(Class, u64)> = args.objects().collect();
        for (class, name) in names.into_iter().filter(|(_, name)| *name != 0) {
            effects.read_group(self.object(context, class, name).group);
        }
    }

    /// Where vertices come from.
    fn source(&mut self, context: usize, args: &Args<'_>, effects: &mut Effects) -> Standing {
        let group = self.contexts[context].group;
        let array = self.contexts[context].bound.get(&(Class::VertexArray, 0, 0)).copied().unwrap_or(0);
        let object = self.object(context, Class::VertexArray, array);
        let binding = self.slot(group, Part::Binding(Class::VertexArray, 0, 0));
        effects.read(binding);
        let mut hasher = FxHasher::default();
        args.plan.hash.hash(&mut hasher);
        for name in ["index", "attribindex", "bindingindex", "array"] {
            args.number(name).hash(&mut hasher);
        }
        // The one array that needs no name is a part of the context.
        let owner = if array == 0 { group } else { object.group };
        let slot = self.slot(owner, Part::Value(hasher.finish()));
        // Arrays of texture coordinates belong to units that other calls choose.
        effects.modify(slot);
        let named: Option<u64> =
            args.objects().find(|(class, _)| *class == Class::Buffer).map(|(_, name)| name);
        let source =
            named.or_else(|| self.contexts[context].bound.get(&(Class::Buffer, ARRAY_BUFFER, 0)).copied());
        if let Some(name) = source.filter(|name| *name != 0) {
            let buffer = self.object(context, Class::Buffer, name).group;
            effects.read_group(buffer);
            self.with_object(context, Class::VertexArray, array, |object| {
                object.parts.push(buffer);
                object.parts.sort_unstable();
                object.parts.dedup();
            });
            if array == 0 {
                self.contexts[context].bound.insert((Class::Buffer, ARRAY_BUFFER, 1 + name), name);
                self.contexts[context].set = None;
            }
        }
        if named.is_none() {
            let binding = self.slot(group, Part::Binding(Class::Buffer, ARRAY_BUFFER, 0));
            effects.read(binding);
        }
        effects.read_group(group);
        Standing::Normal
    }

    /// The first object that a call names changes, and needs the others.
    fn named(&mut self, context: usize, args: &Args<'_>, effects: &mut Effects) -> Standing {
        let names: Vec<(Class, u64)> = args.objects().collect();
        let Some(((class, name), others)) = names.split_first() else { return Standing::Keep };
        let object = self.object(context, *class, *name);
        for slot in [self.slot(object.group, Part::Whole), self.slot(object.content, Part::Whole)] {
            effects.modify(slot);
        }
        let exists = self.slot(object.group, Part::Exists);
        effects.read(exists);
        object.parts.iter().for_each(|part| effects.read_group(*part));
        for (other_class, other) in others {
            self.use_object(context, *other_class, *other, effects);
            if *other != 0 {
                let part = self.object(context, *other_class, *other).group;
                self.with_object(context, *class, *name, |object| object.parts.push(part));
            }
        }
        if *class == Class::Query {
            self.contexts[context].bound.insert((Class::Query, args.number("target").unwrap_or(0), 0), *name);
        }
        Standing::Normal
    }
}

fn hash_of(name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    name.to_vec().hash(&mut hasher);
    hasher.finish()
}

/// The arguments of a call.
#[derive(Clone, Copy)]
struct Args<'a> {
    plan: &'a Plan,
    call: &'a Call,
    values: &'a Values,
}

impl Args<'_> {
    /// The argument of this name, as a number.
    fn number(&self, name: &str) -> Option<u64> {
        let index = self.plan.args.iter().position(|arg| arg == name.as_bytes())? as u32;
        let arg = self.values.args_of(self.call).iter().find(|arg| arg.index == index)?;
        let node = self.values.node(arg.node);
        (!node.is_composite()).then(|| node.bits())
    }

    fn result(&self) -> Option<u64> {
        (self.call.result != NO_NODE).then(|| self.values.node(self.call.result).bits())
    }

    /// The objects that the call names, in the order of its arguments, then its result.
    fn objects(&self) -> impl Iterator<Item = (Class, u64)> {
        let args = self.values.args_of(self.call).iter().filter_map(|arg| {
            let class = self.plan.roles.args.get(arg.index as usize).copied().flatten()?;
            Some((class, arg.node))
        });
        let result = self.plan.roles.result.filter(|_| self.call.result != NO_NODE);
        let result = result.map(|class| (class, self.call.result));
        let values = self.values;
        args.chain(result).flat_map(move |(class, root)| {
            (root..values.behind(root)).filter_map(move |at| {
                let node: Node = values.node(at);
                (node.kind == Kind::Unsigned).then_some((class, node.payload))
            })
        })
    }

    /// Whether pixels come from what was drawn.
    fn is_copy(&self) -> bool {
        self.plan.args.iter().any(|arg| arg == b"x") && self.plan.args.iter().any(|arg| arg == b"y")
    }

    /// Whether the function makes contexts: what it gets says so.
    fn is_about_contexts(&self) -> bool {
        let names: [&[u8]; 6] =
            [b"shareList", b"share_list", b"share_context", b"hShareContext", b"share", b"hdc"];
        self.plan.args.iter().any(|arg| names.contains(&arg.as_slice()))
    }
}
