/* A loop over two arrays of 64 KiB. */
#include <stdio.h>
#include <stdlib.h>

#define N 8192

static long from[N], to[N];

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 100;
    for (long i = 0; i < N; i++)
        from[i] = i;
    for (long round = 0; round < rounds; round++)
        for (long i = 0; i < N; i++)
            to[i] += from[i] * round;
    printf("%ld\n", to[N - 1]);
    return 0;
}
