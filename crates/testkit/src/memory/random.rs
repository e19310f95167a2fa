//! Random rows for property tests: every kind of record, in arbitrary order, the same for the same seed.

use super::shard::{Instr, MemoryShard, Record};
use crate::rng::Rng;
use quipu_model::ShardKind;
use quipu_model::lens::{AccessKind, CallEdge, InstrClass, Taken, ThreadEvent, instr_flags};

/// The shards of a random trace.
pub(super) fn shards(seed: u64, n_shards: usize, records_per_shard: usize) -> Vec<MemoryShard> {
    (0..n_shards).map(|i| shard(seed, i, records_per_shard)).collect()
}

fn shard(seed: u64, position: usize, n_records: usize) -> MemoryShard {
    let mut rng = Rng::new(seed ^ (position as u64).wrapping_mul(0x9e37_79b9));
    let first_thread = 100 * (position as u64 + 1);
    let mut clock = rng.below(50);
    let mut shard = MemoryShard::new(format!("shard.{position}"))
        .kind(ShardKind::Mixed)
        .thread(first_thread, 1)
        .record(Record::Thread { what: ThreadEvent::Start, value: 1 })
        .clock(clock);
    for _ in 0..n_records {
        shard = match rng.below(64) {
            0 => shard.thread(first_thread + rng.below(3), 1),
            1 => shard.piece(),
            2 | 3 => {
                clock += rng.below(20);
                shard.clock(clock)
            }
            _ => shard.record(record(&mut rng)),
        };
    }
    shard
}

fn record(rng: &mut Rng) -> Record {
    match rng.below(20) {
        0 => Record::Mark { kind: rng.below(5) as u32, value: rng.next() }, // Below 5.
        1 => {
            let edge = if rng.below(2) == 0 { CallEdge::Enter } else { CallEdge::Leave };
            let n_values = if edge == CallEdge::Enter { rng.below(4) } else { 1 };
            Record::Call {
                function: rng.below(9),
                edge,
                values: (0..n_values).map(|_| rng.below(1000)).collect(),
            }
        }
        2 => Record::Thread { what: ThreadEvent::Cpu, value: rng.below(8) },
        3..=8 => {
            let kinds = [AccessKind::Read, AccessKind::Write, AccessKind::Prefetch, AccessKind::FlushData];
            Record::Access {
                kind: kinds[rng.below(4) as usize], // Below 4.
                addr: 0x7000_0000 + rng.below(1 << 16),
                size: 1 << rng.below(7),
            }
        }
        _ => Record::Instr(instr(rng)),
    }
}

fn instr(rng: &mut Rng) -> Instr {
    let pc = 0x40_0000 + 4 * rng.below(200);
    let class = if rng.below(4) == 0 {
        InstrClass::ALL[rng.below(InstrClass::ALL.len() as u64) as usize] // Below the length.
    } else {
        InstrClass::Other
    };
    // A no-op whose encoding is determined by the address.
    let bytes = if pc.is_multiple_of(8) { vec![0x0f, 0x1f, 0x40, 0x00] } else { vec![0x90] };
    Instr {
        flags: if rng.below(16) == 0 { instr_flags::NO_FETCH } else { 0 },
        class,
        taken: if class.is_branch() && rng.below(2) == 0 { Taken::Yes } else { Taken::No },
        target: if class.is_indirect() { 0x40_0000 + 4 * rng.below(200) } else { 0 },
        size: bytes.len() as u16, // One or four.
        bytes,
        ..Instr::new(pc, 0)
    }
}
