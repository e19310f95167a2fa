/* Two files with a function of one name, which stores 2 bytes five times here, and 1 byte seven times in the other file. */
static volatile short shorts[8];

void other_part(void);

__attribute__((noinline)) static void begin_part(void) {
    for (int i = 0; i < 5; i++) shorts[i] = (short)i;
}

int main(void) {
    begin_part();
    other_part();
    return 0;
}
