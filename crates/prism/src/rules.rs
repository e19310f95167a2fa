//! The rules of streams of events, each with its name, severity and manual entry.

quipu_model::rules! {
    "events of Prism" {
        EMPTY "prism/empty" Warning
            "A stream has an event."
            "A front end that was killed early leaves nothing." []
        CUT "prism/cut" Error
            "A stream ends after an event, a dump after a buffer."
            "Whole events before the end are read; names of a buffer stand after its events, so those of a cut one are missing." []
        KIND "prism/unknown-kind" Error
            "The kind of an event is known, and so is the type of a context."
            "The length of others is unknown, so that nothing after them can be read." []
        TAG "prism/unknown-tag" Error
            "The tag of an event of the fixed encoding is 1 to 5."
            "The event is shown as unknown; back ends get nothing of it." []
        TYPE "prism/unknown-type" Error
            "Types, formats and operations of events are those of the format."
            "The event is shown with its number; back ends that go by types leave it out." []
        NONSENSE "prism/nonsense" Error
            "Of 64 successive events, at most 8 have no type, or one that is unknown."
            "These bytes are not events. Those of the fixed encoding are left out, up to the end of their buffer if that is not where it should be; of the variable one, nothing after them can be read." []
        AFTER_END "prism/bytes-after-end" Warning
            "Bytes after the end of a buffer of the variable encoding are zero."
            "They are passed over, since they mean nothing. If a byte within the events was damaged and reads as an end, they are events that are lost." []
        NO_END "prism/no-end" Note
            "Plain events of the variable encoding end with an end of a buffer."
            "They may have been cut between two events, or the front end was killed: what came later is missing, and nothing says whether there was anything." []
        BUFFER "prism/buffer" Error
            "A buffer has at most 4096 events and 4096 bytes of names."
            "The dump is no dump of buffers, or damaged. Reading continues with the next buffer that can be told." []
        NAME "prism/name" Error
            "A name lies within its buffer and ends with a zero."
            "The event is left out, and reading continues with the next one." []
        CONFIGURED "prism/unknown-configuration" Error
            "A configuration is for a kind that exists."
            "It is left out. If the kind is one of a later version, its events end the stream." []
        DETAIL "prism/no-configuration" Warning
            "A stored stream of the variable encoding begins with its level of detail."
            "It is read as one of Prism's front end for Valgrind, which agrees on it elsewhere: `--open detail=…` says another." []
        THREAD "prism/no-thread" Warning
            "A swap says which thread the first event belongs to."
            "Events before it belong to thread 0." []
        MUTEX "prism/wait-without-mutex" Warning
            "A wait for a condition has a mutex."
            "Prism's writer of the variable encoding leaves out a null mutex, which its reader expects." []
    }
    "files of threads" {
        ONE_THREAD "prism/one-thread" Note
            "Events are those of all threads."
            "This is the file of one thread of several. It is read as a trace by itself; its folder is the trace of all." []
    }
    "what events say" {
        NO_BYTES "prism/no-bytes" Warning
            "An access has bytes."
            "Back ends give it no range." []
        UNLOCKED "prism/unlock-without-lock" Note
            "A thread unlocks what it has locked."
            "Events may begin after the lock, or it is unlocked by another thread." []
        HELD "prism/lock-held" Note
            "A lock is unlocked before the events end."
            "The program ends, or events do, with the lock held." []
        JOINED "prism/join-without-create" Note
            "A thread that is joined was created."
            "The handle is of a thread whose creation was not seen." []
        LEFT "prism/exit-without-enter" Note
            "A function that is left was entered before."
            "Prism's front end for Valgrind misses entries of functions at the beginning of threads." []
    }
}
