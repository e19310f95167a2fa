//! What a file does wrong: findings on their way into batches, with their places.

use super::{EntryReader, NOWHERE};
use crate::lens::RawFinding;
use crate::record::ENTRY_BYTES;
use crate::trace::source_rule;
use quipu_model::{Error, Finding, Place, Result, Severity};

impl EntryReader {
    /// Where the entry at byte `at` of the block is.
    pub(super) fn place(&self, at: usize) -> Place {
        let block = self.block.unwrap_or(NOWHERE);
        let member =
            self.file.container.members().get(block.member as usize).map(|member| member.name.clone());
        let narrow_at = (at / ENTRY_BYTES * self.file.entry_bytes) as u64;
        Place {
            file: Some(self.file.name.clone()),
            member: member.filter(|name| !name.is_empty()),
            offset: Some(block.offset + narrow_at),
            record: Some(self.interp.records),
            instr: Some(self.interp.instrs),
        }
    }

    pub(super) fn tell(&mut self, rule: &'static str, severity: Severity, place: Place, message: String) {
        self.found.add(rule, severity, || (place, message));
    }

    /// The bytes behind the last whole entry of the block, told when reading gets there.
    pub(super) fn tell_rest(&mut self) {
        let rest = std::mem::take(&mut self.n_rest);
        if rest != 0 {
            let place = Place { offset: Some(self.member_end), ..self.place(0) };
            let message = format!("`{rest}` bytes are left over, an entry has `{}`", self.file.entry_bytes);
            self.tell("drmemtrace/partial-entry", Severity::Error, place, message);
        }
    }

    /// Moves new findings into the batch; at the end, also the counts of those that were not kept.
    pub(super) fn hand_out_findings(&mut self) {
        if self.done {
            let told = std::mem::take(&mut self.n_told);
            for (index, mut finding) in std::mem::take(&mut self.found).into_vec().into_iter().enumerate() {
                if index < told {
                    // It was told as one; others may have been added to it since.
                    finding.count -= 1;
                    finding.loss = None;
                }
                if finding.count > 0 {
                    self.batch.findings.push(finding);
                }
            }
            return;
        }
        let kept = self.found.as_slice();
        // The count of the last one may still grow; the rest is told at the end.
        self.batch
            .findings
            .extend(kept[self.n_told..].iter().map(|finding| Finding { count: 1, ..finding.clone() }));
        self.n_told = kept.len();
    }

    /// Gives findings of a run over entries their places.
    pub(super) fn place_findings(&mut self, run_start: usize) {
        if self.fill.findings.is_empty() {
            return;
        }
        for RawFinding { index, record, instr, rule, severity, message } in
            std::mem::take(&mut self.fill.findings)
        {
            let mut place = self.place(run_start + index * ENTRY_BYTES);
            (place.record, place.instr) = (Some(record), Some(instr));
            self.tell(rule, severity, place, message);
        }
        for (rule, severity, count) in std::mem::take(&mut self.fill.dropped) {
            let place = self.place(run_start);
            self.found.push(Finding {
                count,
                ..Finding::new(rule, severity, place, "more of the same".to_owned())
            });
        }
    }

    /// The bytes could not be inflated any further; the stream goes on with the next member, if there is one.
    pub(super) fn damaged(&mut self, error: &quipu_source::Error) -> Result<()> {
        if matches!(
            error.kind(),
            quipu_source::ErrorKind::Io | quipu_source::ErrorKind::Missing | quipu_source::ErrorKind::Usage
        ) {
            return Err(Error::from(error.clone()));
        }
        let mut place = Place::from(error);
        if !self.raw_only {
            place.record = Some(self.interp.records);
            place.instr = Some(self.interp.instrs);
        }
        let message = format!("{}{}", error.what(), self.lost_with(error));
        self.tell(source_rule(error.kind()), Severity::Error, place, message);
        let has_bytes = error.offset().is_some_and(|offset| offset > 0);
        let is_distrusted =
            error.member().is_some_and(|(member, _)| self.file.container.is_distrusted(member));
        self.delivered_damage |= has_bytes && is_distrusted;
        // The seam of the next member is judged by this finding, not by a missing footer.
        self.last_entry = None;
        if let Some((member, _)) = error.member() {
            self.interp.resume_after_gap(self.instrs_before(member + 1));
        }
        self.block = None;
        Ok(())
    }

    /// What is lost of a member from a fault on, as far as the archive and the ordinals of its chunks tell; a part of a
    /// sentence.
    fn lost_with(&self, error: &quipu_source::Error) -> String {
        let Some((index, _)) = error.member() else { return String::new() };
        let members = self.file.container.members();
        let len = members.get(index as usize).and_then(|member| member.len);
        let offset = error.offset().unwrap_or(0);
        let entries = len.map(|len| len.saturating_sub(offset) / self.file.entry_bytes as u64);
        // The last chunk has as many instructions as there were left.
        let is_last = index as usize + 1 >= members.len();
        let chunk = Some(self.file.header.chunk_instrs).filter(|chunk| *chunk > 0 && !is_last);
        // Raw entries are delivered uncounted, so the instructions of a part of a chunk are unknown then.
        let instrs = match chunk {
            Some(chunk) if offset == 0 => Some(chunk),
            Some(_) if !self.raw_only => {
                self.instrs_before(index + 1).map(|next| next.saturating_sub(self.interp.instrs))
            }
            _ => None,
        };
        match (entries, instrs) {
            (Some(entries), Some(instrs)) => {
                format!(
                    "; lost are `{entries}` entries with `{instrs}` instructions, and all numbers are without them"
                )
            }
            (Some(entries), None) => {
                format!("; lost are `{entries}` entries, and all numbers are without them")
            }
            _ => "; how much is lost is not known".to_owned(),
        }
    }
}
