/* A consumer that asks the device for all that a real one asks for, and prints nothing: with illumos's numbers of device calls, or
 * with FreeBSD's (-DFREEBSD). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#ifdef FREEBSD
#define CALL(n, way, bytes) ((unsigned long)(way) << 28 | (unsigned long)(bytes) << 16 | 'x' << 8 | (n))
#define PASSED(at) (&(void *){at})
#else
#define CALL(n, way, bytes) ((unsigned long)'d' << 24 | 't' << 16 | 'r' << 8 | (n))
#define PASSED(at) (at)
#endif
#define PROBE CALL(2, 0xc, 388)
#define BUFFER CALL(4, 8, 8)
#define AGGREGATIONS CALL(7, 8, 8)
#define EPROBE CALL(8, 8, 56)
#define GO CALL(12, 4, 4)
#define STOP CALL(13, 0xc, 4)
#define AGGREGATION CALL(15, 8, 8)
#define FORMAT CALL(16, 0xc, 16)
#define N_CPUS 8
#define N_IDS 400
#define BUFFER_BYTES (1 << 20)

struct bufdesc { uint64_t size; uint32_t cpu, errors; uint64_t drops; char *data; uint64_t oldest, timestamp; };
struct fmtdesc { char *text; int32_t length; uint16_t id; };

static char room[40 + 32 * 256];

/* Asks for a description as consumers do: with room for one part, then with enough. */
static int describe(int device, unsigned long call, uint32_t id, size_t id_at, size_t n_at)
{
    uint32_t n = 1;
    for (int nth = 0; nth < 2; nth++) {
        memset(room, 0, sizeof room);
        memcpy(room + id_at, &id, 4);
        memcpy(room + n_at, &n, 4);
        if (ioctl(device, call, PASSED(room)) != 0)
            return -1;
        memcpy(&n, room + n_at, 4);
    }
    return 0;
}

int main(void)
{
    int device = open("/dev/dtrace/dtrace", O_RDWR);
    if (device < 0)
        return 1;
    /* Real ones open it right after the device. */
    if (open("/dev/dtrace/provider/fasttrap", O_RDWR) < 0)
        return 4;
    int32_t cpu = -1;
    ioctl(device, GO, &cpu);
    for (uint32_t id = 1; id < N_IDS; id++) {
        char probe[388] = {0};
        if (describe(device, EPROBE, id, 0, 20) != 0)
            continue;
        memcpy(probe, room + 4, 4);
        if (ioctl(device, PROBE, probe) != 0)
            return 2;
    }
    for (uint32_t id = 1; describe(device, AGGREGATION, id, 20, 32) == 0; id++)
        ;
    for (uint16_t id = 1;; id++) {
        struct fmtdesc format = {NULL, 0, id};
        if (ioctl(device, FORMAT, &format) != 0)
            break;
        format.text = malloc((size_t)format.length);
        if (ioctl(device, FORMAT, &format) != 0)
            return 3;
        free(format.text);
    }
    char *data = malloc(BUFFER_BYTES);
    for (uint32_t of = 0; of < N_CPUS; of++) {
        struct bufdesc buffer = {BUFFER_BYTES, of, 0, 0, data, 0, 0};
        ioctl(device, BUFFER, PASSED(&buffer));
        struct bufdesc aggregations = {BUFFER_BYTES, of, 0, 0, data, 0, 0};
        ioctl(device, AGGREGATIONS, PASSED(&aggregations));
    }
    ioctl(device, STOP, &cpu);
    close(device);
    free(data);
    return 0;
}
