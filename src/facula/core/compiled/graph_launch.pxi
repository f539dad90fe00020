# A compiled graph without operator calls behind one call: inputs checked, results allocated, kernels launched.
#
# Takes: what the inputs look like, what is allocated, the driver that runs the kernels and the order of its pointers.
# Gives: `GraphLaunch`, callable on the list of inputs; `InputLayouts`, the checks alone.
# Keeps true: an input of another shape or dtype is an error, one in another memory order is copied; no Python code runs
# between kernels.

cdef struct Layout:
    int nd
    int dt
    int contiguous
    int64_t numel
    int64_t extent
    int64_t sh[MAX_DIMS]
    int64_t sd[MAX_DIMS]


cdef int read_layout(Layout *layout, shape, stride, dtype) except -1:
    cdef int i
    cdef int64_t expected = 1
    if len(shape) > MAX_DIMS:
        raise said(RuntimeError, "[compile] at most %d dimensions were required: got %d" % (MAX_DIMS, len(shape)) + "\nhint: merge dimensions with reshape")
    layout.nd = <int>len(shape)
    layout.dt = as_dtype(dtype).index
    layout.numel = 1; layout.extent = 1; layout.contiguous = 1
    for i in range(layout.nd):
        layout.sh[i] = shape[i]; layout.sd[i] = stride[i]
        layout.numel *= layout.sh[i]
        layout.extent += (layout.sh[i] - 1) * layout.sd[i]
    for i in range(layout.nd - 1, -1, -1):
        if layout.sd[i] != expected:
            layout.contiguous = 0
        if layout.sh[i] > 1: expected *= layout.sh[i]
    if layout.numel == 0:
        layout.extent = 0
    return 0


cdef inline Tensor allocate(Layout *layout):
    cdef Tensor t
    cdef int i
    if layout.contiguous:
        return new_tensor(layout.nd, layout.sh, layout.dt, 0)
    t = Tensor.__new__(Tensor)
    t.st = new_storage(layout.extent * ITEMSIZE[layout.dt], 0)
    t.data_ = t.st.data
    t.dt = layout.dt; set_rank(t, layout.nd); t.numel_ = layout.numel; t.dev = 0
    for i in range(layout.nd):
        t.sh[i] = layout.sh[i]; t.sd[i] = layout.sd[i]
    compute_keys(t)
    return t


cdef Tensor fitted(Tensor t, Layout *layout, int number):
    """An input as the graph was compiled for it."""
    cdef Tensor r
    cdef int i
    cdef bint same = True
    if t.dt != layout.dt or t.nd != layout.nd or t.dev != 0:
        raise_layout(t, layout, number)
    for i in range(layout.nd):
        if t.sh[i] != layout.sh[i]:
            raise_layout(t, layout, number)
        if t.sd[i] != layout.sd[i] and t.sh[i] != 1:
            same = False
    if same or t.numel_ == 0:
        return t
    r = allocate(layout)
    copy_into(r, t)
    return r


cdef int raise_layout(Tensor t, Layout *layout, int number) except -1:
    wanted = tuple([layout.sh[i] for i in range(layout.nd)])
    raise said(RuntimeError, "[compiled graph] %s%s on the CPU was required as input %d: got %s%s on %s\nhint: call the compiled function, "
                       "whose guards choose the graph" % ((<dtype>DTYPES[layout.dt]).name, list(wanted), number,
                                                          (<dtype>DTYPES[t.dt]).name, list(t.shape), t.device))


