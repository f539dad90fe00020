# Composites with a history: the operators that a composite called are noted, and called again without its Python.
#
# Takes: calls of composites whose definition allows it (`keeps`) with tensors that want gradients; the second of its kind (sizes
# that come once are not worth it) runs with K_PROFILE set, so that `recorded_call` hears of each operator that the body calls itself.
# Gives: for the next call with the like of its arguments, the same calls on the new tensors; each records itself.
# Keeps true: a list is kept only if the body did nothing else: elements that it read, memory that it filled, nodes, draws and
# tensors from elsewhere refuse it; a call whose result has other sizes than the noted one's ends a list for good.

cdef enum:
    MOST_VALUES = 96             # tensors of one list: arguments and results of its calls
    MOST_INNER = 48              # calls of one list
    FORM_RECORDED = 4            # in a key: what was kept is a list of calls
    PLACE_CONSTANT = -1
    PLACE_NESTED = -2            # a list with tensors in it
    K_NOTING = K_PROFILE | K_PROFILED | K_KEEP

cdef extern from *:
    """
    static __thread PyObject *fk_inner;
    """
    PyObject *fk_inner           # the `InnerCalls` that this thread notes, while the composite's own body runs


@cython.final
cdef class Place:
    """Stands for a tensor in the arguments of an inner call."""
    cdef int number

    def __cinit__(self, int number):
        self.number = number


@cython.final
cdef class InnerCall:
    """One call of an operator, with the numbers of the values that it takes and gives."""
    cdef Op op
    cdef object called           # the operator (or its in-place form), or a method of tensors, which has no `op`
    cdef int form, npositional, nargs, nresults
    cdef int places[MAX_ARGS]
    cdef int results[MAX_ARGS]
    cdef bint many               # results come as a tuple
    cdef tuple others            # the results that are no tensors, in their places; None where all are
    cdef tuple arguments         # constants, and lists with `Place`s
    cdef tuple keywords
    cdef uint32_t modes          # of the thread while it ran
    cdef tuple dead              # the values that nobody reads after it
    cdef int64_t *sizes          # of the results: dimensions, then sizes

    def __dealloc__(self):
        free(self.sizes)


@cython.final
cdef class InnerCalls:
    """What one composite called."""
    cdef list calls
    cdef list values             # tensors known so far, the arguments first
    cdef uint32_t nodes          # made by inner calls
    cdef bint deep               # composites within it are noted by their own calls
    cdef bint refused, impure    # it writes, or draws random numbers
    cdef bint selects            # it reads positions or flags, on which the sizes of a result may depend
    cdef int ninputs, nvalues
    cdef tuple results           # numbers of values, None for None
    cdef tuple labels            # of the results' nodes
    cdef object result_type      # None: one tensor

    cdef int number_of(self, object t):
        cdef int i
        for i in range(len(self.values)):
            if self.values[i] is t: return i
        return -1

    cdef int value(self, object t):
        """The number of a tensor that a call gave."""
        cdef int i = self.number_of(t)
        if i < 0:
            i = len(self.values)
            self.values.append(t)
            if i + 1 >= MOST_VALUES: self.refused = True
        return i


cdef object template_of(InnerCalls c, object v):
    """An argument with places for its tensors; what is no constant refuses the list."""
    cdef int number
    if isinstance(v, Tensor):
        number = c.number_of(v)
        if number < 0: c.refused = True
        return Place(number)
    if isinstance(v, (tuple, list)):
        items = [template_of(c, x) for x in v]
        return items if type(v) is list else tuple(items)
    if v is None or v is Ellipsis or v is True or v is False or type(v) in (int, float, complex, str, dtype, device, memory_format):
        return v
    c.refused = True
    return None


cdef set places_in(object v):
    """The numbers of the tensors in an argument."""
    if type(v) is Place: return {(<Place>v).number}
    if isinstance(v, (tuple, list)): return {number for x in v for number in places_in(x)}
    return set()


cdef object filled_in(object v, PyObject **values):
    """A list with the tensors of this call."""
    if type(v) is Place: return <object>values[(<Place>v).number]
    if type(v) is tuple: return tuple([filled_in(x, values) for x in <tuple>v])
    if type(v) is list: return [filled_in(x, values) for x in <list>v]
    return v


