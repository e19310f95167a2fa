/* Counts instructions, loads and stores: what the front ends are measured with. */
#include "quipu_tool.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const quipu_host *host;
    uint64_t instrs, loads, stores;
} counts;

static const char *take(void *self, const quipu_batch *batch)
{
    counts *t = self;
    for (uint64_t i = 0; i < batch->n_events; i++) {
        const quipu_event *event = &batch->events[i];
        if (event->kind == QUIPU_MEMORY) {
            t->loads += event->type == QUIPU_LOAD;
            t->stores += event->type == QUIPU_STORE;
        } else if (event->kind == QUIPU_CONTEXT) {
            t->instrs += event->type == QUIPU_INSTRUCTION;
        }
    }
    return NULL;
}

static void needs(const void *self, quipu_detail *detail)
{
    (void)self;
    *detail = (quipu_detail){
        .memory = QUIPU_TYPE,
        .compute = QUIPU_NO_EVENTS, .control = QUIPU_NO_EVENTS, .sync = QUIPU_NO_EVENTS,
    };
}

static const char *create(const quipu_host *host, const char *options, void **self)
{
    (void)options;
    counts *t = calloc(1, sizeof *t);
    if (!t)
        return "there is no memory";
    t->host = host;
    *self = t;
    return NULL;
}

static const char *finish(void *self)
{
    const counts *t = self;
    char line[96];
    int length = snprintf(line, sizeof line, "%llu %llu %llu\n", (unsigned long long)t->instrs,
                          (unsigned long long)t->loads, (unsigned long long)t->stores);
    t->host->print(t->host->context, line, (size_t)length);
    return NULL;
}

static const quipu_tool table = {
    .size = sizeof table, .version = QUIPU_TOOL_VERSION, .name = "count", .instances = QUIPU_ONE,
    .create = create, .take = take, .destroy = free, .needs = needs, .finish = finish,
};

const quipu_tool *quipu_tool_table(void)
{
    return &table;
}
