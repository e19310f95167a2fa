//! The rules of streams, each with its name, its severity and its entry in the manual; names are those of the format's page.

use quipu_model::loss::Amount;
use quipu_model::{Finding, Loss, Place, RuleInfo, harmless};
use quipu_source::CarrierDamage;
use quipu_stream::finding::{self, Key};
use quipu_stream::frame::{Header, encoding};
use quipu_stream::loss::{LostAfter, MANY, cause};
use quipu_stream::meta::Metadata;

quipu_model::rules! {
    "frames of streams" {
        LEADING "stream/leading-garbage" Warning
            "A stream begins with a frame."
            "Reading begins with the first frame found, as after joining a running stream." []
        LOST_SYNC "stream/lost-sync" Error
            "Each frame is followed directly by another frame."
            "Reading continues with the next valid frame header." []
        UNFINISHED "stream/unfinished-frame" Note
            "Every frame that was begun is finished."
            "A program that was killed left the frame that it was writing." []
        REUSED "stream/buffer-reused" Error
            "A buffer that is being filled is not reused while it is read."
            "The running program has written the buffer out since: its records are in a frame after the end of what was read. Read again." []
        TRUNCATED "stream/truncated-frame" Error
            "The last frame is complete."
            "Everything before it is valid." []
        TORN "stream/torn-frame" Error
            "A frame has its trailer."
            "The frame was cut off or overwritten; reading continues with the next frame." []
        VERSION "stream/unknown-version" Error
            "Frames have version 1."
            "Frames of other versions are skipped." []
        TOO_LARGE "stream/frame-too-large" Error
            "The lengths of a frame are within their limits."
            "Other frames are skipped." []
        PADDING "stream/padding-not-zero" Warning
            "The bytes after a payload are zeros."
            "These bytes are ignored." []
        CRC "stream/payload-crc" Error
            "The bytes of a payload match its checksum."
            "The records of the frame are lost, unless a copy of it comes later." []
        AUXILIARY "stream/auxiliary-frame" Warning
            "The bytes of an index, end or padding frame match their checksum."
            "These frames hold no records: the whole trace is read." []
        PAYLOAD "stream/payload-invalid" Error
            "A payload matches its header."
            "Everything before the fault is read." []
        KIND "stream/unknown-kind" Note
            "The kind of every frame is known."
            "Newer writers may write other kinds, which readers may skip." []
        ENCODING "stream/unknown-encoding" Error
            "The encoding of every payload is known."
            "The records of the frame are not read." []
        CODEC "stream/unknown-codec" Error
            "The codec of every payload is known."
            "The records of the frame are not read." []
        NEWER "stream/needs-newer-program" Error
            "The kind, encoding and codec of every critical frame are known."
            "Reading stops there, because later data may depend on it. Earlier data is delivered, and every verb ends with exit code 2." []
        FOREIGN "stream/foreign-body" Warning
            "Bodies of other formats are read by the families of these formats."
            "When rows of the stream are read, they are left out." []
    }
    "order of streams" {
        GAP "stream/sequence-gap" Error
            "Frames of a stream are numbered consecutively."
            "Frames are missing: they were lost in transit, or cut out." []
        LATE "stream/late-frame" Note
            "Frames come in order."
            "A missing frame, or a copy of a damaged one, came later and is used." []
        TWICE "stream/frame-twice" Note
            "Each frame of records occurs once in a stream."
            "Further copies are not read, unless the first is damaged. If a folder has a file twice, it is read once." []
        ORDER "stream/order-of-producers" Note
            "The relation between the clocks of several producers is known exactly."
            "Otherwise, the order of their records is uncertain within the error of the clocks." []
        TIME "stream/time-order" Warning
            "Times within a frame do not decrease, unless the frame is marked as unordered."
            "The records are read anyway." []
        INDEX "stream/index-mismatch" Warning
            "The entries of an index match the frames of the stream."
            "The frames themselves are read." []
        END_MISMATCH "stream/end-mismatch" Error
            "The numbers of frames and records match the counts in the end frame."
            "Some were lost, although frame numbers are consecutive." []
        NO_END "stream/no-end-frame" Warning
            "A producer ends its stream with an end frame."
            "The producer was killed or is still running, or the file was cut between two frames." []
        OTHER_RECORDER "stream/other-recorder" Warning
            "A recording has the tables that recorders of this version write."
            "It was made by a different version of the runtime: data that its tables lack is missing in analyses and conversions. Compile and record again." []
        LOST "stream/lost" Error
            "A producer drops no records."
            "The producer states how many records it had to drop; a copy of a damaged stream states the records lost by the damage." []
    }
    "what streams say of themselves" {
        RECORD "stream/record-invalid" Error
            "Records follow the types of their schema."
            "Other records are left out." []
        UNDECODABLE "stream/records-undecodable" Error
            "All records can be decoded."
            "The schema of the records is missing or invalid, or their bytes do not match its types." []
        META_GAP "stream/metadata-gap" Error
            "The stream contains the metadata that its frames need."
            "Records whose schema is missing are not decoded." []
        META_INVALID "stream/metadata-invalid" Warning
            "Metadata records are valid for their kind."
            "Invalid ones are not used; records that need them are not decoded." []
        META_CONFLICT "stream/metadata-conflict" Error
            "No metadata item is defined twice in different ways."
            "The first definition is used." []
        META_CANONICAL "stream/metadata-not-canonical" Note
            "Metadata is canonical CBOR."
            "It is read anyway." []
        OMITTED "stream/findings-omitted" Note
            "The list of findings about metadata is complete."
            "There are too many findings: some are only counted." []
        ATTACHMENT_CUT "stream/attachment-incomplete" Error
            "Attachments are complete."
            "Pieces of the attachment are missing." []
        ATTACHMENT_CONFLICT "stream/attachment-conflict" Error
            "Pieces of an attachment agree."
            "The first version is used." []
    }
}