cdef class GraphLaunch:
    """A compiled graph of kernels only."""
    cdef int ninputs, nmade, npointers, nnumbers
    cdef fk_driver driver
    cdef Layout *layouts          # of the inputs (dt -1: no tensor), then of what is allocated
    cdef int *kinds               # of each pointer: 0 input, 1 allocated, 2 constant, 3 arena
    cdef int *places
    cdef int64_t *numbers
    cdef int64_t arena, work
    cdef list constants
    cdef tuple results            # (0, input) or (1, allocated), or (2, any object)

    def __cinit__(self, Kernel kernel, inputs, made, pointers, numbers, constants, int64_t arena, results):
        """inputs, made: (shape, stride, dtype), or None; pointers, results: (kind, number)."""
        cdef int i
        self.driver = <fk_driver>kernel.fn
        self.ninputs = len(inputs); self.nmade = len(made); self.npointers = len(pointers)
        self.layouts = <Layout *>malloc((self.ninputs + self.nmade + 1) * sizeof(Layout))
        self.kinds = <int *>malloc((self.npointers + 1) * 2 * sizeof(int))
        self.places = self.kinds + self.npointers
        self.nnumbers = len(numbers)
        self.numbers = <int64_t *>malloc((len(numbers) + 1) * 8)
        self.arena = arena
        self.constants = list(constants)
        self.results = tuple(results)
        self.work = arena // 4
        for i, spec in enumerate(list(inputs) + list(made)):
            if spec is None:
                self.layouts[i].dt = -1
            else:
                read_layout(&self.layouts[i], spec[0], spec[1], spec[2])
                self.work += self.layouts[i].numel
        for i, (kind, number) in enumerate(pointers):
            self.kinds[i] = kind; self.places[i] = number
        for i, n in enumerate(numbers):
            self.numbers[i] = n
        self.check_operands(kernel, len(numbers))

    cdef int check_operands(self, Kernel kernel, int64_t count) except -1:
        """Raise where the plan gives the driver other dtypes or less memory than it was written for."""
        cdef Given *given = <Given *>malloc((self.npointers + 1) * sizeof(Given))
        cdef Layout *layout
        cdef int i
        try:
            for i in range(self.npointers):
                if self.kinds[i] == 2:
                    given[i] = given_tensor(<Tensor>self.constants[self.places[i]])
                elif self.kinds[i] == 3:
                    given[i].dt = U8; given[i].readonly = False; given[i].after = self.arena; given[i].before = 0
                else:
                    layout = &self.layouts[self.places[i] + (self.ninputs if self.kinds[i] == 1 else 0)]
                    given[i].dt = layout.dt; given[i].readonly = False; given[i].after = layout.extent * ITEMSIZE[layout.dt]; given[i].before = 0
            kernel.contract.check(kernel.name, kernel.form, given, self.npointers, self.numbers, count, NULL, 0, 0)
        finally:
            free(given)
        return 0

    def __dealloc__(self):
        free(self.layouts); free(self.kinds); free(self.numbers)

    @property
    def _boxed_call(self):
        """True: it takes a list of inputs, which whoever compiles graphs wants to know."""
        return True

    def __call__(self, args):
        return self.launch(args)

    cdef bint noted(self, list inputs, list made, fk_storage *arena) except -1:
        """Enter the launch into the program that is being noted; True where it is not to run."""
        cdef Keeper k = keeper()
        cdef Step *step
        cdef Tensor t
        cdef int i
        if k.refused: return k.dry
        step = next_step(k, STEP_DRIVER, self.npointers)
        step.fn = <void *>self.driver
        step.n = <int64_t *>malloc(self.nnumbers * 8 + 1)
        memcpy(step.n, self.numbers, self.nnumbers * 8)
        step.nn = self.nnumbers
        for i in range(self.npointers):
            if self.kinds[i] == 3:
                resolve(k, step, i, arena, arena.data)
                continue
            t = (inputs if self.kinds[i] == 0 else made if self.kinds[i] == 1 else self.constants)[self.places[i]]
            resolve(k, step, i, t.st, t.data_)
        return k.dry

    cdef object launch(self, args):
        cdef char *few[48]
        cdef char **p = few
        cdef int i, r
        cdef list inputs = [], made = []
        cdef Tensor t
        cdef bint copied = False
        cdef fk_storage *arena = NULL
        cdef uint32_t tls = fk_tls_keys()
        i = 0
        if not (tls & K_KEEP and keeper().whole): refuse_keeping()
        if len(args) != self.ninputs:
            raise said(TypeError, "[compiled graph] %d inputs were required: got %d" % (self.ninputs, len(args)) + "\nhint: pass the inputs that the graph was compiled for, in their order")
        for x in args:
            if self.layouts[i].dt >= 0:
                t = fitted(<Tensor?>x, &self.layouts[i], i)
                copied = copied or t is not x
                x = t
                if (<Tensor>x).keys & (K_META | K_FOREIGN | K_TRANSFORM | K_DISPATCH):
                    raise said(RuntimeError, "[compiled graph] tensors with elements were required: got a %s" % type(x).__name__ + "\nhint: compile the function without tensor subclasses, or call it in eager mode")
                own_bytes(<Tensor>x)
            inputs.append(x)
            i += 1
        if copied:                    # without the GIL: inputs seen before may be others by now
            for i in range(self.ninputs):
                if self.layouts[i].dt >= 0 and fitted(<Tensor>inputs[i], &self.layouts[i], i) is not inputs[i]:
                    raise said(RuntimeError, "[compiled graph] inputs that stay as they are were required: input %d got another memory order "
                                             "during the call" % i + "\nhint: another thread changed it; give it a copy of its own")
        for i in range(self.nmade):
            t = allocate(&self.layouts[self.ninputs + i])
            if tls & K_INFERENCE: t.keys |= K_INFERENCE
            made.append(t)
        if self.npointers > 48:
            p = <char **>malloc(self.npointers * sizeof(char *))
            if p == NULL:
                raise MemoryError()
        try:
            if self.arena:
                arena = new_storage(self.arena, 0)
            for i in range(self.npointers):
                if self.kinds[i] == 0: p[i] = (<Tensor>inputs[self.places[i]]).data_
                elif self.kinds[i] == 1: p[i] = (<Tensor>made[self.places[i]]).data_
                elif self.kinds[i] == 2: p[i] = (<Tensor>self.constants[self.places[i]]).data_
                else: p[i] = arena.data
            if tls & K_KEEP and keeper().whole and self.noted(inputs, made, arena):
                r = 0
            elif self.work < GIL_FREE // 16:
                r = self.driver(p, self.numbers, NULL, &fk_runtime_table)
            else:
                r = run_driver(self.driver, p, self.numbers, NULL)
        finally:
            if p != few: free(p)
            if arena != NULL: fk_storage_decref(arena)
        if r:
            raise_memory(0)
        return tuple([made[n] if kind == 1 else inputs[n] if kind == 0 else n for kind, n in self.results])


cdef class InputLayouts:
    """The inputs of a graph that calls operators too: what `GraphLaunch` checks, by itself."""
    cdef int count
    cdef Layout *layouts

    def __cinit__(self, specs):
        """specs: (shape, stride, dtype) of each input, None for what is no tensor."""
        cdef int i
        self.count = len(specs)
        self.layouts = <Layout *>malloc((self.count + 1) * sizeof(Layout))
        for i, spec in enumerate(specs):
            if spec is None: self.layouts[i].dt = -1
            else: read_layout(&self.layouts[i], spec[0], spec[1], spec[2])

    def __dealloc__(self):
        free(self.layouts)

    def __call__(self, args):
        """The inputs as the graph expects them."""
        cdef int i = 0
        cdef list found = []
        if len(args) != self.count:
            raise said(TypeError, "[compiled graph] %d inputs were required: got %d" % (self.count, len(args)) + "\nhint: pass the inputs that the graph was compiled for, in their order")
        for x in args:
            if self.layouts[i].dt >= 0:
                x = fitted(<Tensor?>x, &self.layouts[i], i)
            found.append(x)
            i += 1
        return found
