# Every launch that runs without the GIL; besides these only a wait for other processes gives it up (`meeting.pxi`).
#
# Takes: kernels with resolved pointers. Gives: what they return.
# Keeps true: memory that a launch began with lives until it ends, also where another thread resizes its storage or sets
# its tensor to another one meanwhile (`fk_launch.h`): whoever takes a pointer calls one of these before the GIL can change
# hands. Objects of Python are the caller's to hold.

cdef extern from "fk_launch.h":
    void fk_launch_start()
    int fk_launch_begin()
    void fk_launch_end(int phase)
    void fk_storage_give_up(fk_storage *s)
    fk_storage *fk_storage_block(fk_storage *s)
    int fk_storage_resize(fk_storage *s, int64_t nbytes)
    fk_storage *fk_storage_lend(fk_storage *s)
    int fk_storage_own(fk_storage *s)

fk_launch_start()


cdef int run_driver(fk_driver fn, char **p, const int64_t *n, const fk_scalar *s) noexcept:
    cdef int r, phase = fk_launch_begin()
    with nogil: r = fn(p, n, s, &fk_runtime_table)
    fk_launch_end(phase)
    return r


cdef void run_body(fk_body fn, char **p, const int64_t *n, const fk_scalar *s, int64_t total, int64_t grain) noexcept:
    cdef int phase = fk_launch_begin()
    with nogil: fk_parallel(fn, p, n, s, total, grain)
    fk_launch_end(phase)


cdef void run_map(fk_map fn, char **p, const fk_scalar *s, int64_t count) noexcept:
    cdef int phase = fk_launch_begin()
    with nogil: fn(p, s, count)
    fk_launch_end(phase)


cdef void run_iteration(fk_map fn, const fk_scalar *s, fk_iter *it) noexcept:
    cdef int phase = fk_launch_begin()
    with nogil: fk_map_run(fn, s, it)
    fk_launch_end(phase)


cdef void run_copy(fk_iter *it) noexcept:
    cdef int phase = fk_launch_begin()
    with nogil: fk_copy_run(it)
    fk_launch_end(phase)


cdef void run_fill(fk_iter *it, const char *value) noexcept:
    cdef int phase = fk_launch_begin()
    with nogil: fk_fill_run(it, value)
    fk_launch_end(phase)


cdef int run_kept(Kept e, char **bases, const fk_stream *stream) noexcept:
    cdef int r, phase = fk_launch_begin()
    with nogil: r = run_steps(e, bases, stream)
    fk_launch_end(phase)
    return r


cdef int run_stream(const fk_stream *stream, const fk_request *request) noexcept:
    cdef int r, phase = fk_launch_begin()
    with nogil: r = fk_stream_fill(stream, request)
    fk_launch_end(phase)
    return r


cdef void run_choices(fk_twister *twister, const double *weight, double *share, int64_t *out, int64_t rows, int64_t classes,
                      int64_t count, bint single) noexcept:
    cdef int phase = fk_launch_begin()
    with nogil: fk_twister_choose(twister, weight, share, out, rows, classes, count, single)
    fk_launch_end(phase)


cdef void run_blocks(const fk_aes *aes, const char *given, char *out, int64_t blocks, bint decrypt) noexcept:
    cdef int phase = fk_launch_begin()
    with nogil: fk_aes_blocks(aes, <const uint8_t *>given, <uint8_t *>out, blocks, decrypt)
    fk_launch_end(phase)


cdef void run_counter(const fk_aes *aes, fk_counter *at, const char *given, char *out, int64_t size, bint big) noexcept:
    cdef int phase = fk_launch_begin()
    with nogil: fk_aes_join(aes, at, <const uint8_t *>given, <uint8_t *>out, size, big)
    fk_launch_end(phase)
