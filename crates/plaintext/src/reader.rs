//! One sequential read: lines in, batches out.

use crate::din::{Din, ExtendedDin};
use crate::feed::{Feed, MAX_LINE_BYTES, Next};
use crate::lackey::{Lackey, counted_instrs};
use crate::language::{Language, Means};
use crate::line::{Fault, Grammar, Line, has_zeros};
use crate::rules;
use crate::table::{self, Row};
use quipu_model::batch::{Span, oversized};
use quipu_model::lens::{AccessKind, MAX_ACCESS_BYTES, ThreadEvent};
use quipu_model::schema::Text;
use quipu_model::{
    Amount, Batch, Columns, Error, ErrorKind, Finding, Loss, Place, Reader, Result, RuleInfo, Scan, Severity,
    ShardId, Window,
};
use quipu_source::Container;

/// So many violations of each rule are told one by one; further ones are counted.
const TOLD_PER_RULE: u64 = 100;
/// Kinds of records of any of the formats, and room for more: a power of two.
const N_KINDS: usize = 8;
/// So much of a line is shown.
const SHOWN_BYTES: usize = 40;

/// What lines a file has, and how they are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    pub(crate) language: &'static Language,
    /// How the lines read.
    pub(crate) lines: Lines,
    /// Bytes of the aligned word that a line without a size is taken for.
    pub(crate) word_bytes: u32,
    /// The process; 0 if nothing says.
    pub(crate) process: u64,
}

/// How lines read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    Lackey,
    Din,
    ExtendedDin,
}

/// Lines that are no records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Messages.
    pub messages: u64,
    /// Lines that are nothing that is known.
    pub bad: u64,
}

/// A read of records.
#[derive(Debug)]
pub struct RecordReader {
    dialect: Dialect,
    container: Container,
    file: String,
    feed: Feed,
    batch: Batch,
    columns: Columns,
    batch_records: usize,
    window: Window,
    /// Records that may still be delivered.
    n_left: u64,
    /// Batches end before instructions with multiples of this as ordinals.
    cut_instrs: Option<u64>,
    /// Records and instructions delivered or passed over, and lines.
    n_records: u64,
    n_instrs: u64,
    n_lines: u64,
    pc: u64,
    /// The records of the batch in the making, and the offset of the first.
    staged: Vec<Row>,
    first_offset: u64,
    pcs: Vec<u64>,
    is_started: bool,
    is_begun: bool,
    is_over: bool,
    others: Others,
    /// Whether messages are told of, which no lens shows.
    counts_messages: bool,
    /// The first process that a message names, and whether another one was told.
    process: Option<u64>,
    has_processes: bool,
    findings: Vec<Finding>,
    /// Violations of each rule, with the one that stands for those that are not told one by one.
    told: Vec<(Text, u64, Option<Finding>)>,
    /// Some record of the batch in the making is too large for an access.
    has_oversized: bool,
    fault: Option<Error>,
}

/// Why no more records were staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Staged {
    /// There are as many as wanted.
    Full,
    /// The next record is the instruction to stop before.
    Stop,
    /// The data ends.
    End,
}

impl RecordReader {
    /// Begins to read.
    ///
    /// # Errors
    /// `Unsupported` for windows of time; what the source says.
    pub(crate) fn new(container: &Container, dialect: Dialect, scan: &Scan) -> Result<RecordReader> {
        let format = dialect.language.info.name;
        let is_empty = match &scan.window {
            Window::All => false,
            Window::Records(range) | Window::Instrs(range) => range.is_empty(),
            Window::Clock(_) => {
                return Err(Error::unsupported(format!("traces of format {format} have no clock")));
            }
        };
        let tables = scan.tables.iter().filter(|table| **table == 0).map(|_| (dialect.language.table)());
        Ok(RecordReader {
            dialect,
            container: container.clone(),
            file: container.name().to_owned(),
            feed: Feed::new(container, &scan.stream())?,
            batch: Batch { tables: tables.collect(), ..Batch::default() },
            columns: scan.columns,
            batch_records: scan.batch_records.max(1) as usize,
            window: scan.window.clone(),
            n_left: scan.most,
            cut_instrs: scan.cut.instrs.map(Into::into),
            n_records: 0,
            n_instrs: 0,
            n_lines: 0,
            pc: 0,
            staged: Vec::new(),
            first_offset: 0,
            pcs: Vec::new(),
            is_started: false,
            is_begun: false,
            is_over: is_empty || scan.most == 0,
            others: Others::default(),
            counts_messages: scan.beyond && dialect.lines == Lines::Lackey,
            process: None,
            has_processes: false,
            findings: Vec::new(),
            told: Vec::new(),
            has_oversized: false,
            fault: None,
        })
    }

