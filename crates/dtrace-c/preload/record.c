/* Records what a classic consumer is given by the dtrace device, as a capture that any machine prints.
 *
 *   cc -shared -fPIC -o record.so record.c libquipu_dtrace_c.a -lpthread -ldl -lm
 *   QUIPU_DTRACE_CAPTURE=out.quipu LD_PRELOAD=$PWD/record.so dtrace -s script.d
 *
 * It stands between the consumer and the system: device calls go through unchanged, and what they gave is copied. The capture is
 * written when the device is closed or the program ends. QUIPU_DTRACE_OPTIONS has options about text that the device does not
 * know: `quiet,flowindent`; QUIPU_DTRACE_ACTIONS is the number of the first of the consumer's own actions where it is not 54.
 * The zone and the locale of the consumer are recorded, and the names of services where a format has %P. Symbols and hosts are
 * not asked for, so addresses are printed as numbers.
 */
#define _GNU_SOURCE
#include "quipu_dtrace.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

#define DEVICE "/dev/dtrace/dtrace"

/* Numbers of device calls; their upper bytes are `dtr` on illumos and Solaris, and those of _IOWR('x', ...) on FreeBSD. */
enum {
    PROBES = 2, BUFFER = 4, AGGREGATIONS = 7, EPROBE = 8, STATUS = 11, GO = 12, STOP = 13, AGGREGATION = 15, FORMAT = 16
};

/* Bytes of structures. */
enum { PROBE_BYTES = 388, EPROBE_HEAD = 24, AGG_HEAD = 40, REC_BYTES = 32, STATUS_BYTES = 88, MAX_RECS = 65536 };

struct bufdesc {
    uint64_t size;
    uint32_t cpu;
    uint32_t errors;
    uint64_t drops;
    char *data;
    uint64_t oldest;
    uint64_t timestamp;
};

