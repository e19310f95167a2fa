//! Names of well-known GUIDs, which traces store as structures of type `GUID`.

use quipu_model::values::{Kind, Type, Types, Values};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// Names of known GUIDs, by their digits.
static NAMES: LazyLock<FxHashMap<&'static str, &'static str>> = LazyLock::new(|| {
    let mut names = FxHashMap::default();
    for line in include_str!("../../data/guids.tsv").lines().filter(|line| !line.starts_with('#')) {
        if let Some((digits, name)) = line.split_once('\t') {
            names.entry(digits).or_insert(name);
        }
    }
    names
});

/// The four parts of a GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guid {
    data: (u32, u16, u16),
    last: [u8; 8],
}

/// The GUID at `index`; `None` if the value there is not a GUID.
pub fn of(values: &Values, types: &Types, index: u32) -> Option<Guid> {
    let node = values.node(index);
    let Type::Struct(structure) = types.get(node.ty)? else { return None };
    if structure.name != b"GUID" || structure.members.len() != 4 {
        return None;
    }
    let number = |at: u32| {
        let node = values.node(at);
        (node.kind == Kind::Unsigned).then_some(node.payload)
    };
    let part = |at: u32| number(index.checked_add(at)?);
    let data = (u32::try_from(part(1)?).ok()?, u16::try_from(part(2)?).ok()?, u16::try_from(part(3)?).ok()?);
    let list = values.node(index.checked_add(4)?);
    if list.kind != Kind::Array || list.halves().0 != 8 {
        return None;
    }
    let mut last = [0; 8];
    for (i, byte) in (5..).zip(&mut last) {
        *byte = u8::try_from(part(i)?).ok()?;
    }
    Some(Guid { data, last })
}

impl Guid {
    /// Its name if known, else its digits as `uuid(…)`.
    pub fn text(&self) -> String {
        let ((a, b, c), [d0, d1, last @ ..]) = (self.data, self.last);
        let last: String = last.iter().map(|byte| format!("{byte:02x}")).collect();
        let digits = format!("{a:08x}-{b:04x}-{c:04x}-{d0:02x}{d1:02x}-{last}");
        match NAMES.get(digits.as_str()) {
            Some(name) => (*name).to_owned(),
            None => format!("uuid({digits})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_guid_has_its_name_and_others_their_digits() {
        let mut guid = Guid { data: (0, 0, 0), last: [0xc0, 0, 0, 0, 0, 0, 0, 0x46] };
        assert_eq!(guid.text(), "IID_IUnknown");
        guid.data.0 = 0x0123_4567;
        assert_eq!(guid.text(), "uuid(01234567-0000-0000-c000-000000000046)");
        assert!(NAMES.len() > 600);
    }
}
