//! The rules of `check`, each with its name, its severity and its entry in the manual.
//!
//! Rules of containers (`source/…`) and of reading (`engine/…`) are shared between formats.

quipu_model::rules! {
    "files of typed accesses" {
        EMPTY "cacheray/empty" Warning
            "A trace has at least one record."
            "The file is empty, for example because the program was killed before it wrote its buffer." []
        CUT "cacheray/cut" Error
            "The last record is complete."
            "The program or the machine died while it was written. All records before it can be read. Cacheray's checker does not notice; its simulator ends without results." ["ERROR: trace file parse error"]
        BAD_TAG "cacheray/bad-tag" Error
            "Every record has a known tag, and a type name of at most 64 KiB."
            "The bytes were changed, or some are missing. Record boundaries are not marked. If a record is plausible with another tag and records follow it, only that record is left out; otherwise reading continues at the next 16 plausible records in a row (near the end of the file, all that remain, at least two; one if the file ends after it)." ["The type was wrong"]
        MIXED_THREADS "cacheray/mixed-threads" Error
            "A record is written by one thread."
            "Cacheray's runtime writes a record in four pieces, so threads that write at once can mix them up. Detected by an unknown thread id of more than 32 bits after which no records follow; the records on both sides are read." []
        DIALECT "cacheray/dialect" Warning
            "A trace is read in the dialect that its values suggest."
            "A file does not state its byte order and width of addresses; plausible values reveal them. A different dialect was requested." []
        ANNOTATION_FLAGS "cacheray/annotation-flags" Warning
            "Only accesses have flags."
            "The tag of an annotation has the bits of atomic or unaligned accesses, which have no meaning there. Cacheray's tools ignore them." []
    }
    "typed accesses" {
        ODD_SIZE "cacheray/odd-size" Warning
            "An access has 1, 2, 4, 8 or 16 bytes."
            "Compilers report no other sizes; other writers may." []
        ADDRESS "cacheray/implausible-address" Warning
            "The upper 16 bits of an address are all 0 or all 1."
            "No current processor has other addresses." []
    }
    "type annotations" {
        BAD_NAME "cacheray/bad-name" Warning
            "The name of a type is UTF-8 and has at most 4096 bytes."
            "Compilers write the names of LLVM types, which are ASCII." []
        NO_ELEMENTS "cacheray/no-elements" Warning
            "An annotated region has elements."
            "An annotation with 0 elements has no effect." []
        WRAPS "cacheray/region-wraps" Error
            "An annotated region ends below 2^64."
            "The sum of address and size overflows." []
        NULL_REGION "cacheray/null-region" Note
            "An annotated region does not begin at 0."
            "A failed allocation was annotated." []
        OVER_LIVE "cacheray/over-live" Warning
            "No region is annotated at the start of a live one."
            "The older region was freed without an annotation, or a part of it is annotated with its type. From here on the newer one applies, and the next removal ends it." []
        OVERLAP "cacheray/overlap" Warning
            "Regions are disjoint or nested."
            "In the overlap, the region annotated last applies." []
        NESTED "cacheray/nested" Note
            "Regions are disjoint."
            "In a nested region, the one annotated last applies." []
        NO_ADD "cacheray/no-add" Warning
            "A region that is removed was annotated."
            "Memory may be allocated in code without instrumentation and freed in instrumented code. `free` of a null pointer is also annotated, but not reported." []
        NEVER_REMOVED "cacheray/never-removed" Note
            "A region that was annotated is removed before the trace ends."
            "The program did not free it: a leak, or memory in use at exit." []
        OUTSIDE "cacheray/outside-region" Warning
            "An access that begins in an annotated region ends in it."
            "The access crosses the end of an object." []
        AFTER_REMOVE "cacheray/after-remove" Warning
            "No access touches a region that was removed."
            "A use after free, or an allocator's own bookkeeping, or memory that went back to the system and was mapped for something else. Traces of programs that `quipu cc` compiled have the stacks of threads that are mapped there. The removal is written after `free` returned, so another thread may have the memory already." []
    }
}
