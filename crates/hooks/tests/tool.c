/* A tool for tests: prints what it is given. Options of the compiler make it a wrong, an old or a new one. */
#include "quipu_tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION QUIPU_TOOL_VERSION
#endif
#ifndef SIZE
#define SIZE sizeof(quipu_tool)
#endif
#ifndef INSTANCES
#define INSTANCES QUIPU_MANY
#endif
#ifndef NAME
#define NAME "probe"
#endif

typedef struct {
    const quipu_host *host;
    FILE *out;
    int n_events;
} tool;

static const char *say(tool *t, const quipu_batch *batch, const quipu_event *event, const char *what, size_t length)
{
    fprintf(t->out, "%llu/%llu@%llu %.*s type %u fields %02x size %u data %llu\n",
        (unsigned long long)(batch->has_thread ? batch->thread : 0), (unsigned long long)quipu_ordinal(batch, event),
        (unsigned long long)quipu_clock(batch, event), (int)length, what, event->type, event->fields, event->size,
        (unsigned long long)event->data);
    t->n_events++;
    return NULL;
}

static const char *on_memory(void *self, const quipu_batch *batch, const quipu_event *event)
{
    if (event->size == 666)
        return "an access of 666 bytes";
    return say(self, batch, event, "memory", 6);
}

static const char *on_compute(void *self, const quipu_batch *batch, const quipu_event *event)
{
    return say(self, batch, event, "compute", 7);
}

static const char *on_sync(void *self, const quipu_batch *batch, const quipu_event *event)
{
    return say(self, batch, event, "sync", 4);
}

static const char *on_context(void *self, const quipu_batch *batch, const quipu_event *event, const char *name, size_t length)
{
    return length ? say(self, batch, event, name, length) : say(self, batch, event, "context", 7);
}

static const char *on_control_flow(void *self, const quipu_batch *batch, const quipu_event *event)
{
    return say(self, batch, event, "control", 7);
}

static const char *on_config(void *self, const quipu_batch *batch, const quipu_event *event)
{
    return say(self, batch, event, "config", 6);
}

static const quipu_hooks hooks = { on_memory, on_compute, on_sync, on_context, on_control_flow, on_config };

static const char *take(void *self, const quipu_batch *batch)
{
    return quipu_each(self, batch, hooks);
}

static void needs(const void *self, quipu_detail *detail)
{
    (void)self;
    memset(detail, 0, sizeof *detail);
    detail->memory = QUIPU_TYPE | QUIPU_SIZE;
}

static const char *create(const quipu_host *host, const char *options, void **self)
{
    if (strcmp(options, "refuse") == 0)
        return "refused";
    if (!host->folder)
        return "it needs a folder";
    char path[4096];
    static int n_created;
    snprintf(path, sizeof path, "%s/said-%d", host->folder, n_created++);
    tool *t = calloc(1, sizeof *t);
    t->host = host;
    t->out = fopen(path, "w");
    fprintf(t->out, "options %s\n", options);
    *self = t;
    return NULL;
}

static const char *start(void *self)
{
    tool *t = self;
    fprintf(t->out, "start\n");
    return NULL;
}

static const char *finish(void *self)
{
    tool *t = self;
    fprintf(t->out, "finish %d\n", t->n_events);
    return NULL;
}

static const char *finish_all(void *const *tools, size_t n)
{
    int sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((tool *)tools[i])->n_events;
    fprintf(((tool *)tools[0])->out, "all %d of %d\n", sum, (int)n);
    return NULL;
}

static void destroy(void *self)
{
    tool *t = self;
    fprintf(t->out, "destroyed\n");
    fclose(t->out);
    free(t);
}

static const quipu_tool table = {
    .size = SIZE, .version = VERSION, .name = NAME, .instances = INSTANCES,
#ifndef NO_CREATE
    .create = create,
#endif
    .take = take, .destroy = destroy, .needs = needs, .start = start, .finish = finish, .finish_all = finish_all,
};

#ifndef NO_TABLE
const quipu_tool *quipu_tool_table(void)
{
    return &table;
}
#else
const quipu_tool *another_name(void)
{
    return &table;
}
#endif
