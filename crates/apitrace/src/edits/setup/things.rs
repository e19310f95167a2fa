//! Effects of OpenGL calls on objects: creating, deleting, binding, filling and linking them.

use super::args::{CallArgs, hash_of};
use super::live::{Effects, Group, Standing};
use super::parts::{Context, Part};
use super::rules::Action;
use super::track::{DRAW_FRAMEBUFFER, ELEMENT_ARRAY_BUFFER, READ_FRAMEBUFFER, Tracker};
use crate::objects::Class;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

const FRAMEBUFFER: u64 = 0x8d40;
const ARRAY_BUFFER: u64 = 0x8892;
const UNPACK_BUFFER: u64 = 0x88ec;
const CUBE_MAP: u64 = 0x8513;
const TEXTURE_COORD_ARRAY: u64 = 0x8078;
/// More binding places than any library has.
const MAX_PLACES: u64 = 1 << 12;
/// The place of the active program of a pipeline.
const ACTIVE_PROGRAM: u64 = 0x8259;

impl Tracker {
    pub(super) fn generate(
        &mut self,
        context: usize,
        args: &CallArgs<'_>,
        effects: &mut Effects,
    ) -> Standing {
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
            // The object is new, whatever had this name before.
            let key = (class, self.space(context, class), name);
            self.objects.remove(&key);
            let object = self.object(context, class, name);
            let exists = self.slot(object.group, Part::Exists);
            self.log.begin(exists);
            effects.write(exists);
            if class == Class::List {
                // Display lists are read by their contents.
                let content = self.slot(self.contexts[context].lists, Part::List(name));
                effects.write(content);
            }
        }
        Standing::Normal
    }

    pub(super) fn delete(&mut self, context: usize, args: &CallArgs<'_>, effects: &mut Effects) -> Standing {
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
            self.forget(context, class, name);
        }
        self.log.end(exist);
        Standing::Drop
    }

    /// Removes the name of a deleted object. Programs and shaders remain while they are used, under their names.
    fn forget(&mut self, context: usize, class: Class, name: u64) {
        let state = &mut self.contexts[context];
        state.set = None;
        if class == Class::Program || class == Class::List {
            return;
        }
        state.bound.retain(|place, bound| place.0 != class || *bound != name);
        // The object remains bound in other contexts.
        let is_bound =
            |other: &Context| other.bound.iter().any(|(place, bound)| place.0 == class && *bound == name);
        if !self.contexts.iter().any(is_bound) {
            let key = (class, self.space(context, class), name);
            self.objects.remove(&key);
        }
    }

    pub(super) fn bind(
        &mut self,
        context: usize,
        class: Class,
        args: &CallArgs<'_>,
        effects: &mut Effects,
    ) -> Standing {
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
            _ => self.bound(context, (class, target, 0), name, effects),
        }
        Standing::Normal
    }

    /// Binds objects at consecutive places.
    pub(super) fn bind_range(
        &mut self,
        context: usize,
        class: Class,
        args: &CallArgs<'_>,
        effects: &mut Effects,
    ) -> Standing {
        let target = args.number("target").unwrap_or(0);
        let first = args.number("first").unwrap_or(0);
        let names: Vec<u64> = args.objects().map(|(_, name)| name).collect();
        if names.is_empty() {
            // A call without objects unbinds all these places.
            let n = args.number("count").unwrap_or(0).min(MAX_PLACES);
            (0..n).for_each(|at| {
                self.bound(context, (class, target, first.wrapping_add(at + 1)), 0, effects);
            });
        }
        for (at, name) in names.into_iter().enumerate() {
            let place = first.wrapping_add(at as u64 + 1);
            self.bound(context, (class, target, place), name, effects);
        }
        Standing::Normal
    }

    /// Binds an object at a place; name 0 unbinds.
    pub(super) fn bound(
        &mut self,
        context: usize,
        place: (Class, u64, u64),
        name: u64,
        effects: &mut Effects,
    ) {
        let slot = self.binding(context, place, effects);
        self.set(context, slot, effects);
        let object = (name != 0).then(|| self.object(context, place.0, name));
        if (place.0, place.1) == (Class::Buffer, ELEMENT_ARRAY_BUFFER) {
            let array = self.bound_name(context, (Class::VertexArray, 0, 0));
            let source = object.as_ref().map(|object| (name, object.group));
            self.with_object(context, Class::VertexArray, array, |array| {
                array.set_source(ELEMENT_ARRAY_BUFFER, source);
            });
        } else {
            self.contexts[context].bound.insert(place, name);
            self.contexts[context].set = None;
        }
        if let Some(object) = object {
            let exists = self.slot(object.group, Part::Exists);
            effects.read(exists);
            if place.0 == Class::Program {
                // Only a linked program can be used.
                let linked = self.slot(object.group, Part::Whole);
                effects.read(linked);
            }
        }
    }

    /// Changes the object bound at a target.
    pub(super) fn change(
        &mut self,
        context: usize,
        class: Class,
        args: &CallArgs<'_>,
        effects: &mut Effects,
    ) -> Standing {
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
        let binding = self.binding(context, place, effects);
        effects.read(binding);
        let name = self.bound_name(context, place);
        // Framebuffer 0 and texture 0 belong to the context itself.
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
            // Pixels come from memory, with the current unpack settings, or from the drawn contents.
            let unpack = self.bound_name(context, (Class::Buffer, UNPACK_BUFFER, 0));
            self.use_object(context, Class::Buffer, unpack, effects);
            effects.read_group(group);
            if args.is_copy() {
                let [colors, depths] = self.shown(context);
                colors.into_iter().chain(depths).for_each(|slot| effects.read(slot));
            }
        }
        if class == Class::Framebuffer {
            self.attach(context, name, part, args);
        }
        self.name_objects_but_content(context, args, effects);
        Standing::Normal
    }

    /// Attaches an image to a framebuffer, or detaches it if its name is 0.
    pub(super) fn attach(&mut self, context: usize, framebuffer: u64, attachment: u64, args: &CallArgs<'_>) {
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
            framebuffer.images.insert(attachment, (slot, object.group));
        });
    }

    /// Makes the call depend on the objects that it names, without their drawn contents.
    pub(super) fn name_objects_but_content(
        &mut self,
        context: usize,
        args: &CallArgs<'_>,
        effects: &mut Effects,
    ) {
        let names: Vec<(Class, u64)> = args.objects().collect();
        for (class, name) in names.into_iter().filter(|(_, name)| *name != 0) {
            effects.read_group(self.object(context, class, name).group);
        }
    }

    /// Sets a source of vertices, or enables or disables an array.
    pub(super) fn source(&mut self, context: usize, args: &CallArgs<'_>, effects: &mut Effects) -> Standing {
        let group = self.contexts[context].group;
        let array = self.bound_name(context, (Class::VertexArray, 0, 0));
        let object = self.object(context, Class::VertexArray, array);
        let binding = self.slot(group, Part::Binding(Class::VertexArray, 0, 0));
        effects.read(binding);
        let exists = self.slot(object.group, Part::Exists);
        effects.read(exists);
        let mut hasher = FxHasher::default();
        // Functions that enable and that disable share one slot.
        let is_switch = args.plan.args.len() == 1;
        let function = if is_switch { 0 } else { args.plan.hash };
        function.hash(&mut hasher);
        for name in ["index", "attribindex", "bindingindex", "array", "first", "count"] {
            args.number(name).hash(&mut hasher);
        }
        // Arrays of texture coordinates belong to the texture unit that other calls select.
        if args.number("array") == Some(TEXTURE_COORD_ARRAY)
            || args.plan.hash == hash_of(b"glTexCoordPointer")
        {
            self.contexts[context].client_texture.hash(&mut hasher);
            let unit = self.slot(group, Part::ClientTexture);
            effects.read(unit);
        }
        let key = hasher.finish();
        let slot = self.slot(object.group, Part::Value(key));
        self.set(context, slot, effects);
        let buffers: Vec<u64> =
            args.objects().filter(|(class, _)| *class == Class::Buffer).map(|(_, name)| name).collect();
        let has_pointer = args.plan.args.iter().any(|arg| arg == b"pointer");
        let buffers = if has_pointer {
            let place = (Class::Buffer, ARRAY_BUFFER, 0);
            let binding = self.binding(context, place, effects);
            effects.read(binding);
            vec![self.bound_name(context, place)]
        } else {
            buffers
        };
        for (at, name) in buffers.into_iter().enumerate() {
            let source = (name != 0).then(|| (name, self.object(context, Class::Buffer, name).group));
            source.iter().for_each(|(_, buffer)| effects.read_group(*buffer));
            let key = key.wrapping_add(at as u64);
            self.with_object(context, Class::VertexArray, array, |array| array.set_source(key, source));
        }
        Standing::Normal
    }

    /// Sets a uniform of the current program, or of the active program of the current pipeline.
    pub(super) fn uniform(&mut self, context: usize, args: &CallArgs<'_>, effects: &mut Effects) -> Standing {
        let place = (Class::Program, 0, 0);
        let binding = self.binding(context, place, effects);
        effects.read(binding);
        let mut name = self.bound_name(context, place);
        if name == 0 {
            let place = (Class::Pipeline, 0, 0);
            let binding = self.binding(context, place, effects);
            effects.read(binding);
            let pipeline = self.bound_name(context, place);
            let pipeline = self.object(context, Class::Pipeline, pipeline);
            let active = self.slot(pipeline.group, Part::Whole);
            effects.read(active);
            name = pipeline.sources.get(&ACTIVE_PROGRAM).map_or(0, |(name, _)| *name);
        }
        let program = self.object(context, Class::Program, name).group;
        self.set_uniform(program, args, effects);
        Standing::Normal
    }

    /// Sets a uniform of a linked program.
    fn set_uniform(&mut self, program: Group, args: &CallArgs<'_>, effects: &mut Effects) {
        let linked = self.slot(program, Part::Whole);
        effects.read(linked);
        let slot = self.slot(program, Part::Level(args.number("location").unwrap_or(u64::MAX)));
        // An array of values may reach into other locations.
        if args.number("count").is_none_or(|count| count == 1) {
            effects.write(slot)
        } else {
            effects.modify(slot)
        }
    }

    /// Changes the first object that a call names, which then depends on the others.
    pub(super) fn named(&mut self, context: usize, args: &CallArgs<'_>, effects: &mut Effects) -> Standing {
        let names: Vec<(Class, u64)> = args.objects().collect();
        let Some(((class, name), others)) = names.split_first() else { return Standing::Keep };
        let object = self.object(context, *class, *name);
        let exists = self.slot(object.group, Part::Exists);
        effects.read(exists);
        if *class == Class::Program && args.number("location").is_some() {
            self.set_uniform(object.group, args, effects);
            return Standing::Normal;
        }
        for slot in [self.slot(object.group, Part::Whole), self.slot(object.content, Part::Whole)] {
            effects.modify(slot);
        }
        object.uses().for_each(|part| effects.read_group(part));
        if let Some(attachment) = args.number("attachment").filter(|_| *class == Class::Framebuffer) {
            self.attach(context, *name, attachment, args);
        }
        let is_taken = args.plan.is_detach;
        let is_active = *class == Class::Pipeline && args.plan.args.len() == 2;
        for (other_class, other) in others {
            self.use_object(context, *other_class, *other, effects);
            if *other == 0 {
                continue;
            }
            let part = self.object(context, *other_class, *other).group;
            self.with_object(context, *class, *name, |object| {
                if is_taken {
                    object.parts.retain(|known| *known != part);
                } else {
                    object.add_part(part);
                }
                if is_active {
                    object.set_source(ACTIVE_PROGRAM, Some((*other, part)));
                }
            });
        }
        if *class == Class::Query {
            self.contexts[context].bound.insert((Class::Query, args.number("target").unwrap_or(0), 0), *name);
        }
        Standing::Normal
    }
}
