# Generators, and filling tensors with random numbers.
#
# Keeps true: a number depends on seed, offset and the element's place alone: neither threads nor layout change it.

cdef extern from "fk_random.h" nogil:
    int fk_random_uniform(char *, int, int64_t, double, double, uint64_t, uint64_t)
    int fk_random_normal(char *, int, int64_t, double, double, uint64_t, uint64_t)
    int fk_random_log_normal(char *, int, int64_t, double, double, uint64_t, uint64_t)
    int fk_random_exponential(char *, int, int64_t, double, uint64_t, uint64_t)
    int fk_random_cauchy(char *, int, int64_t, double, double, uint64_t, uint64_t)
    int fk_random_geometric(char *, int, int64_t, double, uint64_t, uint64_t)
    int fk_random_bernoulli(char *, int, int64_t, double, uint64_t, uint64_t)
    int fk_random_bernoulli_tensor(char *, int, int64_t, const char *, int, uint64_t, uint64_t)
    int fk_random_integers(char *, int, int64_t, int64_t, uint64_t, uint64_t, uint64_t)
    int fk_random_permutation(char *, int, int64_t, uint64_t, uint64_t)


cdef class Generator:
    """A source of random numbers: a seed, and how many draws were made from it.

    Numbers depend on (seed, offset, element index) alone: the same on every device and thread count.
    """
    cdef public uint64_t _seed, _offset
    cdef readonly object device
    cdef object __weakref__

    def __init__(self, device="cpu"):
        self.device = DEVICES[device_number(device)]
        self._seed = 67280421310721
        self._offset = 0

    def manual_seed(self, seed):
        """Start anew from a seed."""
        value = int(seed)
        if not -0x8000000000000000 <= value <= 0xffffffffffffffff:
            raise said(RuntimeError, "[manual_seed] a seed of 64 bits was required: Overflow when unpacking long, got %d" % value + "\nhint: take it modulo 2**64")
        self._seed = value & 0xffffffffffffffff
        self._offset = 0
        return self

    def seed(self):
        """Start anew from a seed of the system; gives it."""
        import secrets
        self._seed = secrets.randbits(63)
        self._offset = 0
        return self._seed

    def initial_seed(self):
        """The seed."""
        return self._seed

    def get_state(self):
        """The state as a byte tensor."""
        return tensor(list(self._seed.to_bytes(8, "little") + self._offset.to_bytes(8, "little")), dtype=DTYPES[U8])

    def set_state(self, state):
        """Restore a state from `get_state`."""
        if not isinstance(state, Tensor) or (<Tensor>state).dt != U8:
            raise said(TypeError, "[set_state] a byte tensor was required: RNG state must be a torch.ByteTensor, got " + type(state).__name__ + "\nhint: pass what get_state() or get_rng_state() gave")
        data = bytes(state.tolist())
        if len(data) != 16:
            raise said(RuntimeError, "[set_state] a state of 16 bytes was required: RNG state is wrong size, got %d" % len(data) + "\nhint: pass what get_state() or get_rng_state() gave")
        self._seed = int.from_bytes(data[:8], "little")
        self._offset = int.from_bytes(data[8:], "little")
        return self

    def get_offset(self):
        """How many draws were made since seeding."""
        return self._offset

    def set_offset(self, offset):
        """Go on as if so many draws had been made."""
        self._offset = int(offset)

    def graphsafe_get_state(self):
        """A generator in the same state."""
        return self.clone_state()

    def graphsafe_set_state(self, state):
        """Take over the state of another generator."""
        self._seed, self._offset = state._seed, state._offset
        return self

    def __setstate__(self, state):
        self._seed, self._offset = state

    def clone_state(self):
        """A generator in the same state."""
        g = Generator()
        g._seed, g._offset = self._seed, self._offset
        return g

    def __reduce__(self):
        return (_rebuild_generator, (self._seed, self._offset))

    def take(self, int draws=1):
        """Reserve draws: gives (seed, offset) for a kernel that makes its own numbers."""
        cdef uint64_t at = self._offset
        refuse_keeping()
        self._offset += draws
        return self._seed, at


