/* Sends a stream through a pipe or a socket, with all that can be said of it: host, zone, clock, streams, names of values. */
#include "quipu_stream.h"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct event { uint64_t addr; uint8_t kind; uint8_t flags; uint16_t corners[2]; };

enum { READ, WRITE };

int main(int argc, char **argv)
{
    int fd = argc > 1 ? open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0644) : STDOUT_FILENO;
    const char *const arguments[] = {"live", "--example"};
    const quipu_options options = {
        .size = sizeof options, .program = "live 1.0", .host = "lab-3", .zone = "Europe/Zurich", .zone_seconds = 3600,
        .start_ns = 1700000000000000000, .arguments = arguments, .n_arguments = 2, .codec = QUIPU_LZ4, .live = 1};
    quipu_writer *writer = quipu_writer_to(fd, &options);
    if (!writer)
        return 1;

    uint32_t clock = quipu_clock(writer, "cycles", 2000000000, INT64_MIN, 0);
    int described = quipu_stream_describe(writer, 1, "cpu 5", clock, 5, getpid(), -1);
    const quipu_name kinds[] = {{READ, "read"}, {WRITE, "write"}};
    const quipu_name bits[] = {{1, "locked"}, {2, "split"}};
    const quipu_field fields[] = {
        {"addr", QUIPU_ADDRESS, offsetof(struct event, addr), QUIPU_ROLE_ADDRESS, NULL, QUIPU_HEXADECIMAL},
        {"kind", quipu_enumeration(writer, "kind", QUIPU_U8, kinds, 2), offsetof(struct event, kind),
         QUIPU_ROLE_ACCESS_KIND, NULL, QUIPU_FEW_VALUES},
        {"flags", quipu_bit_names(writer, "flags", QUIPU_U8, bits, 2), offsetof(struct event, flags), QUIPU_ROLE_NONE,
         NULL, 0},
        {"corners", quipu_array(writer, QUIPU_U16, 2), offsetof(struct event, corners), QUIPU_ROLE_NONE, NULL, 0}};
    uint32_t schema = quipu_schema(writer, "event", fields, 4, sizeof(struct event), NULL);
    quipu_stream *stream = quipu_stream_open(writer, 1);
    if (!clock || described != 0 || !schema || !stream)
        return 1;

    quipu_clock_reading(writer, clock, 0, 1700000000000000000, 50);
    for (uint16_t n = 0; n < 4; n++) {
        struct event event = {0x7000 + n, n % 2 ? WRITE : READ, 3, {n, (uint16_t)(n + 1)}};
        if (quipu_row(stream, schema, UINT64_C(2000000000) * n, &event, sizeof event) != 0)
            return 1;
    }
    /* Nothing comes for a while: what is there goes out all the same. */
    usleep(300000);
    if (quipu_flush_old(stream) != 0)
        return 1;
    quipu_clock_reading(writer, clock, 8000000000, 1700000004000000400, 50);
    quipu_lost(stream, 2);
    quipu_remark(writer, "two events were dropped by this example", 1);
    quipu_attach(writer, "notes.txt", "text/plain", "all is well\n", 12);
    quipu_stream_close(stream);
    return quipu_writer_close(writer) == 0 ? 0 : 1;
}
