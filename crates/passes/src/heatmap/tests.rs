//! Tests of `heatmap` on traces of a few rows.

use super::*;
use crate::sample::{assert_division_of_does_not_show, json, report, report_of, trace};
use quipu_testkit::{ALL_COLUMNS, MemoryShard, MemoryTrace, Rng};
use serde_json::json;

#[test]
fn accesses_count_where_their_first_byte_lies_at_the_instruction_before_them() {
    let text = "
        instr 0x1000 4
        read 0x7f000020 64
        instr 0x1004 4
        write 0x7f000020 8
        prefetch 0x7f000020 8
        flush-data 0x9000000 64
        instr 0x1040 4";
    let heat = json(&Heatmap, "", text);
    assert_eq!(
        (&heat["axis"], &heat["columns"], &heat["accesses"]),
        (&json!("instructions"), &json!(3), &json!(6))
    );
    let row = |addr: &str, fetches: u64, reads: u64, writes: u64, counts: [u64; 3]| json!({ "addr": addr, "bytes": 64, "fetches": fetches, "reads": reads, "writes": writes, "counts": counts });
    assert_eq!(
        heat["rows"],
        json!([
            row("0x1000", 2, 0, 0, [1, 1, 0]),
            row("0x1040", 1, 0, 0, [0, 0, 1]),
            row("0x7f000000", 0, 2, 1, [1, 2, 0]),
        ])
    );
}

#[test]
fn far_places_are_bands_of_their_own_in_the_colour_of_what_prevails() {
    let text = "instr 0x1000 4\nread 0x1040 4\nread 0x7f000000 4\nread 0x7f000400 4";
    let document = report(&Heatmap, "", text).document(Detail::Full);
    let Block::HeatMap(map) = &document.blocks[0] else { panic!("no heat map: {document:?}") };
    let bands: Vec<(&str, &str, Vec<usize>)> = map
        .bands
        .iter()
        .map(|band| (&*band.name, &*band.note, band.rows.iter().map(|row| row.hue).collect()))
        .collect();
    assert_eq!(
        bands,
        [("0x1000", "128 B, 64 B a row", vec![1, 0]), ("0x7f000000", "1.06 KiB, 64 B a row", vec![0, 0])]
    );
}

#[test]
fn bands_are_few_and_lose_no_row() {
    let text: String = (0..200u64).map(|i| format!("read {} 4\n", i << 22)).collect();
    let report = report(&Heatmap, "", &text);
    let heat = report.as_any().downcast_ref::<AddressHeat>().unwrap();
    let bands = heat.bands();
    assert!(bands.len() <= MAX_BANDS);
    assert_eq!(bands.concat(), heat.rows);
    assert_eq!(heat.accesses, 200);
}

#[test]
fn long_traces_have_few_columns_and_lose_no_access() {
    let text: String = (0..5000u64).map(|i| format!("instr {} 4\nread {} 8\n", i % 64, i * 4096)).collect();
    let report = report(&Heatmap, "", &text);
    let heat = report.as_any().downcast_ref::<AddressHeat>().unwrap();
    assert_eq!((heat.interval, heat.columns), (64, 79));
    assert_eq!(heat.accesses, 10_000);
    let in_column = |column: usize| heat.rows.iter().map(|row| row.counts[column]).sum::<u64>();
    assert_eq!(in_column(0), 128);
    assert_eq!(in_column(78), 16);
}

#[test]
fn without_fetches_positions_are_records() {
    let trace = trace("read 0x100 4\nmark 1 1\nread 0x100 4");
    let heat = report_of(&Heatmap, "", &trace.with_columns(ALL_COLUMNS.minus(Columns::ACCESS_FETCH))).json();
    assert_eq!(heat["axis"], "records");
    assert_eq!(heat["rows"][0]["counts"], json!([1, 0, 1]));
}

/// Shards that touch places of many sizes, in instructions with any number of accesses each, in pieces.
fn random(seed: u64) -> MemoryTrace {
    let mut rng = Rng::new(seed);
    let shards = (0..3).map(|shard| {
        let mut rows = MemoryShard::new("random").thread(shard, 1);
        for _ in 0..1500 {
            let place = 0x10_0000 << (3 * rng.below(12));
            let offset = rng.next() >> (64 - 1 - rng.below(30));
            rows = match rng.below(10) {
                0 => rows.mark(1, 1),
                1 if rng.below(8) == 0 => rows.piece(),
                1..5 => rows.instr(0x40_0000 + rng.below(3000), 4),
                _ => rows.read(place + offset, 1 << rng.below(8)),
            };
        }
        rows
    });
    MemoryTrace::new(shards.collect())
}

#[test]
fn the_division_of_the_work_does_not_show() {
    for seed in 0..12 {
        assert_division_of_does_not_show(&Heatmap, "", &random(seed));
        let without = random(seed).with_columns(ALL_COLUMNS.minus(Columns::ACCESS_FETCH));
        assert_division_of_does_not_show(&Heatmap, "", &without);
    }
}
