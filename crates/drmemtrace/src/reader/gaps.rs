//! Gaps: damaged bytes, where reading stops and continues, and how much is lost in between.
//!
//! Bytes that fail their checksum, or that make no sense, are not part of the trace. Reading stops after the last good
//! record before them and continues with the next member. Both places, and thus the loss, follow from the file alone: the
//! last good chunk before the gap is counted, and the first good one after it states by its ordinals what precedes it. So
//! every verb reports the same, whatever it reads, in whatever order.
//!
//! A chunk with a correct checksum may still lack records, or hold some twice. Its successor states how many records precede
//! it, so each seam is compared ([`crate::seams`] describes where).

use super::{EntryReader, Walk};
use crate::decode::{Interp, Limits, MAX_ORDINAL, WRONG_ORDINAL};
use crate::record::{ENTRY_BYTES, Entry, Marker, N_TYPES};
use crate::trace::File;
use crate::window;
use quipu_model::finding::source_rule;
use quipu_model::{Amount, Columns, Error, Finding, Loss, Place, Reader, Result, Scan, Severity, ShardId};
use quipu_source::{Ahead, BlockAt, Codec, StreamOptions};
use std::ops::Range;
use std::sync::Arc;

/// Entries are checked in groups of this size, counted from the beginning of their member.
pub(super) const GROUP_ENTRIES: usize = 64;
/// Types from this one on make no sense. A newer tracer may know a few more types than Quipu; these are reported as unknown
/// and do not stop reading.
///
/// PERF: as a power of two it allows checking the types of several entries at once.
const PLAUSIBLE_TYPES: u16 = 64;
const _: () = assert!(N_TYPES <= PLAUSIBLE_TYPES && PLAUSIBLE_TYPES.is_power_of_two());
/// A group with more nonsensical entries than this is not part of a trace.
const MAX_NONSENSE: usize = 8;
/// First only every eighth entry of each group is checked; if these make sense, the group is part of the trace. Each group
/// is judged by its own entries alone, so the verdict does not depend on the other groups of a block.
///
/// PERF: this finds every run of more than eight at little cost.
const GLANCE_ENTRIES: usize = 8;

/// A position in a shard: records and instructions before it, as far as they are known.
pub(super) type Position = (Option<u64>, Option<u64>);

/// Finds the first entry of `entries` that is not part of a trace. `entries` begin at entry `first` of their member.
pub(super) fn nonsense(entries: &[Entry], first: usize) -> Option<usize> {
    if !glance(entries, first) {
        return None;
    }
    find_nonsense(entries, first)
}

/// True if one of the entries that are checked first may make no sense. `entries` begin at entry `first` of their member.
///
/// PERF: this runs over all of a trace, so it collects bits and branches once for the eight entries of a group.
#[inline]
fn glance(entries: &[Entry], first: usize) -> bool {
    let skipped = first.next_multiple_of(GLANCE_ENTRIES) - first;
    let (groups, rest) = entries.get(skipped..).unwrap_or_default().as_chunks::<GROUP_ENTRIES>();
    for group in groups {
        let mut seen = Seen::default();
        // An index, not an iterator with steps, which the compiler does not unroll.
        for look in 0..GROUP_ENTRIES / GLANCE_ENTRIES {
            seen.add(&group[look * GLANCE_ENTRIES]);
        }
        if seen.may_be_nonsense() {
            return true;
        }
    }
    let mut seen = Seen::default();
    rest.iter().step_by(GLANCE_ENTRIES).for_each(|entry| seen.add(entry));
    seen.may_be_nonsense()
}

/// Combined bits of the entries that are checked first.
#[derive(Default)]
struct Seen {
    /// Bits of the types, in the lower half.
    kinds: u32,
    /// The highest bit is set if an entry has neither type nor size, or a size of more than 32 KiB; then the entries are
    /// checked again one by one.
    borrows: u32,
}

impl Seen {
    #[inline]
    fn add(&mut self, entry: &Entry) {
        let [a, b, c, d, ..]: [u8; ENTRY_BYTES] = zerocopy::transmute!(*entry);
        let kind_and_size = u32::from_le_bytes([a, b, c, d]);
        self.kinds |= kind_and_size;
        self.borrows |= kind_and_size.wrapping_sub(1);
    }

