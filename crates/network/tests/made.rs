//! Streams for tests of sending.

use quipu_stream::codec::Codec;
use quipu_stream::spec::{SchemaSpec, Ty};
use quipu_stream::write::{Options, Writer};

/// The UUID of a producer.
pub(crate) fn uuid(producer: u64) -> [u8; 16] {
    let mut uuid = [7; 16];
    uuid[..8].copy_from_slice(&producer.to_le_bytes());
    uuid
}

/// A stream of a producer with this many records in each of two streams, in frames of about this many bytes.
pub(crate) fn stream(producer: u64, n_records: u64, frame_bytes: usize) -> Vec<u8> {
    let mut options = Options { codec: Codec::None, frame_bytes, ..Options::new("test") };
    options.producer.uuid = uuid(producer);
    let writer = Writer::new(Vec::new(), options);
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    for number in 1..3 {
        let mut stream = writer.stream(number).unwrap();
        for n in 0..n_records {
            stream.row(id, n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
        }
        stream.finish().unwrap();
    }
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

/// Reads a stream: the times of all records, findings, and the number of lost records.
pub(crate) fn read(bytes: &[u8]) -> (Vec<u64>, Vec<String>, u64) {
    use quipu_stream::input::Pipe;
    use quipu_stream::reader::{Content, StreamReader};
    let mut reader = StreamReader::once(Pipe::new(bytes));
    let mut times = Vec::new();
    while let Some(part) = reader.next_part().unwrap() {
        if let Content::Rows(batch) = part.content {
            times.extend(batch.in_order().map(|(rows, row)| rows.times[row]));
        }
    }
    let lost = reader.session().lost().values().sum();
    (times, reader.session().findings.iter().map(ToString::to_string).collect(), lost)
}
