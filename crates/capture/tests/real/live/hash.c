/* A hash table of chains that counts numbers, most of which it has seen before. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct entry { uint64_t key, count; struct entry *next; };

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 100000;
    struct entry **table = calloc(1 << 18, sizeof *table);
    uint64_t state = 88172645463325252u, sum = 0;
    for (long i = 0; i < n; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        uint64_t key = state % (uint64_t)(n / 2 + 1);
        struct entry **at = &table[(key * 0x9e3779b97f4a7c15u) >> 46];
        while (*at && (*at)->key != key)
            at = &(*at)->next;
        if (!*at) {
            *at = calloc(1, sizeof **at);
            (*at)->key = key;
        }
        sum += ++(*at)->count;
    }
    printf("%lu\n", sum);
    return 0;
}