    /// Lines so far that are no records.
    pub fn others(&self) -> Others {
        self.others
    }

    /// Goes to the first record that is wanted.
    fn begin<G: Grammar>(&mut self) -> Result<()> {
        self.is_begun = true;
        loop {
            let (n_wanted, stop) = match &self.window {
                Window::Records(range) => (range.start.saturating_sub(self.n_records), None),
                Window::Instrs(range) if range.start > 0 => (u64::MAX, Some(range.start)),
                _ => (0, None),
            };
            if n_wanted == 0 {
                return Ok(());
            }
            let staged = self.stage::<G>(n_wanted, stop)?;
            let instr = self.instr();
            if let Some(row) = self.staged.iter().rfind(|row| row.record.kind == instr) {
                self.pc = row.record.addr;
            }
            self.n_records += self.staged.len() as u64;
            self.staged.clear();
            self.batch.block.clear();
            self.batch.raw = 0..0;
            match staged {
                Staged::Full => {}
                Staged::Stop => return Ok(()),
                Staged::End => {
                    self.is_over = true;
                    return Ok(());
                }
            }
        }
    }

    /// The kind of records that are instructions.
    fn instr(&self) -> u8 {
        let means = self.dialect.language.means;
        means.iter().position(|means| *means == Means::Instr).map_or(u8::MAX, |kind| kind as u8) // A few.
    }

    /// The ordinal of the instruction that a batch which begins here must end before.
    fn stop(&self) -> Option<u64> {
        let end = match &self.window {
            Window::Instrs(range) => Some(range.end),
            _ => None,
        };
        // The instruction that begins the batch does not end it.
        let cut = self.cut_instrs.map(|each| (self.n_instrs / each + 1).saturating_mul(each));
        match (end, cut) {
            (Some(end), Some(cut)) => Some(end.min(cut)),
            (end, cut) => end.or(cut),
        }
    }

    /// Collects records until the batch is full or must end.
    fn collect<G: Grammar>(&mut self) -> Result<()> {
        self.batch.clear();
        let n_kept = self.batch.raw.end.min(self.batch.block.len());
        self.batch.block.drain(..n_kept);
        self.batch.raw = 0..0;
        self.staged.clear();
        if !self.is_begun {
            self.begin::<G>()?;
        }
        let n_wanted = match &self.window {
            Window::Records(range) => range.end.saturating_sub(self.n_records).min(self.n_left),
            _ => self.n_left,
        };
        let (first_instr, stop) = (self.n_instrs, self.stop());
        let n_messages = self.others.messages;
        let mut failed = None;
        if !self.is_over {
            match self.stage::<G>(n_wanted, stop) {
                Ok(Staged::End) => self.is_over = true,
                Ok(Staged::Stop) => {
                    let is_end = matches!(&self.window, Window::Instrs(range) if self.n_instrs >= range.end);
                    self.is_over |= is_end;
                }
                Ok(Staged::Full) => {}
                Err(error) => failed = Some(error),
            }
        }
        let n = self.staged.len();
        self.batch.span = Span {
            first_record: self.n_records,
            records: n as u32, // At most a batch.
            first_instr,
            instrs: (self.n_instrs - first_instr) as u32, // As above.
            process: self.dialect.process,
            offset: if n > 0 { self.first_offset } else { self.feed.offset() },
            ..Span::default()
        };
        self.fill();
        if self.counts_messages {
            self.batch.beyond.push(self.others.messages - n_messages);
        }
        self.n_records += n as u64;
        self.n_left -= n as u64;
        let is_behind = matches!(&self.window, Window::Records(range) if self.n_records >= range.end);
        self.is_over |= self.n_left == 0 || is_behind;
        if self.is_over {
            self.findings.extend(self.told.drain(..).filter_map(|(.., rest)| rest));
        }
        failed.map_or(Ok(()), Err)
    }