    #[inline]
    fn may_be_nonsense(&self) -> bool {
        let kinds = self.kinds & u32::from(u16::MAX);
        kinds >= u32::from(PLAUSIBLE_TYPES) || self.borrows >> 31 != 0
    }
}

fn is_nonsense(entry: &Entry) -> bool {
    let is_zero = entry.kind.get() == 0 && entry.size.get() == 0 && entry.addr.get() == 0;
    entry.kind.get() >= PLAUSIBLE_TYPES || is_zero
}

#[cold]
fn find_nonsense(entries: &[Entry], first: usize) -> Option<usize> {
    let mut start = 0;
    while start < entries.len() {
        let end = (start + GROUP_ENTRIES - (first + start) % GROUP_ENTRIES).min(entries.len());
        let group = &entries[start..end];
        if glance(group, first + start)
            && group.iter().filter(|entry| is_nonsense(entry)).count() > MAX_NONSENSE
        {
            return group.iter().position(is_nonsense).map(|at| start + at);
        }
        start = end;
    }
    None
}

impl EntryReader {
    /// Cuts the block where nonsense begins. The rest of the member is skipped.
    pub(super) fn cut_nonsense(&mut self, at: BlockAt) {
        let first = at.offset / self.file.entry_bytes as u64;
        let entries = Entry::slice(&self.batch.block).0;
        if let Some(bad) = nonsense(entries, (first % GROUP_ENTRIES as u64) as usize) {
            self.batch.block.truncate(bad * ENTRY_BYTES);
            self.skipped = Some(at.member);
            self.nonsense = Some(at.offset + (bad * self.file.entry_bytes) as u64);
        }
    }

    /// Cuts the block where a reader that only counts stops.
    pub(super) fn cut_where_counting_stops(&mut self, at: BlockAt) {
        let Some((_, offset)) = self.stop_at.filter(|(member, _)| *member == at.member) else { return };
        let n_entries = offset.saturating_sub(at.offset) / self.file.entry_bytes as u64;
        let n_left = usize::try_from(n_entries).map_or(usize::MAX, |n| n.saturating_mul(ENTRY_BYTES));
        if n_left <= self.batch.block.len() {
            self.batch.block.truncate(n_left);
            self.skipped = Some(at.member);
            // Any nonsense in this block comes after the cut.
            self.nonsense = None;
        }
    }

    /// Counts the records and instructions before an offset of a member. Both are unknown for a pipe, which can be read only
    /// once.
    pub(super) fn position_at(&self, member: u32, offset: u64) -> Position {
        if !self.file.container.source().can_seek() {
            return (None, None);
        }
        let first = if self.file.can_jump { (member as usize).saturating_sub(1) } else { 0 };
        let Ok(mut counter) = EntryReader::counter(&self.file, first..member as usize + 1) else {
            return (None, None);
        };
        counter.stop_at = Some((member, offset));
        while counter.counted_at_stop.is_none()
            && let Ok(Some(_)) = counter.read()
        {}
        counter.counted_at_stop.unwrap_or_else(|| counter.sure_position())
    }

    /// Records and instructions passed so far; after a gap, the number of its records is unknown.
    fn sure_position(&self) -> Position {
        ((!self.interp.resync).then_some(self.interp.records), Some(self.interp.instrs))
    }

    /// Reports nonsense once everything before it was read.
    pub(super) fn tell_nonsense(&mut self) {
        let (Some(offset), Some(member)) = (self.nonsense.take(), self.skipped) else { return };
        let place = self.place_in(member, offset);
        let message = format!(
            "of `{GROUP_ENTRIES}` entries more than `{MAX_NONSENSE}` have impossible types or are all zeros"
        );
        let rule = "drmemtrace/nonsense";
        self.lose_rest(member, Fault { rule, message, place, next: None, error: None });
    }

    /// Handles bytes that cannot be inflated any further; the stream continues with the next member, if there is one.
    pub(super) fn damaged(&mut self, error: &quipu_source::Error) -> Result<()> {
        use quipu_source::ErrorKind;
        if matches!(error.kind(), ErrorKind::Io | ErrorKind::Missing | ErrorKind::Usage) {
            return Err(Error::from(error.clone()));
        }
        let member = error.member().map_or(0, |(member, _)| member);
        if self.skipped == Some(member) {
            // It was already reported that the rest is skipped.
            return Ok(());
        }
        // Part of a file inside a carrier may be lost: entries have one width, so reading continues with the next part.
        let next = |offset| self.file.container.next_readable(member as usize, offset);
        let next = error.offset().and_then(next);
        let fault = Fault {
            rule: source_rule(error.kind()),
            message: error.what().to_owned(),
            place: Place::from(error),
            next,
            error: Some(error),
        };
        self.lose_rest(member, fault);
        Ok(())
    }

