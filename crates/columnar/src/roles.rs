//! Roles of columns in files from other programs, by their names or as the user assigns them.

use quipu_model::lens::AccessKind;
use quipu_model::schema::{Field, Role, Type};
use quipu_model::{Error, Result, Schema};
use std::sync::Arc;

/// Common names of columns and their roles. Quipu's own tables state roles, so this applies to files from other programs only.
const USUAL: [(&str, Role); 29] = [
    ("addr", Role::ADDRESS),
    ("address", Role::ADDRESS),
    ("vaddr", Role::ADDRESS),
    ("mem_addr", Role::ADDRESS),
    ("size", Role::SIZE),
    ("bytes", Role::SIZE),
    ("access_size", Role::SIZE),
    ("pc", Role::PC),
    ("ip", Role::PC),
    ("iaddr", Role::PC),
    ("kind", Role::ACCESS_KIND),
    ("type", Role::ACCESS_KIND),
    ("op", Role::ACCESS_KIND),
    ("rw", Role::ACCESS_KIND),
    ("access", Role::ACCESS_KIND),
    ("is_write", Role::ACCESS_KIND),
    ("tid", Role::THREAD),
    ("thread", Role::THREAD),
    ("thread_id", Role::THREAD),
    ("pid", Role::PROCESS),
    ("process", Role::PROCESS),
    ("process_id", Role::PROCESS),
    ("ts", Role::TIME),
    ("time", Role::TIME),
    ("timestamp", Role::TIME),
    ("cpu", Role::CPU),
    ("core", Role::CPU),
    ("record", Role::RECORD),
    ("seq", Role::RECORD),
];

/// Words for roles in options.
const WORDS: [(&str, Role); 9] = [
    ("address", Role::ADDRESS),
    ("size", Role::SIZE),
    ("pc", Role::PC),
    ("access-kind", Role::ACCESS_KIND),
    ("thread", Role::THREAD),
    ("process", Role::PROCESS),
    ("time", Role::TIME),
    ("cpu", Role::CPU),
    ("record", Role::RECORD),
];

/// True if values of a type can have this role.
fn fits(ty: &Type, role: Role) -> bool {
    let is_whole = matches!(
        ty,
        Type::U8
            | Type::U16
            | Type::U32
            | Type::U64
            | Type::I8
            | Type::I16
            | Type::I32
            | Type::I64
            | Type::Address
            | Type::Time { .. }
    );
    match role {
        Role::ACCESS_KIND => is_whole || matches!(ty, Type::Text | Type::Enum(_) | Type::Bool),
        _ => is_whole,
    }
}

/// Adds roles to a schema: those that the user assigns, which replace others, and, if no column states a role, those of usual
/// names.
///
/// # Errors
/// `Usage` for a column or role that does not exist, or a column whose type does not fit the role.
pub(crate) fn with_roles<'o>(
    schema: &Arc<Schema>,
    given: impl Iterator<Item = &'o str>,
) -> Result<Arc<Schema>> {
    let mut fields = schema.fields.clone();
    let mut taken: Vec<Role> = Vec::new();
    for text in given {
        let Some((column, word)) = text.split_once('=') else {
            return Err(Error::usage(format!("`{text}` is no column with its role"))
                .hint("write COLUMN=ROLE, as ip=pc"));
        };
        let at = schema.column_named(column)?;
        let Some((_, role)) = WORDS.iter().find(|(known, _)| *known == word) else {
            let known: Vec<&str> = WORDS.iter().map(|(known, _)| *known).collect();
            let error = Error::usage(format!("there is no role `{word}`"));
            return Err(error.hint(format!("roles: {}", known.join(", "))));
        };
        if !fits(&fields[at].ty, *role) {
            return Err(Error::usage(format!("values of column `{column}` cannot be for `{word}`")));
        }
        fields.iter_mut().filter(|field| field.role == Some(*role)).for_each(|field| field.role = None);
        fields[at].role = Some(*role);
        taken.push(*role);
    }
    let is_own = schema.fields.iter().any(|field| field.role.is_some());
    if !is_own {
        for (name, role) in USUAL {
            let is_called =
                |field: &&mut Field| field.role.is_none() && field.name.eq_ignore_ascii_case(name);
            if let Some(field) = fields.iter_mut().find(is_called).filter(|field| fits(&field.ty, role))
                && !taken.contains(&role)
            {
                field.role = Some(role);
                taken.push(role);
            }
        }
    }
    Ok(Arc::new(Schema { fields, ..(**schema).clone() }))
}

/// The kind of access that a word names; `None` if the record is not an access.
pub(crate) fn access_word(word: &str) -> Option<AccessKind> {
    if let Some(kind) = AccessKind::ALL.iter().find(|kind| kind.name().eq_ignore_ascii_case(word)) {
        return Some(*kind);
    }
    let word = word.to_ascii_lowercase();
    let is_of = |words: &[&str]| words.contains(&&*word);
    let of_instrs = word.contains("instr") || word.contains("inst");
    if is_of(&["r", "l", "rd", "ld", "load", "loads"]) || word.starts_with("read") || word.starts_with("load")
    {
        Some(AccessKind::Read)
    } else if is_of(&["w", "s", "wr", "st"]) || word.starts_with("write") || word.starts_with("store") {
        Some(AccessKind::Write)
    } else if word.contains("flush") {
        Some(if of_instrs { AccessKind::FlushInstr } else { AccessKind::FlushData })
    } else if word.contains("prefetch") {
        Some(if of_instrs { AccessKind::PrefetchInstr } else { AccessKind::Prefetch })
    } else if is_of(&["i", "x", "ifetch", "exec", "instr", "instruction"]) {
        Some(AccessKind::Fetch)
    } else {
        None
    }
}