    /// Stages records: as many as are wanted and fit into a batch, and none from the instruction with the ordinal `stop` on.
    fn stage<G: Grammar>(&mut self, n_wanted: u64, stop: Option<u64>) -> Result<Staged> {
        let room = usize::try_from(n_wanted).unwrap_or(usize::MAX).min(self.batch_records);
        let (instr, stop) = (self.instr(), stop.unwrap_or(u64::MAX));
        loop {
            if self.stage_quickly::<G>(room, instr, stop) {
                return Ok(Staged::Stop);
            }
            if self.staged.len() >= room {
                return Ok(Staged::Full);
            }
            let offset = self.feed.offset();
            let (n_bytes, is_cut) = match self.feed.next() {
                Next::Line(n_bytes) => (n_bytes, false),
                Next::Cut => (self.feed.unused().len(), true),
                // Its bytes are not kept, so that a batch begins behind it.
                Next::Long if !self.staged.is_empty() => return Ok(Staged::Full),
                Next::Long => {
                    self.zeros(offset, MAX_LINE_BYTES);
                    self.feed.pass_line();
                    self.batch.block.clear();
                    self.n_lines += 1;
                    let n_bytes = (self.feed.offset() - offset) as usize; // It is no longer than the file.
                    self.bad_line(Fault::Long, (offset, n_bytes), String::new());
                    continue;
                }
                Next::End => return self.end(offset).map(|()| Staged::End),
            };
            let bytes = self.feed.unused().get(..n_bytes).unwrap_or(&[]);
            let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            let line = G::line(text.strip_suffix(b"\r").unwrap_or(text));
            if let Line::Record(record) = &line {
                if record.kind == instr && self.n_instrs == stop {
                    return Ok(Staged::Stop);
                }
                let row = Row { record: *record, line: self.n_lines + 1 };
                // Nothing tells whether the rest of a line has all its digits.
                if !is_cut {
                    self.n_instrs += u64::from(record.kind == instr);
                    self.keep_raw(n_bytes, true);
                    if self.staged.is_empty() {
                        self.first_offset = offset;
                    }
                    if row.record.size > MAX_ACCESS_BYTES {
                        self.oversized(&row, offset);
                    }
                    self.staged.push(row);
                }
            } else {
                self.other_line::<G>(n_bytes, is_cut, offset);
            }
            if is_cut && !self.feed.is_unread() {
                self.cut(offset, n_bytes);
            }
            self.n_lines += 1;
            self.feed.use_up(n_bytes);
        }
    }

    /// Stages records that are written as usual, as long as they follow each other; true before the one to stop at. PERF:
    /// 69 M lines/s, with nothing filled (`lackey_without_columns`).
    #[inline(always)]
    fn stage_quickly<G: Grammar>(&mut self, room: usize, instr: u8, stop: u64) -> bool {
        let bytes = self.feed.unused();
        let was_empty = self.staged.is_empty();
        let (mut at, mut n_instrs, mut line) = (0, self.n_instrs, self.n_lines);
        let mut is_stopped = false;
        while self.staged.len() < room {
            let Some((record, n_bytes)) = bytes.get(at..).and_then(G::quick) else { break };
            if record.kind == instr {
                if n_instrs == stop {
                    is_stopped = true;
                    break;
                }
                n_instrs += 1;
            }
            line += 1;
            self.staged.push(Row { record, line });
            at += n_bytes;
        }
        (self.n_instrs, self.n_lines) = (n_instrs, line);
        if at > 0 {
            if was_empty {
                self.first_offset = self.feed.offset();
            }
            self.keep_raw(at, true);
            self.feed.use_up(at);
        }
        is_stopped
    }

    /// Keeps the next bytes for callers that want them as they are. Lines that are no records stand before the record that
    /// follows them, in its batch.
    fn keep_raw(&mut self, n_bytes: usize, is_record: bool) {
        if !self.columns.has(Columns::RAW) {
            return;
        }
        let bytes = self.feed.unused();
        self.batch.block.extend_from_slice(bytes.get(..n_bytes).unwrap_or(bytes));
        if is_record {
            self.batch.raw = 0..self.batch.block.len();
        }
    }

