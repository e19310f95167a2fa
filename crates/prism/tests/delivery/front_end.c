/* A front end that speaks Prism's delivery to the letter, and gets it wrong where it is asked to.
 *
 *     front_end FOLDER PREFIX CHANNEL LAYOUT WHAT EVENTS
 *
 * LAYOUT is fixed, clocked or variable. WHAT is "right", or what goes wrong. Addresses of accesses count them. */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_BUFFERS = 8, SLOTS = 4096, EVENT_BYTES = 18, NAME_BYTES = 4096, VARIABLE_BYTES = 524288 };

struct events { uint64_t count; unsigned char slots[SLOTS][EVENT_BYTES]; } __attribute__((packed));
struct clocks { uint64_t count; uint64_t readings[SLOTS]; } __attribute__((packed));
struct names { uint64_t used; char bytes[NAME_BYTES]; } __attribute__((packed));

static struct events *events;
static struct clocks *clocks;
static struct names *names;
static unsigned char *variable;
static int empty_fifo, full_fifo;
static unsigned current;
static uint64_t n_sent_buffers, used;

static int is(const char *one, const char *other) { return strcmp(one, other) == 0; }

/* Four attempts, half a second apart. */
static int open_fifo(const char *folder, const char *prefix, const char *what, const char *channel, int flags)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-%s-%s", folder, prefix, what, channel);
    for (int attempt = 0; attempt < 4; attempt++) {
        if (attempt > 0)
            usleep(500000);
        int fifo = open(path, flags);
        if (fifo >= 0)
            return fifo;
    }
    return -1;
}

static void tell(uint32_t number)
{
    if (write(full_fifo, &number, sizeof number) != sizeof number)
        exit(4);
}

/* Sends the current buffer and takes the next one, which has to be empty. */
static void send_buffer(void)
{
    tell(current);
    n_sent_buffers++;
    current = (current + 1) % N_BUFFERS;
    if (n_sent_buffers >= N_BUFFERS) {
        uint32_t number;
        if (read(empty_fifo, &number, sizeof number) != sizeof number)
            exit(5);
        if (number != current)
            exit(6);
    }
    used = 0;
    if (events) {
        events[current].count = 0;
        names[current].used = 0;
    }
    if (clocks)
        clocks[current].count = 0;
}

/* A slot of the fixed encoding; bytes that are not used stay as they are. */
static unsigned char *slot(void)
{
    if (events[current].count == SLOTS)
        send_buffer();
    if (clocks)
        clocks[current].readings[clocks[current].count++] = 1000 + events[current].count;
    return events[current].slots[events[current].count++];
}

/* Room for an event of the variable encoding. */
static unsigned char *room(unsigned n)
{
    if (used + n >= VARIABLE_BYTES) {
        variable[current * (uint64_t)VARIABLE_BYTES + used] = 0xc0;
        send_buffer();
    }
    unsigned char *at = variable + current * (uint64_t)VARIABLE_BYTES + used;
    used += n;
    return at;
}

static void swap_to(uint64_t thread)
{
    unsigned char *at = variable ? room(9) : slot();
    if (variable) {
        at[0] = 2 << 5 | 5;
        memcpy(at + 1, &thread, 8);
        return;
    }
    at[0] = 5;
    at[1] = 5;
    memcpy(at + 2, &thread, 8);
}

static void enter(const char *name)
{
    size_t length = strlen(name);
    if (variable) {
        unsigned char *at = room(2 + length);
        at[0] = 3 << 5 | 3;
        at[1] = length - 1;
        memcpy(at + 2, name, length);
        return;
    }
    if (names[current].used + length + 1 > NAME_BYTES)
        send_buffer();
    unsigned char *at = slot();
    uint32_t index = names[current].used, with_end = length + 1;
    memcpy(names[current].bytes + index, name, with_end);
    names[current].used += with_end;
    at[0] = 4;
    at[1] = 3;
    memcpy(at + 2, &index, 4);
    memcpy(at + 6, &with_end, 4);
}

static void store(uint64_t address)
{
    if (variable) {
        unsigned char *at = room(8);
        at[0] = 2 << 3 | 2;
        memcpy(at + 1, &address, 7);
        return;
    }
    unsigned char *at = slot();
    uint16_t size = 4;
    at[0] = 1;
    memcpy(at + 1, &address, 8);
    memcpy(at + 9, &size, 2);
    at[11] = 2;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        return 2;
    const char *folder = argv[1], *prefix = argv[2], *channel = argv[3], *layout = argv[4], *what = argv[5];
    uint64_t n_events = strtoull(argv[6], NULL, 10);

    empty_fifo = open_fifo(folder, prefix, is(what, "missing") ? "none" : "empty", channel, O_RDONLY);
    full_fifo = empty_fifo < 0 ? -1 : open_fifo(folder, prefix, is(what, "half") ? "none" : "full", channel, O_WRONLY);
    if (full_fifo < 0)
        return 3;

    char path[4096];
    snprintf(path, sizeof path, "%s/%s-shmem-%s", folder, prefix, channel);
    int file = open(path, O_RDWR);
    size_t fixed = N_BUFFERS * (sizeof(struct events) + sizeof(struct names));
    size_t size = is(layout, "variable") ? (size_t)N_BUFFERS * VARIABLE_BYTES
                : is(layout, "clocked") ? fixed + N_BUFFERS * sizeof(struct clocks) : fixed;
    if (file < 0)
        return 7;
    /* As the core of Prism leaves it, which maps the file before it has written all of it. */
    if (is(what, "short") && ftruncate(file, size - 4096) != 0)
        return 7;
    char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        return 8;
    if (is(layout, "variable")) {
        variable = (unsigned char *)map;
    } else {
        events = (struct events *)map;
        char *after = map + N_BUFFERS * sizeof(struct events);
        if (is(layout, "clocked")) {
            clocks = (struct clocks *)after;
            after += N_BUFFERS * sizeof(struct clocks);
        }
        names = (struct names *)after;
    }
    if (is(what, "cut") && ftruncate(file, 4096) != 0)
        return 7;

    if (is(what, "number"))
        tell(9);
    if (is(what, "turn"))
        tell(3);
    if (is(what, "count"))
        events[0].count = 5000;
    if (is(what, "number") || is(what, "turn") || is(what, "count") || is(what, "cut")) {
        send_buffer();
        goto end;
    }
    swap_to(1 + atoi(channel));
    enter("main");
    for (uint64_t n = 0; n < n_events; n++) {
        store(n);
        if (is(what, "fork") && n == 10000) {
            /* Both go on with the same buffer. */
            pid_t child = fork();
            if (child > 0)
                waitpid(child, NULL, 0);
        }
        if (is(what, "killed") && n == 10000)
            raise(SIGKILL);
    }
    if (variable)
        variable[current * (uint64_t)VARIABLE_BYTES + used] = 0xc0;
    if (is(what, "unfinished")) {
        tell(current);
        return 0;
    }
    /* A buffer without events is sent, too. */
    tell(current);
end:
    tell(UINT32_MAX);
    uint32_t number;
    while (read(empty_fifo, &number, sizeof number) > 0)
        ;
    return 0;
}
