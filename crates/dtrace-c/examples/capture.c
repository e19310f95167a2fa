/* Writes what a consumer has at hand as a stream, and as a buffer that carries its descriptions.
 *
 *   capture CASE OUT.quipu [OUT.midbuf]
 */
#define _GNU_SOURCE
#include "case.h"
#include "quipu_dtrace.h"

static int give(quipu_dtrace *capture, const struct line *line)
{
    if (is(line, "options"))
        return quipu_dtrace_options(capture, line->words[1]);
    if (is(line, "session"))
        return quipu_dtrace_session(capture, atoll(line->words[1]), atoll(line->words[2]), atoi(line->words[3]));
    if (is(line, "base"))
        return quipu_dtrace_library_base(capture, number(line, 1));
    if (is(line, "symbol"))
        return quipu_dtrace_symbol(capture, number(line, 1), number(line, 2), line->words[4],
                                   line->n_words > 5 ? line->words[5] : "", (int)number(line, 3));
    if (is(line, "service"))
        return quipu_dtrace_service(capture, (uint16_t)number(line, 1), line->words[2]);
    if (is(line, "host"))
        return quipu_dtrace_host(capture, line->words[1], line->words[2]);
    if (is(line, "format"))
        return quipu_dtrace_format(capture, (uint32_t)number(line, 1), (const char *)line->bytes);
    if (is(line, "probe"))
        return quipu_dtrace_probe(capture, line->bytes, line->n_bytes);
    if (is(line, "eprobe"))
        return quipu_dtrace_enabling(capture, line->bytes, line->n_bytes);
    if (is(line, "agg"))
        return quipu_dtrace_aggregation(capture, line->bytes, line->n_bytes, atoll(line->words[1]), NULL);
    if (is(line, "status"))
        return quipu_dtrace_status(capture, line->bytes, line->n_bytes);
    if (is(line, "buf") || is(line, "aggbuf")) {
        quipu_dtrace_snapshot snapshot = {0};
        snapshot.cpu = (uint32_t)number(line, 1);
        snapshot.drops = number(line, 2);
        snapshot.oldest = number(line, 3);
        snapshot.data = line->bytes;
        snapshot.size = line->n_bytes;
        return is(line, "buf") ? quipu_dtrace_buffer(capture, &snapshot)
                               : quipu_dtrace_aggregations(capture, &snapshot);
    }
    return -1;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    struct text text = read_text(argv[1]);
    quipu_dtrace *capture = quipu_dtrace_open("capture 1.0");
    if (!text.lines || !capture)
        return 2;
    uint32_t cpu = 0;
    for (size_t at = 0; at < text.n_lines; at++) {
        if (is(&text.lines[at], "buf"))
            cpu = (uint32_t)number(&text.lines[at], 1);
        if (give(capture, &text.lines[at]) != 0) {
            fprintf(stderr, "%s: %s\n", text.lines[at].words[0], quipu_dtrace_error(capture));
            return 1;
        }
    }
    int failed = quipu_dtrace_write_stream(capture, argv[2], 0);
    if (!failed && argc > 3)
        failed = quipu_dtrace_write_buffer(capture, argv[3], cpu);
    if (failed)
        fprintf(stderr, "%s\n", quipu_dtrace_error(capture));
    quipu_dtrace_close(capture);
    return failed ? 1 : 0;
}
