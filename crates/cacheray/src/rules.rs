//! The rules of `check`, each with its name, its severity and its entry in the manual.
//!
//! Rules of containers (`source/…`) and of reading (`engine/…`) are shared between formats.

quipu_model::rules! {
    "files of typed accesses" {
        EMPTY "cacheray/empty" Warning
            "A trace has a record."
            "An empty file is a trace without records: what a program leaves that is killed before its buffer is written." []
        CUT "cacheray/cut" Error
            "A trace ends after a record."
            "It ends within one if the program or the machine died. All records before it can be read. Cacheray's checker does not notice; its simulator ends without results." ["ERROR: trace file parse error"]
        BAD_TAG "cacheray/bad-tag" Error
            "Where a record is expected, one stands: its tag is known, and the name of its type has at most 64 KiB."
            "The bytes were changed, or some are missing. Nothing marks where records begin. If a record makes sense with another tag and records follow it, only that record is left out; otherwise reading continues where 16 records in a row make sense (as many as are left, at least two, at the end of the file; one if it ends there)." ["The type was wrong"]
        MIXED_THREADS "cacheray/mixed-threads" Error
            "A record belongs to one thread."
            "Cacheray's runtime writes a record in four pieces, and threads that write at once mix them up. Told by a thread that was never seen and has more than 32 bits, after which no records follow; what can be read on both sides is read." []
        DIALECT "cacheray/dialect" Warning
            "A trace is read in the dialect that it looks like."
            "Nothing in a file tells byte order and width of addresses; values that make sense do. Another dialect was asked for." []
        ANNOTATION_FLAGS "cacheray/annotation-flags" Warning
            "Only accesses have flags."
            "The tag of an annotation has the bits of atomic or unaligned accesses. They mean nothing there; Cacheray's tools overlook them." []
    }
    "typed accesses" {
        ODD_SIZE "cacheray/odd-size" Warning
            "An access has 1, 2, 4, 8 or 16 bytes."
            "Compilers report no others. Foreign writers may." []
        ADDRESS "cacheray/implausible-address" Warning
            "The upper 16 bits of an address are all 0 or all 1."
            "No processor of today has others." []
    }
    "type annotations" {
        BAD_NAME "cacheray/bad-name" Warning
            "The name of a type is UTF-8 and has at most 4096 bytes."
            "Compilers write the names of LLVM types, which are ASCII." []
        NO_ELEMENTS "cacheray/no-elements" Warning
            "An annotated region has elements."
            "A count of 0 annotates nothing." []
        WRAPS "cacheray/region-wraps" Error
            "An annotated region ends below 2^64."
            "Its address and size do not fit together." []
        NULL_REGION "cacheray/null-region" Note
            "An annotated region does not begin at 0."
            "An allocation that failed is annotated all the same." []
        OVER_LIVE "cacheray/over-live" Warning
            "No region is annotated that begins where another does."
            "The older one was freed without an annotation, or the type of a part is annotated. The newer one counts from here on, and the next removal ends it." []
        OVERLAP "cacheray/overlap" Warning
            "Regions lie apart from each other or within each other."
            "Where they overlap, the one that was annotated last counts." []
        NESTED "cacheray/nested" Note
            "Regions lie apart from each other."
            "Within another one, the one that was annotated last counts." []
        NO_ADD "cacheray/no-add" Warning
            "A region that is removed was annotated."
            "Memory that was allocated where nothing is instrumented may be freed where something is. `free` of a null pointer is annotated, too; that is not counted." []
        NEVER_REMOVED "cacheray/never-removed" Note
            "A region that was annotated is removed before the trace ends."
            "The program did not free it: a leak, or the usual end of a program." []
        OUTSIDE "cacheray/outside-region" Warning
            "An access that begins in an annotated region ends in it."
            "It reaches over the end of an object." []
        AFTER_REMOVE "cacheray/after-remove" Warning
            "No access goes to a region that was removed."
            "A use after free, or an allocator's own bookkeeping. The removal is written after `free` returned, so another thread may have the memory already." []
    }
}
