/* Writing streams of Quipu (docs/formats/stream.md) from C and C++.
 *
 * Link with libquipu_stream_c.a and -lpthread -ldl -lm.
 *
 *   quipu_writer *writer = quipu_writer_open("out.quipu", "my program 1.0");
 *   static const quipu_field fields[] = {
 *       {"addr", QUIPU_U64, offsetof(struct access, addr), QUIPU_ROLE_ADDRESS, NULL, QUIPU_HEXADECIMAL},
 *       {"size", QUIPU_U32, offsetof(struct access, size), QUIPU_ROLE_ACCESS_SIZE, "B", 0}};
 *   uint32_t schema = quipu_schema(writer, "access", fields, 2, sizeof(struct access), NULL);
 *   quipu_stream *stream = quipu_stream_open(writer, 1);
 *   quipu_row(stream, schema, time, &access, sizeof access);
 *   quipu_stream_close(stream);
 *   quipu_writer_close(writer);
 *
 * Functions give 0 (or an id, or a pointer) if all is well, and a negative number (or 0, or NULL) if not. A writer may be used by
 * any number of threads; a stream by one thread at a time. Only where it says so may a signal handler call a function.
 */
#ifndef QUIPU_STREAM_H
#define QUIPU_STREAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quipu_writer quipu_writer;
typedef struct quipu_stream quipu_stream;

/* Types of fields, as they stand in a structure of C. QUIPU_TEXT and QUIPU_BYTES are a quipu_piece. */
enum {
    QUIPU_U8 = 1, QUIPU_U16, QUIPU_U32, QUIPU_U64,
    QUIPU_I8, QUIPU_I16, QUIPU_I32, QUIPU_I64,
    QUIPU_F32, QUIPU_F64, QUIPU_BOOL, QUIPU_ADDRESS, QUIPU_TEXT, QUIPU_BYTES
};

/* What fields are for tools that know no schema. */
enum {
    QUIPU_ROLE_NONE = 0, QUIPU_ROLE_TIMESTAMP = 1, QUIPU_ROLE_CPU = 2, QUIPU_ROLE_PID = 3, QUIPU_ROLE_TID = 4,
    QUIPU_ROLE_PC = 5, QUIPU_ROLE_ADDRESS = 6, QUIPU_ROLE_ACCESS_SIZE = 7, QUIPU_ROLE_ACCESS_KIND = 8,
    QUIPU_ROLE_CALL = 9, QUIPU_ROLE_RETURNED = 10, QUIPU_ROLE_ARGUMENT = 11, QUIPU_ROLE_FUNCTION = 12,
    QUIPU_ROLE_DURATION = 13, QUIPU_ROLE_SYSCALL = 14, QUIPU_ROLE_TRANSFERRED = 15, QUIPU_ROLE_COUNT = 16,
    QUIPU_ROLE_SEVERITY = 17, QUIPU_ROLE_PROBE = 18
};

/* Flags of fields. */
enum { QUIPU_FEW_VALUES = 2, QUIPU_HEXADECIMAL = 8 };

/* Errors. */
enum { QUIPU_ERROR_ARGUMENT = -1, QUIPU_ERROR_WRITE = -2, QUIPU_FULL = -3 };

/* Where a text or bytes of a record stand: the library fills it in, see quipu_row_with. */
typedef struct { uint32_t offset, length; } quipu_piece;

typedef struct {
    const char *name;
    int type;
    uint32_t offset;   /* offsetof(structure, member) */
    uint32_t role;     /* QUIPU_ROLE_NONE, or what it is */
    const char *unit;  /* NULL, or "B", "ns", ... */
    uint32_t flags;
} quipu_field;

/* A name of a value, for quipu_enumeration and quipu_bit_names. */
typedef struct { int64_t value; const char *name; } quipu_name;

/* How payloads are packed. */
enum { QUIPU_ZSTD = 0, QUIPU_LZ4 = 1, QUIPU_UNPACKED = 2 };

/* What a writer says of the program, and how it writes. What is 0 or NULL is left out, or as it usually is. */
typedef struct {
    uint32_t size;          /* sizeof(quipu_options): later versions add members at the end */
    const char *program;    /* name and version */
    const char *host;
    const char *os, *arch;  /* those of this library if NULL */
    const char *zone;       /* "Europe/Zurich" */
    int32_t zone_seconds;   /* east of Greenwich; used if zone is given */
    int64_t start_ns;       /* Unix time at which the program began */
    const char *const *arguments; /* the command line, n_arguments texts */
    uint32_t n_arguments;
    int codec;              /* QUIPU_ZSTD, ... */
    int level;              /* of QUIPU_ZSTD: 3 if 0 */
    uint32_t frame_bytes;   /* bytes of a frame before packing: 960 KiB, or 256 KiB if live, if 0 */
    int live;               /* 1: for a pipe or a socket: small frames, flushed every 250 ms, and no index */
} quipu_options;

