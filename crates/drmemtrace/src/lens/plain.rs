//! Appends columns for a run of plain entries, one column after the other.

use super::{Filling, class, taken};
use crate::decode::{Interp, Limits, Place, Stretch};
use crate::record::{Entry, FileType, Type};
use quipu_model::Columns;
use quipu_model::lens::{NO_CODE, instr_flags};

impl Filling<'_> {
    /// Appends the requested columns of the plain entries at the front of `entries`, counts these entries, and returns their
    /// number.
    pub(super) fn fill_stretch(
        &mut self,
        stretch: &mut Stretch,
        cx: &mut Interp,
        entries: &[Entry],
        limits: &Limits,
    ) -> usize {
        let columns = self.fill.columns;
        let sort = match (columns.has(Columns::ACCESS_FETCH), columns.has(Columns::INSTRS)) {
            (false, false) => Stretch::sort::<false, false>,
            (false, true) => Stretch::sort::<false, true>,
            (true, false) => Stretch::sort::<true, false>,
            (true, true) => Stretch::sort::<true, true>,
        };
        let mut n = sort(stretch, cx, entries, limits);
        if n == 0 {
            return 0;
        }
        if columns.has(Columns::INSTR_CODE)
            && let Some(end) = self.codes(cx, stretch.instrs(), entries)
        {
            // An instruction without the encoding that it should have takes the slow path, which reports it.
            n = sort(stretch, cx, &entries[..end], limits);
            if n == 0 {
                return 0;
            }
        }
        let first = cx.batch_len() as u32; // Batches are far smaller than 2^32 records.
        let at = |place: &Place| first + u32::from(place.record);
        let entry = |place: &Place| &entries[usize::from(place.entry)];
        if columns.has(Columns::ACCESSES) {
            stretch.give_accesses(&mut self.batch.accesses, columns.has(Columns::ACCESS_PC));
        }
        if columns.has(Columns::INSTRS) {
            let (rows, places) = (&mut self.batch.instrs, stretch.instrs());
            let kernel = if cx.in_kernel() { instr_flags::KERNEL } else { 0 };
            let no_fetch = |kind| if kind == Type::INSTR_NO_FETCH { instr_flags::NO_FETCH } else { 0 };
            rows.at.extend(places.iter().map(at));
            rows.pc.extend(places.iter().map(|place| entry(place).addr.get()));
            rows.size.extend(places.iter().map(|place| entry(place).size.get()));
            rows.flags.extend(places.iter().map(|place| kernel | no_fetch(entry(place).kind())));
            if columns.has(Columns::INSTR_CLASS) {
                rows.class.extend(places.iter().map(|place| class(entry(place).kind())));
            }
            if columns.has(Columns::INSTR_TAKEN) {
                rows.taken.extend(places.iter().map(|place| taken(entry(place).kind())));
            }
            if columns.has(Columns::INSTR_TARGET) {
                rows.target.extend_from_slice(stretch.targets());
            }
        }
        cx.took(stretch, entries);
        n
    }

    /// Appends the code of each instruction. Stops before one that should have an encoding and was never given one, and
    /// returns the index of its entry.
    fn codes(&mut self, cx: &Interp, instrs: &[Place], entries: &[Entry]) -> Option<usize> {
        let must_know = cx.filetype.any(FileType::ENCODINGS)
            && !cx.filetype.any(FileType::CORE_SHARDED.or(FileType::KERNEL_SYSCALL_TRACE_TEMPLATES));
        for place in instrs {
            let index = usize::from(place.entry);
            let (pc, size) = (entries[index].addr.get(), entries[index].size.get());
            let code = self.fill.codes.get(pc, size, &self.batch.codes);
            if code == NO_CODE && must_know && !self.fill.codes.knows(pc, &self.batch.codes) {
                return Some(index);
            }
            self.batch.instrs.code.push(code);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::decode::{Interp, Limits, Stop};
    use crate::lens::Fill;
    use crate::record::{Entry, FileType, Marker, Type};
    use quipu_model::{Batch, Columns};
    use quipu_testkit::Rng;

    /// A typical mix of entries, with an entry of a random type now and then.
    fn entries(rng: &mut Rng, n: usize) -> Vec<Entry> {
        let mut entries = vec![
            Entry::new(Type::HEADER, 0, 7),
            Entry::marker(Marker::VERSION, 7),
            Entry::marker(Marker::FILETYPE, FileType::ENCODINGS.0),
            Entry::new(Type::THREAD, 4, 11),
            Entry::new(Type::PID, 4, 10),
        ];
        while entries.len() < n {
            let pc = 0x1000 + 4 * rng.below(64);
            match rng.below(40) {
                0 => entries.push(Entry::marker(Marker::BRANCH_TARGET, pc)),
                1 => entries.push(Entry::marker(Marker::FUNC_ID, pc)),
                2 => entries.push(Entry::marker(Marker::TIMESTAMP, pc)),
                3 => entries.push(Entry::new(Type(rng.below(60) as u16), rng.below(9) as u16, pc)),
                4 | 5 => {
                    entries.push(Entry::new(Type::ENCODING, 4, rng.next()));
                    entries.push(Entry::new(Type::INSTR, 4, pc));
                }
                6 => entries.push(Entry::new(Type::INSTR_NO_FETCH, 4, pc)),
                7 => entries.push(Entry::new(Type::INSTR, 0, pc)),
                8 => entries.push(Entry::new(Type::INSTR_RETURN, 4, pc)),
                9..20 => entries.push(Entry::new(Type(rng.below(2) as u16), 8, rng.next())),
                _ => entries.push(Entry::new(Type::INSTR, 4, pc)),
            }
        }
        entries
    }

    /// All output for `entries`, batch by batch, as text; `buffer_bytes` selects the fast or slow path.
    fn read(entries: &[Entry], columns: Columns, limits: &Limits, buffer_bytes: usize) -> Vec<String> {
        let mut interp = Interp::new();
        let (mut fill, mut batch) = (Fill::new(columns, false, buffer_bytes), Batch::default());
        let (mut out, mut rest) = (Vec::new(), entries);
        loop {
            batch.accesses.clear();
            batch.instrs.clear();
            batch.calls.clear();
            interp.begin_batch();
            let mut filling = fill.into_batch(&mut batch, None);
            let (n, stop) = interp.run(rest, limits, &mut filling);
            drop(filling);
            rest = &rest[n..];
            let told: Vec<_> = fill.findings.iter().map(|of| (of.index, of.record, of.rule)).collect();
            fill.findings.clear();
            out.push(format!(
                "{n} {stop:?} {:?} {:?} {:?} {told:?}",
                batch.accesses, batch.instrs, batch.calls
            ));
            out.push(format!("{} {} {} {:#x}", interp.records, interp.instrs, interp.tid, interp.pc));
            if stop == Stop::End || stop == Stop::Instrs || interp.batch_len() == 0 {
                return out;
            }
        }
    }

    #[test]
    fn stretches_give_what_single_entries_give() {
        let mut rng = Rng::new(7);
        let fetches = Columns::ACCESSES | Columns::ACCESS_FETCH | Columns::ACCESS_PC;
        let instrs = Columns::INSTRS | Columns::INSTR_CLASS | Columns::INSTR_TAKEN | Columns::INSTR_TARGET;
        let all = fetches | instrs | Columns::INSTR_CODE | Columns::CALLS;
        for round in 0..200 {
            let n = 50 + rng.below(3000) as usize;
            let entries = entries(&mut rng, n);
            let columns = [fetches, Columns::ACCESSES, instrs, all][round % 4];
            let limits = Limits {
                batch: 1 + rng.below(2000),
                instrs: if round % 3 == 0 { rng.below(1000) } else { u64::MAX },
                ..Limits::NONE
            };
            let [plain, single] = [1 << 20, 1 << 10].map(|bytes| read(&entries, columns, &limits, bytes));
            for (plain, single) in plain.iter().zip(&single) {
                assert!(plain == single, "round {round}:\n{plain}\n{single}");
            }
            assert_eq!(plain.len(), single.len());
        }
    }
}
