//! `quipu sql`: SQL queries on traces.

use quipu_console::input::Opening;
use quipu_console::number;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::{BetweenMarks, Common};
use std::path::PathBuf;

/// Answer a question in SQL, straight off the trace, or ask for questions
///
/// Every native table and every lens of a trace is a table, every analysis a table function with its options. Several traces are
/// named: `b=PATH` has its tables as `b.memrefs`; those of the first need no name. Conditions on positions, the clock and
/// threads choose what is read at all; EXPLAIN shows it. Without a question, one is asked for, or read from standard input if
/// that is no terminal. The engine is no part of the usual build: `./dev quipu-sql` builds the program with it.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// A question, which begins with SELECT, WITH, EXPLAIN, SHOW or DESCRIBE, and traces, each as PATH or NAME=PATH
    #[arg(value_name = "QUESTION|TRACE", required = true)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) opening: Opening,
    #[command(flatten)]
    pub(crate) between: BetweenMarks,
    /// A program or library for symbol(pc) and source(pc), where the trace knows none; BASE is what was added to its addresses.
    /// Given any number of times
    #[arg(long, value_name = "FILE[@BASE]")]
    pub(crate) binary: Vec<PathBuf>,
    /// How answers look; a table if not said, or what the name of the output says
    #[arg(long = "as", value_name = "FORM", value_parser = FORMS)]
    pub(crate) form: Option<String>,
    /// Most memory that groups, sorts and joins take; what is more goes to temporary files
    #[arg(long, value_name = "BYTES", default_value = "1Gi", value_parser = number::bytes)]
    pub(crate) memory: u64,
    /// Write the answer to this file: .csv, .jsonl, .arrows or .parquet
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Replace a file
    #[arg(long)]
    pub(crate) force: bool,
}

/// Output forms of results.
const FORMS: [&str; 5] = ["table", "csv", "json", "arrow", "parquet"];

const AFTER_HELP: &str = "\
Functions: line(addr [, bytes]), page(addr [, bytes]), hex(x), disasm(code [, pc]), symbol(pc), source(pc), and those of DataFusion.

Examples:
  quipu sql \"SELECT kind, count(*) FROM accesses GROUP BY kind\" trace.zip
  quipu sql \"SELECT line(addr) AS line, sum(size) FROM accesses GROUP BY 1 ORDER BY 2 DESC LIMIT 10\" trace.dir
  quipu sql \"SELECT * FROM memrefs WHERE record BETWEEN 1000 AND 1100\" trace.zip
  quipu sql \"SELECT * FROM hot_lines(t, top => 20)\" t=trace.dir
  quipu sql \"SELECT a.name, a.calls, b.calls FROM a.syscalls a JOIN b.syscalls b USING (number)\" a=old.dir b=new.dir
  quipu sql \"SELECT symbol(pc), count(*) FROM misses(t, 'L1D') GROUP BY 1\" t=trace.dir
  quipu sql --as csv \"SELECT tid, count(*) FROM instrs GROUP BY tid\" trace.dir >threads.csv
  quipu sql trace.dir

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the answer was interrupted
  2  could not do it";

/// First words of queries.
const BEGINNINGS: [&str; 9] =
    ["select", "with", "explain", "show", "describe", "values", "table", "set", "("];

impl Options {
    /// The query, if there is one, and the traces with their names.
    pub(crate) fn divided(&self) -> (Option<&str>, Vec<(String, PathBuf)>) {
        let is_question = |word: &str| {
            let first = word.trim_start().split(char::is_whitespace).next().unwrap_or_default();
            let is_one = BEGINNINGS.iter().any(|known| first.eq_ignore_ascii_case(known));
            (is_one && word.trim().contains(char::is_whitespace)) || word.trim_start().starts_with('(')
        };
        let question = self.words.first().map(String::as_str).filter(|word| is_question(word));
        let traces = self.words.iter().skip(usize::from(question.is_some())).enumerate();
        let named = traces.map(|(at, word)| match word.split_once('=') {
            Some((name, path)) if is_name(name) && !std::path::Path::new(word).exists() => {
                (name.to_owned(), PathBuf::from(path))
            }
            _ if at == 0 => ("t".to_owned(), PathBuf::from(word)),
            _ => (format!("t{}", at + 1), PathBuf::from(word)),
        });
        (question, named.collect())
    }
}

#[cfg(feature = "sql")]
impl Options {
    /// Programs and libraries named for symbols.
    ///
    /// # Errors
    /// `Usage` for a base that is not a number; `Io` for a missing file.
    pub(crate) fn binaries(&self) -> Result<Vec<quipu_query::sql::Binary>> {
        let binary = |named: &PathBuf| {
            let text = named.to_string_lossy();
            // A file name may contain `@`.
            let (path, base) = match text.rsplit_once('@') {
                Some((path, base)) if !named.exists() => {
                    let base = quipu::model::number::count(base).map_err(|_| {
                        quipu::model::Error::usage(format!("option `binary`: `{base}` is no number"))
                    })?;
                    (PathBuf::from(path), base)
                }
                _ => (named.clone(), 0),
            };
            if !path.is_file() {
                let error = quipu::model::Error::new(quipu::model::ErrorKind::Io, "there is no such file");
                return Err(error.in_file(path.display().to_string()).into());
            }
            if quipu::symbols::functions::loaded(&path).is_none() {
                let error = quipu::model::Error::usage("option `binary`: this is no program or library");
                return Err(error.in_file(path.display().to_string()).into());
            }
            Ok(quipu_query::sql::Binary { path, base })
        };
        self.binary.iter().map(binary).collect()
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(feature = "sql")]
pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    crate::ask::run(options, common, screen)
}

#[cfg(not(feature = "sql"))]
pub(crate) fn run(options: &Options, _: &Common, _: &Screen) -> Result<Outcome> {
    let (_, traces) = options.divided();
    // An error in opening a trace is reported first.
    for (_, path) in &traces {
        options.opening.open(path)?;
    }
    let _ = (
        options.between.is_part(),
        &options.form,
        options.memory,
        &options.output,
        options.force,
        &options.binary,
    );
    Err(quipu::model::Error::unsupported("this program was built without its engine for SQL")
        .hint("`./dev quipu-sql` builds one with it, in some minutes; it is the feature `sql` of quipu-cli")
        .into())
}
