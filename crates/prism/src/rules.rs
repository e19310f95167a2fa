//! The rules of streams of events, each with its name, severity and manual entry.

quipu_model::rules! {
    "events of Prism" {
        EMPTY "prism/empty" Warning
            "A stream has at least one event."
            "It is empty if the front end was killed early." []
        CUT "prism/cut" Error
            "A stream ends after a whole event, a dump after a whole buffer."
            "Whole events before the end are read. Names follow the events of a buffer, so a cut buffer lacks them." []
        KIND "prism/unknown-kind" Error
            "The kind of an event is known, and so is the type of a context."
            "The length of other events is unknown, so nothing after them can be read." []
        TAG "prism/unknown-tag" Error
            "The tag of an event of the fixed encoding is 1 to 5."
            "The event is shown as unknown; back ends do not receive it." []
        TYPE "prism/unknown-type" Error
            "Types, formats and operations of events are known."
            "The event is shown with the number; back ends that depend on types ignore it." []
        NONSENSE "prism/nonsense" Error
            "At most 8 of 64 successive events have no type or an unknown one."
            "These bytes are not events. In the fixed encoding, they are left out, up to the end of their buffer if that is in the wrong place; in the variable encoding, nothing after them can be read." []
        AFTER_END "prism/bytes-after-end" Warning
            "Bytes after the end of a buffer of the variable encoding are zero."
            "They are skipped as meaningless. If a damaged byte within the events reads as an end, they are lost events." []
        NO_END "prism/no-end" Note
            "Plain events of the variable encoding end with the end of a buffer."
            "They may have been cut between two events, or the front end was killed: later events may be missing." []
        BUFFER "prism/buffer" Error
            "A buffer has at most 4096 events and 4096 bytes of names."
            "The file is not a dump of buffers, or is damaged. Reading continues with the next recognizable buffer." []
        NAME "prism/name" Error
            "A name lies within its buffer and ends with a zero."
            "The event is left out, and reading continues with the next one." []
        CONFIGURED "prism/unknown-configuration" Error
            "A configuration is for a known kind of event."
            "Other configurations are left out. If the kind belongs to a later version, its events end the stream." []
        DETAIL "prism/no-configuration" Warning
            "A stored stream of the variable encoding begins with its level of detail."
            "The stream is read with the level of Prism's front end for Valgrind, which agrees on it elsewhere; `--open detail=…` sets another." []
        THREAD "prism/no-thread" Warning
            "A swap event before the first event states its thread."
            "Events before it belong to thread 0." []
        MUTEX "prism/wait-without-mutex" Warning
            "A wait for a condition has a mutex."
            "Prism's writer of the variable encoding omits a null mutex, which its reader expects." []
    }
    "files of threads" {
        ONE_THREAD "prism/one-thread" Note
            "The trace contains the events of all threads."
            "This file has one thread of several. It is read as a trace by itself; its folder is the trace of all threads." []
    }
    "what events say" {
        NO_BYTES "prism/no-bytes" Warning
            "The size of an access is not 0."
            "For back ends, such an access has no address range." []
        UNLOCKED "prism/unlock-without-lock" Note
            "A thread unlocks only locks that it holds."
            "The trace may begin after the lock was taken, or another thread unlocks it." []
        HELD "prism/lock-held" Note
            "A lock is unlocked before the events end."
            "The program or the trace ends with the lock held." []
        JOINED "prism/join-without-create" Note
            "A thread that is joined was created before."
            "The creation of the thread with this handle is not in the trace." []
        LEFT "prism/exit-without-enter" Note
            "A function that is left was entered before."
            "Prism's front end for Valgrind misses entries of functions at the beginning of threads." []
    }
}
