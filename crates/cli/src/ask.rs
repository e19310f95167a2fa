//! SQL queries on traces: one on the command line, or several in a shell.

use crate::verbs::sql::Options;
use quipu::model::fresh::Fresh;
use quipu::model::{Error, ErrorKind, Finding, Tool, Trace};
use quipu_console::screen::{Outcome, Result, Screen, Stop};
use quipu_console::session::{self, Verdict};
use quipu_console::{Common, terminal};
use quipu_query::sql::{Answer, FUNCTIONS, Looks, Losses, Session, Settings};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Editor, Helper, Highlighter, Hinter};
use std::io::{BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

fn tools(format: &str) -> Vec<&'static dyn Tool> {
    quipu::tools_of(format).collect()
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let (question, paths) = options.divided();
    if paths.is_empty() {
        return Err(Error::usage("no trace is named").hint("quipu sql \"SELECT …\" TRACE").into());
    }
    let mut traces: Vec<(String, Arc<dyn Trace>)> = Vec::new();
    for (alias, path) in &paths {
        let opening = options.opening.options();
        let source = quipu_console::input::source(path)?;
        // A query may read the trace more than once.
        let recognised = quipu::recognise(&source, &opening)?.spooled()?;
        traces.push((alias.clone(), Arc::from(options.between.of(recognised.open(&opening)?)?)));
    }
    let memory_bytes = usize::try_from(options.memory).unwrap_or(usize::MAX);
    let threads = common.threads.map_or(0, usize::from);
    let binaries = options.binaries()?;
    let settings = Settings { memory_bytes, memory_option: "--memory", threads, tools, binaries };
    let session = Session::new(traces.clone(), settings)?;
    let asked = Asked { session, traces, options, common, screen };
    match question {
        Some(question) => asked.once(question),
        None if std::io::stdin().is_terminal() => asked.shell(),
        None => asked.script(),
    }
}

/// Open traces, and how to query them.
struct Asked<'a> {
    session: Session,
    traces: Vec<(String, Arc<dyn Trace>)>,
    options: &'a Options,
    common: &'a Common,
    screen: &'a Screen,
}