    /// Tells zero bytes in a line.
    #[cold]
    fn zeros(&mut self, offset: u64, n_bytes: usize) {
        let bytes = self.feed.unused();
        if let Some(rule) = self.dialect.language.rules.zeros
            && has_zeros(bytes.get(..n_bytes).unwrap_or(bytes))
        {
            let what = format!("line {} has a run of zero bytes", self.n_lines + 1);
            self.lose(rule, (offset, n_bytes), what);
        }
    }

    /// Takes a line that is no record.
    #[cold]
    fn other_line<G: Grammar>(&mut self, n_bytes: usize, is_cut: bool, offset: u64) {
        // Of a file that is cut off by force, the rest of a line is not what it seems.
        let is_rest = is_cut && self.feed.has_failed();
        if !is_rest {
            self.keep_raw(n_bytes, false);
        }
        self.zeros(offset, n_bytes);
        let bytes = self.feed.unused().get(..n_bytes).unwrap_or(&[]).trim_ascii_end();
        let (mut counted, mut other_process, mut fault) = (None, None, None);
        match G::line(bytes) {
            Line::Record(_) | Line::Other => {}
            Line::Message(..) if is_rest => {}
            Line::Message(process, text) => {
                self.others.messages += 1;
                let first = *self.process.get_or_insert(process);
                other_process = (process != first).then_some((first, process));
                counted = counted_instrs(text);
            }
            // It is none because it is cut, which is an error by itself.
            Line::Bad(_) if is_cut && self.dialect.language.rules.cut.severity == Severity::Error => {}
            Line::Bad(_) if is_cut && self.feed.is_unread() => {}
            Line::Bad(what) => {
                let shown = bytes.get(..SHOWN_BYTES).unwrap_or(bytes);
                fault = Some((what, format!("`{}`", shown.escape_ascii())));
            }
        }
        if let Some((what, shown)) = fault {
            self.bad_line(what, (offset, n_bytes), shown);
        }
        if let Some((first, other)) = other_process
            && !self.has_processes
        {
            self.has_processes = true;
            let what =
                format!("line {}: a message of process {other}, others are of {first}", self.n_lines + 1);
            self.tell(&rules::lackey::PROCESSES, offset, what);
        }
        if let Some(counted) = counted.filter(|counted| *counted != self.n_instrs && !self.has_processes) {
            let what = format!("lackey counted `{counted}` instructions, `{}` are here", self.n_instrs);
            self.tell(&rules::lackey::COUNT, offset, what);
        }
    }

    /// Tells a line that is nothing that is known.
    #[cold]
    fn bad_line(&mut self, fault: Fault, (offset, n_bytes): (u64, usize), shown: String) {
        self.others.bad += 1;
        let rules = &self.dialect.language.rules;
        let rule = match fault {
            Fault::AddressTooLarge | Fault::SizeTooLarge => rules.number,
            _ => rules.bad_line,
        };
        let line = if fault == Fault::Long { self.n_lines } else { self.n_lines + 1 };
        let colon = if shown.is_empty() { "" } else { ": " };
        let what = format!("line {line} is no record, {}{colon}{shown}", fault.what());
        self.lose(rule, (offset, n_bytes), what);
    }

    /// Tells that the last line has no end.
    #[cold]
    fn cut(&mut self, offset: u64, n_bytes: usize) {
        let what = format!("line {} has `{n_bytes}` bytes and no end", self.n_lines + 1);
        self.lose(self.dialect.language.rules.cut, (offset, n_bytes), what);
    }

    /// Tells an access that is too large to be true, and that lenses leave out.
    #[cold]
    fn oversized(&mut self, row: &Row, offset: u64) {
        let means = self.dialect.language.means.get(usize::from(row.record.kind));
        if means.is_some_and(|means| *means != Means::Mark) {
            self.has_oversized = true;
            let place = self.place(offset);
            self.tell_finding(oversized(row.record.size, place));
        }
    }

    /// The place of the next record, or of what stands where it would.
    fn place(&self, offset: u64) -> Place {
        Place {
            file: Some(self.file.clone()),
            offset: Some(offset),
            record: Some(self.n_records + self.staged.len() as u64),
            ..Place::default()
        }
    }

