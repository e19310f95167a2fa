//! Prints everything in a stream as one JSON object, for comparison with the expectations of the samples.

use crate::aggregate::Merger;
use crate::finding::Key;
use crate::frame::kind;
use crate::input::Input;
use crate::json::{self, Json, hex};
use crate::loss::cause_name;
use crate::reader::{Content, StreamReader};
use std::io;

/// Reads the stream to its end and summarizes it.
///
/// # Errors
/// Returns an error if the stream cannot be read.
pub fn of<I: Input>(reader: &mut StreamReader<I>) -> io::Result<Json> {
    let mut records = Vec::new();
    let mut bodies = Vec::new();
    let mut n_decoded = 0_u64;
    let mut merger = Merger::default();
    while let Some(part) = reader.next_part()? {
        match part.content {
            Content::Rows(batch) => {
                for (rows, row) in batch.in_order() {
                    let mut record = json::record(rows, row, part.metadata);
                    record.push(("stream".to_owned(), u64::from(part.header.stream).into()));
                    records.push(Json::Object(record));
                    n_decoded += 1;
                }
            }
            Content::Aggregations(batch, payload) => {
                merger.add(part.header.producer, part.header.stream, batch, payload, part.metadata);
            }
            Content::Foreign(body) => bodies.push(object([
                ("offset", part.offset.into()),
                ("stream", u64::from(part.header.stream).into()),
                ("seq", part.header.seq.into()),
                ("encoding", u64::from(part.header.encoding).into()),
                ("records", u64::from(part.header.records).into()),
                ("bytes", (body.len() as u64).into()),
            ])),
        }
    }
    let session = reader.session();
    let mut all = vec![
        ("findings".to_owned(), Json::List(session.findings.iter().map(finding).collect())),
        ("records_decoded".to_owned(), n_decoded.into()),
        ("duplicates".to_owned(), session.duplicates().into()),
        ("unwritten_bytes".to_owned(), reader.unwritten_bytes().into()),
    ];
    let mut put = |name: &str, value: Json| {
        let is_empty = matches!(&value, Json::List(items) if items.is_empty())
            || matches!(&value, Json::Object(pairs) if pairs.is_empty());
        // Most streams have few of these, so empty ones are omitted.
        if !is_empty || name == "losses" || name == "lost" {
            all.push((name.to_owned(), value));
        }
    };
    put("producers", Json::List(session.producers().iter().map(|id| Json::from(*id)).collect()));
    put("losses", losses(session));
    put("lost", lost(session));
    put("clocks", clocks(session));
    put("attachments", attachments(session));
    put("notes", Json::List(session.remarks.iter().map(|text| Json::from(text.as_str())).collect()));
    put("tables", tables(session));
    let merged = merger.finish();
    put(
        "merged",
        Json::Object(merged.iter().map(|(name, merged)| (name.clone(), merged.to_json())).collect()),
    );
    put("bodies", Json::List(bodies));
    put("frames", Json::List(session.frames().iter().map(frame).collect()));
    all.push(("records".to_owned(), Json::List(records)));
    Ok(Json::Object(all))
}

