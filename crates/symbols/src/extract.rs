//! Types files from debug information: those that Cacheray's extractor writes, and correct ones.
//!
//! SPEC: cacheray.md#types. The wording of the file is Cacheray's (`struct U` also for a union, `T[]`, names of anonymous
//! types, identity by the entry's offset), so a file of C types that Cacheray handles correctly is the same.

use crate::dwarf::read::Reading;
use crate::dwarf::types::{Kind, Member, MemberKind};
use crate::dwarf::{DebugError, DebugInfo, Type, TypeId};
use crate::types_file::{MemberDef, StructDef, TypedefDef, TypesFile, UnionDef, UnionMemberDef};
use std::collections::{HashMap, HashSet};

mod original;

/// The largest size of a member that Cacheray's simulator reads, with 32-bit numbers. Larger sizes are cut, since the rest
/// of the file would be lost otherwise.
const MAX_MEMBER: i64 = i32::MAX as i64;

/// The types that are written, and their form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compat {
    /// All types that are defined anywhere, with their true sizes.
    #[default]
    Right,
    /// The types that Cacheray writes, with its faults.
    Original,
}

/// The types of a program as a file.
///
/// # Errors
/// If the debug information is damaged; for [`Compat::Original`], also where Cacheray ends with an exception.
pub fn types_file(info: &DebugInfo, compat: Compat) -> Result<TypesFile, DebugError> {
    match compat {
        Compat::Right => Ok(right(Reading::new(info, &info.view()))),
        Compat::Original => original::types_file(info),
    }
}

/// All types, each name and each entry once: a type that is defined in several units is taken from the first, and of several
/// `typedef` names for one structure without a name, the first is its name.
///
/// A structure that is only declared, or has no members, is left out: Cacheray's simulator would treat it as one that
/// contains every address.
fn right(info: Reading<'_, '_>) -> TypesFile {
    let mut file = TypesFile::default();
    let mut known: HashSet<String> = HashSet::new();
    let mut aliases: HashSet<(String, String)> = HashSet::new();
    // Names of structures and unions that have no name of their own.
    let mut given: HashMap<TypeId, String> = HashMap::new();
    for id in info.info.type_ids() {
        // Damage to a type loses only that type.
        let Ok(ty) = info.defined(id) else { continue };
        match &ty.kind {
            // This is a declaration; its definition is handled at its own entry.
            _ if ty.id != id || ty.is_declaration => {}
            Kind::Struct | Kind::Class | Kind::Variants if ty.name.is_some() => {
                let name = record_name(&ty, &ty.path);
                if known.insert(name.clone()) {
                    if ty.kind == Kind::Class {
                        // LLVM calls it `class.X`, and the simulator looks it up by that name.
                        let alias = format!("class.{}", ty.path);
                        aliases.insert((alias.clone(), name.clone()));
                        file.typedefs.push(TypedefDef { def: name.clone(), alias });
                    }
                    file.structs.extend(structure(info, &ty, name));
                }
            }
            Kind::Union if ty.name.is_some() && known.insert(format!("union {}", ty.path)) => {
                file.unions.push(union(info, &ty, ty.path.clone()));
            }
            Kind::Typedef(target) => {
                let target = target.map(|target| info.behind_names(target));
                let target = target.and_then(|target| info.defined(target).ok());
                let def = match &target {
                    None => "void".to_owned(),
                    Some(target) if target.is_record() && target.name.is_none() => {
                        // A structure without a name of its own gets the first alias as its name.
                        match given.get(&target.id) {
                            Some(name) => name.clone(),
                            None => {
                                let name = format!("struct {}", ty.path);
                                given.insert(target.id, name.clone());
                                if target.kind == Kind::Union {
                                    if known.insert(format!("union {}", ty.path)) {
                                        file.unions.push(union(info, target, ty.path.clone()));
                                    }
                                } else {
                                    let of_table = record_name(target, &ty.path);
                                    if known.insert(of_table.clone()) {
                                        file.structs.extend(structure(info, target, of_table));
                                    }
                                }
                                name
                            }
                        }
                    }
                    Some(target) => text(info, Some(target.id)),
                };
                if aliases.insert((ty.path.clone(), def.clone())) {
                    file.typedefs.push(TypedefDef { def, alias: ty.path.clone() });
                }
            }
            _ => {}
        }
    }
    file
}

fn record_name(ty: &Type, path: &str) -> String {
    match ty.kind {
        Kind::Class => format!("class {path}"),
        _ => format!("struct {path}"),
    }
}