    /// Reports that a member is not read from the place of a fault on, or not up to the place where reading continues, and
    /// what is lost by that.
    fn lose_rest(&mut self, member: u32, fault: Fault<'_>) {
        let Fault { rule, mut message, mut place, next, error } = fault;
        self.is_broken = true;
        self.counted_before_gap.get_or_insert(self.position());
        let here = (member, place.offset.unwrap_or(0));
        if self.stop_at.is_some_and(|stop| here >= stop) {
            self.counted_at_stop.get_or_insert(self.sure_position());
        }
        // If the header lies in the gap, the one read at opening is used: without it, later chunks have no thread and no
        // size.
        if self.interp.chunk_instrs == 0 && self.file.header.chunk_instrs > 0 && !self.raw_only {
            self.interp.know_header(&self.file.header);
        }
        let container = &self.file.container;
        let can_read_again = container.source().can_seek() && !self.is_counting;
        let is_doubtful = container.good_until(member).is_some();
        // A short member is rejected before any block of it.
        let began = match self.block {
            Some(at) if at.member == member => self.member_began,
            _ => (self.interp.records, self.interp.instrs),
        };
        let mut stopped = match self.raw_only {
            true => (None, None),
            false => (Some(self.interp.records), Some(self.interp.instrs)),
        };
        if !self.is_counting && is_doubtful && !can_read_again {
            let from = match self.raw_only {
                true => "the beginning of this member".to_owned(),
                false => format!("record {}", began.0),
            };
            message.push_str(&format!("; all numbers from {from} on are doubtful"));
        }
        let is_alone = container.members().len() <= 1;
        // The records delivered after that place are discarded, or doubtful.
        place.offset = container.good_until(member).or(place.offset);
        if is_doubtful && !can_read_again && !self.raw_only {
            stopped = (Some(began.0), Some(began.1));
        }
        if let Some(offset) = place.offset.filter(|_| error.is_some_and(|error| error.carrier().is_some())) {
            // The rest of the member is good, so there may be several gaps in it.
            if self.raw_only && can_read_again {
                stopped = self.position_at(member, offset);
            } else if self.interp.resync {
                stopped.0 = None;
            }
        } else if can_read_again && (is_doubtful || self.raw_only || !is_alone) {
            stopped = self.position_before_gap(member);
        }
        (place.record, place.instr) = stopped;
        let finding = Finding::new(rule, Severity::Error, place.clone(), message);
        // Of several consecutive damaged members, the first one carries the gap.
        let container = &self.file.container;
        let is_later = member > 0 && container.good_until(member - 1).is_some();
        let finding = match is_later {
            true => finding,
            false => finding.losing(match next {
                Some(next) => gap_within(place, self.place_of_bytes(member, next)),
                None => self.gap(member, stopped, place, can_read_again),
            }),
        };
        self.found.push(match error {
            Some(error) => finding.by_carrier(error),
            None => finding,
        });
        // This finding covers the seam of the next member; a missing footer is not reported there.
        self.last_entry = None;
        let instrs = if next.is_some() { None } else { self.instrs_before(member.saturating_add(1)) };
        self.interp.resume_after_gap(instrs);
        self.block = None;
    }

    /// True if this read ends or begins at a seam inside the file whose other side another read may see.
    pub(super) fn compares_pieces(&self) -> bool {
        self.file.can_jump && !self.raw_only && !self.is_counting && self.tells_gap_before
    }

    /// Compares the number of records that a chunk states before it with those that were read.
    pub(super) fn compare_seam(&mut self, before: u32, member: u32, ordinal: Option<u64>) {
        let Some(ordinal) = ordinal.filter(|_| !self.raw_only && !self.interp.resync) else { return };
        let (records, instrs) = self.position();
        if ordinal == records {
            return;
        }
        let place = |member, offset| Place {
            record: Some(records),
            instr: Some(instrs),
            ..self.place_of_bytes(member, offset)
        };
        let message = format!("the chunk counts `{ordinal}` records before it, the entries `{records}`");
        let finding = Finding::new(WRONG_ORDINAL, Severity::Error, place(member, 0), message);
        // Both counts agreed where the chunk before this seam began.
        let finding = finding.doubting(self.member_began.0);
        let loss = self.loss_at_seam(place(before, self.member_end), member, ordinal);
        self.found.push(match loss {
            Some(loss) => finding.losing(loss),
            None => finding,
        });
        self.interp.resume_after_gap(self.instrs_before(member));
    }

