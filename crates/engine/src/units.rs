//! Division of a trace into units for passes that accept any pieces: the same for any number of threads, so the result is the
//! same.

use crate::window::Part;
use quipu_model::{Order, Scan, Shard, ShardKind, Trace, Window};
use std::ops::Range;

/// Pieces that are smaller than this on disk are joined, because forking and merging passes also has a cost.
const MIN_UNIT_PACKED_BYTES: u64 = 256 << 10;

/// A part of a shard that is read in one go, into passes of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) shard: u32,
    /// The pieces; all if `None`.
    pub(crate) pieces: Option<Range<u32>>,
    pub(crate) window: Window,
    /// Maximum number of records of the window to read.
    pub(crate) most: u64,
    /// The unit's share of the shard's size on disk, in bytes; 0 if unknown.
    pub(crate) packed_bytes: u64,
}

impl Unit {
    /// The read of this unit, with the columns and sizes of `template`.
    pub(crate) fn scan(&self, trace: &dyn Trace, template: &Scan) -> Scan {
        Scan {
            shard: trace.shards()[self.shard as usize].id,
            pieces: self.pieces.clone(),
            window: self.window.clone(),
            most: self.most.min(template.most),
            ..template.clone()
        }
    }
}

/// Whole shards with their windows. Shards that are not wanted are left out.
pub(crate) fn whole_shards(shards: &[Shard], part: &Part) -> Vec<Unit> {
    let parts = part.windows.iter().zip(&part.most);
    let wanted = (0..).zip(shards).zip(parts).filter(|(_, (window, _))| !is_empty(window));
    wanted
        .map(|((shard, info), (window, most))| Unit {
            shard,
            pieces: None,
            window: window.clone(),
            most: *most,
            packed_bytes: info.packed_bytes.unwrap_or(0),
        })
        .collect()
}

/// Pieces; small adjacent ones are joined until a unit is worth the overhead.
pub(crate) fn pieces(shards: &[Shard]) -> Vec<Unit> {
    let mut units = Vec::new();
    for (shard, info) in (0..).zip(shards) {
        // The records of a core depend on earlier ones: on the thread that ran, and whether it was asked to switch.
        let n_pieces = if info.kind == ShardKind::Core { 1 } else { info.pieces.max(1) };
        let per_unit = pieces_per_unit(info);
        let mut start = 0;
        while start < n_pieces {
            let end = start.saturating_add(per_unit).min(n_pieces);
            units.push(Unit {
                shard,
                pieces: (end - start < n_pieces).then_some(start..end),
                window: Window::All,
                most: u64::MAX,
                packed_bytes: share(info.packed_bytes.unwrap_or(0), end - start, n_pieces),
            });
            start = end;
        }
    }
    units
}

fn pieces_per_unit(shard: &Shard) -> u32 {
    let Some(packed_bytes) = shard.packed_bytes else { return 1 };
    let per_piece = (packed_bytes / u64::from(shard.pieces.max(1))).max(1);
    u32::try_from(MIN_UNIT_PACKED_BYTES.div_ceil(per_piece)).unwrap_or(u32::MAX)
}

/// `part / whole` of `bytes`, without overflow.
pub(crate) fn share(bytes: u64, part: u32, whole: u32) -> u64 {
    let share = u128::from(bytes) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

pub(crate) fn is_empty(window: &Window) -> bool {
    match window {
        Window::All => false,
        Window::Records(range) | Window::Instrs(range) | Window::Clock(range) => range.is_empty(),
    }
}

/// The strictest order that any of these tools needs.
pub(crate) fn strictest(orders: impl Iterator<Item = Order>) -> Order {
    orders.max().unwrap_or(Order::Pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_model::ShardId;

    fn shard(id: u32, n_pieces: u32, packed_bytes: Option<u64>) -> Shard {
        Shard { id: ShardId(id), pieces: n_pieces, packed_bytes, ..Shard::default() }
    }

    fn ranges(shard: Shard) -> Vec<Option<Range<u32>>> {
        pieces(&[shard]).into_iter().map(|unit| unit.pieces).collect()
    }

    #[test]
    fn a_large_piece_is_one_unit() {
        assert_eq!(ranges(shard(0, 3, Some(3 << 20))), [Some(0..1), Some(1..2), Some(2..3)]);
    }

    #[test]
    fn small_pieces_are_taken_together() {
        assert_eq!(ranges(shard(0, 5, Some(5 << 17))), [Some(0..2), Some(2..4), Some(4..5)]);
        assert_eq!(ranges(shard(0, 5, Some(10))), [None]);
    }

    #[test]
    fn a_shard_of_one_piece_is_read_without_a_range() {
        assert_eq!(ranges(shard(0, 1, None)), [None]);
        assert_eq!(ranges(shard(0, 0, None)), [None]);
    }

    #[test]
    fn a_core_is_never_divided() {
        assert_eq!(ranges(Shard { kind: ShardKind::Core, ..shard(0, 9, Some(9 << 20)) }), [None]);
    }

    #[test]
    fn a_shard_without_a_part_of_the_window_is_not_read() {
        let shards = [shard(0, 1, None), shard(1, 1, None)];
        let part = Part {
            windows: vec![Window::Records(5..5), Window::Records(0..5)],
            most: vec![u64::MAX; 2],
            before: Vec::new(),
            errors: Vec::new(),
            cancelled: false,
        };
        let units = whole_shards(&shards, &part);
        assert_eq!(units.iter().map(|unit| unit.shard).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn the_strictest_order_wins() {
        assert_eq!(strictest([Order::Pieces, Order::Time, Order::Shards].into_iter()), Order::Time);
        assert_eq!(strictest([].into_iter()), Order::Pieces);
    }
}
