//! Prefetchers: on each miss of a cache, they choose lines to fetch in addition.
//!
//! The next-line prefetcher is drcachesim's. The stride prefetcher (per instruction) and the stream prefetcher are our own;
//! they have tables of fixed size and learn from misses only.

use crate::spec::Prefetch;

/// Most lines that are requested at once.
pub(crate) const MAX_WANTED: usize = 4;

/// Entries of the table of strides, a power of two.
const STRIDES: usize = 256;
/// Number of streams tracked at once.
const STREAMS: usize = 16;
/// Number of consecutive misses that confirm a stream.
const CONFIRM: u8 = 2;
/// Largest distance between two misses of one stream, in lines.
const REACH: i64 = 8;

/// A prefetcher with its state.
#[derive(Clone, Debug)]
pub(crate) enum Prefetcher {
    None,
    NextLine,
    Stride(Box<[StrideEntry; STRIDES]>),
    Stream { streams: Box<[Stream; STREAMS]>, clock: u64 },
}

/// The last miss of one instruction and its stride.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StrideEntry {
    pc: u64,
    line: u64,
    stride: i64,
}

/// A run of misses in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stream {
    line: u64,
    step: i64,
    run: u8,
    used: u64,
}

impl Prefetcher {
    pub(crate) fn new(kind: Prefetch) -> Prefetcher {
        match kind {
            Prefetch::None => Prefetcher::None,
            Prefetch::NextLine => Prefetcher::NextLine,
            Prefetch::Stride => Prefetcher::Stride(Box::new([StrideEntry::default(); STRIDES])),
            Prefetch::Stream => {
                Prefetcher::Stream { streams: Box::new([Stream::default(); STREAMS]), clock: 0 }
            }
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Prefetcher::None)
    }

    /// Processes a miss; writes the lines to prefetch to `wanted` and returns their number.
    pub(crate) fn missed(&mut self, line: u64, pc: u64, wanted: &mut [u64; MAX_WANTED]) -> usize {
        match self {
            Prefetcher::None => 0,
            Prefetcher::NextLine => {
                wanted[0] = line.wrapping_add(1);
                1
            }
            Prefetcher::Stride(table) => {
                let entry = &mut table[(pc ^ (pc >> 8)) as usize % STRIDES];
                if entry.pc != pc {
                    *entry = StrideEntry { pc, line, ..StrideEntry::default() };
                    return 0;
                }
                let stride = line.wrapping_sub(entry.line) as i64; // The distance may be negative.
                let sure = stride == entry.stride && stride != 0;
                *entry = StrideEntry { pc, line, stride };
                if !sure {
                    return 0;
                }
                wanted[0] = line.wrapping_add_signed(stride);
                1
            }
            Prefetcher::Stream { streams, clock } => {
                *clock += 1;
                let ahead = |stream: &Stream| line.wrapping_sub(stream.line) as i64; // As above.
                let goes_on = |stream: &Stream| {
                    let distance = ahead(stream);
                    let fits = stream.run < CONFIRM || (distance > 0) == (stream.step > 0);
                    stream.run > 0 && distance != 0 && distance.unsigned_abs() <= REACH as u64 && fits
                };
                let Some(stream) = streams.iter_mut().find(|stream| goes_on(stream)) else {
                    if let Some(oldest) = streams.iter_mut().min_by_key(|stream| stream.used) {
                        *oldest = Stream { line, step: 0, run: 1, used: *clock };
                    }
                    return 0;
                };
                let step = ahead(stream).signum();
                let run =
                    if stream.run == 1 || step == stream.step { stream.run.saturating_add(1) } else { 1 };
                *stream = Stream { line, step, run, used: *clock };
                if run <= CONFIRM {
                    return 0;
                }
                for (place, n) in wanted.iter_mut().zip(1i64..) {
                    *place = line.wrapping_add_signed(step * n);
                }
                MAX_WANTED
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(prefetcher: &mut Prefetcher, misses: &[(u64, u64)]) -> Vec<u64> {
        let mut lines = [0; MAX_WANTED];
        let mut n = 0;
        for (line, pc) in misses {
            n = prefetcher.missed(*line, *pc, &mut lines);
        }
        lines[..n].to_vec()
    }

    #[test]
    fn the_next_line_is_the_one_behind() {
        assert_eq!(wanted(&mut Prefetcher::new(Prefetch::NextLine), &[(41, 0)]), [42]);
    }

    #[test]
    fn a_stride_needs_two_equal_distances_of_one_instruction() {
        let stride = || Prefetcher::new(Prefetch::Stride);
        assert!(wanted(&mut stride(), &[(10, 1), (17, 1)]).is_empty());
        assert_eq!(wanted(&mut stride(), &[(10, 1), (90, 2), (17, 1), (24, 1)]), [31]);
        assert_eq!(wanted(&mut stride(), &[(30, 1), (20, 1), (10, 1)]), [0]);
        assert!(wanted(&mut stride(), &[(10, 1), (17, 1), (25, 1)]).is_empty());
    }

    #[test]
    fn a_stream_goes_on_after_three_misses_in_one_direction() {
        let stream = || Prefetcher::new(Prefetch::Stream);
        assert!(wanted(&mut stream(), &[(10, 0), (11, 0)]).is_empty());
        assert_eq!(wanted(&mut stream(), &[(10, 0), (500, 0), (11, 0), (13, 0)]), [14, 15, 16, 17]);
        assert_eq!(wanted(&mut stream(), &[(20, 0), (19, 0), (18, 0)]), [17, 16, 15, 14]);
        assert!(wanted(&mut stream(), &[(20, 0), (40, 0), (60, 0)]).is_empty());
    }
}
