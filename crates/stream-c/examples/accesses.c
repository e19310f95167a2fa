/* Writes a stream from two threads and a signal handler. */
#include "quipu_stream.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct access { uint64_t addr; uint32_t size; uint8_t is_write; };
struct request { uint16_t status; quipu_piece path; };

static const quipu_field access_fields[] = {
    {"addr", QUIPU_ADDRESS, offsetof(struct access, addr), QUIPU_ROLE_ADDRESS, NULL, QUIPU_HEXADECIMAL},
    {"size", QUIPU_U32, offsetof(struct access, size), QUIPU_ROLE_ACCESS_SIZE, "B", 0},
    {"is_write", QUIPU_BOOL, offsetof(struct access, is_write), QUIPU_ROLE_NONE, NULL, 0}};
static const quipu_field request_fields[] = {
    {"status", QUIPU_U16, offsetof(struct request, status), QUIPU_ROLE_NONE, NULL, 0},
    {"path", QUIPU_TEXT, offsetof(struct request, path), QUIPU_ROLE_NONE, NULL, 0}};

static quipu_writer *writer;
static uint32_t access_schema;
static quipu_stream *of_handler;

static void *accesses(void *argument)
{
    quipu_stream *stream = quipu_stream_open(writer, 1);
    for (uint64_t n = 0; n < 100000; n++) {
        struct access access = {0x1000 + 8 * n, 8, n % 3 == 0};
        if (quipu_row(stream, access_schema, n, &access, sizeof access) != 0)
            return NULL;
    }
    quipu_stream_close(stream);
    return argument;
}

static void on_signal(int number)
{
    struct access access = {(uint64_t)number, 1, 0};
    quipu_try_row(of_handler, access_schema, 7, &access, sizeof access);
}

int main(int argc, char **argv)
{
    writer = quipu_writer_open(argc > 1 ? argv[1] : "accesses.quipu", "accesses 1.0");
    if (!writer)
        return 1;
    access_schema = quipu_schema(writer, "access", access_fields, 3, sizeof(struct access), NULL);
    uint32_t request_schema =
        quipu_schema(writer, "request", request_fields, 2, sizeof(struct request), "{path}: {status}");
    of_handler = quipu_stream_open(writer, 3);
    if (!access_schema || !request_schema || !of_handler)
        return 1;
    signal(SIGUSR1, on_signal);
    pthread_t thread;
    pthread_create(&thread, NULL, accesses, NULL);

    quipu_stream *stream = quipu_stream_open(writer, 2);
    for (int n = 0; n < 10; n++) {
        char path[32];
        struct request request = {n == 3 ? 404 : 200, {0, 0}};
        quipu_part part = {offsetof(struct request, path), path, (uint32_t)snprintf(path, sizeof path, "/page/%d", n)};
        quipu_row_with(stream, request_schema, (uint64_t)n, &request, sizeof request, &part, 1);
    }
    quipu_stream_close(stream);
    raise(SIGUSR1);
    pthread_join(thread, NULL);
    quipu_stream_close(of_handler);
    return quipu_writer_close(writer) == 0 ? 0 : 1;
}
