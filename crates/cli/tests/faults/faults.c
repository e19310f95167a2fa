/* A disk that fails, for the tests: reads of one file, and writes below one folder.
 *
 * QUIPU_FAULT_READ: the file; QUIPU_FAULT_AT: the byte from which on it cannot be read (EIO; in a map, a bus error).
 * QUIPU_FAULT_WRITE: the folder; QUIPU_FAULT_ROOM: how many bytes can be written below it (then ENOSPC).
 * QUIPU_FAULT_CLOSE: the folder; files below it that were opened to be written are closed, but that says ENOSPC, as file
 * systems of a network do.
 *
 * It is loaded before the C library, whose calls it passes on. Memory maps of the file are made of a copy that ends at
 * that byte, in whole pages, so that touching what lies behind is the bus error that a failing disk makes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static struct stat target;
static int has_target;
static off_t fault_at;
static const char *folder, *closing;
static atomic_llong room;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("QUIPU_FAULT_READ"), *at = getenv("QUIPU_FAULT_AT"), *limit = getenv("QUIPU_FAULT_ROOM");
    has_target = path && at && stat(path, &target) == 0;
    fault_at = at ? atoll(at) : 0;
    folder = getenv("QUIPU_FAULT_WRITE");
    closing = getenv("QUIPU_FAULT_CLOSE");
    room = limit ? atoll(limit) : 0;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_target(int fd) {
    struct stat is;
    return has_target && fstat(fd, &is) == 0 && is.st_dev == target.st_dev && is.st_ino == target.st_ino;
}

/* How many of `n` bytes at `at` can be read; -1 if not even one. */
static ssize_t readable(int fd, off_t at, size_t n) {
    if (n == 0 || !is_target(fd) || at + (off_t)n <= fault_at) return n;
    if (at < fault_at) return fault_at - at;
    errno = EIO;
    return -1;
}

ssize_t read(int fd, void *to, size_t n) {
    ssize_t can = has_target ? readable(fd, lseek(fd, 0, SEEK_CUR), n) : (ssize_t)n;
    return can < 0 ? can : NEXT(read)(fd, to, can);
}

ssize_t pread64(int fd, void *to, size_t n, off_t at) {
    ssize_t can = readable(fd, at, n);
    return can < 0 ? can : NEXT(pread64)(fd, to, can, at);
}

ssize_t pread(int fd, void *to, size_t n, off_t at) { return pread64(fd, to, n, at); }

ssize_t readv(int fd, const struct iovec *parts, int n) {
    if (!is_target(fd)) return NEXT(readv)(fd, parts, n);
    return n > 0 ? read(fd, parts[0].iov_base, parts[0].iov_len) : 0;
}

void *mmap64(void *at, size_t n, int rights, int flags, int fd, off_t from) {
    if (fd < 0 || fault_at >= target.st_size || !is_target(fd)) return NEXT(mmap64)(at, n, rights, flags, fd, from);
    int copy = memfd_create("fault", 0);
    char page[4096];
    for (off_t done = 0; done < fault_at; done += sizeof page) {
        ssize_t got = NEXT(pread64)(fd, page, sizeof page, done);
        if (got <= 0 || write(copy, page, got) != got) break;
    }
    if (ftruncate(copy, fault_at / 4096 * 4096) != 0) abort();
    void *map = NEXT(mmap64)(at, n, rights, flags, copy, from);
    close(copy);
    return map;
}

void *mmap(void *at, size_t n, int rights, int flags, int fd, off_t from) {
    return mmap64(at, n, rights, flags, fd, from);
}

/* Whether a descriptor is of a file below a folder. */
static int is_below(int fd, const char *folder) {
    char link[64], path[4096];
    struct stat is;
    if (!folder || fstat(fd, &is) != 0 || !S_ISREG(is.st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0) return 0;
    path[len] = 0;
    return strncmp(path, folder, strlen(folder)) == 0;
}

int close(int fd) {
    int fails = closing && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY && is_below(fd, closing);
    int done = NEXT(close)(fd);
    if (!fails) return done;
    errno = ENOSPC;
    return -1;
}

/* How many of `n` bytes can be written; -1 if not even one. */
static ssize_t writable(int fd, size_t n) {
    if (!is_below(fd, folder)) return n;
    long long before = atomic_fetch_sub(&room, (long long)n);
    if (before >= (long long)n) return n;
    if (before > 0) return before;
    errno = ENOSPC;
    return -1;
}

ssize_t write(int fd, const void *from, size_t n) {
    ssize_t can = writable(fd, n);
    return can < 0 ? can : NEXT(write)(fd, from, can);
}

ssize_t pwrite64(int fd, const void *from, size_t n, off_t at) {
    ssize_t can = writable(fd, n);
    return can < 0 ? can : NEXT(pwrite64)(fd, from, can, at);
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    if (!folder) return NEXT(writev)(fd, parts, n);
    return n > 0 ? write(fd, parts[0].iov_base, parts[0].iov_len) : 0;
}

/* The callers fall back to reads and writes. */
ssize_t copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t n, unsigned flags) {
    if (!folder && !has_target) return NEXT(copy_file_range)(from, from_at, to, to_at, n, flags);
    errno = ENOSYS;
    return -1;
}
