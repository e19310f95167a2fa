//! The rules of captures, each with its name, its severity and its entry in the manual.

use quipu_model::{Error, ErrorKind, Finding, Loss};

quipu_model::rules! {
    "buffers of DTrace" {
        UNKNOWN "dtrace/unknown-id" Error
            "Each record has a number that is described."
            "Records have no length of their own: after a number without a description, the rest of the buffer cannot be read." []
        CUT "dtrace/cut-record" Error
            "The last record of a buffer is complete."
            "What stands before it is good." []
        CLEARED "dtrace/cleared-records" Warning
            "Zeros between records fill up to the alignment of the next one, at most one word."
            "More may be records that were overwritten, or the rest of a ring that was turned; reading continues with the next record." ["N zero bytes stand before a record"]
        TIMES "dtrace/time-order" Warning
            "The times of a CPU never decrease."
            "Records are printed all the same; by time, they stand where their times are." ["time N of CPU N comes after N", "N more times come after later ones"]
        SIZE "dtrace/buffer-size" Error
            "The file of a buffer has as many bytes as the snapshot had."
            "What both have is read." ["the file has N bytes, the snapshot had N"]
        MISSING "dtrace/missing-buffer" Error
            "The file of each buffer stands beside the description."
            "The others are read." []
    }
    "descriptions of DTrace" {
        PROBE "dtrace/unknown-probe" Warning
            "Each probe that fires is described."
            "Its records are printed without its name." ["probe N has no description", "more probes have no description"]
        FORMAT "dtrace/format" Error
            "What is printed of a record suits its parts."
            "A format that cannot be read, or a conversion that is given other bytes, prints what stands before it; other records are printed. A value of a type that contains itself is shown to a depth." ["EPID N: the conversion `d` is given N bytes"]
        CHECKSUM "dtrace/description-checksum" Error
            "A metadata record has the checksum of its bytes."
            "It is not used; records that only it describes end their buffer." []
        METADATA "dtrace/description-invalid" Error
            "A metadata record is what its kind needs, and contradicts no other."
            "It is not used." []
        LINE "dtrace/line" Error
            "Each line of `raw.jsonl` is an object that describes a probe, a statement, a sample or an aggregation."
            "The line is passed over." ["line N cannot be read"]
        ENCODING "dtrace/unknown-encoding" Error
            "The bodies of a stream have an encoding that is known."
            "They are counted; other bodies are read." []
        HOSTS "dtrace/several-hosts" Warning
            "The hosts of one capture have the same options for what is of all of them: the order by time, the messages of drops, and aggregations that are printed at the end."
            "Those of the first host are used. Records print with the zone, the locale, the names and the other options of the host that recorded them." ["N of N hosts have other options than the first for what is of all hosts"]
        TWICE "dtrace/repeated-frames" Note
            "Each frame of a stream stands once."
            "One that stands again, by its producer, stream and number, counts once, as where a file was given twice. Captures of several machines that are the same but for that need their names: `quipu convert --host NAME`." ["N frames stand again and count once"]
        STREAM "dtrace/stream" Error
            "The stream that carries the buffers is whole."
            "`quipu check --format stream` says more." []
        ODD_STREAM "dtrace/odd-stream" Warning
            "That stream follows the rules of its format where nothing is lost by it, too."
            "It may lack its end, as where it is still being written. `quipu check --format stream` says more." []
        NEWER "dtrace/needs-newer-program" Error
            "A frame of that stream that must be understood is understood."
            "Reading stops there: the buffers have what precedes it, and every verb ends with exit code 2." []
        AUXILIARY "dtrace/auxiliary-frame" Warning
            "The bytes of an index, of an end or of padding of that stream are those that were written."
            "Nothing of the buffers is in them." []
    }
    "what DTrace lost" {
        DROPS "dtrace/drops" Error
            "The kernel keeps what it records."
            "It counts what it had no room for: larger buffers (`-x bufsize`) or a faster consumer (`-x switchrate`) help." ["N drops on CPU N"]
        LOST "dtrace/lost" Error
            "Nothing of a capture was lost before it was written."
            "It was made of a damaged capture with `--keep-damaged`, or by a tool that copies: what could not be read is declared, and the rest is whole." ["a loss is declared, of cause truncated"]
        FAILED "dtrace/error-record" Note
            "Clauses run without errors."
            "A clause read an invalid address or divided by zero, say; what it did before that is recorded." ["error on enabled probe ID N"]
    }
}

/// The finding for an error that ends a buffer: a record is cut, or has a number without a description.
pub(crate) fn finding(error: &Error) -> Finding {
    let place = error.place().clone();
    let rule = if error.kind() == ErrorKind::Truncated { &CUT } else { &UNKNOWN };
    rule.broken(place.clone(), error.message().to_owned()).losing(Loss::from(place))
}