struct fmtdesc {
    char *text;
    int32_t length;
    uint16_t id;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static quipu_dtrace *capture;
static int device = -1;
static int64_t began_on = -1, ended_on = -1;
static int has_stopped;
static unsigned long n_snapshots;

static void complain(const char *what)
{
    fprintf(stderr, "quipu: %s: %s\n", what, quipu_dtrace_error(capture));
}

static void write_capture(void)
{
    pthread_mutex_lock(&lock);
    const char *path = getenv("QUIPU_DTRACE_CAPTURE");
    if (capture) {
        quipu_dtrace_session(capture, began_on, ended_on, has_stopped);
        if (n_snapshots == 0)
            fprintf(stderr, "quipu: the consumer took no buffer, so the capture is empty\n");
        if (quipu_dtrace_write_stream(capture, path ? path : "dtrace.quipu", 0) != 0)
            complain("the capture is not written");
        quipu_dtrace_close(capture);
        capture = NULL;
    }
    device = -1;
    pthread_mutex_unlock(&lock);
}

/* Dates are printed in the zone of this host, wherever that is done. */
static void say_zone(void)
{
    time_t now = time(NULL);
    struct tm here;
    tzset();
    if (localtime_r(&now, &here))
        quipu_dtrace_zone(capture, (int32_t)here.tm_gmtoff, here.tm_zone ? here.tm_zone : "");
}

/* A text of the consumer's locale as UTF-8; what is no text of it ends it. */
static const char *utf8(char *to, size_t room, const char *from)
{
    mbstate_t state;
    wchar_t letter;
    size_t n, at = 0;
    memset(&state, 0, sizeof state);
    while ((n = mbrtowc(&letter, from, MB_CUR_MAX, &state)) != 0 && n < (size_t)-2 && at + 5 < room) {
        unsigned long code = (unsigned long)letter;
        from += n;
        if (code < 0x80) {
            to[at++] = (char)code;
        } else if (code < 0x800) {
            to[at++] = (char)(0xc0 | code >> 6);
        } else if (code < 0x10000) {
            to[at++] = (char)(0xe0 | code >> 12);
            to[at++] = (char)(0x80 | (code >> 6 & 0x3f));
        } else {
            to[at++] = (char)(0xf0 | (code >> 18 & 7));
            to[at++] = (char)(0x80 | (code >> 12 & 0x3f));
            to[at++] = (char)(0x80 | (code >> 6 & 0x3f));
        }
        if (code >= 0x80)
            to[at++] = (char)(0x80 | (code & 0x3f));
    }
    to[at] = 0;
    return to;
}

/* Numbers and dates are printed as the locale of this consumer has them, wherever that is done. */
static void say_locale(void)
{
    static const nl_item days[] = {ABDAY_1, ABDAY_2, ABDAY_3, ABDAY_4, ABDAY_5, ABDAY_6, ABDAY_7};
    static const nl_item months[] = {ABMON_1, ABMON_2, ABMON_3, ABMON_4,  ABMON_5,  ABMON_6,
                                     ABMON_7, ABMON_8, ABMON_9, ABMON_10, ABMON_11, ABMON_12};
    char texts[22][64], grouping[16] = "";
    quipu_dtrace_words words;
    const struct lconv *here = localeconv();
    const char *name = setlocale(LC_TIME, NULL);
    int at = 0;
    words.name = utf8(texts[at++], 64, name ? name : "");
    words.decimal_point = utf8(texts[at++], 64, here->decimal_point);
    words.thousands_separator = utf8(texts[at++], 64, here->thousands_sep);
    strncpy(grouping, here->grouping, sizeof grouping - 1);
    words.grouping = grouping;
    for (int day = 0; day < 7; day++)
        words.days[day] = utf8(texts[at++], 64, nl_langinfo(days[day]));
    for (int month = 0; month < 12; month++)
        words.months[month] = utf8(texts[at++], 64, nl_langinfo(months[month]));
    if (quipu_dtrace_locale(capture, &words) != 0)
        complain("the locale is not in the capture");
}

/* True for a format that names services: a conversion whose letter is P. */
static int names_services(const char *text)
{
    while ((text = strchr(text, '%')) != NULL) {
        text += 1 + strspn(text + 1, "0123456789.*#+-' ?@hlLw");
        if (*text == 'P')
            return 1;
        text += *text == '%';
    }
    return 0;
}

static void say_services(void)
{
    static int is_said;
    if (is_said++)
        return;
    setservent(1);
    for (struct servent *of; (of = getservent()) != NULL;)
        quipu_dtrace_service(capture, (uint16_t)((of->s_port & 0xff) << 8 | (of->s_port >> 8 & 0xff)), of->s_name);
    endservent();
}

static void say_actions(const char *text)
{
    char *end;
    errno = 0;
    uint64_t first = strtoull(text, &end, 0);
    if (errno || end == text || *end)
        fprintf(stderr, "quipu: QUIPU_DTRACE_ACTIONS is no number: %s\n", text);
    else
        quipu_dtrace_library_base(capture, first);
}

static void begin(int opened)
{
    pthread_mutex_lock(&lock);
    if (!capture) {
        const char *options = getenv("QUIPU_DTRACE_OPTIONS"), *actions = getenv("QUIPU_DTRACE_ACTIONS");
        capture = quipu_dtrace_open("dtrace");
        if (capture && options && quipu_dtrace_options(capture, options) != 0)
            complain("QUIPU_DTRACE_OPTIONS");
        if (capture && actions)
            say_actions(actions);
        if (capture) {
            say_zone();
            say_locale();
        }
        atexit(write_capture);
    }
    device = opened;
    pthread_mutex_unlock(&lock);
}

/* True for the device through which programs are enabled: consumers open those of helpers and of providers, too. */
static int is_device(const char *path)
{
    return strcmp(path, DEVICE) == 0;
}

typedef int open_function(const char *, int, ...);

static int open_as(const char *name, const char *path, int flags, mode_t mode)
{
    open_function *next = (open_function *)dlsym(RTLD_NEXT, name);
    int opened = next ? next(path, flags, mode) : -1;
    if (opened >= 0 && is_device(path))
        begin(opened);
    return opened;
}

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = (flags & O_CREAT) ? (mode_t)va_arg(rest, int) : 0;
    va_end(rest);
    return open_as("open", path, flags, mode);
}

#ifdef __linux__
int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = (flags & O_CREAT) ? (mode_t)va_arg(rest, int) : 0;
    va_end(rest);
    return open_as("open64", path, flags, mode);
}
#endif

