/* Three rounds of a phase between two functions, and another one after them. Sizes of stores tell which is which: 2 bytes
   inside, five times a round; 1 byte outside, seven times a round. The functions begin with no branch, after which a window
   would have to go on. */
static volatile short inside[8];
static volatile char outside[8];

__attribute__((noinline)) void begin(void) {
    __asm__ volatile("nop" ::: "memory");
}

__attribute__((noinline)) void end(void) {
    __asm__ volatile("nop" ::: "memory");
}

int main(void) {
    for (int round = 0; round < 3; round++) {
        begin();
        for (int i = 0; i < 5; i++) inside[i] = (short)round;
        end();
        for (int i = 0; i < 7; i++) outside[i] = (char)round;
    }
    return 0;
}