/// The rule of a finding of the container; one that is not known counts as damage.
fn rule_of(name: &str) -> &'static RuleInfo {
    RULES.iter().find(|rule| rule.short_name() == name).unwrap_or(&PAYLOAD)
}

/// The rule that a finding of the container breaks.
fn rule_for(of: &finding::Finding) -> &'static RuleInfo {
    if of.is_auxiliary() { &AUXILIARY } else { rule_of(of.name) }
}

/// A finding of the container as damage of files in it.
pub(crate) fn damage(of: &finding::Finding, file: &str) -> CarrierDamage {
    let said = finding(of, file, None);
    CarrierDamage {
        file: file.to_owned(),
        offset: said.place.offset,
        next: said.loss.as_ref().and_then(|loss| loss.resumed.as_ref()?.offset),
        rule: rule_for(of).name,
        what: said.message,
        bytes: said.loss.and_then(|loss| loss.bytes.exactly()),
        ..CarrierDamage::default()
    }
}

/// The same of a frame with a body of another format, with what its header says of that. Headers count what bodies consist of:
/// several entries of drmemtrace may be one record, and not each line is one.
pub(crate) fn damage_of_body(of: &finding::Finding, header: &Header, file: &str) -> CarrierDamage {
    let n = of.number("records").filter(|n| *n > 0);
    let counted = match header.encoding {
        encoding::DRMEMTRACE => "entries",
        encoding::RAW_WORDS => "words",
        encoding::LINES => "lines",
        _ => "records",
    };
    let mut of = of.clone();
    of.keys.retain(|(key, _)| *key != "records");
    let of = n.into_iter().fold(of, |of, n| of.with(counted, n));
    CarrierDamage {
        records: records_in(header.encoding, n),
        bytes: Some(header.raw_len.into()).filter(|len| *len > 0),
        ..damage(&of, file)
    }
}

/// How many records a body has whose header counts this much, if what it counts are records.
pub(crate) fn records_in(encoding: u16, counted: Option<u64>) -> Option<u64> {
    counted.filter(|n| *n > 0 && !matches!(encoding, encoding::DRMEMTRACE | encoding::LINES))
}

/// What is said of damage of files in a stream, by who looks at the stream only.
pub(crate) fn of_damage(damage: &CarrierDamage) -> Finding {
    let rule = RULES.iter().find(|rule| rule.name == damage.rule).unwrap_or(&PAYLOAD);
    rule.broken(Place::from(damage), damage.what.clone()).by(damage)
}

/// A finding of the container as one of the trace.
pub(crate) fn finding(of: &finding::Finding, file: &str, record: Option<u64>) -> Finding {
    let rule = rule_for(of);
    let number = |key: &str| of.number(key);
    let offset = number("offset").or(number("first_offset"));
    let place = Place { file: Some(file.to_owned()), offset, record, ..Place::default() };
    let keys: Vec<String> = of
        .keys
        .iter()
        .filter(|(key, _)| !matches!(*key, "offset" | "first_offset"))
        .map(|(key, value)| {
            let key = key.replace('_', " ");
            match value {
                // Producers are known by the beginning of their UUID.
                Key::Number(n) if key == "producer" => format!("{key} {n:016x}"),
                Key::Number(n) => format!("{key} {n}"),
                Key::Text(text) => format!("{key} `{}`", harmless::escaped(text)),
            }
        })
        .collect();
    let message = match keys.is_empty() {
        true => of.name.replace('-', " "),
        false => format!("{}: {}", of.name.replace('-', " "), keys.join(", ")),
    };
    let found = rule.broken(place.clone(), message);
    let found = if of.name == "lost" { found.stated() } else { found };
    if !of.loses() {
        return found;
    }
    let resumed = number("resynced_at").map(|at| Place { offset: Some(at), ..place.clone() });
    found.losing(Loss {
        records: Amount::known(of.lost_records()),
        bytes: Amount::known(number("bytes_skipped").or(number("bytes_missing"))),
        stopped: place,
        resumed,
        ..Loss::default()
    })
}

