# Generators, and filling tensors with random numbers.
#
# Takes: a tensor, a distribution, a generator. Gives: the tensor, filled. Which kind of stream a generator has is known
# here and in fk_stream.h only.
# Keeps true: a number of the counter depends on seed, offset and the element's place alone, neither threads nor layout
# change it; the twister gives PyTorch's numbers in the order in which PyTorch draws them.

#: the stream of generators that are made from now on: a seed and a counter, or PyTorch's twister
cdef bint TWISTERS = False


cdef bint twists(stream) except -1:
    """Whether a stream's name is the twister's."""
    if stream == "torch": return True
    if stream == "facula": return False
    raise said(ValueError, "[set_stream] 'facula' or 'torch' was required: got %r" % (stream,) + "\nhint: 'torch' gives PyTorch's numbers for a seed, 'facula' the same numbers on any number of threads")


cdef uint64_t system_seed() except? 0:
    """63 bits of the system's own."""
    from os import urandom
    return int.from_bytes(urandom(8), "little") >> 1


cdef class Generator:
    """A source of random numbers: a seed, and how far it was drawn from.

    Its stream is a counter ("facula"): numbers depend on (seed, offset, element index) alone, and
    are the same on every device and thread count; or a Mersenne twister ("torch"): PyTorch's
    numbers for the seed, in PyTorch's order.

    Example:
        >>> generator = facula.Generator().manual_seed(0)
        >>> x = facula.rand(2, generator=generator)
        >>> facula.equal(facula.rand(2, generator=generator.manual_seed(0)), x)
        True
    """
    cdef public uint64_t _seed, _offset
    cdef readonly object device
    cdef object __weakref__
    cdef fk_twister *twister       # kept until the end once there is one: another thread may be drawing from it
    cdef bint twists
    cdef fk_cipher *cipher         # where words come from a cipher: then nobody gets or sets the state

    def __init__(self, device="cpu", *, stream=None):
        self.device = DEVICES[device_number(device)]
        self._seed = 67280421310721
        self._offset = 0
        self.set_stream(stream if stream is not None else "torch" if TWISTERS else "facula")

    def __dealloc__(self):
        if self.cipher != NULL:
            fk_aes_forget(self.cipher, sizeof(fk_cipher)); fk_aes_forget(self.twister, sizeof(fk_twister))
        free(self.cipher)
        free(self.twister)

    def encipher(self, bytes key):
        """Draw from now on from AES of a counter, under a key of 16 bytes: numbers that cannot be foretold.

        Such a generator is seeded once, and its state is given to nobody: not as a tensor, a file, a pickle or a copy.
        A process that forks leaves its child a key of the system's own.
        """
        if len(key) != 16:
            raise said(ValueError, "[encipher] a key of 16 bytes was required: got %d" % len(key) + "\nhint: secrets.token_bytes(16) makes one")
        if self is default_generator:
            raise said(RuntimeError, "[encipher] a generator of one's own was required: got the default one\nhint: pass generator=facula.csprng.create_random_device_generator() to what draws")
        self._secret("encipher")
        self.set_stream("torch")
        self.cipher = <fk_cipher *>calloc(1, sizeof(fk_cipher))
        if self.cipher == NULL: raise_memory(sizeof(fk_cipher))
        self._seed = 0
        fk_twister_encipher(self.twister, self.cipher, <const uint8_t *><char *>key)
        return self

    cdef int _renew(self) except -1:
        """A key of its own for a child: parent and child would draw the same words."""
        import secrets
        cdef bytes key = secrets.token_bytes(16)
        fk_twister_encipher(self.twister, self.cipher, <const uint8_t *><char *>key)
        return 0

    def _secret(self, op):
        if self.cipher != NULL:
            raise said(RuntimeError, "[%s] a generator whose state is open was required: got one that draws from a cipher" % op + "\nhint: facula.csprng.create_mt19937_generator(seed) makes one that can be seeded and saved")

    @property
    def stream(self):
        """The kind of stream: "facula" or "torch"."""
        return "torch" if self.twists else "facula"

    def set_stream(self, stream):
        """Draw from a stream of that kind, from the start of the seed; one of the same kind goes on."""
        cdef bint wanted = twists(stream)
        if wanted == self.twists:
            return self
        self._secret("set_stream")
        if wanted and self.twister == NULL:
            self.twister = <fk_twister *>calloc(1, sizeof(fk_twister))
            if self.twister == NULL: raise_memory(sizeof(fk_twister))
        self.twists = wanted
        return self.restart(self._seed)

    cdef Generator restart(self, uint64_t seed):
        self._seed = seed
        self._offset = 0
        if self.twists: fk_twister_seed(self.twister, seed)
        return self

    cdef fk_stream next_draw(self):
        """Where the next draw takes its numbers from; the generator moves on."""
        cdef fk_stream s
        if self.cipher != NULL and fk_cipher_is_inherited(self.cipher): self._renew()
        s.seed = self._seed; s.offset = self._offset
        s.twister = self.twister if self.twists else NULL
        self._offset += 1
        return s

    def manual_seed(self, seed):
        """Start anew from a seed."""
        self._secret("manual_seed")
        value = int(seed)
        if not -0x8000000000000000 <= value <= 0xffffffffffffffff:
            raise said(ValueError, "[manual_seed] a seed of 64 bits was required: Overflow when unpacking long long, got %d" % value + "\nhint: take it modulo 2**64")
        return self.restart(value & 0xffffffffffffffff)

    def seed(self):
        """Start anew from a seed of the system; gives it."""
        self._secret("seed")
        self.restart(system_seed())
        return self._seed

    def initial_seed(self):
        """The seed."""
        self._secret("initial_seed")
        return self._seed

    cdef bytes state_bytes(self):
        cdef bytes data
        self._secret("get_state")
        if not self.twists:
            return self._seed.to_bytes(8, "little") + self._offset.to_bytes(8, "little")
        data = bytes(FK_TWISTER_BYTES)
        fk_twister_save(self.twister, <char *>data)
        return data

    def get_state(self):
        """The state as a byte tensor: 16 bytes of a counter, 5056 of a twister, which are PyTorch's."""
        cdef bytes data = self.state_bytes()
        cdef int64_t n = len(data)
        cdef Tensor t = new_tensor(1, &n, U8, 0)
        refuse_keeping()
        memcpy(t.data_, <char *>data, n)
        return t

    def set_state(self, state):
        """Restore a state from `get_state`, or one of PyTorch's where the stream is PyTorch's."""
        self._secret("set_state")
        if not isinstance(state, Tensor) or (<Tensor>state).dt != U8:
            raise said(TypeError, "[set_state] a byte tensor was required: RNG state must be a torch.ByteTensor, got " + type(state).__name__ + "\nhint: pass what get_state() or get_rng_state() gave")
        cdef bytes data = bytes(state.tolist())
        cdef int64_t size = 16 if not self.twists else FK_TWISTER_BYTES
        if len(data) != size:
            other = "facula.random.set_stream('%s') has states of %d bytes" % (("torch", FK_TWISTER_BYTES) if not self.twists else ("facula", 16))
            raise said(RuntimeError, "[set_state] a state of %d bytes was required: RNG state is wrong size, got %d" % (size, len(data)) + "\nhint: " + (other if len(data) in (16, FK_TWISTER_BYTES) else "pass what get_state() or get_rng_state() gave"))
        if not self.twists:
            self._seed = int.from_bytes(data[:8], "little")
            self._offset = int.from_bytes(data[8:], "little")
        elif fk_twister_load(self.twister, <char *>data):
            raise said(RuntimeError, "[set_state] a state of a twister was required: Invalid mt19937 state\nhint: pass what get_state() or get_rng_state() gave")
        else:
            self._seed = self.twister.seed
        return self

    def _counts(self, op):
        if self.twists:
            raise said(RuntimeError, "[%s] a stream that counts its draws was required: CPU Generator does not use offset, got a twister" % op + "\nhint: get_state() and set_state() hold the place in PyTorch's stream")

    def get_offset(self):
        """How many draws were made since seeding; PyTorch's stream does not count them."""
        self._counts("get_offset")
        return self._offset

    def set_offset(self, offset):
        """Go on as if so many draws had been made."""
        self._counts("set_offset")
        self._offset = int(offset)

    def graphsafe_get_state(self):
        """A generator in the same state."""
        return self.clone_state()

    def graphsafe_set_state(self, Generator state):
        """Take over the state of another generator, and its kind of stream."""
        self._secret("set_state")
        state._secret("get_state")
        self.set_stream(state.stream)
        self._seed, self._offset = state._seed, state._offset
        if self.twists: fk_twister_copy(self.twister, state.twister)
        return self

    def __setstate__(self, state):
        cdef bytes data
        if len(state) == 3:
            self.set_stream("torch")
            data = state[2]
            fk_twister_load(self.twister, <char *>data)
        self._seed, self._offset = state[:2]

    def clone_state(self):
        """A generator in the same state."""
        return Generator(stream=self.stream).graphsafe_set_state(self)

    def __reduce__(self):
        if self.twists:
            return (_rebuild_generator, (self._seed, self._offset, self.state_bytes()))
        return (_rebuild_generator, (self._seed, self._offset))

    def take(self, int draws=1):
        """Reserve draws: gives (seed, offset) for a kernel that makes its own numbers, by the counter."""
        cdef uint64_t at = self._offset
        refuse_keeping()
        self._offset += draws
        return self._seed, at


