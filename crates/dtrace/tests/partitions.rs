//! Aggregations of 64 CPUs have the same values, however they are partitioned and merged.

use crate::layouts::sorted;
use crate::samples::{cases, classic, name_of};
use quipu_dtrace::Capture;
use quipu_dtrace::action::Function;
use quipu_dtrace::aggregate::{Aggregates, Records};
use quipu_dtrace::describe::Buffer;
use quipu_testkit::Rng;
use std::collections::BTreeSet;

/// Number of CPUs, and maximum number of parts.
const CPUS: u64 = 64;

/// Aggregations on each of 64 CPUs: some keys of a case, with other values.
fn scattered(capture: &Capture, dice: &mut Rng) -> Vec<Buffer> {
    let mut found = Vec::new();
    for buffer in &capture.states {
        let mut records = Records::new(capture, buffer);
        while let Ok(Some((position, bytes))) = records.next_record() {
            found.push((position, bytes));
        }
    }
    let cpu = |cpu: u64| {
        let mut buffer = Buffer { cpu: cpu as u32, ..Buffer::default() };
        for _ in 0..dice.below(6) + 1 {
            let (position, bytes) = found[dice.below(found.len() as u64) as usize];
            let described = &capture.aggregations[position];
            buffer.bytes.resize(buffer.bytes.len().next_multiple_of(8), 0);
            let start = buffer.bytes.len();
            buffer.bytes.extend_from_slice(bytes);
            let value = start + described.value.offset as usize;
            let cells = &mut buffer.bytes[value..value + described.value.size as usize];
            // The first word of these functions is parameters.
            let skip = usize::from(matches!(described.function, Function::Lquantize | Function::Llquantize));
            for (at, cell) in cells.chunks_exact_mut(8).enumerate().skip(skip) {
                let number = match (described.function, at) {
                    // Lower halves of sums of squares, which carry.
                    (Function::Stddev, 2) => u64::MAX - dice.below(1 << 20),
                    (Function::Sum | Function::Min | Function::Max, _) => {
                        (dice.below(2000) as i64 - 1000) as u64
                    }
                    _ => dice.below(1000),
                };
                cell.copy_from_slice(&number.to_le_bytes());
            }
        }
        buffer
    };
    (0..CPUS).map(cpu).collect()
}

#[test]
fn any_partition_of_up_to_64_cpus_gives_the_same_aggregations() {
    let mut dice = Rng::new(64);
    let (mut functions, mut sizes, mut keys) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for path in cases("classic") {
        let capture = classic(&path);
        if capture.states.iter().all(|buffer| buffer.bytes.is_empty()) {
            continue;
        }
        let buffers = scattered(&capture, &mut dice);
        assert_eq!(buffers.len() as u64, CPUS);
        let mut whole = Aggregates::new(false);
        buffers.iter().for_each(|buffer| whole.take(&capture, buffer).unwrap());
        let members = capture.aggregations.iter().flat_map(|aggregation| &aggregation.keys);
        keys.extend(members.map(|rec| (rec.code, rec.size)));
        functions.extend(whole.entries().map(|entry| entry.value.function));
        // One part, one part for each CPU, and any number between.
        for n_parts in [1, CPUS, dice.below(CPUS) + 1, dice.below(CPUS) + 1] {
            let mut parts: Vec<Aggregates> = (0..n_parts).map(|_| Aggregates::new(false)).collect();
            for (at, buffer) in buffers.iter().enumerate() {
                let part = if n_parts == CPUS { at as u64 } else { dice.below(n_parts) };
                parts[part as usize].take(&capture, buffer).unwrap();
            }
            sizes.insert(parts.iter().filter(|part| part.entries().next().is_some()).count());
            // Any two are merged, in either direction, until one is left.
            while parts.len() > 1 {
                let one = parts.swap_remove(dice.below(parts.len() as u64) as usize);
                let at = dice.below(parts.len() as u64) as usize;
                match dice.below(2) {
                    0 => parts[at].absorb(one),
                    _ => {
                        let other = std::mem::replace(&mut parts[at], one);
                        parts[at].absorb(other);
                    }
                }
            }
            assert_eq!(sorted(&parts[0]), sorted(&whole), "{} in {n_parts}", name_of(&path));
        }
    }
    assert_eq!(functions.len(), 9, "{functions:?}");
    // Numbers of each size, strings, bytes, stacks, symbols and modules, of the kernel and of processes.
    let kinds: BTreeSet<u16> = keys.iter().map(|(code, _)| *code).collect();
    assert!([1, 2, 4, 8].iter().all(|size| keys.contains(&(1, *size))), "{keys:?}");
    assert!(kinds.len() >= 7 && keys.len() >= 13, "{keys:?}");
    assert!(sizes.contains(&1) && sizes.contains(&64) && sizes.len() > 20, "{sizes:?}");
}
