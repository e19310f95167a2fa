#include "zlib.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    static unsigned char in[200000], out[300000], back[200000];
    for (int i = 0; i < (int)sizeof in; i++) in[i] = (unsigned char)("abcdefgh"[(i * i / 7 + i / 100) & 7] + (i % 1000 == 0));
    uLongf n = sizeof out, m = sizeof back;
    if (compress2(out, &n, in, sizeof in, 6) != Z_OK || uncompress(back, &m, out, n) != Z_OK) return 1;
    gzFile f = gzopen("drive.gz", "wb6"); gzwrite(f, in, 50000); gzclose(f);
    f = gzopen("drive.gz", "rb"); m = gzread(f, back, sizeof back); gzclose(f);
    printf("%lu %lu %d\n", n, m, memcmp(in, back, 50000)); remove("drive.gz");
    return 0;
}
