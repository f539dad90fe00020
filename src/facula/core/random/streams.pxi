# Streams of random numbers, as fk_stream.h has them.

cdef extern from "fk_stream.h" nogil:
    enum:
        FK_UNIFORM
        FK_NORMAL
        FK_NORMAL_EACH
        FK_LOG_NORMAL
        FK_EXPONENTIAL
        FK_CAUCHY
        FK_GEOMETRIC
        FK_BERNOULLI
        FK_INTEGERS
        FK_WHOLE
        FK_PERMUTATION
        FK_GAMMA
        FK_GAMMA_SINGLE
        FK_POISSON
        FK_BINOMIAL
        FK_TWISTER_BYTES
    ctypedef struct fk_twister:
        uint64_t seed
    ctypedef struct fk_stream:
        uint64_t seed, offset
        fk_twister *twister
    ctypedef struct fk_request:
        int kind, dtype
        char *out
        int64_t n
        double a, b
        int64_t low
        uint64_t range
        const char *p
        int p_dtype
        const double *q
        double *logs
    int fk_stream_fill(const fk_stream *, const fk_request *)
    void fk_twister_seed(fk_twister *, uint64_t)
    void fk_twister_save(fk_twister *, char *)
    int fk_twister_load(fk_twister *, const char *)
    void fk_twister_choose(fk_twister *, const double *, double *, int64_t *, int64_t, int64_t, int64_t, int)
    void fk_twister_copy(fk_twister *, fk_twister *)
    ctypedef struct fk_cipher:
        pass
    void fk_twister_encipher(fk_twister *, fk_cipher *, const uint8_t *)
    int fk_cipher_is_inherited(const fk_cipher *)
    void fk_forks_count()

cdef extern from "fk_aes.h" nogil:
    ctypedef struct fk_aes:
        pass
    ctypedef struct fk_counter:
        uint64_t low, high
    int fk_aes_allowed
    int fk_aes_is_fast()
    void fk_aes_expand(fk_aes *, const uint8_t *)
    void fk_aes_forget(void *, size_t)
    void fk_aes_blocks(const fk_aes *, const uint8_t *, uint8_t *, int64_t, int)
    void fk_aes_join(const fk_aes *, fk_counter *, const uint8_t *, uint8_t *, int64_t, int)