    /// Reports a chunk whose end is missing. The next one states how many records are missing.
    pub(super) fn lose_end_of_chunk(&mut self, before: u32, member: u32, ordinal: Option<u64>) {
        if !self.is_counting {
            let place = self.place_in(before, self.member_end);
            let message = "the chunk ends without its footer".to_owned();
            let finding = Finding::new("drmemtrace/chunk-cut", Severity::Error, place.clone(), message);
            let loss = match ordinal {
                Some(ordinal) => self.loss_at_seam(place, member, ordinal),
                None => Some(Loss::from(place)),
            };
            self.found.push(match loss {
                Some(loss) => finding.losing(loss),
                None => finding,
            });
        }
        self.is_broken = true;
        self.interp.resume_after_gap(self.instrs_before(member));
    }

    /// The loss before a member with a known ordinal; `None` if nothing is lost but records appear twice.
    fn loss_at_seam(&self, stopped: Place, member: u32, ordinal: u64) -> Option<Loss> {
        if stopped.record.is_some_and(|record| record >= ordinal) {
            return None;
        }
        let instr = self.instrs_before(member);
        let resumed = Place { record: Some(ordinal), instr, ..self.place_of_bytes(member, 0) };
        Some(Loss {
            records: between(stopped.record, resumed.record),
            instrs: between(stopped.instr, instr),
            bytes: Amount::Unknown,
            stopped,
            resumed: Some(resumed),
            n_further: 0,
        })
    }

    /// Ends a read at a seam where another read continues, and reports what a reader of both sides would report.
    pub(super) fn end_piece(&mut self, last: u32, ends_well: bool) {
        let next = last.saturating_add(1);
        if self.is_counting || self.file.n_missing_before(next) > 0 {
            return;
        }
        let is_doubted = self.compares_pieces() && self.file.seams.is_doubted();
        if ends_well && !is_doubted {
            if self.compares_pieces() && !self.interp.resync {
                self.file.seams.end_before(next, self.interp.records);
            }
            return;
        }
        // If the member cannot be read, its own reader reports that.
        let ordinal = window::first_marker(&self.file, next as usize, Marker::RECORD_ORDINAL);
        let ordinal = ordinal.ok().flatten().filter(|ordinal| *ordinal < MAX_ORDINAL);
        match ends_well {
            true => self.compare_seam(last, next, ordinal),
            false => self.lose_end_of_chunk(last, next, ordinal),
        }
    }

    /// Number of instructions in the first member of an archive; `None` if no others follow it, if it is damaged or if it
    /// has none.
    pub(crate) fn instrs_in_first_member(file: &Arc<File>) -> Result<Option<u64>> {
        if file.container.members().len() < 2 {
            return Ok(None);
        }
        let first = file.first_member() as usize;
        let mut counter = EntryReader::counter(file, first..first + 1)?;
        while counter.read()?.is_some() {}
        let is_whole = counter.found.is_empty() && !counter.is_broken;
        Ok(Some(counter.position().1).filter(|instrs| is_whole && *instrs > 0))
    }