impl Asked<'_> {
    fn looks(&self) -> Result<Looks> {
        let ending =
            self.options.output.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
        let looks = match (self.options.form.as_deref(), ending) {
            (Some("csv"), _) | (None, Some("csv")) => Looks::Csv,
            (Some("json"), _) | (None, Some("jsonl" | "json")) => Looks::Json,
            (Some("arrow"), _) | (None, Some("arrows" | "arrow")) => Looks::Arrow,
            (Some("parquet"), _) | (None, Some("parquet")) => Looks::Parquet,
            _ => Looks::Table,
        };
        let is_terminal = self.options.output.is_none() && std::io::stdout().is_terminal();
        if is_terminal && matches!(looks, Looks::Arrow | Looks::Parquet) {
            return Err(Error::usage("such an answer is not for a terminal")
                .hint("name a file with --output")
                .into());
        }
        Ok(looks)
    }

    /// Runs one query.
    fn once(&self, question: &str) -> Result<Outcome> {
        let looks = self.looks()?;
        let started = Instant::now();
        let (losses, n_rows) = match &self.options.output {
            Some(path) => {
                let (fresh, file) = Fresh::file(path, self.options.force.into())?;
                let answered = self.answer(question, looks, BufWriter::new(file))?;
                fresh.commit()?;
                answered
            }
            None => {
                let mut out = quipu_console::rewrite::Answer::new(terminal::stdout());
                let answered = self.answer_to(question, looks, &mut out);
                out.judge(answered)?
            }
        };
        if self.common.verbose {
            let rows = quipu::model::number::counted(n_rows, "row");
            self.screen.say(format_args!("{rows} in {:.3} s", started.elapsed().as_secs_f64()));
        }
        self.tell(losses)
    }

    fn answer(&self, question: &str, looks: Looks, out: impl Write + Send) -> Result<(Losses, u64)> {
        Ok(self.answer_to(question, looks, out)?)
    }

    fn answer_to(
        &self,
        question: &str,
        looks: Looks,
        out: impl Write + Send,
    ) -> quipu::model::Result<(Losses, u64)> {
        let mut answer = Answer::new(looks, out);
        let losses = session::watched(self.screen, |watch| {
            let mut told = quipu::engine::Progress::default();
            let mut goes_on = |now: quipu::engine::Progress| {
                watch.expect(now.total_packed_bytes);
                watch.advance(
                    now.records.saturating_sub(told.records),
                    now.packed_bytes.saturating_sub(told.packed_bytes),
                );
                told = now;
                !watch.is_cancelled()
            };
            self.session.ask(question, &mut goes_on, &mut |schema, batch| answer.take(schema, batch))
        })?;
        let n_rows = answer.n_rows();
        drop(answer.finish()?);
        Ok((losses, n_rows))
    }

    /// Reports what was found wrong with the traces.
    fn tell(&self, losses: Losses) -> Result<Outcome> {
        let Some((_, first)) = self.traces.first() else { return Ok(Outcome::Fine) };
        let Losses { mut found, error, is_doubtful, learned } = losses;
        // Findings from opening the other traces are included.
        for (_, other) in self.traces.iter().skip(1) {
            let new = Finding::not_met(&other.meta().findings, found.as_slice());
            new.into_iter().for_each(|finding| found.push(finding));
        }
        let verdict = Verdict::new(&**first, found, error, false).meaning("the answer is about the rest");
        verdict.say_lost(self.screen);
        if let Some(first) = learned.first() {
            let n_more = learned.len() - 1;
            let more = if n_more == 0 { String::new() } else { format!(" and {n_more} more") };
            self.screen.say(format_args!("reading has taught tables: {first}{more}; .tables lists them"));
        }
        for path in self.session.missing_files() {
            self.screen.say_error(format_args!(
                "there is no file {}: addresses in it have neither functions nor lines; --binary FILE@BASE names another",
                path.display()
            ));
        }
        if is_doubtful {
            self.screen.say_error(format_args!(
                "rows of the answer have proved damaged: asked again, the question is answered without them"
            ));
        }
        let outcome = verdict.tell(self.screen);
        Ok(if is_doubtful { outcome.and(Outcome::Flawed) } else { outcome })
    }

    /// Runs the queries read from standard input.
    fn script(&self) -> Result<Outcome> {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(|cause| Error::new(ErrorKind::Io, format!("cannot read the questions: {cause}")))?;
        let mut outcome = Outcome::Fine;
        for question in questions(&text) {
            outcome = outcome.and(self.one(&question)?);
        }
        Ok(outcome)
    }

    /// Runs a query or a command of the shell.
    fn one(&self, line: &str) -> Result<Outcome> {
        let mut words = line.split_whitespace();
        match words.next() {
            Some(".tables") => {
                let mut text = String::new();
                for (name, schema) in self.session.tables()? {
                    text.push_str(&format!("{name:<24} {}\n", schema.doc));
                }
                self.screen.text(&text)?;
                Ok(Outcome::Fine)
            }
            Some(".functions") => {
                let mut text = String::new();
                for (name, about) in FUNCTIONS {
                    text.push_str(&format!("{name:<32} {about}\n"));
                }
                for (name, schema) in self.session.functions() {
                    text.push_str(&format!("{:<32} {}\n", format!("{name}(…)"), schema.doc));
                }
                self.screen.text(&text)?;
                Ok(Outcome::Fine)
            }
            Some(".schema") => {
                let wanted = words.next();
                let mut text = String::new();
                let tables =
                    self.session.tables()?.into_iter().chain(self.session.functions().iter().cloned());
                for (name, schema) in tables.filter(|(name, _)| wanted.is_none_or(|wanted| wanted == name)) {
                    text.push_str(&format!("{name}: {}\n", schema.doc));
                    for field in &schema.fields {
                        let unit =
                            field.unit.0.as_deref().map(|unit| format!(" [{unit}]")).unwrap_or_default();
                        text.push_str(&format!("  {:<24} {}{unit}\n", field.name, field.doc));
                    }
                }
                if text.is_empty() {
                    return Err(
                        Error::usage(format!("there is no table `{}`", wanted.unwrap_or_default())).into()
                    );
                }
                self.screen.text(&text)?;
                Ok(Outcome::Fine)
            }
            Some(".help") => {
                self.screen.text(HELP)?;
                Ok(Outcome::Fine)
            }
            Some(word) if word.starts_with('.') => Err(Error::usage(format!("there is no command `{word}`"))
                .hint("commands: .tables .schema .functions .timing .help .quit")
                .into()),
            Some(_) => self.once(line),
            None => Ok(Outcome::Fine),
        }
    }

    /// Prompts for queries until there are no more.
    fn shell(&self) -> Result<Outcome> {
        let cannot = |cause: ReadlineError| Error::new(ErrorKind::Io, format!("the terminal: {cause}"));
        let mut editor: Editor<Words, FileHistory> = Editor::new().map_err(cannot)?;
        editor.set_helper(Some(Words(self.words()?)));
        let history = history_file();
        if let Some(path) = &history {
            // There is no history before the first query.
            drop(editor.load_history(path));
        }
        self.screen.say(format_args!("a question ends with `;`; .help says more, .quit ends"));
        let mut has_timing = false;
        loop {
            let line = match editor.readline("quipu> ") {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => break,
                Err(cause) => return Err(cannot(cause).into()),
            };
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            drop(editor.add_history_entry(line));
            match line {
                ".quit" | ".exit" => break,
                ".timing" => {
                    has_timing = !has_timing;
                    self.screen.say(format_args!("timing is {}", if has_timing { "on" } else { "off" }));
                    continue;
                }
                _ => {}
            }
            let started = Instant::now();
            match self.one(line.trim_end_matches(';')) {
                Ok(_) => {}
                Err(Stop::Fault(error) | Stop::Damage(error, _)) => self.screen.complain(&error),
                Err(Stop::ClosedPipe) => break,
            }
            if has_timing {
                self.screen.say(format_args!("{:.3} s", started.elapsed().as_secs_f64()));
            }
        }
        if let Some(path) = &history {
            drop(path.parent().map(std::fs::create_dir_all));
            drop(editor.save_history(path));
        }
        Ok(Outcome::Fine)
    }

    /// Names for completion.
    fn words(&self) -> Result<Vec<String>> {
        let mut words: Vec<String> = KEYWORDS.iter().map(|word| (*word).to_owned()).collect();
        let tables = self.session.tables()?;
        for (name, schema) in tables.iter().chain(self.session.functions()) {
            words.push(name.clone());
            words.extend(schema.fields.iter().map(|field| field.name.to_string()));
        }
        words.sort();
        words.dedup();
        Ok(words)
    }
}

