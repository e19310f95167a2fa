//! Offsets of virtual base classes in a complete object.
//!
//! Debug information only describes how the running program finds them, in a table of the object's class. The offsets follow
//! from the rules that gcc and clang share (the Itanium C++ ABI): after everything else, in the order of a depth-first
//! traversal, each at the next offset that its alignment allows. The result is only accepted if it gives the size that the
//! compiler recorded.

use super::MAX_DEPTH;
use super::index::children;
use super::read::Reading;
use super::types::{Member, MemberKind, Type, TypeId};
use std::collections::{HashMap, HashSet};

/// Maximum number of virtual base classes of one class.
const MAX_BASES: usize = 256;

/// The part of a class that is the same in all its objects.
#[derive(Clone, Copy)]
struct Extent {
    /// Offset at which the next member may begin.
    end: u64,
    /// True if its only content is the pointer to the class's table.
    is_table_only: bool,
}

impl Reading<'_, '_> {
    /// The virtual base classes of a complete object, including those of its base classes, with their offsets; empty if the
    /// offsets cannot be determined.
    pub(crate) fn virtual_bases(self, ty: &Type) -> Vec<Member> {
        let mut found: Vec<Member> = Vec::new();
        if !ty.members.iter().any(|member| member.kind == MemberKind::Base) {
            return found;
        }
        self.collect(ty, &mut found, &mut HashSet::from([ty.id]), 0);
        let Some(size) = ty.size.filter(|_| !found.is_empty()) else { return Vec::new() };
        // A base class whose only content is the pointer may share the object's own pointer.
        let placed = [false, true].into_iter().find_map(|shares| {
            let (end, bases) = self.placed(ty, &found, shares)?;
            let align = self.info.alignment_of(ty.id).bytes.max(1);
            (end.max(1).checked_next_multiple_of(align)? == size).then_some(bases)
        });
        placed.unwrap_or_default()
    }

    /// Virtual base classes in the order of their layout, each once.
    ///
    /// A class in `seen` adds no base class that `found` lacks. Damage can make a class its own base several times: without
    /// `seen` the number of steps would double at each level.
    fn collect(self, ty: &Type, found: &mut Vec<Member>, seen: &mut HashSet<TypeId>, depth: usize) {
        for member in ty.members.iter().filter(|member| member.kind == MemberKind::Base) {
            let Some(id) = member.ty.filter(|_| depth < MAX_DEPTH && found.len() < MAX_BASES) else {
                continue;
            };
            let Ok(base) = self.defined(self.behind_names(id)) else { continue };
            if member.bit_offset.is_none() {
                if found.iter().any(|other| other.ty == Some(base.id)) {
                    continue;
                }
                found.push(Member { ty: Some(base.id), ..member.clone() });
            }
            if seen.insert(base.id) {
                self.collect(&base, found, seen, depth + 1);
            }
        }
    }

    /// The base classes that have bytes of their own, with their offsets, and the end of the last one.
    fn placed(self, ty: &Type, bases: &[Member], shares: bool) -> Option<(u64, Vec<Member>)> {
        let mut known = HashMap::new();
        let mut end = self.extent(ty, &mut known, 0)?.end;
        let mut placed = Vec::new();
        for base in bases {
            let of = self.defined(base.ty?).ok()?;
            let extent = self.extent(&of, &mut known, 0)?;
            if extent.end == 0 || (extent.is_table_only && shares) {
                continue;
            }
            let start = end.checked_next_multiple_of(self.info.alignment_of(of.id).bytes.max(1))?;
            end = start.checked_add(extent.end)?;
            let (bit_offset, bit_size) = (start.checked_mul(8), extent.end.checked_mul(8));
            placed.push(Member { bit_offset, bit_size, ..base.clone() });
        }
        Some((end, placed))
    }

    /// The extent of a class without its virtual base classes; `None` if that is unknown, as for a class that is its own
    /// base.
    fn extent(self, ty: &Type, known: &mut HashMap<TypeId, Option<Extent>>, depth: usize) -> Option<Extent> {
        if depth > MAX_DEPTH {
            return None;
        }
        if let Some(extent) = known.get(&ty.id) {
            return *extent;
        }
        // A class that is reached again while it is being measured contains itself.
        known.insert(ty.id, None);
        let extent = self.measured(ty, known, depth);
        known.insert(ty.id, extent);
        extent
    }

    fn measured(
        self,
        ty: &Type,
        known: &mut HashMap<TypeId, Option<Extent>>,
        depth: usize,
    ) -> Option<Extent> {
        let (mut end, mut is_table_only, mut has_bases) = (0, true, false);
        for member in &ty.members {
            if member.kind == MemberKind::Base {
                has_bases = true;
                let Some(start) = member.offset() else { continue };
                let base = self.defined(self.behind_names(member.ty?)).ok()?;
                let of = self.extent(&base, known, depth + 1)?;
                is_table_only &= of.end == 0 || (of.is_table_only && start == 0);
                // An empty base class must not overlap another one of its type, but does not extend the class.
                if of.end > 0 {
                    end = end.max(start.checked_add(of.end)?);
                }
                continue;
            }
            is_table_only &= member.name.as_deref().is_some_and(|name| name.starts_with("_vptr"));
            end = end.max(member.offset()?.checked_add(member.size()?)?);
        }
        // Padding after the members of a class that is valid in C is not reused.
        if !has_bases && end > 0 && self.is_plain(ty.id) && !is_table_only {
            end = ty.size?;
        }
        Some(Extent { end, is_table_only: is_table_only && end > 0 })
    }

    /// True for a structure that is valid in C: no constructors, copy operations or destructors, and nothing private.
    fn is_plain(self, id: TypeId) -> bool {
        let mut is_plain = true;
        let Ok((open, die)) = self.view.entry(id) else { return false };
        let (own, is_class) = (open.name(&die).unwrap_or_default(), die.tag() == gimli::DW_TAG_class_type);
        let own = own.split('<').next().unwrap_or_default().to_owned();
        let seen = children(self.view, &open, id, |die| {
            if die.depth() != 1 {
                return;
            }
            let access = die.attr_value(gimli::DW_AT_accessibility);
            let is_public = match access {
                Some(gimli::AttributeValue::Accessibility(access)) => access == gimli::DW_ACCESS_public,
                _ => !is_class,
            };
            match die.tag() {
                gimli::DW_TAG_member => is_plain &= is_public || die.attr(gimli::DW_AT_external).is_some(),
                gimli::DW_TAG_subprogram if die.attr(gimli::DW_AT_artificial).is_none() => {
                    let name = open.name(die).unwrap_or_default();
                    let name = name.split('<').next().unwrap_or_default();
                    is_plain &= name != own && !name.starts_with('~') && name != "operator=";
                    is_plain &= die.attr(gimli::DW_AT_virtuality).is_none();
                }
                _ => {}
            }
        });
        is_plain && seen.is_ok()
    }
}
