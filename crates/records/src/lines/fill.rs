//! Fills columns from lines.

use crate::fill::Fill;
use crate::lines::{LineCodec, LineState, Means, Row};
use quipu_model::lens::AccessKind;
use quipu_model::{Batch, Columns};

/// Maximum number of kinds of records in any line format: a power of two.
const N_KINDS: usize = 8;

impl LineCodec {
    /// Adds `state.rows`, which contain `n_instrs` instructions, to the batch; without accesses unless they `are_sound`.
    pub(crate) fn fill(&self, state: &mut LineState, out: &mut Fill, n_instrs: u64, are_sound: bool) {
        let LineState { rows, pcs, pc: last_pc, .. } = state;
        let (first, first_record) = (out.at(), out.n_records());
        let wants = |columns| out.wants(columns);
        let with_accesses = are_sound && wants(Columns::ACCESSES);
        let with_fetches = are_sound && wants(Columns::ACCESSES | Columns::ACCESS_FETCH);
        let with_access_pcs = wants(Columns::ACCESSES | Columns::ACCESS_PC);
        let (with_instrs, with_marks, with_tables) =
            (wants(Columns::INSTRS), wants(Columns::MARKS), out.wants_tables());
        // Number of access rows for a record of each kind, and their kinds.
        let means = self.language.means;
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
        let word = self.word_bytes;
        let mask = !u64::from(word.max(1) - 1);
        let addr_of = |row: &Row| row.record.addr & mask;
        let size_of = |row: &Row| row.record.size | word;
        let instr = means.iter().position(|means| *means == Means::Instr).unwrap_or(N_KINDS);
        let mut pc = *last_pc;
        pcs.clear();
        if with_access_pcs || with_tables {
            pcs.extend(rows.iter().map(|row| {
                pc = if kind_of(row) == instr { addr_of(row) } else { pc };
                pc
            }));
        } else if let Some(last) = rows.iter().rfind(|row| kind_of(row) == instr) {
            pc = addr_of(last);
        }
        *last_pc = pc;
        let Batch { accesses, instrs, marks, tables, .. } = out.rows();
        // PERF: every row is written at the cursor, which only moves past wanted ones (`lines`).
        let n_rows: usize = rows.iter().map(|row| made[kind_of(row)].0).sum();
        if n_rows > 0 {
            let n_before = accesses.at.len();
            let end = n_before + n_rows;
            accesses.at.resize(end + 1, 0);
            accesses.addr.resize(end + 1, 0);
            accesses.size.resize(end + 1, 0);
            accesses.kind.resize(end + 1, AccessKind::Read);
            let (ats, addrs) = (&mut accesses.at[n_before..=end], &mut accesses.addr[n_before..=end]);
            let (sizes, kinds) = (&mut accesses.size[n_before..=end], &mut accesses.kind[n_before..=end]);
            let mut next = 0;
            for (at, row) in (first..).zip(&*rows) {
                let (n, [first, second]) = made[kind_of(row)];
                (ats[next], addrs[next], sizes[next], kinds[next]) = (at, addr_of(row), size_of(row), first);
                if n == 2 {
                    next += 1;
                    (ats[next], addrs[next], sizes[next], kinds[next]) =
                        (at, addr_of(row), size_of(row), second);
                }
                next += usize::from(n > 0);
            }
            accesses.at.truncate(end);
            accesses.addr.truncate(end);
            accesses.size.truncate(end);
            accesses.kind.truncate(end);
            if with_access_pcs {
                let ats = accesses.at[n_before..].iter();
                accesses.pc.extend(ats.map(|at| pcs[(*at - first) as usize])); // Of these rows.
            }
        }
        if with_instrs {
            let rows = (first..).zip(&*rows).filter(|(_, row)| kind_of(row) == instr);
            instrs.at.extend(rows.clone().map(|(at, _)| at));
            instrs.pc.extend(rows.clone().map(|(_, row)| addr_of(row)));
            instrs.size.extend(rows.map(|(_, row)| u16::try_from(size_of(row)).unwrap_or(u16::MAX)));
            instrs.flags.resize(instrs.pc.len(), 0);
        }
        if with_marks {
            let is_mark =
                |row: &Row| matches!(means.get(kind_of(row)), None | Some(Means::Mark | Means::Unknown));
            for (at, row) in (first..).zip(&*rows).filter(|(_, row)| is_mark(row)) {
                marks.at.push(at);
                marks.kind.push(row.record.kind.into());
                marks.value.push(row.record.addr);
            }
        }
        if with_tables {
            tables.iter_mut().for_each(|to| (self.language.push)(first_record, rows, pcs, &mut **to));
        }
        out.add(rows.len(), n_instrs);
    }
}
