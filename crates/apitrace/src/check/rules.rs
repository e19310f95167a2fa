//! The rules of `check`, each with its name, its severity and its entry in the manual.
//!
//! Rules of containers (`source/…`) and of reading (`engine/…`) are shared between formats; see
//! `quipu_model::check::SHARED_RULES`.

quipu_model::rules! {
    "streams of graphics calls" {
        BARE "apitrace/bare" Note
            "A stream is packed in a container that apitrace knows."
            "Quipu reads unpacked streams; apitrace takes them for Brotli and sees an empty trace." []
        NO_INDEX "apitrace/no-index" Note
            "A large trace is packed so that reading can begin anywhere."
            "Gzip and Brotli can be inflated only from the beginning. Reported for streams of at least 64 MiB; `quipu convert` writes Zstandard, which gives direct access to any call or frame." []
        EMPTY "apitrace/empty" Warning
            "A trace contains a stream."
            "If the program dies before the tracer stores the first call, a file of two bytes is left." []
        CUT "apitrace/cut" Error
            "A trace ends after an event."
            "The program or the machine died while an event was written. All earlier calls can be read; open calls are incomplete. apitrace loses the call whose end is cut off." []
        LOST_HEADER "apitrace/lost-header" Error
            "A stream begins with its version and properties."
            "The header is damaged or lost: the newest version is assumed. `quipu recover` reads the events after it." ["error: unsupported trace format version"]
        BAD_CHUNK "apitrace/bad-chunk" Error
            "Every Snappy chunk and every Zstandard frame can be inflated."
            "The calls in it are lost. `quipu recover` continues with the next one." ["error: unknown event", "error: unknown type"]
        DAMAGED "apitrace/damaged" Error
            "Every event of the stream can be decoded."
            "The bytes were changed, or some are missing. The length of an event is not stored, so reading stops; `quipu check` and `quipu recover` search for the next run of events with known functions and consistent call numbers." ["error: unknown event", "error: unknown call detail", "error: unknown type"]
        NOT_UNDERSTOOD "apitrace/not-understood" Error
            "An event has the canonical form that text can express: numbers in their shortest encoding, details in order."
            "No tracer writes other forms, so the bytes were changed. `quipu disassemble --keep-damaged` keeps such events as raw bytes." []
        LEFT_TWICE "apitrace/left-twice" Error
            "A call is left at most once."
            "Further leave events are dropped. After damage this rule is not checked." []
        LEFT_EARLY "apitrace/left-early" Error
            "A call is entered before it is left."
            "The leave event is dropped, and the call stays open. If the numbers of all later calls show that enter events are missing, the finding is `apitrace/damaged`." []
        NEVER_ENTERED "apitrace/never-entered" Warning
            "A call that is left was entered."
            "The leave event is dropped, as by apitrace." []
        RESUMED "apitrace/resumed" Note
            "No data is missing before an event."
            "States where reading continues after damage, and the number of calls skipped, according to call numbers." []
        DOUBTFUL "apitrace/doubtful" Warning
            "Calls recovered around damage are the calls that were recorded."
            "Damaged bytes may decode as events. A function or thread that first appears after damage is accepted only if its call is left under the expected number; of the calls that were open before the damage, the first of each thread is kept, the others are left out. All calls of a damaged chunk or frame may have wrong values, because compressed data refers to earlier data." []
        SECOND_STREAM "apitrace/second-stream" Error
            "A file has one stream."
            "If a traced program forks, both processes may write into one file. `quipu recover` reads each stream separately." ["error: unknown event 6"]
        LOST_SIGNATURE "apitrace/lost-signature" Error
            "The first use of the id of a function, enumeration, set of flags or stack frame comes with its signature."
            "The signature was in a lost part. Numbers replace its names." []
    }
    "graphics calls" {
        INCOMPLETE_CALL "apitrace/incomplete-call" Note
            "A call that was entered is left."
            "The program ended or crashed within the call: start with the last such call of a thread." []
        EXTRA_ARGUMENT "apitrace/extra-argument" Warning
            "A call has no more arguments than its function's signature."
            "Extra arguments are kept, without names." []
        MISSING_ARGUMENT "apitrace/missing-argument" Note
            "A call that returned has all its arguments."
            "Tracers omit outputs that a function did not write, for example because the call failed." []
        THREAD_NUMBER "apitrace/thread-number" Warning
            "Threads are numbered in the order of their first calls."
            "A much larger number means damage, or an unknown tracer." []
        ZERO_FLAG "apitrace/zero-flag" Note
            "In a set of flags, the name of the value 0 comes first."
            "After others, it is printed only if no name before it matches." ["warning: bitmask has zero flag"]
        REPEATED_PROPERTY "apitrace/repeated-property" Warning
            "The header has each property once."
            "The last one counts." []
        PROPERTY_ORDER "apitrace/property-order" Note
            "The header lists properties in byte order of their names."
            "They are shown in that order anyway." []
    }
}
