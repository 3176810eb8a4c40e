# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A thread without an interpreter that writes and syncs one file at a time, for the disk layer alone.

    begin(fd, offset, data) ──► write and sync ──► wait(seconds): the error number, or -1 as long as it is not done

A commit of one message is a write and a sync of some 50 µs. A thread that needs the GIL for it waits for the interpreter
four times, which takes longer than the device. Here whoever has begun waits without the GIL for as long as he likes, goes
on with something else when that was not enough, and lets another thread wait for the end: that is not begun again.

Invariant: at most one write is under way; its result is told exactly once, to the `wait` that sees the end.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <errno.h>
    #include <fcntl.h>
    #include <pthread.h>
    #include <signal.h>
    #include <stdlib.h>
    #include <sys/types.h>
    #include <sys/uio.h>
    #include <time.h>
    #include <unistd.h>
    #ifdef __linux__
    #include <sys/syscall.h>
    #endif

    typedef struct {
        pthread_mutex_t lock;
        pthread_cond_t begun, ended;
        pthread_t thread;
        int started, stop, state; /* state: 0 nothing to do, 1 to be done, 2 done */
        int fd, error;
        long long offset;
        const char *data;
        size_t size;
        double took; /* seconds of the last one */
    } slip_sync;

    static double slip_clock(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec + now.tv_nsec / 1e9;
    }

    static int slip_write_and_sync(int fd, const char *data, size_t left, long long offset) {
    #ifdef SYS_pwritev2
        /* Both in one call, as a file opened with O_DSYNC has it. What it does not take is written the other way. The call
         * is the kernel's own: musl has a function for it only from 1.2.5 on, and a wheel is for all of 1.2. */
        struct iovec all = {(void *)data, left};
        const long synced = 2; /* RWF_DSYNC */
        ssize_t taken = syscall(SYS_pwritev2, (long)fd, &all, 1L, (long)offset, 0L, synced);
        if (taken == (ssize_t)left)
            return 0;
        if (taken < 0 && errno != EINTR && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
            return errno;
    #endif
        while (left) {
            ssize_t got = pwrite(fd, data, left, offset);
            if (got < 0 && errno == EINTR)
                continue;
            if (got <= 0)
                return got < 0 ? errno : EIO;
            data += got;
            left -= (size_t)got;
            offset += got;
        }
        for (;;) {
    #ifdef __APPLE__
            /* fsync ends in the device's cache; not every file system has what goes further */
            int got = fcntl(fd, F_FULLFSYNC);
            if (got < 0 && errno != EINTR)
                got = fsync(fd);
    #else
            int got = fdatasync(fd);
    #endif
            if (got == 0)
                return 0;
            if (errno != EINTR)
                return errno;
        }
    }

    static void *slip_sync_work(void *arg) {
        slip_sync *s = arg;
        pthread_mutex_lock(&s->lock);
        for (;;) {
            while (s->state != 1 && !s->stop)
                pthread_cond_wait(&s->begun, &s->lock);
            if (s->state != 1)
                break;
            pthread_mutex_unlock(&s->lock);
            double began = slip_clock();
            int error = slip_write_and_sync(s->fd, s->data, s->size, s->offset);
            s->took = slip_clock() - began; /* read by who has seen the end */
            pthread_mutex_lock(&s->lock);
            s->error = error;
            s->state = 2;
            pthread_mutex_unlock(&s->lock); /* who wakes up needs it at once */
            pthread_cond_broadcast(&s->ended);
            pthread_mutex_lock(&s->lock);
        }
        pthread_mutex_unlock(&s->lock);
        return NULL;
    }

    static slip_sync *slip_sync_new(void) {
        slip_sync *s = calloc(1, sizeof *s);
        pthread_condattr_t attr;
        if (s == NULL)
            return NULL;
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->begun, NULL);
        pthread_condattr_init(&attr);
    #ifndef __APPLE__
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    #endif
        pthread_cond_init(&s->ended, &attr);
        pthread_condattr_destroy(&attr);
        return s;
    }

    static int slip_sync_start(slip_sync *s) {
        sigset_t all, before;
        int error;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the loop */
        error = pthread_create(&s->thread, NULL, slip_sync_work, s);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        s->started = error == 0;
        return error;
    }

    static void slip_sync_begin(slip_sync *s) {
        pthread_mutex_lock(&s->lock);
        s->state = 1;
        pthread_mutex_unlock(&s->lock);
        pthread_cond_signal(&s->begun);
    }

    static int slip_sync_wait(slip_sync *s, double seconds) {
        struct timespec until;
        int got = -1;
        if (seconds >= 0) {
    #ifdef __APPLE__
            clock_gettime(CLOCK_REALTIME, &until);
    #else
            clock_gettime(CLOCK_MONOTONIC, &until);
    #endif
            long long ns = until.tv_nsec + (long long)(seconds * 1e9);
            until.tv_sec += ns / 1000000000LL;
            until.tv_nsec = ns % 1000000000LL;
        }
        pthread_mutex_lock(&s->lock);
        while (s->state == 1) {
            if (seconds < 0)
                pthread_cond_wait(&s->ended, &s->lock);
            else if (pthread_cond_timedwait(&s->ended, &s->lock, &until) == ETIMEDOUT)
                break;
        }
        if (s->state == 2) {
            got = s->error;
            s->state = 0;
        }
        pthread_mutex_unlock(&s->lock);
        return got;
    }

    static void slip_sync_free(slip_sync *s) {
        if (s->started) {
            pthread_mutex_lock(&s->lock);
            s->stop = 1;
            pthread_mutex_unlock(&s->lock);
            pthread_cond_signal(&s->begun);
            pthread_join(s->thread, NULL);
        }
        pthread_cond_destroy(&s->begun);
        pthread_cond_destroy(&s->ended);
        pthread_mutex_destroy(&s->lock);
        free(s);
    }
    """
    ctypedef struct slip_sync:
        int started, state, fd
        long long offset
        const char *data
        size_t size
        double took
    slip_sync *slip_sync_new() nogil
    int slip_sync_start(slip_sync *s) nogil
    void slip_sync_begin(slip_sync *s) nogil
    int slip_sync_wait(slip_sync *s, double seconds) nogil
    void slip_sync_free(slip_sync *s) nogil


cdef class SyncThread:
    """One write with its sync at a time; the thread begins with the first."""

    cdef slip_sync *_s
    cdef bytes _data    # what is being written
    cdef readonly bint busy

    def __cinit__(self):
        self._s = slip_sync_new()
        if self._s == NULL:
            raise MemoryError()

    def __dealloc__(self):
        if self._s != NULL:
            with nogil:
                slip_sync_free(self._s)

    def begin(self, int fd, long long offset, bytes data not None):
        """Write `data` at `offset` and sync the file, unless one is under way or there can be no thread: then False.

        The descriptor must stay open until `wait` has told the end.
        """
        if self.busy:
            return False
        if not self._s.started and slip_sync_start(self._s) != 0:
            return False
        self._data = data
        self._s.fd = fd
        self._s.offset = offset
        self._s.data = PyBytes_AS_STRING(data)
        self._s.size = <size_t>PyBytes_GET_SIZE(data)
        self.busy = True
        slip_sync_begin(self._s)
        return True

    @property
    def took_s(self):
        """How long the last one took, in seconds, once `wait` has told its end."""
        return self._s.took

    def wait(self, double seconds=-1):
        """Wait for the end, at most so long, without the GIL; negative: however long it takes.

        Returns 0 for success or the error number, once; -1: it is not done yet, or nothing is under way.
        """
        cdef int error
        if not self.busy:
            return -1
        with nogil:
            error = slip_sync_wait(self._s, seconds)
        if error >= 0:
            self.busy = False
            self._data = None
        return error
