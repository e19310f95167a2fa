//! `modules.log`: the list of modules that the blocks of instructions belong to.

use quipu_model::{Module, Placed};
use std::path::PathBuf;

/// Fields of a row before the custom field or the path.
const FIELDS: usize = 6;

/// A row of the list: a module, or a further part of the preceding one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// Position of the row for the part with the lowest address.
    pub(crate) containing: usize,
    /// Address range of the part.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) path: String,
    /// Build id of the file, which only Quipu's recorder states.
    pub(crate) build_id: Option<Vec<u8>>,
}

/// Begins a line after the rows: position of a row, and the build id of its file in hexadecimal digits. Other readers end after
/// the last row.
const BUILD_ID: &str = "build-id";

/// The rows of a module list, by position.
///
/// A row has a position, five more fields, an optional custom field that states its own length in bytes, and the path. The
/// bytes of the custom field are arbitrary and may contain line ends.
pub(crate) fn parse(bytes: &[u8]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or(rest);
        let number = line.split(|byte| *byte == b',').next().unwrap_or(line);
        let is_row = !number.trim_ascii().is_empty() && number.trim_ascii().iter().all(u8::is_ascii_digit);
        let commas = line.iter().enumerate().filter(|(_, byte)| **byte == b',').map(|(at, _)| at);
        let end_of_fields = commas.clone().nth(FIELDS - 1);
        let (true, Some(end)) = (is_row, end_of_fields) else {
            rest = rest.get(line.len() + 1..).unwrap_or(&[]);
            continue;
        };
        let path_at = custom_end(rest, end + 1).unwrap_or(end + 1);
        let tail = rest.get(path_at..).unwrap_or(&[]);
        let path = tail.split(|byte| *byte == b'\n').next().unwrap_or(tail);
        let mut fields = line.split(|byte| *byte == b',').map(number_of);
        let containing = fields.nth(1).flatten().and_then(|number| usize::try_from(number).ok());
        rows.push(Row {
            containing: containing.unwrap_or(rows.len()),
            start: fields.next().flatten().unwrap_or(0),
            end: fields.next().flatten().unwrap_or(0),
            path: String::from_utf8_lossy(path.trim_ascii()).into_owned(),
            build_id: None,
        });
        rest = tail.get(path.len() + 1..).unwrap_or(&[]);
    }
    for (row, id) in bytes.split(|byte| *byte == b'\n').filter_map(build_id) {
        if let Some(row) = rows.get_mut(row) {
            row.build_id = Some(id);
        }
    }
    rows
}

/// Position of a row and build id of its file, if this line states them.
fn build_id(line: &[u8]) -> Option<(usize, Vec<u8>)> {
    let mut words = std::str::from_utf8(line).ok()?.strip_prefix(BUILD_ID)?.split_ascii_whitespace();
    let row = words.next()?.parse().ok()?;
    let digits = words.next()?.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    Some((row, digits.chunks(2).map(byte).collect::<Option<_>>()?))
}

/// The mapped modules that the rows describe.
pub(crate) fn modules(rows: &[Row]) -> Vec<Module> {
    let module = |row: &Row| Module {
        addresses: row.start..row.end,
        placed: Placed::From(rows.get(row.containing).unwrap_or(row).start),
        path: PathBuf::from(&row.path),
        build_id: rows.get(row.containing).unwrap_or(row).build_id.clone(),
    };
    rows.iter().filter(|row| row.start < row.end).map(module).collect()
}

/// Parses a number in decimal, or in hexadecimal with `0x`.
fn number_of(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field.trim_ascii()).ok()?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The end of the custom field `v#1,<size>,<bytes>` that begins at `at`, if there is one.
fn custom_end(row: &[u8], at: usize) -> Option<usize> {
    let field = row.get(at..)?.trim_ascii_start();
    let start = row.len() - field.len();
    let size_and_bytes = field.strip_prefix(b"v#1,")?;
    let digits = size_and_bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let size: usize = std::str::from_utf8(&size_and_bytes[..digits]).ok()?.parse().ok()?;
    (size_and_bytes.get(digits) == Some(&b',')).then_some(())?;
    start.checked_add(b"v#1,".len() + digits + 1)?.checked_add(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_fields_may_hold_anything() {
        let list = b"Module Table: version 4, count 3\nColumns: id, containing_id, start, end, entry, offset, path\n  \
            0,   0, 0x4, 0x5, 0x4, 0, v#1,0, /bin/a\n  1, 1, 0x1, 0x2, 0x1, 0, v#1,7,x,\n,2\x00y [vdso]\n\
            2, 2, 0x1, 0x2, 0x1, 0, /lib/\x1bb\n";
        let rows = parse(list);
        assert_eq!(rows.iter().map(|row| &*row.path).collect::<Vec<_>>(), ["/bin/a", "[vdso]", "/lib/\x1bb"]);
        assert_eq!((rows[0].start, rows[0].end, rows[2].containing), (4, 5, 2));
    }

    #[test]
    fn further_parts_count_from_the_first() {
        let list = b"  0,   0, 0x400000, 0x495000, 0x400678, 0, v#1,0, /bin/a\n  1,   0, 0x4a4000, 0x4ae000, 0, 94e80, v#1,0, /bin/a\n";
        let modules = modules(&parse(list));
        let placed = Placed::From(0x400000);
        assert!(modules.iter().all(|module| module.placed == placed && module.path.ends_with("bin/a")));
        assert_eq!(modules[1].addresses, 0x4a4000..0x4ae000);
    }

    #[test]
    fn build_ids_follow_the_rows() {
        let list = b"  0,   0, 0x400000, 0x495000, 0x0, 0, v#1,0, /bin/a\n  1,   1, 0x1, 0x2, 0x0, 0, v#1,0, /b\nbuild-id 1 0aff\nbuild-id 7 00\nbuild-id 0 x\n";
        let ids: Vec<Option<Vec<u8>>> =
            modules(&parse(list)).into_iter().map(|module| module.build_id).collect();
        assert_eq!(ids, [None, Some(vec![0x0a, 0xff])]);
    }

    #[test]
    fn lists_that_are_none_have_no_modules() {
        for list in [&b""[..], b"\n\n", b"1,2", b",,,,,,,,", b"1,1,1,1,1,1,v#1,99999999999999999999,x"] {
            assert!(parse(list).len() <= 1);
        }
    }
}
