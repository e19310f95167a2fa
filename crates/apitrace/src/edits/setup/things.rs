//! What calls of OpenGL do to objects: make, end, bind, fill and join them.

use super::args::Args;
use super::live::{Effects, Standing};
use super::rules::Action;
use super::track::{Part, Tracker};
use crate::objects::Class;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

const FRAMEBUFFER: u64 = 0x8d40;
const READ_FRAMEBUFFER: u64 = 0x8ca8;
const DRAW_FRAMEBUFFER: u64 = 0x8ca9;
const ARRAY_BUFFER: u64 = 0x8892;
const ELEMENT_ARRAY_BUFFER: u64 = 0x8893;
const UNPACK_BUFFER: u64 = 0x88ec;
const CUBE_MAP: u64 = 0x8513;

impl Tracker {
    pub(super) fn generate(&mut self, context: usize, args: &Args<'_>, effects: &mut Effects) -> Standing {
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

    pub(super) fn delete(&mut self, context: usize, args: &Args<'_>, effects: &mut Effects) -> Standing {
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

    pub(super) fn bind(
        &mut self,
        context: usize,
        class: Class,
        args: &Args<'_>,
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
    pub(super) fn bound(
        &mut self,
        context: usize,
        place: (Class, u64, u64),
        name: u64,
        effects: &mut Effects,
    ) {
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
    pub(super) fn change(
        &mut self,
        context: usize,
        class: Class,
        args: &Args<'_>,
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
    pub(super) fn attach(&mut self, context: usize, framebuffer: u64, attachment: u64, args: &Args<'_>) {
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
    pub(super) fn name_objects_but_content(
        &mut self,
        context: usize,
        args: &Args<'_>,
        effects: &mut Effects,
    ) {
        let names: Vec<(Class, u64)> = args.objects().collect();
        for (class, name) in names.into_iter().filter(|(_, name)| *name != 0) {
            effects.read_group(self.object(context, class, name).group);
        }
    }

    /// Where vertices come from.
    pub(super) fn source(&mut self, context: usize, args: &Args<'_>, effects: &mut Effects) -> Standing {
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
    pub(super) fn named(&mut self, context: usize, args: &Args<'_>, effects: &mut Effects) -> Standing {
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
