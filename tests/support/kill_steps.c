/* Kills a process at a step of our choice: before the n-th call that changes a file or sends something.
 *
 * Loaded into a process before the C library (LD_PRELOAD). A file of four numbers of 64 bits, mapped by whoever
 * watches as well, says whom it is about and when:
 *
 *     0  process id of the one that counts its steps; 0 for nobody
 *     1  steps so far
 *     2  the step to die at; 0 for never
 *     3  not 0: write half of what that step would have written first
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static volatile uint64_t *plan;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("KILL_STEPS");
    int file;
    void *found;
    if (path == NULL)
        return;
    file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR);
    if (file < 0)
        return;
    found = mmap(NULL, 32, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (found != MAP_FAILED)
        plan = found;
}

/* Whether this is the step. */
static int is_last(void)
{
    uint64_t number;
    if (plan == NULL || plan[0] != (uint64_t)getpid())
        return 0;
    number = __atomic_add_fetch(&plan[1], 1, __ATOMIC_SEQ_CST);
    return plan[2] != 0 && number == plan[2];
}

/* Threads that wake each other up write, too: that is no step. */
static int is_outside(int file)
{
    struct stat found;
    return fstat(file, &found) == 0 && (S_ISREG(found.st_mode) || S_ISSOCK(found.st_mode));
}

static void die(void)
{
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;)
        pause();
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define STEP(result, name, parameters, arguments) \
    result name parameters                        \
    {                                             \
        static __typeof__(&name) real;            \
        if (real == NULL)                         \
            real = REAL(name);                    \
        if (is_last())                            \
            die();                                \
        return real arguments;                    \
    }

STEP(int, rename, (const char *from, const char *to), (from, to))
STEP(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
STEP(int, link, (const char *from, const char *to), (from, to))
STEP(int, linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
STEP(int, unlink, (const char *path), (path))
STEP(int, unlinkat, (int a, const char *path, int flags), (a, path, flags))
STEP(int, mkdir, (const char *path, mode_t mode), (path, mode))
STEP(int, fsync, (int file), (file))
STEP(int, fdatasync, (int file), (file))
STEP(int, ftruncate, (int file, off_t size), (file, size))
STEP(int, ftruncate64, (int file, off64_t size), (file, size))
STEP(ssize_t, send, (int file, const void *data, size_t size, int flags), (file, data, size, flags))
STEP(ssize_t, sendto,
     (int file, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length),
     (file, data, size, flags, to, length))
STEP(ssize_t, sendmsg, (int file, const struct msghdr *message, int flags), (file, message, flags))

ssize_t writev(int file, const struct iovec *data, int count)
{
    if (is_outside(file) && is_last())
        die();
    return syscall(SYS_writev, file, data, count);
}

ssize_t write(int file, const void *data, size_t size)
{
    if (is_outside(file) && is_last()) {
        if (plan[3])
            syscall(SYS_write, file, data, size / 2);
        die();
    }
    return syscall(SYS_write, file, data, size);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset)
{
    if (is_last()) {
        if (plan[3])
            syscall(SYS_pwrite64, file, data, size / 2, offset);
        die();
    }
    return syscall(SYS_pwrite64, file, data, size, offset);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset)
{
    return pwrite64(file, data, size, offset);
}

#define OPENED(name, real_flags)                         \
    int name(const char *path, int flags, ...)           \
    {                                                    \
        mode_t mode = 0;                                 \
        if (flags & (O_CREAT | __O_TMPFILE)) {           \
            va_list rest;                                \
            va_start(rest, flags);                       \
            mode = va_arg(rest, mode_t);                 \
            va_end(rest);                                \
            if (is_last())                               \
                die();                                   \
        }                                                \
        return (int)syscall(SYS_openat, AT_FDCWD, path, real_flags, mode); \
    }

OPENED(open, flags)
OPENED(open64, flags | O_LARGEFILE)
