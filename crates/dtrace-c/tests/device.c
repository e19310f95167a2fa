/* A dtrace device that is none: loaded before the C library and after the recording one, it answers device calls with the lines
 * of a case (QUIPU_FAKE_CASE). */
#define _GNU_SOURCE
#include "../examples/case.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <netdb.h>
#include <stdarg.h>

#define CALL(n) ((unsigned long)'d' << 24 | 't' << 16 | 'r' << 8 | (n))
#define FAKE 911

struct bufdesc { uint64_t size; uint32_t cpu, errors; uint64_t drops; char *data; uint64_t oldest, timestamp; };
struct fmtdesc { char *text; int32_t length; uint16_t id; };

static struct text text;

int open(const char *path, int flags, ...)
{
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    va_list rest;
    va_start(rest, flags);
    int mode = (flags & O_CREAT) ? va_arg(rest, int) : 0;
    va_end(rest);
    if (strcmp(path, "/dev/dtrace/provider/fasttrap") == 0)
        return next("/dev/null", flags, mode);
    if (strcmp(path, "/dev/dtrace/dtrace") != 0)
        return next(path, flags, mode);
    text = read_text(getenv("QUIPU_FAKE_CASE"));
    return FAKE;
}

int close(int closed)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "close");
    return closed == FAKE ? 0 : next(closed);
}

/* A locale that needs not be there (QUIPU_FAKE_LOCALE), and a service. */
struct lconv *localeconv(void)
{
    static struct lconv fake;
    struct lconv *(*next)(void) = (struct lconv * (*)(void)) dlsym(RTLD_NEXT, "localeconv");
    if (!getenv("QUIPU_FAKE_LOCALE"))
        return next();
    fake = *next();
    fake.decimal_point = ",";
    fake.thousands_sep = ".";
    fake.grouping = "\3\177";
    return &fake;
}

char *nl_langinfo(nl_item item)
{
    char *(*next)(nl_item) = (char *(*)(nl_item))dlsym(RTLD_NEXT, "nl_langinfo");
    return getenv("QUIPU_FAKE_LOCALE") && item == ABMON_3 ? "Mrz" : next(item);
}

static int n_services;

void setservent(int stay)
{
    n_services = stay;
}

struct servent *getservent(void)
{
    static struct servent http = {"http", NULL, 80 << 8, "tcp"};
    return n_services-- > 0 ? &http : NULL;
}

void endservent(void)
{
}

/* The line of a kind whose structure has this number at a place. */
static const struct line *find(const char *kind, size_t at, uint32_t id)
{
    for (size_t nth = 0; nth < text.n_lines; nth++) {
        uint32_t found = 0;
        const struct line *line = &text.lines[nth];
        if (is(line, kind) && line->n_bytes >= at + 4)
            memcpy(&found, line->bytes + at, 4);
        if (is(line, kind) && found == id)
            return line;
    }
    return NULL;
}

/* Fills in a description as far as there is room: the number of parts stands at `n_at`. */
static int describe(char *to, const struct line *line, size_t head, size_t n_at)
{
    uint32_t room, has;
    if (!line)
        return errno = EINVAL, -1;
    memcpy(&room, to + n_at, 4);
    memcpy(&has, line->bytes + n_at, 4);
    memcpy(to, line->bytes, head);
    memcpy(to + head, line->bytes + head, 32 * (size_t)(has < room ? has : room));
    return 0;
}

static int snapshot(struct bufdesc *to, const char *kind)
{
    for (size_t nth = 0; nth < text.n_lines; nth++) {
        struct line *line = &text.lines[nth];
        if (!is(line, kind) || number(line, 1) != to->cpu)
            continue;
        memcpy(to->data, line->bytes, line->n_bytes);
        to->size = line->n_bytes;
        to->drops = number(line, 2);
        to->oldest = number(line, 3);
        to->errors = 0;
        to->timestamp = 1000000;
        line->words[0] = strdup("taken");
        return 0;
    }
    return errno = ENOENT, -1;
}

static int format(struct fmtdesc *to)
{
    for (size_t nth = 0; nth < text.n_lines; nth++) {
        const struct line *line = &text.lines[nth];
        if (!is(line, "format") || number(line, 1) != to->id)
            continue;
        if (to->length == 0)
            to->length = (int32_t)line->n_bytes + 1;
        else
            memcpy(to->text, line->bytes, line->n_bytes + 1);
        return 0;
    }
    return errno = EINVAL, -1;
}

/* The CPU that ran BEGIN (1) or END (2). */
static int cpu(int32_t *to, int at)
{
    for (size_t nth = 0; nth < text.n_lines; nth++)
        if (is(&text.lines[nth], "session"))
            *to = atoi(text.lines[nth].words[at]);
    return 0;
}

int ioctl(int of, unsigned long request, ...)
{
    int (*next)(int, unsigned long, ...) = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (of != FAKE)
        return next(of, request, argument);
    /* FreeBSD's calls have other upper bytes, and some a pointer to the structure's pointer. */
    if ((request >> 8 & 0xff) == 'x') {
        unsigned call = request & 0xff;
        argument = call == 4 || call == 7 || call == 8 || call == 15 ? *(void **)argument : argument;
        request = CALL(call);
    }
    uint32_t id;
    memcpy(&id, argument, 4);
    switch (request) {
    case CALL(2): {
        const struct line *line = find("probe", 0, id);
        if (!line)
            return errno = ESRCH, -1;
        memcpy(argument, line->bytes, 388);
        return 0;
    }
    case CALL(4):
        return snapshot(argument, "buf");
    case CALL(7):
        return snapshot(argument, "aggbuf");
    case CALL(8):
        return describe(argument, find("eprobe", 0, id), 24, 20);
    case CALL(12):
        return cpu(argument, 1);
    case CALL(13):
        return cpu(argument, 2);
    case CALL(15):
        memcpy(&id, (char *)argument + 20, 4);
        return describe(argument, find("agg", 20, id), 40, 32);
    case CALL(16):
        return format(argument);
    default:
        return errno = ENOTTY, -1;
    }
}
