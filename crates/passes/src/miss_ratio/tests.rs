//! Tests of `miss-ratio`: exact ratios equal those of a plain LRU cache, and sampled ones are within their stated errors.

use super::*;
use crate::sample::{assert_batches_do_not_show, json};
use quipu_engine::plan;
use quipu_model::Given;
use serde_json::Value;

/// A program that uses a few lines all the time, walks through a table, and occasionally touches a random line.
fn program(n: u64, spread: u64) -> (String, Vec<u64>) {
    let mut x = 12345u64;
    let mut random = move |below: u64| {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) % below
    };
    let (mut text, mut lines) = (String::new(), Vec::new());
    for i in 0..n {
        let line = match random(10) {
            0..4 => random(spread / 16),
            4..8 => spread + i % (spread / 4),
            // Some lines far more often than others.
            _ => 4 * spread + random(spread) * random(spread) / spread,
        };
        text += &format!("read {:#x} 8\n", line * 64 + random(8) * 8);
        lines.push(line);
    }
    (text, lines)
}

/// The miss ratio of a plain LRU cache of this many lines.
fn plain(lines: &[u64], size: usize) -> f64 {
    let mut held: Vec<u64> = Vec::new();
    let mut misses = 0;
    for line in lines {
        match held.iter().position(|known| known == line) {
            Some(at) => drop(held.remove(at)),
            None => misses += 1,
        }
        held.insert(0, *line);
        held.truncate(size);
    }
    f64::from(misses) / lines.len() as f64
}

fn points(found: &Value) -> Vec<(u64, f64, Option<f64>)> {
    let points = found["points"].as_array().unwrap().iter();
    points
        .map(|point| {
            (point["size"].as_u64().unwrap(), point["miss_ratio"].as_f64().unwrap(), point["error"].as_f64())
        })
        .collect()
}

#[test]
fn exact_ratios_are_those_of_a_plain_cache() {
    let (text, lines) = program(3000, 256);
    let found = json(&MissRatio, "", &text);
    let points = points(&found);
    assert!(points.len() > 10 && found["sampled"].is_null());
    for (size, ratio, error) in &points {
        let expected = plain(&lines, (size / 64) as usize);
        assert!((ratio - expected).abs() < 1e-9, "{size}: {ratio}, expected {expected}");
        assert_eq!(*error, None);
    }
    // After the last size only first uses are left.
    let distinct: std::collections::BTreeSet<u64> = lines.iter().copied().collect();
    assert_eq!(found["lines"], distinct.len() as u64);
    assert!((points.last().unwrap().1 - distinct.len() as f64 / 3000.0).abs() < 1e-9);
}

#[test]
fn sampled_ratios_are_as_near_as_they_say() {
    let (text, _) = program(60_000, 8192);
    let exact = points(&json(&MissRatio, "", &text));
    for sample in ["0.2", "2048"] {
        let found = json(&MissRatio, &format!("sample={sample}"), &text);
        let sampled = points(&found);
        let of = |size: u64| exact.iter().rev().find(|point| point.0 <= size).unwrap().1;
        let off: Vec<f64> = sampled.iter().map(|point| (point.1 - of(point.0)).abs()).collect();
        let mean = off.iter().sum::<f64>() / off.len() as f64;
        let stated = found["mean_error"].as_f64().unwrap();
        assert!(mean < 0.05 && mean < 2.0 * stated + 0.005, "{sample}: mean {mean}, stated {stated}");
        // Three standard errors, plus the rounding of the bins.
        for (point, off) in sampled.iter().zip(&off) {
            assert!(*off <= 3.0 * point.2.unwrap() + 0.005, "{sample}: {point:?} {off}");
        }
        assert!(found["sampled"].as_u64().unwrap() < 30_000);
        assert!(found["mean_error"].as_f64().unwrap() <= found["largest_error"].as_f64().unwrap());
        let lines = json(&MissRatio, "", &text)["lines"].as_f64().unwrap();
        assert!((found["lines"].as_f64().unwrap() / lines - 1.0).abs() < 0.15);
    }
}

#[test]
fn a_steep_place_that_a_small_sample_misplaces_is_within_the_error() {
    // A few lines repeatedly, and a loop over enough lines that caches of up to 512 lines miss all of them.
    let mut text = String::new();
    for i in 0..40_000u64 {
        let line = if i % 8 == 0 { 1000 + i / 8 % 510 } else { i % 4 };
        text += &format!("read {:#x} 8\n", line * 37 * 64);
    }
    let exact = points(&json(&MissRatio, "", &text));
    let mut n_wide = 0;
    for sample in ["0.08", "0.1", "0.12", "0.15", "0.2", "0.3", "64", "100", "200"] {
        let found = json(&MissRatio, &format!("sample={sample}"), &text);
        assert_eq!(found["is_coarse"], true, "{sample}");
        assert!(found["sampled_lines"].as_u64().unwrap() < 2000);
        for point in points(&found) {
            let Some(of) = exact.iter().rev().find(|exact| exact.0 <= point.0) else { continue };
            let (off, error) = ((point.1 - of.1).abs(), point.2.unwrap());
            n_wide += u32::from(error > 0.05);
            assert!(off <= 3.0 * error + 0.01, "{sample}: {point:?}, exact {}", of.1);
        }
    }
    assert!(n_wide > 0);
    assert_eq!(json(&MissRatio, "sample=0.9", &text)["is_coarse"], true);
    // All lines are in this sample, so it is complete and nothing is coarse.
    assert_eq!(json(&MissRatio, "sample=100000", &text)["is_coarse"], false);
    assert!(json(&MissRatio, "", &text)["is_coarse"].is_null());
}

#[test]
fn sizes_that_a_sample_is_too_coarse_for_are_left_out() {
    let (text, _) = program(20_000, 8192);
    let first = |sample: &str| points(&json(&MissRatio, &format!("sample={sample}"), &text))[0].0 / 64;
    // All lines fit into the last sample, so it is complete.
    assert_eq!([first("0.1"), first("0.5"), first("100000")], [96, 16, 1]);
    let found = json(&MissRatio, "sample=0.1", "read 0x40 8\nread 0x40 8\nread 0x80 8");
    assert!(points(&found).is_empty() && found["mean_error"].is_null() && !found["sampled"].is_null());
}

#[test]
fn sides_can_be_looked_at_alone() {
    let text =
        "instr 0x1000 4\nread 0x9000 8\ninstr 0x1004 4\nread 0x9000 8\nread 0xa000 8\nflush-data 0x9000 64";
    let accesses = |side: &str| json(&MissRatio, &format!("side={side}"), text)["accesses"].as_u64();
    assert_eq!([accesses("all"), accesses("instr"), accesses("data")], [Some(5), Some(2), Some(3)]);
}

#[test]
fn batches_do_not_show() {
    assert_batches_do_not_show(&MissRatio, "", &crate::sample::trace(&program(500, 64).0));
    assert_batches_do_not_show(&MissRatio, "sample=64", &crate::sample::trace(&program(500, 64).0));
}

#[test]
fn an_option_that_makes_no_sense_is_refused() {
    let trace = crate::sample::trace("");
    for (name, value) in [("sample", "2.5"), ("sample", "10"), ("sample", "few"), ("side", "left")] {
        let mut given = Given::default();
        given.add(name, value);
        let error = plan(&MissRatio, &given, &trace).err().expect("refused");
        assert!(error.message().contains(&format!("`{value}`")), "{}", error.message());
    }
}