cdef object inner_call(object function, tuple args, dict kwargs):
    """A call that the body of a composite makes, while its calls are noted."""
    cdef InnerCalls c = <InnerCalls>fk_inner
    cdef PyObject *noted_for = fk_inner
    cdef PyObject *kept_for = fk_keeper
    cdef uint32_t tls = fk_tls_keys(), before = SEQUENCE
    cdef bint method = type(function) is not Op and type(function) is not InplaceOp
    cdef Keeper own
    global fk_inner
    if c.deep and not method and shows_calls(function): return call_reported(function, args, kwargs)
    own = keeper_of_tensors(args) if method else None
    fk_inner = NULL
    set_keeper(<PyObject *>own if method else NULL)      # a method that reads elements is found out; an operator is what it was
    fk_tls_set(tls & ~<uint32_t>K_NOTING | (K_KEEP if method else 0))
    try:
        r = function(*args, **kwargs)
    except:
        c.refused = True
        raise
    finally:
        fk_inner = noted_for
        set_keeper(kept_for)
        fk_tls_set(tls)
    c.nodes += SEQUENCE - before
    if method and own.refused: c.refused = True
    if method and (own.ncounts or own.ndraws): c.impure = True
    if method and r is None: c.refused = True            # it did something
    if not c.refused and (not method or own.nsteps or isinstance(r, Tensor)):
        note_inner(c, function, args, kwargs, r, tls & ~<uint32_t>K_NOTING)
    return r


cdef bint shows_calls(object function):
    """Whether the operators that a composite calls stand for it: its node has no name of its own."""
    cdef Op op
    if type(function) is not Op: return False
    op = <Op>function
    return op.kind == KIND_COMPOSITE and op.keeps and op.autograd is None and op.definition.node is None


cdef Keeper keeper_of_tensors(tuple args):
    """A keeper that knows the tensors among the arguments of a method."""
    cdef Keeper k = Keeper.__new__(Keeper, len(args))
    for t in args:
        if isinstance(t, Tensor):
            Py_INCREF(t)
            k.tensors[k.ntensors] = <PyObject *>t
            k.ntensors += 1
    return k


cdef int note_inner(InnerCalls c, object function, tuple args, dict kwargs, object r, uint32_t modes) except -1:
    """Append a call to the list."""
    cdef InnerCall call = InnerCall.__new__(InnerCall)
    cdef tuple items = tuple(r) if isinstance(r, (tuple, list)) else (r,)
    cdef int i, at = 0, total = 0
    call.called = function
    call.form = FORM_INPLACE if type(function) is InplaceOp else FORM_FUNCTIONAL
    call.op = <Op>function if type(function) is Op else (<InplaceOp>function).op if call.form == FORM_INPLACE else None
    call.npositional = len(args)
    call.nargs = call.npositional + len(kwargs)
    call.keywords = tuple(kwargs) if kwargs else None
    call.modes = modes
    call.many = isinstance(r, (tuple, list))
    call.nresults = len(items)
    if call.nargs > MAX_ARGS or not items or len(items) > MAX_ARGS or len(c.calls) == MOST_INNER or (
            whole_operator(call) and not call.op.definition.keeps):
        c.refused = True
        return 0
    if call.form == FORM_INPLACE or "out" in kwargs or call.op is not None and (call.op.definition.random or call.op.definition.mutated):
        c.impure = True
    call.arguments = tuple([template_of(c, v) for v in (*args, *kwargs.values())])
    if c.refused: return 0
    if call.op is None or whole_operator(call):
        c.selects |= any([KIND[(<Tensor>c.values[n]).dt] < KIND_FLOAT for n in places_in(call.arguments)])
    for i in range(call.nargs):
        v = call.arguments[i]
        call.places[i] = (<Place>v).number if type(v) is Place else PLACE_NESTED if places_in(v) else PLACE_CONSTANT
    for t in items:
        if not isinstance(t, Tensor) and call.many and (t is None or type(t) is int):
            call.others = items
            continue
        if not isinstance(t, Tensor) or (<Tensor>t).keys & K_UNKEPT:
            c.refused = True
            return 0
        total += 1 + (<Tensor>t).nd
    if call.others is not None: call.others = tuple([None if isinstance(t, Tensor) else t for t in items])
    call.sizes = <int64_t *>malloc(total * 8)
    if call.sizes == NULL: raise MemoryError
    for i in range(call.nresults):
        call.results[i] = c.value(items[i]) if isinstance(items[i], Tensor) else PLACE_CONSTANT
        if call.results[i] < 0: continue
        at = put_sizes(call.sizes, at, <Tensor>items[i])
    c.calls.append(call)
    return 0