const HELP: &str = "\
.tables          the tables, with what their rows are
.schema [TABLE]  columns, with what they mean
.functions       functions, and analyses as table functions
.timing          whether each answer says how long it took
.quit            ends, as Ctrl-D does

A question may have several lines and ends with `;`. Tab completes names; Ctrl-C ends an answer.
";

const KEYWORDS: [&str; 24] = [
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "HAVING", "JOIN", "USING", "ON", "AS", "AND",
    "OR", "NOT", "BETWEEN", "IN", "IS NULL", "DESC", "DISTINCT", "WITH", "EXPLAIN", "CASE", "WHEN",
    "count(*)",
];

/// Splits a text into queries and commands.
fn questions(text: &str) -> Vec<String> {
    let (mut all, mut one) = (Vec::new(), String::new());
    for line in text.lines() {
        if one.trim().is_empty() && line.trim_start().starts_with('.') {
            all.push(line.trim().to_owned());
            continue;
        }
        one.push_str(line);
        one.push('\n');
        if line.trim_end().ends_with(';') {
            all.push(std::mem::take(&mut one).trim().trim_end_matches(';').to_owned());
        }
    }
    all.extend(Some(one.trim().to_owned()).filter(|rest| !rest.is_empty()));
    all
}

fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    Some(state.or_else(home)?.join("quipu/sql_history"))
}

/// Completes names, and detects the end of a query.
#[derive(Helper, Highlighter, Hinter)]
struct Words(Vec<String>);

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = line.get(..at).unwrap_or_default();
        let start =
            before.rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).map_or(0, |at| at + 1);
        let begun = before.get(start..).unwrap_or_default().to_lowercase();
        let fits = |word: &&String| !begun.is_empty() && word.to_lowercase().starts_with(&begun);
        Ok((start, self.0.iter().filter(fits).cloned().collect()))
    }
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input().trim();
        let is_over = text.is_empty() || text.starts_with('.') || text.ends_with(';');
        Ok(if is_over { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_end_with_a_semicolon_and_commands_with_their_line() {
        let text = ".tables\nSELECT 1\n  FROM x;\nSELECT 2";
        assert_eq!(questions(text), [".tables", "SELECT 1\n  FROM x", "SELECT 2"]);
    }
}