fn object<const N: usize>(pairs: [(&str, Json); N]) -> Json {
    Json::Object(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn finding(finding: &crate::finding::Finding) -> Json {
    let mut pairs = vec![("name".to_owned(), finding.name.into())];
    pairs.extend(finding.keys.iter().map(|(key, value)| {
        let value = match value {
            Key::Number(n) => (*n).into(),
            Key::Text(text) => text.as_str().into(),
        };
        ((*key).to_owned(), value)
    }));
    Json::Object(pairs)
}

fn losses(session: &crate::session::Session) -> Json {
    let losses = session.losses().into_iter().map(|(stream, loss)| {
        let kind = cause_name(loss.cause).map_or_else(|| loss.cause.to_string(), str::to_owned);
        let mut pairs = vec![
            ("kind".to_owned(), Json::Text(kind)),
            ("cause".to_owned(), loss.cause.into()),
            ("stream".to_owned(), u64::from(loss.stream.unwrap_or(stream)).into()),
            ("count".to_owned(), loss.records.unwrap_or_default().into()),
        ];
        let more = [
            ("bytes", loss.bytes),
            ("first_ts", loss.times.0),
            ("last_ts", loss.times.1),
            ("total", loss.total),
        ];
        pairs.extend(more.into_iter().filter_map(|(name, n)| Some((name.to_owned(), Json::from(n?)))));
        pairs.extend(loss.text.into_iter().map(|text| ("text".to_owned(), Json::Text(text))));
        Json::Object(pairs)
    });
    Json::List(losses.collect())
}

/// Number of lost records by stream, added up over producers.
fn lost(session: &crate::session::Session) -> Json {
    let mut by_stream = std::collections::BTreeMap::<u32, u64>::new();
    for ((_, stream), n) in session.lost() {
        let sum = by_stream.entry(stream).or_default();
        *sum = sum.saturating_add(n).min(crate::loss::MANY);
    }
    Json::Object(by_stream.into_iter().map(|(stream, n)| (stream.to_string(), n.into())).collect())
}

fn clocks(session: &crate::session::Session) -> Json {
    let clocks = session.clocks();
    let clocks = clocks.iter().map(|clock| {
        object([
            ("clock", u64::from(clock.clock).into()),
            ("ticks", clock.ticks.into()),
            ("unix_ns", Json::Int(clock.unix_ns)),
            ("uncertainty_ns", clock.uncertainty_ns.into()),
        ])
    });
    Json::List(clocks.collect())
}

fn attachments(session: &crate::session::Session) -> Json {
    let attachments = session.attachments().iter().map(|attachment| {
        let mut pairs = vec![
            ("name".to_owned(), Json::Text(attachment.name.clone())),
            ("bytes".to_owned(), attachment.len_bytes.into()),
        ];
        pairs.extend(attachment.media.iter().map(|media| ("media".to_owned(), Json::Text(media.clone()))));
        match attachment.bytes().map(String::from_utf8) {
            Some(Ok(text)) => pairs.push(("text".to_owned(), Json::Text(text))),
            Some(Err(error)) => pairs.push(("hex".to_owned(), Json::Text(hex(error.as_bytes())))),
            None => pairs.push(("complete".to_owned(), Json::Bool(false))),
        }
        Json::Object(pairs)
    });
    Json::List(attachments.collect())
}

/// Values of tables by id and index. Tables of later epochs replace earlier ones with the same id.
fn tables(session: &crate::session::Session) -> Json {
    let mut all = std::collections::BTreeMap::new();
    for epoch in session.epochs().values() {
        for (id, table) in epoch.metadata.tables() {
            let values = table.values.iter().map(|(at, value)| (at.to_string(), json::of_cbor(value)));
            all.insert(*id, Json::Object(values.collect()));
        }
    }
    Json::Object(all.into_iter().map(|(id, values)| (id.to_string(), values)).collect())
}

fn frame(frame: &crate::scan::FrameAt) -> Json {
    let header = &frame.header;
    let number = |n: u32| Json::from(u64::from(n));
    let mut pairs = vec![
        ("offset", frame.offset.into()),
        ("length", header.frame_len().into()),
        ("kind", number(header.kind.into())),
        ("encoding", number(header.encoding.into())),
        ("stream", number(header.stream)),
        ("seq", header.seq.into()),
        ("records", number(header.records)),
        ("ts_first", header.ts_first.into()),
        ("ts_last", header.ts_last.into()),
        ("flags", number(header.flags.into())),
        ("meta_version", number(header.meta_version)),
        ("stored_len", number(header.stored_len)),
        ("codec", number(header.codec.into())),
        ("epoch", number(header.epoch)),
        ("mask", number(header.mask.into())),
    ];
    if matches!(header.kind, kind::DATA | kind::AGG) {
        pairs.push(("lost", number(header.lost)));
    }
    Json::Object(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