cdef inline bint whole_operator(InnerCall call):
    """Whether it is an operator written in Python: one that is elementwise or a view gives sizes that the arguments' sizes tell."""
    return call.op is not None and call.op.kind >= KIND_OPERATOR


cdef inline int put_sizes(int64_t *words, int at, Tensor t) noexcept:
    words[at] = t.nd
    memcpy(&words[at + 1], t.sh, t.nd * 8)
    return at + 1 + t.nd


cdef inline int checked_sizes(InnerCall call, int at, Tensor t) noexcept:
    """Where the next result's sizes stand; -1 where these are others."""
    if call.sizes[at] != t.nd or memcmp(&call.sizes[at + 1], t.sh, t.nd * 8) != 0: return -1
    return at + 1 + t.nd


# ------------------------------------------------------------------ noting a composite

cdef bint key_recorded(CallKey *key, Op op, PyObject **slots) except -1:
    """The key of a call with a history: of which arguments are one tensor, and the modes of the thread, too."""
    cdef int i, j
    if not key_of(key, op, slots, FORM_RECORDED) or key.n + key.ntensors + 1 >= KEY_WORDS: return False
    key.words[key.n] = fk_tls_keys()
    key.n += 1
    for i in range(key.ntensors):
        for j in range(i + 1):
            if key.tensors[j] == key.tensors[i]: break
        key.words[key.n] = j
        key.n += 1
    hash_key(key)
    return True


cdef object note_calls(Op op, CallKey *key, PyObject **slots, tuple args, bint deep):
    """The composite's body, with each call that it makes noted."""
    global fk_inner
    cdef InnerCalls c = InnerCalls.__new__(InnerCalls)
    cdef PyObject *noted_for = fk_inner
    cdef Keeper k = keeper_of(op, key)
    cdef uint32_t tls = fk_tls_keys(), before = SEQUENCE
    cdef int i
    c.calls = []
    c.values = [<object>key.tensors[i] for i in range(key.ntensors)]
    c.ninputs = key.ntensors
    c.deep = deep
    alive = identities(op, slots)
    fk_inner = <PyObject *>c
    set_keeper(<PyObject *>k)
    fk_tls_set(tls | K_PROFILE | K_KEEP)
    try:
        r = op.impl(*args)
    finally:
        fk_tls_set(tls)
        set_keeper(NULL)
        fk_inner = noted_for
    if k.refused or k.nmade or k.nsteps or SEQUENCE - before != c.nodes or (c.impure and c.selects): c.refused = True
    enter_calls(op, key, c, r, alive)
    return r


cdef int enter_calls(Op op, CallKey *key, InnerCalls c, object r, list alive) except -1:
    """Enter a composite that ran through into the operator's table."""
    cdef Kept e = noted_entry(op, key, alive)
    cdef tuple items = tuple(r) if isinstance(r, tuple) else (r,)
    if isinstance(r, tuple) and (type(r) is tuple or hasattr(type(r), "_fields")): c.result_type = type(r)
    elif not isinstance(r, Tensor): c.refused = True
    c.results = tuple([None if t is None else c.number_of(t) for t in items])
    for n in c.results:
        if n is not None and n < 0: c.refused = True
    e.refused = c.refused
    if not c.refused:
        c.labels = tuple([(<Tensor>t).fn_.label if isinstance(t, Tensor) and (<Tensor>t).fn_ is not None else None for t in items])
        note_last_reads(c)
        e.calls = c
    c.nvalues = len(c.values)
    c.values = None
    enter_kept(op, e)
    return 0


cdef int note_last_reads(InnerCalls c) except -1:
    """Say after which call each value is read no more."""
    cdef InnerCall call
    cdef int i
    cdef set read = set(c.results)
    for call in reversed(c.calls):
        used = {call.results[i] for i in range(call.nresults) if call.results[i] >= 0}
        used |= places_in(call.arguments)
        call.dead = tuple(sorted(used - read))
        read |= used
    return 0