    /// Tells a line that breaks a rule. If that is an error, the line is no record, and its bytes are lost.
    #[cold]
    fn lose(&mut self, rule: &'static RuleInfo, (offset, n_bytes): (u64, usize), what: String) {
        let place = self.place(offset);
        let finding = rule.broken(place.clone(), what);
        self.tell_finding(match rule.severity {
            Severity::Error => {
                let bytes = Amount::Exactly(n_bytes as u64);
                finding.losing(Loss { bytes, ..Loss::from(place) })
            }
            _ => finding,
        });
    }

    /// Tells that a rule is broken.
    #[cold]
    fn tell(&mut self, rule: &'static RuleInfo, offset: u64, what: String) {
        let finding = rule.broken(self.place(offset), what);
        self.tell_finding(finding);
    }

    /// Tells what was found: the first ones of each rule one by one.
    #[cold]
    fn tell_finding(&mut self, finding: Finding) {
        let at = match self.told.iter().position(|(name, ..)| *name == finding.rule) {
            Some(at) => at,
            None => {
                self.told.push((finding.rule.clone(), 0, None));
                self.told.len() - 1
            }
        };
        let (_, count, rest) = &mut self.told[at];
        *count += 1;
        match rest {
            _ if *count < TOLD_PER_RULE => self.findings.push(finding),
            Some(rest) => rest.count += 1,
            None => *rest = Some(finding),
        }
    }

    /// Judges how the data ends: what is cut is good as far as it goes.
    #[cold]
    fn end(&mut self, offset: u64) -> Result<()> {
        if self.n_records == 0 && self.staged.is_empty() && !self.feed.has_failed() {
            let what = format!("the trace has no record among `{}` lines", self.n_lines);
            self.tell(self.dialect.language.rules.empty, offset, what);
        }
        match self.feed.take_failure() {
            Some(error) if error.kind() == ErrorKind::Truncated => {
                self.findings.push(Finding::of_cut_file(&error));
                Ok(())
            }
            Some(error) => {
                let place = self.place(offset);
                Err(error.of_unsound(&self.container, place, &|| self.count_sound()))
            }
            None => Ok(()),
        }
    }

    /// How many records stand before the damage that is known of the container by now.
    #[cold]
    fn count_sound(&self) -> Option<u64> {
        let mut reader = RecordReader::new(&self.container, self.dialect, &Scan::new(ShardId(0))).ok()?;
        while let Ok(Some(_)) = reader.read() {}
        Some(reader.n_records)
    }

