//! Cells of programs that record themselves, read as rows.

use quipu_cells::cell::{LOW, access, kind as cell_kind};
use quipu_cells::describe::META_VERSION;
use quipu_cells::layout::{
    CELLS_END, CELLS_START, FRAME_BYTES, Frame, HEADER_BYTES, OPEN, TRAILER_BYTES, encoding, kind, open, tag,
};
use quipu_cells::whole;
use quipu_stream::frame::{Header, encoding as known};
use quipu_stream::reader::{Content, StreamReader};
use quipu_stream::scan::FrameAt;
use quipu_stream::select::{Choice, Select};
use quipu_stream::slice::select;

/// The cell of an 8-byte store.
fn store(nth: u64) -> [u64; 2] {
    [u64::from(access::WRITE | 3) << 48 | (0x1000 + 8 * nth), 0x40_0000]
}

/// The cells of a lock being taken.
fn lock(stamp: u64) -> [[u64; 2]; 3] {
    let head = u64::from(cell_kind::SYNC) << 56 | 2 << 48;
    [[head | 0x5000, 0x40_0010], [stamp, 5], [0, 0]]
}

/// A record: name of its schema, its time, and its address, if it has one.
type Seen = (String, u64, Option<u64>);

/// Returns the records, the names of the findings, and the number of duplicate frames.
fn read(bytes: &[u8]) -> (Vec<Seen>, Vec<&'static str>, u64) {
    let mut reader = StreamReader::new(bytes);
    let mut rows = Vec::new();
    while let Some(part) = reader.next_part().unwrap() {
        let Content::Rows(batch) = part.content else { continue };
        for (table, row) in batch.in_order() {
            let addr = table.schema.fields.iter().position(|field| field.field.name == "addr");
            let addr = addr.and_then(|at| table.columns[at].as_int(row)).map(|addr| addr as u64);
            rows.push((table.schema.name(), table.times[row], addr));
        }
    }
    let session = reader.session();
    (rows, session.findings.iter().map(|finding| finding.name).collect(), session.duplicates())
}

/// An open frame of thread 1 with these cells; `None` is a cell that was claimed and not written.
fn buffer(seq: u64, cells: &[Option<[u64; 2]>]) -> Vec<u8> {
    let producer = Header::read(&whole::head()).unwrap().producer;
    let frame = Frame {
        kind: kind::OPEN,
        encoding: encoding::CELLS,
        len: (FRAME_BYTES - HEADER_BYTES - TRAILER_BYTES) as u32,
        producer,
        ..Frame::default()
    };
    let mut out = vec![0; FRAME_BYTES];
    out[..HEADER_BYTES].copy_from_slice(&frame.header());
    out[FRAME_BYTES - TRAILER_BYTES..].copy_from_slice(&frame.trailer());
    let mut put = |at: usize, word: u64| out[at..at + 8].copy_from_slice(&word.to_le_bytes());
    put(open::STATE, OPEN | 1 << 32);
    put(open::SEQ, seq);
    put(open::META_VERSION, META_VERSION.into());
    put(open::TS_FIRST, 3);
    put(open::TAG, tag(7));
    // Cells left by an earlier use of the buffer do not count: they have another tag.
    for at in (CELLS_START..CELLS_END).step_by(16) {
        put(at, store(99)[0]);
        put(at + 8, store(99)[1] | tag(6));
    }
    for (nth, cell) in cells.iter().enumerate() {
        if let Some([word, side]) = cell {
            put(CELLS_START + 16 * nth, *word);
            put(CELLS_START + 16 * nth + 8, side & LOW | tag(7));
        }
    }
    out
}

#[test]
fn a_recording_is_read_without_a_finding() {
    let cells = [&[store(0), store(1)][..], &lock(4), &[store(2)]].concat();
    let bytes = whole::recording(&[(4242, &[&cells, &[store(3)]])]);
    let (rows, findings, duplicates) = read(&bytes);
    let expected = [
        ("access", 0, Some(0x1000)),
        ("access", 0, Some(0x1008)),
        ("sync", 4, None),
        ("access", 4, Some(0x1010)),
        ("access", 0, Some(0x1018)),
        ("process", 0, None),
        ("process", 0, None),
    ];
    let expected = expected.map(|(name, time, addr)| (name.to_owned(), time, addr));
    assert_eq!((rows, findings, duplicates), (expected.to_vec(), vec![], 0));
}

