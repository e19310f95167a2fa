//! A reader of SynchroTraceGen's messages for tests: any number of segments, far pointers included.

/// Ranges of addresses.
type Ranges = Vec<(u64, u64)>;

/// An event of either form, reduced to the parts that tests compare.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    /// Counts in the order of the structure; written ranges, read ranges.
    Computation([u64; 4], Ranges, Ranges),
    /// Operations, kind of the access, its range.
    Plain([u64; 2], u64, (u64, u64)),
    /// Thread, event and ranges of each edge.
    Communication(Vec<(u64, u64, Ranges)>),
    Sync(u64, Vec<u64>),
    Marker(u64),
}

fn unpack(packed: &[u8]) -> Vec<u64> {
    let (mut words, mut at) = (Vec::new(), 0);
    let take = |at: &mut usize| {
        *at += 1;
        packed[*at - 1]
    };
    while at < packed.len() {
        let tag = take(&mut at);
        let mut word = [0; 8];
        for (bit, byte) in word.iter_mut().enumerate() {
            if tag >> bit & 1 == 1 {
                *byte = take(&mut at);
            }
        }
        words.push(u64::from_le_bytes(word));
        if tag == 0 {
            let zeros = take(&mut at);
            words.extend(std::iter::repeat_n(0, usize::from(zeros)));
        } else if tag == 0xff {
            for _ in 0..take(&mut at) {
                words.push(u64::from_le_bytes(packed[at..at + 8].try_into().unwrap()));
                at += 8;
            }
        }
    }
    words
}

/// The target of a pointer, with the pointer's own bits.
struct Target {
    segment: usize,
    at: usize,
    tag: u64,
}

struct Segments<'a>(Vec<&'a [u64]>);

impl Segments<'_> {
    fn word(&self, segment: usize, at: usize) -> u64 {
        self.0[segment][at]
    }

    fn follow(&self, segment: usize, at: usize) -> Option<Target> {
        let word = self.word(segment, at);
        if word == 0 {
            return None;
        }
        if word & 3 != 2 {
            let offset = (word as u32 as i32) >> 2;
            let at = (at as i64 + 1 + i64::from(offset)) as usize;
            return Some(Target { segment, at, tag: word });
        }
        let (pad, far) = ((word as u32 >> 3) as usize, (word >> 32) as usize);
        if word & 4 == 0 {
            return self.follow(far, pad);
        }
        let first = self.word(far, pad);
        let at = (first as u32 >> 3) as usize;
        Some(Target { segment: (first >> 32) as usize, at, tag: self.word(far, pad + 1) })
    }

    /// The elements of a list of structures: segment, position, words of data.
    fn structures(&self, segment: usize, at: usize) -> Vec<(usize, usize, usize)> {
        let Some(target) = self.follow(segment, at) else { return Vec::new() };
        assert_eq!(target.tag >> 32 & 7, 7, "a list of structures");
        let tag = self.word(target.segment, target.at);
        let (count, data, pointers) = ((tag as u32 >> 2) as usize, tag >> 32 & 0xffff, tag >> 48);
        let size = (data + pointers) as usize;
        (0..count).map(|index| (target.segment, target.at + 1 + index * size, data as usize)).collect()
    }

    fn ranges(&self, segment: usize, at: usize) -> Ranges {
        let all = self.structures(segment, at).into_iter();
        all.map(|(segment, at, _)| (self.word(segment, at), self.word(segment, at + 1))).collect()
    }

    fn words(&self, segment: usize, at: usize) -> Vec<u64> {
        let Some(target) = self.follow(segment, at) else { return Vec::new() };
        assert_eq!(target.tag >> 32 & 7, 5, "a list of words");
        (0..(target.tag >> 35) as usize).map(|index| self.word(target.segment, target.at + index)).collect()
    }
}

/// Reads all events of all messages.
pub(crate) fn read(packed: &[u8]) -> Vec<Message> {
    let words = unpack(packed);
    let (mut all, mut rest) = (Vec::new(), words.as_slice());
    while !rest.is_empty() {
        let half = |index: usize| rest[index / 2] >> (32 * (index % 2)) & 0xffff_ffff;
        let count = half(0) as usize + 1;
        let mut body = &rest[count / 2 + 1..];
        let mut segments = Segments(Vec::new());
        for index in 0..count {
            let (segment, after) = body.split_at(half(index + 1) as usize);
            segments.0.push(segment);
            body = after;
        }
        rest = body;
        let root = segments.follow(0, 0).unwrap();
        for (segment, at, data) in
            segments.structures(root.segment, root.at + (root.tag >> 32 & 0xffff) as usize)
        {
            let word = |index: usize| segments.word(segment, at + index);
            let part = |index: u64| word(0) >> (16 * index) & 0xffff;
            let pointer = at + data;
            let is_plain = data == 4;
            let range = || (word(1), word(2));
            all.push(match (word(data - 1) & 0xffff, is_plain) {
                (0, false) => Message::Computation(
                    [part(0), part(1), part(2), part(3)],
                    segments.ranges(segment, pointer),
                    segments.ranges(segment, pointer + 1),
                ),
                (0, true) => Message::Plain([part(0), part(1)], part(2), range()),
                (1, true) => Message::Communication(vec![(part(0), word(0) >> 32, vec![range()])]),
                (1, false) => {
                    let edges = segments.structures(segment, pointer).into_iter();
                    Message::Communication(
                        edges
                            .map(|(segment, at, data)| {
                                let word = segments.word(segment, at);
                                (word & 0xffff, word >> 32, segments.ranges(segment, at + data))
                            })
                            .collect(),
                    )
                }
                (2, _) => Message::Sync(part(0), segments.words(segment, pointer)),
                (3, _) => Message::Marker(part(0)),
                other => panic!("{other:?}"),
            });
        }
    }
    all
}