def _rebuild_generator(*state):
    g = Generator(stream="facula")
    g.__setstate__(state)
    return g

cdef extern from "<pthread.h>" nogil:
    int pthread_atfork(void (*)(), void (*)(), void (*)())

pthread_atfork(NULL, NULL, fk_forks_count)
# processes that nobody seeds draw numbers of their own, as PyTorch's do
default_generator = Generator().restart(system_seed())


def set_stream(stream):
    """Have the default generator, and generators that are made from now on, draw from "facula" or "torch".

    "torch" is PyTorch's stream on the CPU: the same numbers for the same seed, bit for bit. "facula", the one from the start,
    makes an element's number out of seed, draw and place. Another kind of stream starts at the default generator's seed.
    """
    global TWISTERS
    cdef bint wanted = twists(stream)
    (<Generator>default_generator).set_stream(stream)
    TWISTERS = wanted


def get_stream():
    """The stream of the default generator: "facula" or "torch"."""
    return default_generator.stream


def by_element(Generator generator=None):
    """Whether a generator's numbers depend on the order of elements in memory, as those of PyTorch's stream do."""
    return (<Generator>default_generator if generator is None else generator).twists


def manual_seed(seed):
    """Seeds the default generator, and gives it.

    Args:
        seed: an int

    Example:
        >>> _ = facula.manual_seed(0)
        >>> x = facula.rand(2)
        >>> _ = facula.manual_seed(0)
        >>> facula.equal(facula.rand(2), x)
        True
    """
    return default_generator.manual_seed(seed)