    /// Reports the chunks that are missing before a member.
    pub(super) fn lose_chunks_before(&mut self, member: u32) {
        let n_missing = self.file.n_missing_before(member);
        let last = self.file.member_before(member);
        if !self.is_counting {
            let place = match last {
                Some(last) => {
                    let len = self.file.container.members().get(last as usize).and_then(|member| member.len);
                    let (records, instrs) = self.position_at(last, u64::MAX);
                    Place { record: records, instr: instrs, offset: len, ..self.place_of_bytes(last, 0) }
                }
                None => Place {
                    file: Some(self.file.name.clone()),
                    record: Some(0),
                    instr: Some(0),
                    ..Place::default()
                },
            };
            let (records, instrs) = (place.record, place.instr);
            let after = self.position_after_gap(member as usize);
            let resumed =
                after.map(|(record, instr)| Place { record, instr, ..self.place_of_bytes(member, 0) });
            let loss = Loss {
                records: between(records, resumed.as_ref().and_then(|place| place.record)),
                instrs: between(instrs, resumed.as_ref().and_then(|place| place.instr)),
                bytes: Amount::Unknown,
                stopped: place.clone(),
                resumed,
                n_further: 0,
            };
            let which = if last.is_none() { "first" } else { "next" };
            let message = format!("the {which} `{n_missing}` chunks of the archive are missing");
            let finding = Finding::new("drmemtrace/missing-chunk", Severity::Error, place, message);
            // The gap at the end of the chunk before extends up to here.
            self.found.push(match last.is_some_and(|last| self.ends_in_gap(last)) {
                true => finding,
                false => finding.losing(loss),
            });
        }
        self.is_broken = true;
        self.interp.resume_after_gap(self.instrs_before(member));
    }

    /// True if a member cannot be read to its end; false if that is unknown, for members of a pipe that another read
    /// consumed.
    fn ends_in_gap(&self, member: u32) -> bool {
        if self.skipped == Some(member) || self.file.container.good_until(member).is_some() {
            return true;
        }
        let members = member as usize..member as usize + 1;
        let can_read_again = self.file.container.source().can_seek();
        let Some(mut counter) =
            can_read_again.then(|| EntryReader::counter(&self.file, members).ok()).flatten()
        else {
            return false;
        };
        while let Ok(Some(_)) = counter.read() {}
        counter.is_broken
    }

    /// The loss from a place in a member on.
    fn gap(&self, member: u32, (records, instrs): Position, stopped: Place, can_read_again: bool) -> Loss {
        let members = self.file.container.members();
        let mut resumed = None;
        let mut bytes = None;
        if can_read_again {
            let len = |at: usize| members.get(at).and_then(|member| member.len);
            bytes = len(member as usize).map(|len| len.saturating_sub(stopped.offset.unwrap_or(0)));
            for (next, member) in members.iter().enumerate().skip(member as usize + 1) {
                if let Some((records, instrs)) = self.position_after_gap(next) {
                    let mut place = Place {
                        file: stopped.file.clone(),
                        record: records,
                        instr: instrs,
                        ..Place::default()
                    };
                    place.member = Some(member.name.clone());
                    place.offset = Some(0);
                    resumed = Some(place);
                    break;
                }
                bytes = bytes.zip(member.len).map(|(sum, len)| sum.saturating_add(len));
            }
        }
        Loss {
            records: between(records, resumed.as_ref().and_then(|place| place.record)),
            instrs: between(instrs, resumed.as_ref().and_then(|place| place.instr)),
            bytes: Amount::known(bytes),
            stopped,
            resumed,
            n_further: 0,
        }
    }

    /// Counts the good records before the gap that begins in a member: the chunk before it states by its ordinals what
    /// precedes it.
    fn position_before_gap(&self, member: u32) -> Position {
        let member = member as usize;
        let first = if self.file.can_jump { member.saturating_sub(1) } else { 0 };
        let Ok(mut counter) = EntryReader::counter(&self.file, first..member + 1) else {
            return (None, None);
        };
        while let Ok(Some(_)) = counter.read() {}
        if self.file.can_jump && first < member && self.file.container.good_until(first as u32).is_some() {
            return (None, self.instrs_before(member as u32));
        }
        let (records, instrs) = counter.counted_before_gap.unwrap_or(counter.position());
        (Some(records), Some(instrs))
    }

    /// The position at a member's first record; `None` if that member is damaged, too.
    fn position_after_gap(&self, member: usize) -> Option<Position> {
        let mut counter = EntryReader::counter(&self.file, member..member + 1).ok()?;
        let batch = counter.read().ok()??;
        let (span, n_records) = (batch.span, batch.span.records);
        if n_records == 0 || self.file.container.good_until(member as u32).is_some() {
            return None;
        }
        let records = (self.file.can_jump && !counter.interp.resync).then_some(span.first_record);
        Some((records, self.instrs_before(member as u32)))
    }

