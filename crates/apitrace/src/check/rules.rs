//! The rules of `check`, each with its name, its severity and its entry in the manual.
//!
//! Rules of containers (`source/…`) and of reading (`engine/…`) are shared between formats; see
//! `quipu_model::check::SHARED_RULES`.

quipu_model::rules! {
    "streams of graphics calls" {
        BARE "apitrace/bare" Note
            "A stream is packed in a container that apitrace knows."
            "Quipu reads one that is not packed; apitrace takes it for Brotli and sees an empty trace." []
        NO_INDEX "apitrace/no-index" Note
            "A large trace is packed so that reading can begin anywhere."
            "Gzip and Brotli are inflated from their beginning. Asked for from 64 MiB on; `quipu convert` writes Zstandard, in which any call or frame is reached at once." []
        EMPTY "apitrace/empty" Warning
            "A trace has a stream."
            "A file of two bytes is what a program leaves that died before the tracer stored its first call." []
        CUT "apitrace/cut" Error
            "A trace ends after an event."
            "It ends within one if the program or the machine died. All calls before it can be read; those that were open are incomplete. apitrace loses the call whose end is cut." []
        LOST_HEADER "apitrace/lost-header" Error
            "A stream begins with its version and properties."
            "What stands there is damaged, or is lost: the newest version is assumed. `quipu recover` reads the events after it." ["error: unsupported trace format version"]
        BAD_CHUNK "apitrace/bad-chunk" Error
            "Every chunk of snappy, and every frame of Zstandard, can be inflated."
            "The calls in it are lost. `quipu recover` continues after it." ["error: unknown event", "error: unknown type"]
        DAMAGED "apitrace/damaged" Error
            "Where an event is expected, one stands."
            "The bytes were changed, or some are missing. Nothing tells how long an event was, so reading stops; `quipu check` and `quipu recover` look for the next run of events whose functions are known and whose numbers agree." ["error: unknown event", "error: unknown call detail", "error: unknown type"]
        NOT_UNDERSTOOD "apitrace/not-understood" Error
            "Text can say an event: numbers are as short as they can be, and details stand in their order."
            "No tracer writes others, so the bytes were changed. `quipu disassemble --keep-damaged` keeps such events as raw bytes." []
        LEFT_TWICE "apitrace/left-twice" Error
            "A call is left once."
            "What leaves it again is dropped. After damage this is not asked for." []
        LEFT_EARLY "apitrace/left-early" Error
            "A call is entered before it is left."
            "What leaves it is dropped, and it stays open. Where the numbers of all later calls show that entries were swallowed, that is `apitrace/damaged`." []
        NEVER_ENTERED "apitrace/never-entered" Warning
            "A call that is left was entered."
            "What leaves it is dropped, as apitrace does." []
        RESUMED "apitrace/resumed" Note
            "Nothing is missing before an event."
            "Tells where reading continues after damage, and how many calls lie between, as the numbers of calls tell." []
        DOUBTFUL "apitrace/doubtful" Warning
            "What is saved around damage is what was recorded."
            "Damaged bytes may read as events. What is new after damage, a function or a thread, is believed only where the call is left under the number that it must have; of calls that were entered and not left before the damage, the first of each thread is kept, and others are left out. Of a chunk or frame in which anything is damaged, all calls may have wrong values: what is packed refers to what stands before it." []
        SECOND_STREAM "apitrace/second-stream" Error
            "A file has one stream."
            "A program that forks while it is traced may have both processes write into one file. `quipu recover` reads each stream by itself." ["error: unknown event 6"]
        LOST_SIGNATURE "apitrace/lost-signature" Error
            "The signature of a function, enumeration, set of flags or stack frame stands where its id comes first."
            "It stood in a part that is lost. Numbers stand for its names." []
    }
    "graphics calls" {
        INCOMPLETE_CALL "apitrace/incomplete-call" Note
            "A call that was entered is left."
            "The program ended within it, or crashed there: the last such call of a thread is where to look first." []
        EXTRA_ARGUMENT "apitrace/extra-argument" Warning
            "A call has no more arguments than its function's signature names."
            "They are kept, and have no names." []
        MISSING_ARGUMENT "apitrace/missing-argument" Note
            "A call that returned has all its arguments."
            "Tracers leave out what a function did not write, such as the output of a call that failed." []
        THREAD_NUMBER "apitrace/thread-number" Warning
            "Threads are numbered in the order of their first calls."
            "A much larger number is damage, or another tracer." []
        ZERO_FLAG "apitrace/zero-flag" Note
            "The name of no flag at all is the first of a set of flags."
            "After others it is printed only if it is met before anything else fits." ["warning: bitmask has zero flag"]
        REPEATED_PROPERTY "apitrace/repeated-property" Warning
            "The header names each property once."
            "Of several the last counts." []
        PROPERTY_ORDER "apitrace/property-order" Note
            "The header names properties in the order of their bytes."
            "They are shown in that order all the same." []
    }
}