# ------------------------------------------------------------------ calling again

cdef int call_inner(InnerCall call, PyObject **values) except -1:
    """One call of the list; 1 where its results have other sizes."""
    cdef PyObject *args[MAX_ARGS]
    cdef PyObject *previous
    cdef object r
    cdef list owned = None
    cdef int i, at = 0
    cdef PyObject *keywords = NULL if call.keywords is None else <PyObject *>call.keywords
    for i in range(call.nargs):
        if call.places[i] >= 0: args[i] = values[call.places[i]]
        elif call.places[i] == PLACE_CONSTANT: args[i] = <PyObject *>call.arguments[i]
        else:
            v = filled_in(call.arguments[i], values)
            if owned is None: owned = []
            owned.append(v)
            args[i] = <PyObject *>v
    if call.op is None: r = PyObject_Vectorcall(call.called, args, call.npositional, keywords)
    else: r = op_call(call.op, args, call.npositional, keywords, call.form, <PyObject *>call.called)
    if call.many and (not isinstance(r, (tuple, list)) or len(r) != call.nresults): return 1
    for i in range(call.nresults):
        t = r[i] if call.many else r
        if call.results[i] < 0:
            if t != call.others[i]: return 1
            continue
        if not isinstance(t, Tensor): return 1
        at = checked_sizes(call, at, <Tensor>t)
        if at < 0: return 1
        previous = values[call.results[i]]
        Py_INCREF(t)
        values[call.results[i]] = <PyObject *>t
        Py_XDECREF(previous)
    for v in call.dead:
        i = v
        Py_XDECREF(values[i])
        values[i] = NULL
    return 0


cdef object call_again(InnerCalls c, CallKey *key):
    """The composite on other tensors; NotImplemented where its results have other sizes than they had."""
    cdef PyObject *values[MOST_VALUES]
    cdef InnerCall call
    cdef uint32_t tls = fk_tls_keys()
    cdef int i, other = 0
    memset(values, 0, c.nvalues * sizeof(PyObject *))
    for i in range(c.ninputs):
        values[i] = key.tensors[i]
        Py_INCREF(<object>values[i])
    try:
        for call in c.calls:
            if call.modes != tls:
                fk_tls_set(call.modes)
                try:
                    other = call_inner(call, values)
                finally:
                    fk_tls_set(tls)
            else:
                other = call_inner(call, values)
            if other: return NotImplemented
        return results_again(c, values)
    finally:
        for i in range(c.nvalues): Py_XDECREF(values[i])


cdef object results_again(InnerCalls c, PyObject **values):
    cdef list items
    cdef Tensor t
    cdef int i
    for i in range(len(c.labels)):
        if c.labels[i] is not None:
            t = <Tensor>values[<int>c.results[i]]
            if t.fn_ is not None: t.fn_.label = c.labels[i]
    if c.result_type is None: return <object>values[<int>c.results[0]]
    items = [None if n is None else <object>values[<int>n] for n in c.results]
    return tuple(items) if c.result_type is tuple else tuple.__new__(c.result_type, items)


cdef object recorded_composite(Op op, PyObject **slots, uint32_t k):
    """Run a composite whose inner calls are recorded: by what it called before, or in Python, noting that the second time."""
    cdef CallKey key
    cdef Kept e
    if not key_recorded(&key, op, slots): return op.impl(*arguments_of(op, slots))
    e = find_kept(op, &key)
    if e is None:
        enter_kept(op, entry_of(&key, identities(op, slots)))
        return op.impl(*arguments_of(op, slots))
    if e.refused and e.tries < 2: return note_calls(op, &key, slots, arguments_of(op, slots), e.tries == 0)
    if e.refused: return op.impl(*arguments_of(op, slots))
    r = call_again(<InnerCalls>e.calls, &key)
    if r is NotImplemented:
        e.refused = True
        e.tries = 2
        if (<InnerCalls>e.calls).impure:
            raise said(RuntimeError, "[%s] results of the sizes that the arguments give were required: got others" % op.name + "\nhint: call it under facula.no_grad(), and report this")
        return op.impl(*arguments_of(op, slots))
    return r
