//! Prints the results of `histogram`.

use super::counts::line;
use quipu::passes::histogram::{LineHistogram, Side};

pub(super) fn write(histogram: &LineHistogram, top: u64, out: &mut Vec<u8>) {
    line(out, format_args!("Cache line histogram tool results:"));
    let sides = [("icache", &histogram.icache), ("dcache", &histogram.dcache)];
    for (name, side) in sides {
        line(out, format_args!("{name}: {} unique cache lines", side.unique_lines));
    }
    for (name, side) in sides {
        line(out, format_args!("{name} top {top}"));
        rows(side, out);
    }
}

fn rows(side: &Side, out: &mut Vec<u8>) {
    for row in &side.top {
        // QUIRK: the launcher prints zero without the prefix of hexadecimal numbers.
        let addr = if row.addr == 0 { "0".to_owned() } else { format!("{:#x}", row.addr) };
        line(out, format_args!("{addr:>18}: {}", row.count));
    }
}
