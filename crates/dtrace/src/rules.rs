//! The rules of captures, each with its name, its severity and its entry in the manual.

use quipu_model::{Error, ErrorKind, Finding, Loss};

quipu_model::rules! {
    "buffers of DTrace" {
        UNKNOWN "dtrace/unknown-id" Error
            "The number (EPID) of each record is described."
            "Records do not store their length: after a number without a description, the rest of the buffer cannot be read." []
        CUT "dtrace/cut-record" Error
            "The last record of a buffer is complete."
            "Everything before it is valid." []
        CLEARED "dtrace/cleared-records" Warning
            "Zero bytes between records are only padding to the next alignment, at most one word."
            "More zeros may be overwritten records, or the rest of a ring that wrapped around; reading continues with the next record." ["N zero bytes stand before a record"]
        TIMES "dtrace/time-order" Warning
            "The times of a CPU never decrease."
            "Records are printed anyway; in order of time, they are placed by their times." ["time N of CPU N comes after N", "N more times come after later ones"]
        SIZE "dtrace/buffer-size" Error
            "The size of a buffer's file equals the size of the snapshot."
            "The bytes that both have are read." ["the file has N bytes, the snapshot had N"]
        MISSING "dtrace/missing-buffer" Error
            "The file of each buffer is beside the description."
            "The other buffers are read." []
    }
    "descriptions of DTrace" {
        PROBE "dtrace/unknown-probe" Warning
            "Each probe that fires is described."
            "Otherwise its records are printed without its name." ["probe N has no description", "more probes have no description"]
        FORMAT "dtrace/format" Error
            "The format of a record matches its data."
            "If a format cannot be parsed, or a conversion does not match its bytes, only the text before it is printed; other records are printed. Values of recursive types are shown to a limited depth." ["EPID N: the conversion `d` is given N bytes"]
        CHECKSUM "dtrace/description-checksum" Error
            "The checksum of a metadata record matches its bytes."
            "The metadata record is not used; a buffer ends at the first record that only it describes." []
        METADATA "dtrace/description-invalid" Error
            "A metadata record is valid for its kind, and contradicts no other."
            "The metadata record is not used." []
        LINE "dtrace/line" Error
            "Each line of `raw.jsonl` is an object that describes a probe, a statement, a sample or an aggregation."
            "Other lines are skipped." ["line N cannot be read"]
        ENCODING "dtrace/unknown-encoding" Error
            "The encoding of every body of a stream is known."
            "Bodies of unknown encodings are counted; others are read." []
        HOSTS "dtrace/several-hosts" Warning
            "All hosts of a capture have the same options for output that concerns all of them: the order by time, the messages about drops, and aggregations printed at the end."
            "The options of the first host are used. Records are printed with the time zone, locale, names and other options of the host that recorded them." ["N of N hosts have other options than the first for what is of all hosts"]
        TWICE "dtrace/repeated-frames" Note
            "Each frame of a stream occurs once."
            "A frame with the same producer, stream and number as another counts once, for example if a file is given twice. Captures of several machines that are otherwise equal need host names: `quipu convert --host NAME`." ["N frames stand again and count once"]
        STREAM "dtrace/stream" Error
            "The stream that carries the buffers is intact."
            "`quipu check --format stream` gives details." []
        ODD_STREAM "dtrace/odd-stream" Warning
            "The stream that carries the buffers breaks no rules of its format, not even harmless ones."
            "For example, it may lack its end because it is still being written. `quipu check --format stream` gives details." []
        NEWER "dtrace/needs-newer-program" Error
            "The kind, encoding and codec of every critical frame of that stream are known."
            "Reading stops there: the buffers have the data before it, and every verb ends with exit code 2." []
        AUXILIARY "dtrace/auxiliary-frame" Warning
            "The bytes of an index, end or padding frame of that stream match their checksum."
            "These frames hold no data of the buffers." []
    }
    "what DTrace lost" {
        DROPS "dtrace/drops" Error
            "The kernel drops no records."
            "It counts records for which it had no room: larger buffers (`-x bufsize`) or a faster consumer (`-x switchrate`) help." ["N drops on CPU N"]
        LOST "dtrace/lost" Error
            "No data was lost before the capture was written."
            "It was made from a damaged capture with `--keep-damaged`, or by a copying tool: the unreadable data is declared as lost, and the rest is intact." ["a loss is declared, of cause truncated"]
        FAILED "dtrace/error-record" Note
            "Clauses run without errors."
            "For example, a clause read an invalid address or divided by zero; its actions before that are recorded." ["error on enabled probe ID N"]
    }
}

/// The finding for an error that ends a buffer: a record is cut, or has a number without a description.
pub(crate) fn finding(error: &Error) -> Finding {
    let place = error.place().clone();
    let rule = if error.kind() == ErrorKind::Truncated { &CUT } else { &UNKNOWN };
    rule.broken(place.clone(), error.message().to_owned()).losing(Loss::from(place))
}
