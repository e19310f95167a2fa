//! Findings about a file: their places, and their way into batches.

use super::{EntryReader, NOWHERE};
use crate::lens::RawFinding;
use crate::record::ENTRY_BYTES;
use quipu_model::{Finding, Place, Severity};

impl EntryReader {
    /// The place of the entry at byte `at` of the block.
    pub(super) fn place(&self, at: usize) -> Place {
        let block = self.block.unwrap_or(NOWHERE);
        let narrow_at = (at / ENTRY_BYTES * self.file.entry_bytes) as u64;
        self.place_in(block.member, block.offset + narrow_at)
    }

    /// The place at an offset of a member, when everything before it was read. Raw entries are handed out without decoding,
    /// so here they are counted.
    pub(super) fn place_in(&self, member: u32, offset: u64) -> Place {
        let (record, instr) = match self.raw_only {
            true => self.position_at(member, offset),
            false => (Some(self.interp.records), Some(self.interp.instrs)),
        };
        Place { record, instr, ..self.place_of_bytes(member, offset) }
    }

    /// The place at an offset of a member, without ordinals.
    pub(super) fn place_of_bytes(&self, member: u32, offset: u64) -> Place {
        let name = self.file.container.members().get(member as usize).map(|member| member.name.clone());
        Place {
            file: Some(self.file.name.clone()),
            member: name.filter(|name| !name.is_empty()),
            offset: Some(offset),
            ..Place::default()
        }
    }

    pub(super) fn tell(&mut self, rule: &'static str, severity: Severity, place: Place, message: String) {
        self.found.add(rule, severity, || (place, message));
    }

    /// Reports bytes after the last whole entry of the block, when reading gets there.
    pub(super) fn tell_rest(&mut self) {
        let rest = std::mem::take(&mut self.n_rest);
        if rest != 0 {
            let member = self.block.unwrap_or(NOWHERE).member;
            let place = self.place_in(member, self.member_end);
            let message = format!("`{rest}` bytes are left over, an entry has `{}`", self.file.entry_bytes);
            self.tell("drmemtrace/partial-entry", Severity::Error, place, message);
        }
    }

    /// Reports the first records of another thread in a file that was taken for a single thread's: files of several threads
    /// are recognised by the threads near their front.
    pub(super) fn tell_stranger(&mut self, start: usize) {
        let header = &self.file.header;
        let tid = self.interp.batch_tid;
        if !self.file.is_stranger(tid) || self.has_stranger || self.interp.batch_len() == 0 {
            return;
        }
        self.has_stranger = true;
        let message = format!("records of thread `{tid}` in the file of thread `{}`", header.tid);
        // Places the finding at the first of them, however many the batch has.
        let (record, instr) = (Some(self.interp.batch_start), Some(self.instrs_before));
        let place = Place { record, instr, ..self.place(start) };
        self.tell("drmemtrace/wrong-thread", Severity::Error, place, message);
    }

    /// Moves new findings into the batch; at the end, also the counts of those that were not kept.
    pub(super) fn hand_out_findings(&mut self) {
        if self.done {
            let told = std::mem::take(&mut self.n_told);
            for (index, mut finding) in std::mem::take(&mut self.found).into_vec().into_iter().enumerate() {
                if index < told {
                    // It was reported with count 1; others may have been added to it since.
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
        // The count of the last one may still grow; the rest is reported at the end.
        self.batch
            .findings
            .extend(kept[self.n_told..].iter().map(|finding| Finding { count: 1, ..finding.clone() }));
        self.n_told = kept.len();
    }

    /// Assigns places to the findings of a run over entries.
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
}
