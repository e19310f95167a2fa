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

/* A variable part of a record: bytes for the quipu_piece that stands at `at` of its structure. */
typedef struct { uint32_t at; const void *bytes; uint32_t length; } quipu_part;

/* Creates a file. NULL if it cannot be created. */
quipu_writer *quipu_writer_open(const char *path, const char *program);

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