int close(int closed)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "close");
    if (closed >= 0 && closed == device)
        write_capture();
    return next ? next(closed) : -1;
}

/* The number of a device call; 0 for one of another device. */
static unsigned number_of(unsigned long request)
{
    int is_illumos = (request & 0xffffff00) == ((unsigned long)'d' << 24 | 't' << 16 | 'r' << 8);
    int is_freebsd = (request >> 8 & 0xff) == 'x';
    return is_illumos || is_freebsd ? request & 0xff : 0;
}

/* On FreeBSD some calls are given a pointer to the structure's pointer; their size does not say so of all. */
static void *structure(unsigned long request, void *argument)
{
    int is_freebsd = (request & 0xffffff00) != ((unsigned long)'d' << 24 | 't' << 16 | 'r' << 8);
    unsigned call = request & 0xff;
    int has_pointer = call == BUFFER || call == AGGREGATIONS || call == EPROBE || call == AGGREGATION;
    return is_freebsd && has_pointer ? *(void **)argument : argument;
}

static uint32_t word(const void *from, size_t at)
{
    uint32_t value;
    memcpy(&value, (const char *)from + at, sizeof value);
    return value;
}

/* Bytes of a description with room for `n` parts, one at least. */
static size_t with_recs(size_t head, uint32_t n)
{
    return head + REC_BYTES * (size_t)(n == 0 ? 1 : n > MAX_RECS ? MAX_RECS : n);
}

static int take_buffer(const struct bufdesc *of, int (*give)(quipu_dtrace *, const quipu_dtrace_snapshot *))
{
    n_snapshots++;
    quipu_dtrace_snapshot snapshot = {of->cpu, of->errors, of->drops, of->data, of->size, of->oldest, of->timestamp};
    return give(capture, &snapshot);
}

/* Takes what a call gave. `room` is how many parts the consumer had room for. */
static int take(unsigned call, const void *given, uint32_t room)
{
    switch (call) {
    case PROBES:
        return quipu_dtrace_probe(capture, given, PROBE_BYTES);
    case EPROBE:
        /* Called with too little room, the device says how many parts there are, and is called again. */
        return word(given, 20) > room ? 0 : quipu_dtrace_enabling(capture, given, with_recs(EPROBE_HEAD, word(given, 20)));
    case AGGREGATION:
        return word(given, 32) > room ? 0
                                      : quipu_dtrace_aggregation(capture, given, with_recs(AGG_HEAD, word(given, 32)), 0, NULL);
    case FORMAT: {
        const struct fmtdesc *format = given;
        if (!format->text || room == 0)
            return 0;
        if (names_services(format->text))
            say_services();
        return quipu_dtrace_format(capture, format->id, format->text);
    }
    case BUFFER:
        return take_buffer(given, quipu_dtrace_buffer);
    case AGGREGATIONS:
        return take_buffer(given, quipu_dtrace_aggregations);
    case STATUS:
        return quipu_dtrace_status(capture, given, STATUS_BYTES);
    case GO:
        began_on = (int32_t)word(given, 0);
        return 0;
    case STOP:
        ended_on = (int32_t)word(given, 0);
        has_stopped = 1;
        return 0;
    default:
        return 0;
    }
}

/* The room that the consumer says that it has, before the call fills it in. */
static uint32_t room_of(unsigned call, const void *given)
{
    switch (call) {
    case EPROBE:
        return word(given, 20);
    case AGGREGATION:
        return word(given, 32);
    case FORMAT:
        return (uint32_t)((const struct fmtdesc *)given)->length;
    default:
        return 0;
    }
}

int ioctl(int of, unsigned long request, ...)
{
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    int (*next)(int, unsigned long, ...) = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
    if (!next)
        return -1;
    unsigned call = of >= 0 && of == device && argument ? number_of(request) : 0;
    uint32_t room = call ? room_of(call, structure(request, argument)) : 0;
    int result = next(of, request, argument);
    if (call && result == 0) {
        int before = errno;
        pthread_mutex_lock(&lock);
        if (capture && take(call, structure(request, argument), room) != 0)
            complain("what the device gave is not in the capture");
        pthread_mutex_unlock(&lock);
        errno = before;
    }
    return result;
}