#[test]
fn a_buffer_is_read_up_to_what_was_written_last() {
    let lock = lock(5);
    let cells = [Some(store(0)), Some(lock[0]), Some(lock[1]), Some(lock[2]), None, Some(store(1)), None];
    let bytes = [whole::head(), buffer(1, &cells)].concat();
    let (rows, findings, _) = read(&bytes);
    let names: Vec<_> = rows.iter().map(|(name, time, _)| (&**name, *time)).collect();
    let process = [("process", 0); 2];
    let of_thread = [("access", 3), ("sync", 5), ("unwritten", 5), ("access", 5)];
    assert_eq!(names, [&process[..], &of_thread].concat());
    // The recording has no END frame.
    assert_eq!(findings, ["no-end-frame"]);
    // If a program dies at any point, the events completed before are read.
    for n in 0..=cells.len() {
        let bytes = [whole::head(), buffer(1, &cells[..n])].concat();
        let whole_events = [0, 1, 1, 1, 2, 2, 4, 4][n];
        let rows = read(&bytes).0.into_iter().skip(2).filter(|(name, ..)| name != "unwritten" || n > 4);
        assert_eq!(rows.count(), whole_events, "{n}");
    }
}

#[test]
fn a_buffer_that_was_written_out_counts_once() {
    let closed = whole::recording(&[(4242, &[&[store(0)]])]);
    let bytes = [closed, buffer(1, &[Some(store(0)), Some(store(1))])].concat();
    let (rows, findings, duplicates) = read(&bytes);
    assert_eq!(rows.iter().filter(|(name, ..)| name == "access").count(), 1);
    assert_eq!((findings, duplicates), (vec![], 1));
}

/// Keeps only accesses; selects from every frame of cells.
struct Accesses;

impl Select for Accesses {
    fn order(&mut self, _: &mut Vec<FrameAt>) {}

    fn frame(&mut self, frame: &FrameAt) -> Choice {
        if frame.header.encoding == known::CELLS { Choice::Rows } else { Choice::Whole }
    }

    fn row(&mut self, _: &FrameAt, row: &quipu_stream::select::Row) -> bool {
        row.schema == quipu_cells::describe::schema::ACCESS
    }
}

#[test]
fn a_part_of_a_recording_is_rows() {
    let cells = [&[store(0)][..], &lock(4), &[store(2)]].concat();
    let closed = whole::recording(&[(4242, &[&cells])]);
    let bytes = [closed, buffer(2, &[Some(store(3)), None, Some(store(4))])].concat();
    let mut out = Vec::new();
    select(&mut &bytes[..], 0..bytes.len() as u64, &mut Accesses, &mut out).unwrap();
    let (rows, findings, _) = read(&out);
    let addrs: Vec<_> = rows.iter().filter_map(|(_, _, addr)| *addr).collect();
    assert_eq!(addrs, [0x1000, 0x1010, 0x1018, 0x1020]);
    assert_eq!(findings, Vec::<&str>::new());
    assert!(!rows.iter().any(|(name, ..)| name == "sync" || name == "unwritten"));
}

#[test]
fn a_private_number_under_another_name_is_no_cells() {
    let mut bytes = whole::recording(&[(4242, &[&[store(0), store(1)]])]);
    let at = bytes.windows(11).position(|name| name == b"quipu.cells").unwrap();
    bytes[at] = b'Q';
    // Repairs the checksums of that frame's payload and header.
    let start = bytes[..at].windows(8).rposition(|it| it == quipu_stream::frame::SYNC).unwrap();
    let mut header = Header::read(&bytes[start..]).unwrap();
    let payload = start + HEADER_BYTES..start + HEADER_BYTES + header.stored_len as usize;
    header.payload_crc = quipu_stream::wire::crc32c(&bytes[payload]);
    bytes[start..start + HEADER_BYTES].copy_from_slice(&header.to_bytes());
    let (rows, findings, _) = read(&bytes);
    assert!(rows.iter().all(|(name, ..)| name == "process"), "{rows:?}");
    assert_eq!(findings, ["records-undecodable"]);
}
