//! `funclist.log`: the names of traced functions (docs/formats/drmemtrace.md, section *Auxiliary files*).

use quipu_model::trace::Function;
use quipu_model::{Error, Result};
use quipu_source::Source;
use rustc_hash::FxHashMap;

/// A function list is read up to this length.
const MAX_BYTES: usize = 16 << 20;

/// Reads the list; several lines with one id are aliases of one function, sorted by name.
pub fn read(source: &Source) -> Result<Vec<Function>> {
    let bytes = source.head(MAX_BYTES)?;
    parse(&String::from_utf8_lossy(&bytes)).map_err(|error| error.in_file(source.name()))
}

/// Parses lines `id,argc,0xaddr,[noret,]lib!name`.
pub fn parse(text: &str) -> Result<Vec<Function>> {
    let mut functions: Vec<Function> = Vec::new();
    let mut positions = FxHashMap::default();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |what: &str| Error::malformed(format!("line {}: {what} in `{line}`", number + 1));
        let mut fields = line.splitn(3, ',');
        let id = fields.next().and_then(|field| field.parse().ok()).ok_or_else(|| wrong("no function id"))?;
        let n_args =
            fields.next().and_then(|field| field.parse().ok()).ok_or_else(|| wrong("no argument count"))?;
        let (_, rest) =
            fields.next().and_then(|rest| rest.split_once(',')).ok_or_else(|| wrong("no name"))?;
        // A C++ name may contain commas, so only known flags are removed from its front.
        let (noret, name) = match rest.strip_prefix("noret,") {
            Some(name) => (true, name),
            None => (false, rest),
        };
        match positions.get(&id).and_then(|position: &usize| functions.get_mut(*position)) {
            Some(known) => {
                known.names.push(name.to_owned());
                known.names.sort();
                known.names.dedup();
                known.noret |= noret;
            }
            None => {
                positions.insert(id, functions.len());
                functions.push(Function { id, workload: 0, names: vec![name.to_owned()], n_args, noret });
            }
        }
    }
    Ok(functions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_share_an_id_and_flags_come_before_the_name() {
        let text = "0,1,0x1000,app!fib\n1,2,0x2000,noret,libc.so.6!exit\n0,1,0x1000,app!alias\n";
        let functions = parse(text).unwrap();
        assert_eq!(functions.len(), 2);
        assert_eq!(functions[0].names, ["app!alias", "app!fib"]);
        assert_eq!((functions[1].noret, functions[1].names[0].as_str()), (true, "libc.so.6!exit"));
    }

    /// `malloc` is listed twice if the heap's functions are recorded in addition to named ones.
    #[test]
    fn a_name_that_is_listed_twice_is_one_alias() {
        let functions = parse("1,1,0x10,lib!f\n1,1,0x10,lib!f\n").unwrap();
        assert_eq!((functions.len(), &functions[0].names[..]), (1, &["lib!f".to_owned()][..]));
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = parse("0,1,0x1000,a!b\nnonsense\n").unwrap_err();
        assert_eq!(error.message(), "line 2: no function id in `nonsense`");
    }
}
