/* A hash table of words that come in no order: calls, branches that nobody can guess, addresses without a pattern. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    struct word *next;
    unsigned count;
    char text[12];
};

static struct word *table[4096];

static unsigned hash(const char *text) {
    unsigned hash = 5381;
    while (*text)
        hash = hash * 33 ^ (unsigned char)*text++;
    return hash % 4096;
}

static struct word *find(const char *text) {
    struct word **at = &table[hash(text)];
    for (struct word *word = *at; word; word = word->next)
        if (strcmp(word->text, text) == 0)
            return word;
    struct word *word = calloc(1, sizeof *word);
    strcpy(word->text, text);
    word->next = *at;
    return *at = word;
}

int main(void) {
    unsigned state = 1, most = 0;
    for (int i = 0; i < 400000; i++) {
        char text[12];
        state = state * 1664525 + 1013904223;
        snprintf(text, sizeof text, "w%u", (state >> 8) % 20000);
        unsigned count = ++find(text)->count;
        if (count > most)
            most = count;
    }
    printf("%u\n", most);
}