    /// Makes columns of the staged records.
    fn fill(&mut self) {
        let columns = self.columns;
        let Batch { accesses, instrs, marks, threads, tables, .. } = &mut self.batch;
        if columns.has(Columns::THREADS) && !self.is_started && !self.staged.is_empty() {
            self.is_started = true;
            threads.at.push(0);
            threads.what.push(ThreadEvent::Start);
            threads.value.push(self.dialect.process);
        }
        let with_accesses = columns.has(Columns::ACCESSES);
        let with_fetches = columns.has(Columns::ACCESSES | Columns::ACCESS_FETCH);
        // Rows that a record of each kind makes, and of which kinds.
        let means = self.dialect.language.means;
        let mut made = [(0usize, [AccessKind::Read; 2]); N_KINDS];
        for (made, means) in made.iter_mut().zip(means) {
            *made = match means {
                Means::Instr => (usize::from(with_fetches), [AccessKind::Fetch; 2]),
                Means::Read | Means::Unknown => (usize::from(with_accesses), [AccessKind::Read; 2]),
                Means::Write => (usize::from(with_accesses), [AccessKind::Write; 2]),
                Means::Modify => (2 * usize::from(with_accesses), [AccessKind::Read, AccessKind::Write]),
                Means::Mark => (0, [AccessKind::Read; 2]),
            };
        }
        let kind_of = |row: &Row| usize::from(row.record.kind) % N_KINDS;
        // QUIRK: Dinero IV takes a line of din, which has no size, for the aligned word, dinfmt.c.
        let word = if self.dialect.lines == Lines::Din { self.dialect.word_bytes.max(1) } else { 0 };
        let mask = !u64::from(word.max(1) - 1);
        let addr_of = |row: &Row| row.record.addr & mask;
        let size_of = |row: &Row| row.record.size | word;
        let instr = means.iter().position(|means| *means == Means::Instr).unwrap_or(N_KINDS);
        let with_pc = columns.has(Columns::ACCESSES | Columns::ACCESS_PC) || !tables.is_empty();
        let mut pc = self.pc;
        self.pcs.clear();
        if with_pc {
            self.pcs.extend(self.staged.iter().map(|row| {
                pc = if kind_of(row) == instr { addr_of(row) } else { pc };
                pc
            }));
        } else if let Some(last) = self.staged.iter().rfind(|row| kind_of(row) == instr) {
            pc = addr_of(last);
        }
        // PERF: every row is written at the cursor, which moves past wanted ones only (`lines`).
        let n_rows: usize = self.staged.iter().map(|row| made[kind_of(row)].0).sum();
        if n_rows > 0 {
            accesses.at.resize(n_rows + 1, 0);
            accesses.addr.resize(n_rows + 1, 0);
            accesses.size.resize(n_rows + 1, 0);
            accesses.kind.resize(n_rows + 1, AccessKind::Read);
            let (ats, addrs) = (&mut accesses.at[..=n_rows], &mut accesses.addr[..=n_rows]);
            let (sizes, kinds) = (&mut accesses.size[..=n_rows], &mut accesses.kind[..=n_rows]);
            let mut next = 0;
            for (at, row) in (0u32..).zip(&self.staged) {
                let (n, [first, second]) = made[kind_of(row)];
                (ats[next], addrs[next], sizes[next], kinds[next]) = (at, addr_of(row), size_of(row), first);
                if n == 2 {
                    next += 1;
                    (ats[next], addrs[next], sizes[next], kinds[next]) =
                        (at, addr_of(row), size_of(row), second);
                }
                next += usize::from(n > 0);
            }
            accesses.at.truncate(n_rows);
            accesses.addr.truncate(n_rows);
            accesses.size.truncate(n_rows);
            accesses.kind.truncate(n_rows);
            if columns.has(Columns::ACCESS_PC) {
                accesses.pc.extend(accesses.at.iter().map(|at| self.pcs[*at as usize])); // Of this batch.
            }
            if std::mem::take(&mut self.has_oversized) {
                accesses.remove_oversized(|_, _| {});
            }
        }
        if columns.has(Columns::INSTRS) {
            let rows = (0u32..).zip(&self.staged).filter(|(_, row)| kind_of(row) == instr);
            instrs.at.extend(rows.clone().map(|(at, _)| at));
            instrs.pc.extend(rows.clone().map(|(_, row)| addr_of(row)));
            instrs.size.extend(rows.map(|(_, row)| u16::try_from(size_of(row)).unwrap_or(u16::MAX)));
            instrs.flags.resize(instrs.pc.len(), 0);
        }
        if columns.has(Columns::MARKS) {
            let is_mark =
                |row: &Row| matches!(means.get(kind_of(row)), None | Some(Means::Mark | Means::Unknown));
            for (at, row) in (0u32..).zip(&self.staged).filter(|(_, row)| is_mark(row)) {
                marks.at.push(at);
                marks.kind.push(row.record.kind.into());
                marks.value.push(row.record.addr);
            }
        }
        self.pc = pc;
        for rows in tables {
            table::push(self.n_records, &self.staged, &self.pcs, &mut **rows);
        }
    }
}

impl Reader for RecordReader {
    fn read(&mut self) -> Result<Option<&mut Batch>> {
        loop {
            if let Some(error) = self.fault.take() {
                self.is_over = true;
                self.batch.clear();
                return Err(error);
            }
            if self.is_over {
                self.batch.clear();
                self.batch.span.records = 0;
                return Ok(None);
            }
            let collected = match self.dialect.lines {
                Lines::Lackey => self.collect::<Lackey>(),
                Lines::Din => self.collect::<Din>(),
                Lines::ExtendedDin => self.collect::<ExtendedDin>(),
            };
            self.fault = collected.err();
            self.batch.findings = std::mem::take(&mut self.findings);
            let is_beyond = self.batch.beyond.iter().any(|n| *n > 0);
            if self.batch.span.records > 0 || !self.batch.findings.is_empty() || is_beyond {
                return Ok(Some(&mut self.batch));
            }
        }
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }
}