/// A structure; `None` if it has no members.
fn structure(info: Reading<'_, '_>, ty: &Type, name: String) -> Option<StructDef> {
    let members = ty.members.iter().filter_map(|member| {
        let (offset, size) = extent(info, member)?;
        let (member, name, id) = words(info, member);
        Some(MemberDef { id, member, name, offset, size: size.min(MAX_MEMBER) })
    });
    let members: Vec<MemberDef> = members.collect();
    (!members.is_empty()).then(|| StructDef { id: info.info.section_offset(ty.id), members, name })
}

fn union(info: Reading<'_, '_>, ty: &Type, name: String) -> UnionDef {
    let members = ty.members.iter().filter_map(|member| {
        let (_, size) = extent(info, member)?;
        let (member, name, id) = words(info, member);
        Some(UnionMemberDef { id, member, name, size })
    });
    UnionDef { id: info.info.section_offset(ty.id), members: members.collect(), name }
}

/// Offset and size of a member in bytes; for a bit field, those of its storage unit, if there is one.
fn extent(info: Reading<'_, '_>, member: &Member) -> Option<(i64, i64)> {
    let bits = member.bit_offset?;
    let number = |n: u64| i64::try_from(n).ok();
    let Some(size) = member.bit_size else { return Some((number(bits / 8)?, -1)) };
    if member.kind == MemberKind::BitField
        && let Some(unit) = member.ty.and_then(|ty| info.size(ty, 0)).filter(|unit| *unit > 0)
    {
        let start = bits / 8 / unit * unit;
        let end = start.checked_add(unit)?.checked_mul(8)?;
        if bits.checked_add(size)? <= end {
            return Some((number(start)?, number(unit)?));
        }
    }
    Some((number(bits / 8)?, number(member.size()?)?))
}

/// Name of a member, text of its type, and id of the type.
fn words(info: Reading<'_, '_>, member: &Member) -> (String, String, u64) {
    let text = text(info, member.ty);
    let id = member.ty.map_or(0, |ty| info.info.section_offset(ty));
    match (&member.name, &member.kind) {
        (Some(name), _) => (name.clone(), text, id),
        (None, MemberKind::Discriminant) => ("<discriminant>".to_owned(), text, id),
        (None, MemberKind::Base) => (member.text.clone(), text, id),
        (None, _) => {
            let of = member.ty.and_then(|ty| info.defined(ty).ok());
            let name =
                if of.is_some_and(|ty| ty.kind == Kind::Union) { "<anon_union>" } else { "<anon_struct>" };
            (name.to_owned(), name.to_owned(), id)
        }
    }
}

/// The text of a type in the wording of the file: aliases resolved, and `struct` before every type with members.
fn text(info: Reading<'_, '_>, id: Option<TypeId>) -> String {
    let mut sides = (String::new(), String::new());
    let mut at = id;
    // Deeper than any realistic type in C.
    for _ in 0..32 {
        let Some(ty) = at.map(|at| info.defined(at)) else { return sides.0 + "void" + &sides.1 };
        let Ok(ty) = ty else { break };
        match &ty.kind {
            Kind::Typedef(target) => at = *target,
            Kind::Pointer(target) if ty.name.is_none() => {
                sides.1.insert(0, '*');
                at = *target;
            }
            Kind::Array { element, counts } => {
                sides.1.insert_str(0, &"[]".repeat(counts.len().max(1)));
                at = *element;
            }
            Kind::Qualified("const", target) => {
                sides.0.push_str("const ");
                at = *target;
            }
            Kind::Qualified(word, target) => {
                sides.0.push_str(word);
                sides.0.push(' ');
                at = *target;
            }
            Kind::Struct | Kind::Union | Kind::Variants if ty.name.is_none() => {
                return sides.0 + "struct <anon>" + &sides.1;
            }
            Kind::Struct | Kind::Union | Kind::Variants => {
                return format!("{}struct {}{}", sides.0, ty.path, sides.1);
            }
            Kind::Class => return format!("{}class {}{}", sides.0, ty.path, sides.1),
            Kind::Enum(_) => return format!("{}enum {}{}", sides.0, ty.path, sides.1),
            Kind::Base(_) => return format!("{}{}{}", sides.0, ty.path, sides.1),
            _ => return format!("{}{}{}", sides.0, info.text(ty.id), sides.1),
        }
    }
    "<unsupported type>".to_owned()
}
