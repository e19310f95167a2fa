/* Compresses a file with zlib, and prints how many bytes that took. */
#include <stdio.h>
#include <string.h>
#include <zlib.h>

int main(int argc, char **argv)
{
    static unsigned char in[1 << 16], out[1 << 16];
    FILE *file = fopen(argc > 1 ? argv[1] : "/dev/null", "rb");
    if (!file)
        return 1;
    z_stream stream;
    memset(&stream, 0, sizeof stream);
    deflateInit(&stream, 6);
    size_t total = 0, n;
    do {
        n = fread(in, 1, sizeof in, file);
        stream.next_in = in;
        stream.avail_in = (unsigned)n;
        do {
            stream.next_out = out;
            stream.avail_out = sizeof out;
            deflate(&stream, n < sizeof in ? Z_FINISH : Z_NO_FLUSH);
            total += sizeof out - stream.avail_out;
        } while (stream.avail_out == 0);
    } while (n == sizeof in);
    printf("%zu\n", total);
    return 0;
}
