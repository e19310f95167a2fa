/* A product of matrices, as one writes it down: a few rows of inputs times a square of weights. */
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 16, N = 128 };

struct rows {
    double cell[ROWS][N];
};

struct weights {
    double cell[N][N];
};

static void multiply(struct rows *out, const struct rows *in, const struct weights *weights)
{
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++)
                out->cell[i][j] += in->cell[i][k] * weights->cell[k][j];
}

int main(void)
{
    struct rows *in = calloc(1, sizeof *in);
    struct rows *out = calloc(1, sizeof *out);
    struct weights *weights = calloc(1, sizeof *weights);

    for (int k = 0; k < N; k++)
        for (int j = 0; j < N; j++)
            weights->cell[k][j] = k - j;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < N; k++)
            in->cell[i][k] = i + k;
    multiply(out, in, weights);
    printf("%g\n", out->cell[ROWS - 1][N - 1]);
    free(in);
    free(out);
    free(weights);
    return 0;
}