#: the kinds of `random_fill`; "normal each" draws element by element, as PyTorch does where memory is not contiguous, and
#: "whole" all integers of a dtype: both are the plain kind of the counter
cdef dict _RANDOM_KINDS = {"uniform": FK_UNIFORM, "normal": FK_NORMAL, "log_normal": FK_LOG_NORMAL, "exponential": FK_EXPONENTIAL,
                           "cauchy": FK_CAUCHY, "geometric": FK_GEOMETRIC, "bernoulli": FK_BERNOULLI, "randint": FK_INTEGERS,
                           "permutation": FK_PERMUTATION, "normal each": FK_NORMAL_EACH, "whole": FK_WHOLE}


cdef list memory_order(Tensor t):
    """A tensor's dimensions in the order of memory: the one with the longest step first."""
    return sorted(range(t.nd), key=[-t.sd[i] for i in range(t.nd)].__getitem__)


cdef Tensor reordered(Tensor t, list order):
    """The view of a tensor whose dimensions stand in an order."""
    cdef Tensor v = start_view(t)
    cdef int i
    set_rank(v, t.nd)
    for i in range(t.nd):
        v.sh[i] = t.sh[<int>order[i]]; v.sd[i] = t.sd[<int>order[i]]
    finish_view(v)
    return v


def random_fill(Tensor t, str kind, a=0.0, b=1.0, Generator generator=None):
    """Fill a tensor with random numbers of a distribution, from a generator's stream.

    kind: uniform [a, b), normal (mean a, std b), log_normal, exponential (rate a), cauchy (median a, sigma b), geometric
    (probability a), bernoulli (probability a: a number, or a tensor of t's shape), randint [a, b), permutation.
    """
    cdef Tensor out = t, p, target = t
    cdef int r
    cdef fk_stream stream
    cdef fk_request request
    memset(&request, 0, sizeof(fk_request))
    request.kind = _RANDOM_KINDS[kind]
    if generator is None:
        generator = default_generator
    elif generator is not default_generator:
        refuse_keeping()
    if t.numel_ == 0:
        refuse_keeping()
    stream = generator.next_draw()
    check_writable(kind, t)
    if t.numel_ == 0 or t.keys & K_META:
        return t
    if t.keys & K_STRIDED and stream.twister != NULL:
        refuse_keeping()
        order = memory_order(t)
        target = reordered(t, order)
        if request.kind == FK_NORMAL: request.kind = FK_NORMAL_EACH
    if t.keys & (K_FOREIGN | K_STRIDED):
        out = new_tensor(target.nd, target.sh, t.dt, 0)
    request.out = out.data_; request.dtype = out.dt; request.n = out.numel_
    if request.kind == FK_INTEGERS or request.kind == FK_WHOLE:
        request.low = a
        request.range = <uint64_t>((int(b) - int(a)) & 0xffffffffffffffff)
    elif request.kind == FK_BERNOULLI and isinstance(a, Tensor):
        p = contiguous_(<Tensor>a if target is t else reordered(<Tensor>a, order))
        refuse_keeping()
        request.p = p.data_; request.p_dtype = p.dt
    else:
        request.a = a; request.b = b
    if fk_tls_keys() & K_KEEP: keep_draw(out, &request)
    r = run_stream(&stream, &request)
    if r == -2:
        raise_memory(0)
    if r:
        raise said(NotImplementedError, "[%s] a dtype that the distribution has was required: \"%s\" not implemented for '%s'"
                                  % (kind, kind, (<dtype>DTYPES[t.dt]).type_word) + "\nhint: draw in float32 and convert the result with .to(dtype)")
    if out is not t:
        copy_into(target, out)
    bump(t)
    return t
