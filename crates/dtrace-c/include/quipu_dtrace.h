/* Captures of DTrace (docs/formats/dtrace.md) written by a classic consumer: what the device gave it, in one file that any machine
 * prints.
 *
 * Link with libquipu_dtrace_c.a and -lpthread -ldl -lm.
 *
 *   quipu_dtrace *capture = quipu_dtrace_open("my consumer 1.0");
 *   quipu_dtrace_enabling(capture, eprobe, sizeof_eprobe);          what DTRACEIOC_EPROBE gave
 *   quipu_dtrace_probe(capture, probe, 388);                        what DTRACEIOC_PROBES gave
 *   quipu_dtrace_format(capture, 1, "%i %s\n");
 *   quipu_dtrace_buffer(capture, &snapshot);                        what DTRACEIOC_BUFSNAP gave, again for each snapshot
 *   quipu_dtrace_write_stream(capture, "out.quipu", 0);
 *   quipu_dtrace_close(capture);
 *
 * Structures are those of the traced host, as they are in memory. All is copied. Functions give 0 if all is well, and a negative
 * number if not. A capture may be used by one thread at a time, and by no signal handler.
 */
#ifndef QUIPU_DTRACE_H
#define QUIPU_DTRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quipu_dtrace quipu_dtrace;

/* Errors. */
enum { QUIPU_DTRACE_ERROR_ARGUMENT = -1, QUIPU_DTRACE_ERROR_WRITE = -2 };

/* A snapshot of a CPU: what stands in a dtrace_bufdesc_t. */
typedef struct {
    uint32_t cpu;
    uint32_t errors;
    uint64_t drops;
    const void *data;
    uint64_t size;      /* valid bytes of data */
    uint64_t oldest;    /* where the oldest record of a ring stands, else 0 */
    uint64_t timestamp; /* nanoseconds, or 0 */
} quipu_dtrace_snapshot;

/* Begins an empty capture. NULL if that cannot be. */
quipu_dtrace *quipu_dtrace_open(const char *program);

/* Options of the consumer, with commas: "quiet,aggsortkey=1". Those of tracing, which text does not depend on, are passed over;
 * unknown ones are refused, and the rest is set all the same. */
int quipu_dtrace_options(quipu_dtrace *capture, const char *options);

/* A dtrace_probedesc_t (388 bytes), dtrace_eprobedesc_t, dtrace_aggdesc_t. The kernel does not fill in an aggregation's variable
 * and its name: 0 and NULL where they are not known. What was described before is replaced. */
int quipu_dtrace_probe(quipu_dtrace *capture, const void *probe, size_t size);
int quipu_dtrace_enabling(quipu_dtrace *capture, const void *eprobe, size_t size);
int quipu_dtrace_aggregation(quipu_dtrace *capture, const void *agg, size_t size, int64_t variable, const char *name);

/* A format; ids are dense from 1. */
int quipu_dtrace_format(quipu_dtrace *capture, uint32_t id, const char *text);

/* What addresses from `from` up to, not including, `to` are called. `name` may be empty if only the object is known. */
int quipu_dtrace_symbol(quipu_dtrace *capture, uint64_t from, uint64_t to, const char *object, const char *name, int is_user);

/* The CPUs that ran BEGIN and END, or -1; whether tracing has stopped. */
int quipu_dtrace_session(quipu_dtrace *capture, int64_t began_on, int64_t ended_on, int has_stopped);

/* The number of the first of the consumer's own actions: one more than the last subroutine of the kernel (54 if not called). */
int quipu_dtrace_library_base(quipu_dtrace *capture, uint64_t base);

/* The time zone of the host: seconds east of UTC, and its abbreviation. */
int quipu_dtrace_zone(quipu_dtrace *capture, int32_t offset, const char *name);

/* What the locale of the consumer changes in its text, as UTF-8; `grouping` is that of localeconv(). */
typedef struct {
    const char *name;
    const char *decimal_point;
    const char *thousands_separator;
    const char *grouping;
    const char *days[7];    /* short names, from Sunday */
    const char *months[12]; /* short names */
} quipu_dtrace_words;

/* The locale of the consumer, if it is not "C": what setlocale() set in it. */
int quipu_dtrace_locale(quipu_dtrace *capture, const quipu_dtrace_words *words);

/* What the host calls the service of a port (%P), and the host of an address as records have it (%I). */
int quipu_dtrace_service(quipu_dtrace *capture, uint16_t port, const char *name);
int quipu_dtrace_host(quipu_dtrace *capture, const char *address, const char *name);

/* A dtrace_status_t: the last one counts. */
int quipu_dtrace_status(quipu_dtrace *capture, const void *status, size_t size);

/* A snapshot of records, or of aggregations. Those of one CPU follow one another. */
int quipu_dtrace_buffer(quipu_dtrace *capture, const quipu_dtrace_snapshot *snapshot);
int quipu_dtrace_aggregations(quipu_dtrace *capture, const quipu_dtrace_snapshot *snapshot);

/* Writes all that was given so far as a stream; with `dense`, records as differences and runs. */
int quipu_dtrace_write_stream(quipu_dtrace *capture, const char *path, int dense);

/* Writes the records of a CPU as a buffer that carries its descriptions. It has no room for aggregations and drops. */
int quipu_dtrace_write_buffer(quipu_dtrace *capture, const char *path, uint32_t cpu);

/* Why the last function that failed did, or "". It holds until the next function is called. */
const char *quipu_dtrace_error(const quipu_dtrace *capture);

/* The capture is gone afterwards. */
void quipu_dtrace_close(quipu_dtrace *capture);

#ifdef __cplusplus
}
#endif

#endif