/* A variable part of a record: bytes for the quipu_piece that stands at `at` of its structure. */
typedef struct { uint32_t at; const void *bytes; uint32_t length; } quipu_part;

/* Creates a file. NULL if it cannot be created. */
quipu_writer *quipu_writer_open(const char *path, const char *program);

/* The same with options; what options cannot be gives NULL. */
quipu_writer *quipu_writer_open_with(const char *path, const quipu_options *options);

/* Writes to an open file, a pipe or a socket, which the writer closes. It is not closed where NULL is given back. */
quipu_writer *quipu_writer_to(int fd, const quipu_options *options);

/* Describes a clock: ticks a second (0: no unit), Unix time in ns at tick 0 (INT64_MIN: not known), and within which time
 * that is right. Gives its id, or 0. */
uint32_t quipu_clock(quipu_writer *writer, const char *name, uint64_t ticks_per_s, int64_t unix_ns,
                     uint64_t uncertainty_ns);

/* Says where a clock stands: for clocks that drift, as often as one likes. */
int quipu_clock_reading(quipu_writer *writer, uint32_t clock, uint64_t ticks, int64_t unix_ns, uint64_t uncertainty_ns);

/* Describes a stream: its name (or NULL), its clock's id (or 0), and its CPU, process and thread (or negative numbers). */
int quipu_stream_describe(quipu_writer *writer, uint32_t number, const char *name, uint32_t clock, int64_t cpu,
                          int64_t pid, int64_t tid);

/* Types for members of quipu_field: numbers (`type` is QUIPU_U8 ... QUIPU_I64) whose values, or whose bits, have names. Gives 0
 * if it cannot be. */
int quipu_enumeration(quipu_writer *writer, const char *name, int type, const quipu_name *names, size_t n_names);
int quipu_bit_names(quipu_writer *writer, const char *name, int type, const quipu_name *names, size_t n_names);

/* A type of `count` values of a type, one after the other. Gives 0 if it cannot be. */
int quipu_array(quipu_writer *writer, int type, uint32_t count);

/* Attaches a file: configuration, a list of symbols, a log. `media` may be NULL. */
int quipu_attach(quipu_writer *writer, const char *name, const char *media, const void *bytes, size_t length);

/* Writes a remark; severity is 0, 1 for warnings, 2 for errors. */
int quipu_remark(quipu_writer *writer, const char *text, uint32_t severity);

/* Repeats all definitions now, so that a reader who joins can begin here. The library does it by itself now and then. */
int quipu_snapshot(quipu_writer *writer);

/* Writes index and end. All streams have to be closed before. The writer is gone afterwards, whatever is given back. */
int quipu_writer_close(quipu_writer *writer);

/* Defines a kind of record whose fixed part is a structure of `size` bytes. `text` may be NULL, or says how a record reads:
 * "{addr}: {size} bytes". Gives its id, or 0. */
uint32_t quipu_schema(quipu_writer *writer, const char *name, const quipu_field *fields, size_t n_fields,
                      uint32_t size, const char *text);

/* Opens a stream: one for each thread that writes. NULL if it cannot be. */
quipu_stream *quipu_stream_open(quipu_writer *writer, uint32_t number);

/* Writes a record, the structure as it is in memory. */
int quipu_row(quipu_stream *stream, uint32_t schema, uint64_t time, const void *record, uint32_t size);

/* The same with texts and bytes, which are copied. */
int quipu_row_with(quipu_stream *stream, uint32_t schema, uint64_t time, const void *record, uint32_t size,
                   const quipu_part *parts, size_t n_parts);

/* Writes a record if there is room for it in memory; else gives QUIPU_FULL and counts it as lost. It takes no lock, allocates
 * nothing and writes nothing to the file, so a signal handler may call it on a stream that nothing but this handler uses while
 * the handler may run. Others write the frame out with quipu_flush while the signal is blocked. */
int quipu_try_row(quipu_stream *stream, uint32_t schema, uint64_t time, const void *record, uint32_t size);

/* Writes the frame in hand if its first record is older than 250 ms: for the loops of live programs, which may have nothing
 * to write for a while. A writer that is live does it by itself while records come. */
int quipu_flush_old(quipu_stream *stream);

/* Counts records of a stream that were dropped before the next one. A signal handler may call it as quipu_try_row. */
void quipu_lost(quipu_stream *stream, uint64_t records);

/* Writes what a stream has in memory. */
int quipu_flush(quipu_stream *stream);

/* Writes it, and closes the stream, which is gone afterwards, whatever is given back. */
int quipu_stream_close(quipu_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
