/* An array, changed round after round: one short loop, addresses in a row. */
#include <stdio.h>

static int numbers[4096];

int main(void) {
    long sum = 0;
    for (int round = 0; round < 4000; round++)
        for (int i = 0; i < 4096; i++) {
            numbers[i] += i ^ round;
            sum += numbers[i] & 3 ? numbers[i] : 1;
        }
    printf("%ld\n", sum);
}
