//! Effects of OpenGL calls on values, capabilities, matrices, display lists and drawn pictures.
//!
//! Objects are in [`things`](super::things).

use super::args::{CallArgs, hash_of};
use super::live::{Effects, Slot, Standing};
use super::parts::Part;
use super::rules::Action;
use super::track::{DRAW_FRAMEBUFFER, ELEMENT_ARRAY_BUFFER, Tracker};
use crate::objects::Class;
use quipu_model::values::NO_NODE;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

const FRAMEBUFFER: u64 = 0x8d40;
const SCISSOR_TEST: u64 = 0x0c11;
const COLOR_BIT: u64 = 0x4000;
const DEPTH_BIT: u64 = 0x100;
const TEXTURE_MATRIX: u64 = 0x1702;
const COMPILE_AND_EXECUTE: u64 = 0x1301;

/// Names of arguments that select one of several values.
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
    pub(super) fn gl(
        &mut self,
        context: usize,
        args: &CallArgs<'_>,
        is_chosen: bool,
        effects: &mut Effects,
    ) -> Standing {
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
                if is_chosen {
                    self.ask_about_target(context, args, effects);
                }
                Standing::Drop
            }
            Action::Pack(target) => {
                let bound = self.bound_name(context, (Class::Buffer, target, 0));
                self.name_objects(context, args, effects);
                self.read_everything(context, effects);
                let [colors, depths] = self.shown(context);
                colors.into_iter().chain(depths).for_each(|slot| effects.read(slot));
                if bound == 0 {
                    return Standing::Drop;
                }
                let buffer = self.object(context, Class::Buffer, bound).group;
                let slot = self.slot(buffer, Part::Whole);
                effects.modify(slot);
                Standing::Normal
            }
            Action::Draw
            | Action::DrawShown
            | Action::Begin
            | Action::Vertex
            | Action::End
            | Action::CallList => self.draw(context, args, is_chosen, effects),
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
            Action::ClientTexture => {
                self.contexts[context].client_texture = args.number("texture").unwrap_or(0);
                let slot = self.slot(group, Part::ClientTexture);
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
                // Indexed bindings are distinct from the one without an index.
                self.bound(context, (class, target, place + 1), name, effects);
                Standing::Normal
            }
            Action::BindRange(class) => self.bind_range(context, class, args, effects),
            Action::Replace(class) | Action::Change(class) | Action::Finish(class) => {
                self.change(context, class, args, effects)
            }
            Action::Map => {
                self.change(context, Class::Buffer, args, effects);
                let target = args.number("target").unwrap_or(0);
                let bound = self.bound_name(context, (Class::Buffer, target, 0));
                if args.call.result != NO_NODE {
                    let address = args.values.node(args.call.result).bits();
                    let len = args.number("length").unwrap_or(1 << 32);
                    let buffer = self.object(context, Class::Buffer, bound).group;
                    self.mapped.retain(|(start, _, known)| *start != address && *known != buffer);
                    self.mapped.push((address, len, buffer));
                }
                Standing::Normal
            }
            Action::Uniform => self.uniform(context, args, effects),
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
            Action::Unknown | Action::MakeCurrent | Action::Config | Action::Copy | Action::Swap => {
                self.name_objects(context, args, effects);
                self.read_everything(context, effects);
                Standing::Keep
            }
        }
    }

    /// Sets a slot: entirely, unless a pop of attributes may restore it.
    pub(super) fn set(&mut self, context: usize, slot: Slot, effects: &mut Effects) {
        if self.contexts[context].attribute_depth == 0 { effects.write(slot) } else { effects.modify(slot) }
    }

    /// Reads all state of a context and everything bound in it.
    pub(super) fn read_everything(&mut self, context: usize, effects: &mut Effects) {
        let set = self.bound_set(context);
        effects.read_set(set);
    }

    /// Makes the call depend on the objects that it names, including their contents.
    pub(super) fn name_objects(&mut self, context: usize, args: &CallArgs<'_>, effects: &mut Effects) {
        let names: Vec<(Class, u64)> = args.objects().collect();
        for (class, name) in names {
            if class == Class::List {
                let slot = self.slot(self.contexts[context].lists, Part::List(name));
                effects.read(slot);
            }
            self.use_object(context, class, name, effects);
        }
    }

    /// A query that names a target depends on the object bound there.
    fn ask_about_target(&mut self, context: usize, args: &CallArgs<'_>, effects: &mut Effects) {
        let Some(target) = args.number("target") else { return };
        let class_of = |place: &(Class, u64, u64)| (place.1 == target).then_some(*place);
        let mut places: Vec<_> = self.contexts[context].bound.keys().filter_map(class_of).collect();
        if target == ELEMENT_ARRAY_BUFFER {
            places.push((Class::Buffer, target, 0));
        }
        if target == FRAMEBUFFER {
            places.push((Class::Framebuffer, DRAW_FRAMEBUFFER, 0));
        }
        for place in places {
            let slot = self.binding(context, place, effects);
            effects.read(slot);
            let name = self.bound_name(context, place);
            if name != 0 {
                effects.read_group(self.object(context, place.0, name).group);
            }
        }
    }

    pub(super) fn draw(
        &mut self,
        context: usize,
        args: &CallArgs<'_>,
        is_chosen: bool,
        effects: &mut Effects,
    ) -> Standing {
        match args.plan.action {
            Action::Begin => self.contexts[context].is_drawing = true,
            Action::End => self.contexts[context].is_drawing = false,
            _ => {}
        }
        self.read_everything(context, effects);
        self.name_objects(context, args, effects);
        if args.plan.action == Action::DrawShown {
            let named = args.number("readFramebuffer");
            let shown = match named {
                Some(name) => self.images_of(context, name),
                None => self.shown(context),
            };
            shown.into_iter().flatten().for_each(|slot| effects.read(slot));
        }
        // Newer functions name the framebuffer that they draw into.
        let drawn = match ["drawFramebuffer", "framebuffer"].iter().find_map(|name| args.number(name)) {
            Some(name) => self.images_of(context, name),
            None => self.drawn(context),
        };
        for slot in drawn.into_iter().flatten() {
            effects.draw(slot);
            if is_chosen {
                effects.read(slot);
            }
        }
        if args.plan.action == Action::CallList {
            self.call_list(context, args, effects);
        }
        // With transform feedback active, captured vertices go to buffers; shaders may also store images.
        if self.contexts[context].is_capturing { Standing::Keep } else { Standing::Normal }
    }

    /// Applies the state that executing a display list sets.
    pub(super) fn call_list(&mut self, context: usize, args: &CallArgs<'_>, effects: &mut Effects) {
        match args.number("list") {
            Some(list) => {
                let key = (self.contexts[context].space, list);
                for (slot, is_whole) in self.list_effects.get(&key).cloned().unwrap_or_default() {
                    if is_whole { effects.write(slot) } else { effects.modify(slot) }
                }
            }
            // Several lists, numbered from a base: any of them may run.
            None => effects.read_group(self.contexts[context].lists),
        }
    }

    pub(super) fn clear(
        &mut self,
        context: usize,
        args: &CallArgs<'_>,
        is_chosen: bool,
        effects: &mut Effects,
    ) -> Standing {
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

    /// The mask that a call sets (0 colours, 1 depths), and whether it permits writing.
    pub(super) fn mask(&self, args: &CallArgs<'_>) -> Option<(usize, bool)> {
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

    /// The value that a call sets; and whether it depends on the texture unit.
    pub(super) fn value(&self, context: usize, args: &CallArgs<'_>) -> (Part, bool) {
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

    pub(super) fn matrix(
        &mut self,
        context: usize,
        args: &CallArgs<'_>,
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
                    // If the pop itself is chosen, the matching push must be kept.
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
}