def _rebuild_generator(seed, offset):
    g = Generator()
    g._seed, g._offset = seed, offset
    return g

default_generator = Generator()


def manual_seed(seed):
    """Seed the default generator."""
    return default_generator.manual_seed(seed)


cdef dict _RANDOM_KINDS = {"uniform": 0, "normal": 1, "log_normal": 2, "exponential": 3, "cauchy": 4, "geometric": 5,
                           "bernoulli": 6, "randint": 7, "permutation": 8}


cdef int random_numbers(int which, char *p, int dt, int64_t n, double x, double y, uint64_t seed, uint64_t offset) noexcept nogil:
    """n numbers of a distribution; not 0 where the dtype has none, -2 where memory ended."""
    if which == 0: return fk_random_uniform(p, dt, n, x, y, seed, offset)
    if which == 1: return fk_random_normal(p, dt, n, x, y, seed, offset)
    if which == 2: return fk_random_log_normal(p, dt, n, x, y, seed, offset)
    if which == 3: return fk_random_exponential(p, dt, n, x, seed, offset)
    if which == 4: return fk_random_cauchy(p, dt, n, x, y, seed, offset)
    if which == 5: return fk_random_geometric(p, dt, n, x, seed, offset)
    if which == 6: return fk_random_bernoulli(p, dt, n, x, seed, offset)
    return fk_random_permutation(p, dt, n, seed, offset)


def random_fill(Tensor t, str kind, a=0.0, b=1.0, Generator generator=None):
    """Fill a tensor with random numbers of a distribution; element i is a function of (seed, offset, i).

    kind: uniform [a, b), normal (mean a, std b), log_normal, exponential (rate a), cauchy (median a, sigma b), geometric
    (probability a), bernoulli (probability a: a number, or a tensor of t's shape), randint [a, b), permutation.
    """
    cdef Tensor out = t, p
    cdef int which, r
    cdef uint64_t seed, offset
    cdef double x = 0, y = 0
    cdef int64_t low
    cdef uint64_t span
    which = _RANDOM_KINDS[kind]
    if generator is None:
        generator = default_generator
    elif generator is not default_generator:
        refuse_keeping()
    if t.numel_ == 0:
        refuse_keeping()
    seed = generator._seed; offset = generator._offset
    generator._offset += 1
    check_writable(kind, t)
    if t.numel_ == 0 or t.keys & K_META:
        return t
    if t.keys & K_FOREIGN:
        out = new_tensor(t.nd, t.sh, t.dt, 0)
    elif t.keys & K_STRIDED:
        out = new_tensor(t.nd, t.sh, t.dt, 0)
    if which == 7:
        low = a
        span = <uint64_t>(int(b) - int(a))
        if fk_tls_keys() & K_KEEP: keep_draw(out, which, 0, 0, low, span)
        with nogil: r = fk_random_integers(out.data_, out.dt, out.numel_, low, span, seed, offset)
    elif which == 6 and isinstance(a, Tensor):
        p = contiguous_(<Tensor>a)
        refuse_keeping()
        with nogil: r = fk_random_bernoulli_tensor(out.data_, out.dt, out.numel_, p.data_, p.dt, seed, offset)
    else:
        x = a; y = b
        if fk_tls_keys() & K_KEEP: keep_draw(out, which, x, y, 0, 0)
        with nogil: r = random_numbers(which, out.data_, out.dt, out.numel_, x, y, seed, offset)
    if r == -2:
        raise_memory(0)
    if r:
        raise said(NotImplementedError, "[%s] a dtype that the distribution has was required: \"%s\" not implemented for '%s'"
                                  % (kind, kind, (<dtype>DTYPES[t.dt]).type_word) + "\nhint: draw in float32 and convert the result with .to(dtype)")
    if out is not t:
        copy_into(t, out)
    bump(t)
    return t