/// What is said of records that a producer dropped. The counts of headers and of streams have one number for an unknown one.
pub(crate) fn dropped(n: u64, stream: u32, when: &str) -> String {
    let how_many = if n >= MANY { "an unknown number of".to_owned() } else { n.to_string() };
    format!("the producer dropped {how_many} records of stream {stream} {when}")
}

fn amount(n: u64) -> Amount {
    if n >= MANY { Amount::Unknown } else { Amount::Exactly(n) }
}

/// Records that a producer had to drop before a frame.
pub(crate) fn lost(n: u32, stream: u32, place: Place) -> Finding {
    let n = u64::from(n);
    let resumed = Some(place.clone());
    let loss = Loss { records: amount(n), stopped: place.clone(), resumed, ..Loss::default() };
    LOST.broken(place, dropped(n, stream, "before this frame")).losing(loss)
}

/// Records that a producer had to drop while the rows of an open frame were its last.
pub(crate) fn lost_beside(n: u32, stream: u32, place: Place) -> Finding {
    let n = u64::from(n);
    let loss = Loss { records: amount(n), stopped: place.clone(), ..Loss::default() };
    LOST.broken(place, dropped(n, stream, "beside those of this open frame")).losing(loss).stated()
}

/// What a recording says of why it ended before its program.
pub(crate) fn ended_early(what: u64, place: Place, counted: bool) -> Option<Finding> {
    use quipu_cells::layout::process;
    let why = match what {
        process::SIZE_REACHED => "the recording had reached the size that it may have",
        process::DISK_FULL => "the disk was full",
        _ => return None,
    };
    let finding = LOST.broken(place.clone(), format!("{why}: what came later was not recorded")).stated();
    // Threads count what they did not record, in the buffers that they have.
    Some(if counted { finding } else { finding.losing(Loss::from(place)) })
}

/// What tables of a recording lack, if it was made by another runtime.
pub(crate) fn other_recorder(metadata: &Metadata, file: &str) -> Option<Finding> {
    let described = metadata.schemas();
    let mut lacks = Vec::new();
    for table in quipu_cells::describe::tables() {
        let name = table.name();
        let Some(schema) = described.iter().find(|schema| schema.name() == name) else {
            lacks.push(format!("there is no table `{name}`"));
            continue;
        };
        if let Some(category) = table.category().filter(|of| schema.record.category.as_deref() != Some(of)) {
            lacks.push(format!("the table `{name}` does not say that it is of category `{category}`"));
        }
        let is_missing = |field: &&str| schema.fields.iter().all(|of| of.field.name != **field);
        lacks.extend(
            table.fields().filter(is_missing).map(|field| format!("the table `{name}` has no `{field}`")),
        );
    }
    let place = Place { file: Some(file.to_owned()), ..Place::default() };
    let what = format!("it was recorded by another runtime: {}", lacks.join("; "));
    (!lacks.is_empty()).then(|| OTHER_RECORDER.broken(place, what))
}

/// Records that are lost though no frame after them says so: a producer had to drop them after its last frame, or the stream
/// that this one was copied from had lost them.
pub(crate) fn lost_at_end(lost: &LostAfter, place: Place) -> Finding {
    let (n, stream) = (lost.records, lost.stream);
    let bytes = Amount::known(lost.bytes.filter(|_| lost.of_copy.is_some()));
    let loss = Loss { records: amount(n), bytes, stopped: place.clone(), ..Loss::default() };
    let said = match lost.of_copy {
        None => dropped(n, stream, "after its last frame"),
        Some(cause) => {
            let how_many = if n >= MANY { "an unknown number of".to_owned() } else { n.to_string() };
            let of_stream = if lost.is_named { format!(" of stream {stream}") } else { String::new() };
            let why = match cause {
                cause::TRUNCATED => "it was cut",
                cause::GAP => "frames were missing",
                cause::UNDECODABLE => "they could not be decoded",
                _ => "its bytes were damaged",
            };
            format!("what this was copied from lacks {how_many} records{of_stream}: {why}")
        }
    };
    LOST.broken(place, said).losing(loss)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_model::Severity;

    /// Other families that are carried by streams ask the container, and have to say the same.
    #[test]
    fn what_the_container_calls_harmless_is_no_error() {
        let mut n_harmless = 0;
        for rule in RULES {
            let of = finding::Finding::new(rule.short_name());
            let is_harmless = of.is_harmless();
            assert!(!(is_harmless && of.loses()), "{}", rule.name);
            assert!(!is_harmless || rule.severity != Severity::Error, "{}", rule.name);
            n_harmless += u32::from(is_harmless);
        }
        assert_eq!(n_harmless, 11);
    }
}