    /// A reader that only counts the records of some members.
    fn counter(file: &Arc<File>, members: Range<usize>) -> Result<EntryReader> {
        let mut counter = EntryReader::new(file.clone(), &Scan::new(ShardId(0)).columns(Columns::NONE))?;
        let options = StreamOptions { ahead: Ahead::Inline, ..StreamOptions::default() };
        counter.stream = file.container.stream(members.clone(), &options)?;
        counter.interp = interp_at(file, members.start);
        counter.members = members;
        counter.limits = Limits { batch: counter.limits.batch, ..Limits::NONE };
        counter.walk = Walk::Done;
        counter.is_counting = true;
        Ok(counter)
    }
}

/// The reason why part of a member is not read.
struct Fault<'e> {
    rule: &'static str,
    message: String,
    place: Place,
    /// Offset in the member at which reading continues, if it does.
    next: Option<u64>,
    /// The container's error, if the container failed.
    error: Option<&'e quipu_source::Error>,
}

/// The state before the first entry of a member.
pub(super) fn interp_at(file: &File, member: usize) -> Interp {
    match member {
        0 if file.first_chunk() == 0 => Interp::new(),
        _ => Interp::at_chunk(&file.header, file.chunk_number(member as u32)), // No archive has 2^32 members.
    }
}

/// True if raw entries have to be counted while they are handed out: a seam or a thread of the file proved wrong, or the
/// file comes from a pipe and cannot be read again.
pub(super) fn has_to_count(file: &File) -> bool {
    let has_seams = file.header.chunk_instrs > 0 && file.container.codec() == Codec::Zip;
    let has_own_thread = file.header.is_header && !file.holds_several_threads();
    file.seams.is_doubted() || (has_seams || has_own_thread) && !file.container.source().can_seek()
}

/// The loss between two places of a member; its number of records is unknown.
fn gap_within(stopped: Place, resumed: Place) -> Loss {
    Loss {
        bytes: between(stopped.offset, resumed.offset),
        stopped,
        resumed: Some(resumed),
        ..Loss::default()
    }
}

/// The distance between two positions, if both are known and in this order.
fn between(from: Option<u64>, to: Option<u64>) -> Amount {
    Amount::known(from.zip(to).and_then(|(from, to)| to.checked_sub(from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u16, size: u16, addr: u64) -> Entry {
        Entry { kind: kind.into(), size: size.into(), addr: addr.into() }
    }

    #[test]
    fn nonsense_begins_with_its_first_entry_in_a_group_that_has_more_than_eight() {
        for bad in [entry(PLAUSIBLE_TYPES, 1, 1), entry(0x100, 1, 1), entry(u16::MAX, 0, 0), entry(0, 0, 0)] {
            for n_bad in 0..=12 {
                let mut entries = vec![entry(0, 8, 0x1000); 256];
                entries[70..70 + n_bad].fill(bad);
                assert_eq!(nonsense(&entries, 0), (n_bad > 8).then_some(70), "{n_bad}");
            }
        }
    }

    #[test]
    fn a_group_is_judged_without_the_others() {
        let bad = entry(77, 0, 0);
        let mut entries = vec![entry(0, 8, 0x1000); 256];
        // Ten bad entries in the second group, none of them among those that are checked first.
        entries[64..128].iter_mut().skip(1).step_by(6).take(10).for_each(|entry| *entry = bad);
        let alone = nonsense(&entries[64..128], 64);
        // One bad entry in the third group is among those that are checked first.
        entries[136] = bad;
        assert_eq!(nonsense(&entries, 0), alone.map(|at| at + 64));
    }

    #[test]
    fn groups_count_from_the_beginning_of_the_member() {
        let mut entries = vec![entry(0, 8, 0x1000); 256];
        entries[60..70].fill(entry(77, 0, 0));
        assert_eq!(nonsense(&entries, 0), None, "four in one group, six in the next");
        assert_eq!(nonsense(&entries[60..], 60), None);
        assert_eq!(nonsense(&entries[40..], 0), Some(20), "ten in one group");
    }

    #[test]
    fn types_of_a_newer_tracer_are_no_nonsense() {
        assert_eq!(nonsense(&[entry(N_TYPES, 1, 1); 200], 0), None);
        assert_eq!(nonsense(&[entry(PLAUSIBLE_TYPES - 1, u16::MAX, 0); 200], 0), None);
    }

    #[test]
    fn loads_of_address_zero_or_of_no_bytes_are_entries() {
        assert_eq!(nonsense(&[entry(0, 8, 0); 200], 0), None);
        assert_eq!(nonsense(&[entry(0, 0, 0x1000); 200], 0), None);
    }
}
