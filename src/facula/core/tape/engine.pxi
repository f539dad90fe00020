# The engine: runs nodes in reverse order of recording and hands gradients along the edges.
#
# Keeps true: a node runs once all its consumers inside this run have run; its state is in the node itself when this is
# the only run under way, and in the run's own table when another run (a nested one, another thread) is active; an
# error leaves no state behind.

cdef struct PointerList:
    PyObject **items
    int n, capacity


cdef inline void list_push(PointerList *v, PyObject *x) noexcept:
    if v.n == v.capacity:
        v.capacity = v.capacity * 2 if v.capacity else 64
        v.items = <PyObject **>realloc(v.items, v.capacity * sizeof(PyObject *))
    v.items[v.n] = x
    v.n += 1


cdef inline void heap_push(PointerList *h, PyObject *x) noexcept:
    cdef int i, j
    list_push(h, x)
    i = h.n - 1
    while i > 0:
        j = (i - 1) >> 1
        if (<Node>h.items[j]).seq >= (<Node>h.items[i]).seq:
            break
        h.items[i], h.items[j] = h.items[j], h.items[i]
        i = j


cdef inline PyObject *heap_pop(PointerList *h) noexcept:
    cdef PyObject *r = h.items[0]
    cdef int i = 0, j
    h.n -= 1
    if h.n == 0:
        return r
    h.items[0] = h.items[h.n]
    while True:
        j = 2 * i + 1
        if j >= h.n: break
        if j + 1 < h.n and (<Node>h.items[j + 1]).seq > (<Node>h.items[j]).seq: j += 1
        if (<Node>h.items[i]).seq >= (<Node>h.items[j]).seq: break
        h.items[i], h.items[j] = h.items[j], h.items[i]
        i = j
    return r


cdef enum:
    REACH_NEW, REACH_OPEN, REACH_NO, REACH_YES   # what a run knows of a node, see `mark_needed`

cdef uint32_t TASKS = 0          # runs started so far
cdef int ACTIVE = 0              # runs under way


cdef class Run:
    """One backward run."""
    cdef PointerList order       # every node reached, each with one reference held
    cdef PointerList stack, heap
    cdef uint32_t task
    cdef bint inline_state, retain, create_graph, accumulate
    cdef bint further            # gradients of gradients, or gradients that are to have some
    cdef dict states             # node address -> index into `table`, when the state is not inline
    cdef NodeState **table
    cdef int table_n
    cdef dict captures           # (node address, number) -> list of result positions
    cdef list capturing          # these nodes
    cdef list captured
    cdef bint selective          # only nodes that lead to the captures run
    cdef list callbacks
    cdef object id

    def __cinit__(self):
        global TASKS, ACTIVE
        TASKS += 1
        self.task = TASKS
        self.inline_state = ACTIVE == 0
        ACTIVE += 1
        if not self.inline_state:
            self.states = {}

    def __dealloc__(self):
        global ACTIVE
        cdef int i
        cdef NodeState *s
        ACTIVE -= 1
        for i in range(self.order.n):
            s = self.state(<Node>self.order.items[i])
            if s.g0 != NULL: Py_DECREF(<object>s.g0); s.g0 = NULL
            if s.more != NULL: Py_DECREF(<object>s.more); s.more = NULL
        for i in range(self.order.n):
            Py_DECREF(<object>self.order.items[i])
        for i in range(self.table_n):
            free(self.table[i])
        free(self.table); free(self.order.items); free(self.stack.items); free(self.heap.items)

    cdef inline NodeState *state(self, Node n):
        cdef int i
        if self.inline_state:
            return &n.st
        key = <uintptr_t><PyObject *>n
        index = self.states.get(key)
        if index is None:
            i = self.table_n
            if i % 64 == 0:
                self.table = <NodeState **>realloc(self.table, (i + 64) * sizeof(NodeState *))
            self.table[i] = <NodeState *>calloc(1, sizeof(NodeState))
            self.table_n += 1
            self.states[key] = i
            return self.table[i]
        return self.table[<int>index]

    cdef inline int visit(self, Node m) except -1:
        cdef NodeState *s
        if m is None:
            return 0
        s = self.state(m)
        if s.task != self.task:
            s.task = self.task; s.deps = 0; s.needed = REACH_NEW; s.captured = 0
            s.g0 = NULL; s.more = NULL
            if m.derived: self.further = True
            Py_INCREF(m)
            list_push(&self.order, <PyObject *>m)
            list_push(&self.stack, <PyObject *>m)
        s.deps += 1
        return 0

    cdef int reach(self) except -1:
        """Find every node and count its consumers."""
        cdef Node n
        while self.stack.n:
            self.stack.n -= 1
            n = <Node>self.stack.items[self.stack.n]
            if n.nin > 0: self.visit(n.e0)
            if n.nin > 1: self.visit(n.e1)
            if n.nin > 2: self.visit(n.e2)
            if n.rest is not None:
                for target, number in n.rest:
                    self.visit(<Node>target)
        return 0

    cdef int mark_needed(self) except -1:
        """Mark the nodes from which a captured one can be reached, depth first."""
        cdef Node n
        cdef NodeState *s
        cdef int i
        for node in self.capturing:
            s = self.state(<Node>node)
            if s.task == self.task: s.captured = 1
        for i in range(self.order.n):
            list_push(&self.stack, self.order.items[i])
            while self.stack.n:
                n = <Node>self.stack.items[self.stack.n - 1]
                s = self.state(n)
                if s.needed == REACH_NEW:
                    s.needed = REACH_OPEN        # its targets come first
                    self.open_targets(n)
                    continue
                self.stack.n -= 1
                if s.needed == REACH_OPEN:
                    s.needed = REACH_YES if s.captured or self.leads(n) else REACH_NO
        return 0

    cdef inline void open_target(self, Node m) except *:
        if m is not None and self.state(m).needed == REACH_NEW: list_push(&self.stack, <PyObject *>m)

    cdef void open_targets(self, Node n) except *:
        if n.nin > 0: self.open_target(n.e0)
        if n.nin > 1: self.open_target(n.e1)
        if n.nin > 2: self.open_target(n.e2)
        if n.rest is not None:
            for target, number in n.rest:
                self.open_target(<Node>target)

    cdef inline bint is_needed(self, Node m) except -1:
        return m is not None and self.state(m).needed == REACH_YES

    cdef bint leads(self, Node n) except -1:
        """Whether a target of a node is needed."""
        if n.nin > 0 and self.is_needed(n.e0): return True
        if n.nin > 1 and self.is_needed(n.e1): return True
        if n.nin > 2 and self.is_needed(n.e2): return True
        if n.rest is not None:
            for target, number in n.rest:
                if self.is_needed(<Node>target): return True
        return False

    cdef int deliver(self, Node m, int number, PyObject *gp) except -1:
        """Hand gradient `gp` (a reference that is ours, or NULL) to result `number` of node `m`."""
        cdef NodeState *s
        cdef PyObject *old
        if m is None:
            if gp != NULL: Py_DECREF(<object>gp)
            return 0
        s = self.state(m)
        if gp != NULL:
            if number == 0:
                if s.g0 == NULL:
                    s.g0 = gp
                else:
                    old = s.g0
                    s.g0 = NULL
                    s.g0 = self.add(old, gp)
            else:
                if s.more == NULL:
                    gradients = [None] * (m.nout - 1)
                    Py_INCREF(gradients)
                    s.more = <PyObject *>gradients
                more = <list>s.more
                if more[number - 1] is None:
                    more[number - 1] = <object>gp
                    Py_DECREF(<object>gp)
                else:
                    held = more[number - 1]
                    more[number - 1] = None
                    Py_INCREF(held)
                    old = <PyObject *>held
                    held = None
                    old = self.add(old, gp)
                    more[number - 1] = <object>old
                    Py_DECREF(<object>old)
        s.deps -= 1
        if s.deps == 0:
            heap_push(&self.heap, <PyObject *>m)
        return 0

    cdef PyObject *add(self, PyObject *a, PyObject *b) except NULL:
        """The sum of two gradients, consuming both references; in place when nobody else can see the first."""
        cdef Tensor x = <Tensor>a, y = <Tensor>b
        cdef Tensor r
        if (not self.create_graph and fk_refs(a) <= 2 and x.st.refs == 1 and same_shape(x, y) and x.dt == y.dt
                and not ((x.keys | y.keys) & (K_STRIDED | K_SLOW | K_META | K_GRAD))
                and not (fk_tls_keys() & (K_DISPATCH | K_INTERPRETER))):
            add_into(x, y)
            r = x
        else:
            r = add_gradients(x, y)
        Py_INCREF(r)
        Py_DECREF(<object>a)
        Py_DECREF(<object>b)
        return <PyObject *>r

    cdef int capture(self, Node n, list gradients) except -1:
        cdef int i
        for i in range(len(gradients)):
            positions = self.captures.get((<uintptr_t><PyObject *>n, i))
            if positions is not None:
                for p in positions:
                    self.captured[p] = gradients[i]
        return 0

    cdef int accumulate_leaf(self, Node n, Tensor g) except -1:
        cdef Tensor t = n.var
        if t.hooks is not None and t.hooks:
            g = run_tensor_hooks(t.hooks, g)
        if n.node_pre_hooks:
            for hook in list(n.node_pre_hooks.values()):
                r = hook((g,))
                if r is not None: g = hooked(hook, (g,), r)[0]
        if self.captures is not None:
            self.capture(n, [g])
            if not self.accumulate or (self.selective and (<uintptr_t><PyObject *>n, 0) not in self.captures):
                return 0
        elif not self.accumulate:
            return 0
        accumulate_grad(t, g, self.create_graph)
        if n.node_hooks:
            for hook in list(n.node_hooks.values()):
                hook((), (g,))
        if t.post_hooks is not None and t.post_hooks:
            for hook in list(t.post_hooks.values()):
                hook(t)
        return 0

    cdef list gradients_of(self, Node n, NodeState *s):
        cdef list r
        r = [<object>s.g0 if s.g0 != NULL else None]
        if n.nout > 1:
            if s.more != NULL:
                r.extend(<list>s.more)
            else:
                r.extend([None] * (n.nout - 1))
        return r

    cdef int run_node(self, Node n) except -1:
        """Run one node the general way: hooks, several results, captures, Python nodes."""
        cdef NodeState *s = self.state(n)
        cdef list gradients = self.gradients_of(n, s)
        cdef list edges
        cdef PyObject *gp
        cdef int i
        if s.g0 != NULL: Py_DECREF(<object>s.g0); s.g0 = NULL
        if s.more != NULL: Py_DECREF(<object>s.more); s.more = NULL
        if n.var is not None:
            if gradients[0] is not None:
                self.accumulate_leaf(n, <Tensor>gradients[0])
            return 0
        if n.pre_hooks is not None:
            for number, hooks in n.pre_hooks:
                gradients[number] = run_tensor_hooks(hooks, gradients[number])
        if n.node_pre_hooks:
            for hook in list(n.node_pre_hooks.values()):
                r = hook(tuple(gradients))
                if r is not None: gradients = hooked(hook, gradients, r)
        if self.captures is not None:
            self.capture(n, gradients)
        edges = edges_of(n)
        if self.selective and not self.leads(n):
            for target, number in edges:
                self.deliver(<Node>target, number, NULL)
            return 0
        results = [None] * len(edges)
        # a compiled call without gradients has nothing to do, also when what it kept is gone
        if any(g is not None for g in gradients) or n.fn == NULL and type(n) is not CompiledFunctionBackward:
            results = self.call(n, gradients, len(edges))
            if n.node_hooks:
                for hook in list(n.node_hooks.values()):
                    r = hook(tuple(results), tuple(gradients))
                    if r is not None: results = hooked(hook, results, r)
        if not self.retain:
            release_saved(n)
        gradients = None
        for i in range(len(edges)):
            target, number = edges[i]
            g = results[i]
            results[i] = None
            if g is not None and target is not None:
                Py_INCREF(g)
                gp = <PyObject *>g
                g = None
                self.deliver(<Node>target, number, gp)
            else:
                self.deliver(<Node>target, number, NULL)
        return 0

    cdef list call(self, Node n, list gradients, int nedges):
        cdef PyObject *grads[32]
        cdef PyObject *out[64]
        cdef int i
        cdef list results
        try:
            if type(n) is CompiledFunctionBackward:
                results = (<CompiledFunctionBackward>n).gradients(gradients, self.retain)
            elif n.fn == NULL:
                r = n.apply(*gradients)
                results = list(r) if isinstance(r, (tuple, list)) else [r]
                if len(results) < nedges:
                    results.extend([None] * (nedges - len(results)))
            elif nedges > 64 or n.nout > 32:
                results = formula_results(n, gradients)
            else:
                for i in range(n.nout):
                    grads[i] = <PyObject *>gradients[i] if gradients[i] is not None else NULL
                for i in range(nedges):
                    out[i] = NULL
                n.fn(n, grads, out)
                results = [None] * nedges
                for i in range(nedges):
                    if out[i] != NULL:
                        results[i] = <object>out[i]
                        Py_DECREF(<object>out[i])
        except Exception:
            if ANOMALY[0]:
                anomaly_report(n)
            raise
        if ANOMALY[0] and ANOMALY[1]:
            anomaly_check(n, results)
        return results

    cdef int run(self) except -1:
        """Run everything that is ready until nothing is."""
        cdef Node n
        cdef bint plain = not ANOMALY[0] and (self.selective or self.accumulate)
        recorder = active_recorder()
        while self.heap.n:
            n = <Node>heap_pop(&self.heap)
            if recorder is None:
                self.step(n, plain)
                continue
            event = recorder.enter_node(n)
            try:
                self.step(n, plain)
            finally:
                recorder.leave(event)
        return 0

    cdef inline int step(self, Node n, bint plain) except -1:
        """Run one node, the short way where nothing watches it."""
        cdef NodeState *s = self.state(n)
        cdef PyObject *out[3]
        cdef PyObject *gp
        cdef int i
        if self.selective and s.needed != REACH_YES:
            if s.g0 != NULL: Py_DECREF(<object>s.g0); s.g0 = NULL
            if s.more != NULL: Py_DECREF(<object>s.more); s.more = NULL
            for target, number in edges_of(n):
                self.deliver(<Node>target, number, NULL)
            return 0
        if not (plain and n.nout == 1 and n.nin <= 3 and n.pre_hooks is None and n.node_pre_hooks is None
                and n.node_hooks is None and n.rest is None and not s.captured
                and (n.fn != NULL or n.var is not None and not self.selective)):
            return self.run_node(n)
        if n.var is not None:
            if s.g0 != NULL:
                if n.var.hooks is None and n.var.post_hooks is None:
                    gp = s.g0
                    s.g0 = NULL
                    accumulate_owned(n.var, gp, self.create_graph)
                else:
                    self.run_node(n)
            return 0
        out[0] = out[1] = out[2] = NULL
        if s.g0 != NULL:
            gp = s.g0
            s.g0 = NULL
            try:
                n.fn(n, &gp, out)
            except:
                for i in range(3):
                    if out[i] != NULL: Py_DECREF(<object>out[i])
                raise
            finally:
                Py_DECREF(<object>gp)
        if not self.retain:
            release_saved(n)
        if n.nin > 0: self.deliver(n.e0, n.n0, out[0])
        if n.nin > 1: self.deliver(n.e1, n.n1, out[1])
        if n.nin > 2: self.deliver(n.e2, n.n2, out[2])
        return 0


cdef inline void release_saved(Node n) except *:
    """Drop what a node kept; running it again is an error."""
    if n.freed:
        return
    n.freed = n.fn != NULL and (n.s0 is not None or n.s1 is not None or n.s2 is not None or n.sr is not None)
    n.s0 = None; n.s1 = None; n.s2 = None; n.sr = None
    if n.extra is not None and type(n.extra) is FormulaState:
        (<FormulaState>n.extra).release()
    elif n.extra is not None and type(n.extra) is WideState:
        (<WideState>n.extra).release()
    elif type(n) is CompiledFunctionBackward:
        (<CompiledFunctionBackward>n).kept = None
    elif n.fn == NULL:
        release = getattr(n, "release_variables", None)
        if release is not None:
            release()


cdef object run_tensor_hooks(object hooks, object g):
    for hook in list(hooks.values()):
        r = hook(g)
        if r is not None:
            check_hooked(hook, g, r)
            g = r
    return g


cdef int check_hooked(object hook, object old, object new) except -1:
    """Raise where a hook's gradient cannot stand for the one that it was given."""
    cdef Tensor x, y
    name = getattr(hook, "__name__", type(hook).__name__)
    if not isinstance(new, Tensor):
        raise said(TypeError, "[hook] None or a tensor was required from a gradient hook: expected Variable, but hook returned '%s'"
                              % type(new).__name__ + "\nhint: return the new gradient, or None to leave it as it is")
    if old is None:
        return 0
    x, y = <Tensor>old, <Tensor>new
    if (x.keys | y.keys) & (K_SLOW | K_META) or fk_tls_keys() & (K_DISPATCH | K_INTERPRETER):
        return 0             # of a class or a transform, whose sizes and dtypes are its own business
    if x.dt != y.dt:
        raise said(RuntimeError, "[hook] a gradient of the same dtype was required: hook '%s' has changed the type of value (was %s got "
                                 "%s)\nhint: convert it with .to(grad.dtype)" % (name, type_word(x), type_word(y)))
    if not same_shape(x, y):
        raise said(RuntimeError, "[hook] a gradient of the same shape was required: hook '%s' has changed the size of value: got %s for "
                                 "%s\nhint: return a gradient of the shape that the hook was given"
                                 % (name, list(make_size(y.nd, y.sh)), list(make_size(x.nd, x.sh))))
    return 0


cdef list hooked(object hook, object given, object back):
    """The gradients that a node's hook gave back in the place of `given`, a tuple."""
    name = getattr(hook, "__name__", type(hook).__name__)
    if not isinstance(back, (tuple, list)):
        raise said(TypeError, "[hook] a tuple of gradients was required: expected tuple, but hook returned '%s'" % type(back).__name__ +
                              "\nhint: return as many gradients as the hook was given, or None")
    if len(back) != len(given):
        raise said(RuntimeError, "[hook] a gradient for each was required: hook '%s' has returned an incorrect number of values (got %d, but "
                                 "expected %d)\nhint: None stands for no gradient" % (name, len(back), len(given)))
    return list(back)


cdef void anomaly_report(Node n) except *:
    import warnings
    trace = n.meta_.get("traceback_") if n.meta_ else None
    if trace is None:
        warnings.warn("Error detected in %s. No forward pass information available. Enable detect anomaly during "
                      "forward pass for more information." % node_name(n), stacklevel=2)
    else:
        warnings.warn("Error detected in %s. Traceback of forward call that caused the error:\n%s"
                      % (node_name(n), "".join(trace)), stacklevel=2)


cdef void anomaly_check(Node n, list results) except *:
    cdef int i
    for i in range(len(results)):
        g = results[i]
        if g is not None and KIND[(<Tensor>g).dt] >= KIND_FLOAT and bool((g != g).any()):
            anomaly_report(n)
            raise said(RuntimeError, "[anomaly] finite gradients were required: Function '%s' returned nan values in its %dth output."
                               % (node_name(n), i) + "\nhint: the forward line printed above made the value: look for a division by zero, sqrt(0) or log(0)")


cdef int accumulate_owned(Tensor t, PyObject *gp, bint create_graph) except -1:
    """`t.grad += g`, consuming the reference; the gradient itself becomes `.grad` when nobody else can see it."""
    cdef Tensor g = <Tensor>gp
    cdef bint steal
    if t.grad_ is None and not create_graph:
        steal = (fk_refs(gp) <= 2 and g.st.refs == 1 and g.dt == t.dt and not (g.keys & (K_GRAD | K_SLOW))
                 and same_shape(g, t) and memcmp(g.sd, t.sd, t.nd * 8) == 0)
        if steal:
            t.grad_ = g.detach() if heard_by_others() else g
            Py_DECREF(<object>gp)
            return 0
    accumulate_grad(t, g, create_graph)
    Py_DECREF(<object>gp)
    return 0


cdef int accumulate_grad(Tensor t, Tensor g, bint create_graph) except -1:
    if t.grad_ is None:
        if create_graph:
            t.grad_ = g if (g.keys & K_GRAD) or fk_refs(<PyObject *>g) > 1 else g
            if not same_shape(t, g): raise_bad_grad(t, g)
            if not (g.keys & K_GRAD): t.grad_ = g.clone()
        else:
            if not same_shape(t, g): raise_bad_grad(t, g)
            if heard_by_others() and not (g.keys & (K_SPARSE | K_GRAD)) and g.dt == t.dt:
                t.grad_ = kept_as_told(t, g)
                return 0
            t.grad_ = m_clone(g) if (g.keys & K_SPARSE) or (g.keys | fk_tls_keys()) & K_DISPATCH else copy_like(g, t)
    elif create_graph or ((t.grad_.keys | g.keys) & (K_GRAD | K_SLOW)) or fk_tls_keys() & (K_DISPATCH | K_INTERPRETER):
        t.grad_ = t.grad_ + g
    elif t.grad_.dt == g.dt and same_shape(t.grad_, g) and not ((t.grad_.keys | g.keys) & (K_STRIDED | K_META)):
        add_into(t.grad_, g)
        bump(t.grad_)
    else:
        t.grad_.add_(g)
    return 0


cdef Tensor kept_as_told(Tensor t, Tensor g):
    """A first gradient, by the calls that PyTorch's dispatch modes hear of."""
    if memcmp(g.sd, t.sd, t.nd * 8) == 0: return g.detach()
    return g.new_empty_strided(make_size(t.nd, t.sh), make_size(t.nd, t.sd)).copy_(g)


cdef int raise_bad_grad(Tensor t, Tensor g) except -1:
    raise said(RuntimeError, "[backward] a gradient of the leaf's shape %s was required: got %s"
                       % (list(make_size(t.nd, t.sh)), list(make_size(g.nd, g.sh))) + "\nhint: a hook or a backward formula returned it: sum over the dimensions that were broadcast")


def run_backward(tuple tensors, tuple grads, bint retain_graph, bint create_graph, tuple inputs=(), bint allow_unused=True,
                 bint accumulate=True):
    """Run the graph from `tensors` with the cotangents `grads` (None: ones).

    Gives the gradients of `inputs` (tensors or (node, number) edges) when not `accumulate`; otherwise adds into `.grad` of
    the leaves (of `inputs` only, when given).
    """
    cdef Run run = Run.__new__(Run)
    cdef Tensor t, g
    cdef Node n
    cdef int i
    cdef uint32_t keys = fk_tls_keys()
    cdef list roots = []
    cdef list runs = runs_here()
    if BACKWARD[0] is not None and not runs:
        result = BACKWARD[0](tensors, grads, retain_graph, create_graph, inputs, allow_unused, accumulate)
        if result is not NotImplemented:
            return result
    if accumulate and create_graph and not inputs: warn_of_cycle()
    run.retain = retain_graph
    run.create_graph = run.further = create_graph
    run.accumulate = accumulate
    for i in range(len(tensors)):
        if isinstance(tensors[i], Tensor):
            t = tensors[i]
            if not (t.keys & K_GRAD):
                raise said(RuntimeError, "[backward] a tensor with a gradient history was required: element %d of tensors does not "
                                   "require grad and does not have a grad_fn\nhint: was it computed under no_grad, or "
                                   "detached?" % i)
            n = edge(t)
            g = grads[i] if i < len(grads) and grads[i] is not None else None
            if g is None:
                if t.numel_ != 1:
                    raise said(RuntimeError, "[backward] a gradient was required, since grad can be implicitly created only for "
                                       "scalar outputs: got a tensor of shape %s\nhint: reduce it (.sum(), .mean()) or pass "
                                       "gradient=" % (list(make_size(t.nd, t.sh)),))
                g = ones_like_(t)
            elif g.dt != t.dt and KIND[t.dt] >= KIND_FLOAT and (KIND[g.dt] != KIND_COMPLEX or KIND[t.dt] == KIND_COMPLEX):
                g = g.to(DTYPES[t.dt])
            roots.append((n, t.out_nr, g))
        else:
            roots.append((tensors[i][0], tensors[i][1], grads[i]))
    if inputs:
        run.captures = {}
        run.capturing = []
        run.captured = [None] * len(inputs)
        run.selective = True
        for i in range(len(inputs)):
            if isinstance(inputs[i], Tensor):
                t = inputs[i]
                if not (t.keys & K_GRAD):
                    raise said(RuntimeError, "[grad] inputs that require grad were required: One of the differentiated Tensors does "
                                       "not require grad (input %d)" % i + "\nhint: call requires_grad_() on the input before the outputs are computed")
                if accumulate: m_retain_grad(t)
                n = edge(t)
                number = t.out_nr if t.fn_ is not None else 0
            else:
                n, number = inputs[i][0], inputs[i][1]
            run.captures.setdefault((<uintptr_t><PyObject *>n, number), []).append(i)
            run.capturing.append(n)
    elif not accumulate:
        return ()
    for n, number, g in roots:
        run.visit(n)
    run.reach()
    if run.selective:
        run.mark_needed()
    # a node that is a root and also feeds another root waits for both
    runs.append(run)
    fk_tls_set((keys & ~<uint32_t>K_NOGRAD if create_graph else keys | K_NOGRAD) | (K_STEPS if run.further else 0))
    try:
        for n, number, g in roots:
            Py_INCREF(g)
            run.deliver(n, number, <PyObject *>g)
        g = None
        roots = None
        run.run()
        while run.callbacks:
            pending = run.callbacks
            run.callbacks = None
            for callback in pending:
                callback()
    finally:
        fk_tls_set(keys)
        runs.remove(run)
    if not inputs or accumulate:
        return ()
    if not allow_unused:
        for i in range(len(inputs)):
            if run.captured[i] is None:
                raise said(RuntimeError, "[grad] inputs that the outputs depend on were required: One of the differentiated Tensors "
                                   "appears to not have been used in the graph. Set allow_unused=True if this is the desired "
                                   "behavior.: the differentiated Tensor at index %d\nhint: materialize_grads=True gives zeros for it" % i)
    return tuple(run.captured)


cdef int warn_of_cycle() except -1:
    import warnings
    warnings.warn("[backward] Using backward() with create_graph=True will create a reference cycle between the parameter and its "
                  "gradient which can cause a memory leak.\nhint: autograd.grad() makes gradients without it, or set .grad to None "
                  "after use", UserWarning, stacklevel=2)
    return 0


RUNS = thread_local()      # `stack`: this thread's backward runs under way, the innermost last


cdef list runs_here():
    try:
        return <list>RUNS.stack
    except AttributeError:
        RUNS.stack = []
        return <list>RUNS.stack


def reaches_others(tuple tensors, tuple own):
    """Whether the history of `tensors` leads to a leaf that is none of `own`."""
    cdef set seen = set()
    cdef list stack = []
    cdef Node n
    cdef set leaves = {<uintptr_t><PyObject *>t for t in own}
    for t in tensors:
        if (<Tensor>t).keys & K_GRAD:
            n = edge(<Tensor>t)
            if n is not None: stack.append(n)
    while stack:
        n = stack.pop()
        key = <uintptr_t><PyObject *>n
        if key in seen:
            continue
        seen.add(key)
        if n.var is not None:
            if <uintptr_t><PyObject *>n.var not in leaves:
                return True
            continue
        for target, number in edges_of(n):
            if target is not None:
                stack.append(target)
    return False


def queue_callback(callback):
    """Run `callback` at the end of the backward run under way."""
    cdef Run run
    cdef list runs = runs_here()
    if not runs:
        raise said(RuntimeError, "[queue_callback] a backward run under way was required: got none\nhint: call it from a hook")
    run = runs[len(runs) - 1]
    if run.callbacks is None:
        run.callbacks = []
    run.callbacks.append(callback)


def current_graph_task_id():
    """The number of this thread's backward run under way, -1 outside."""
    cdef list runs = runs_here()
    return (<Run>runs[len(runs) - 1]).task if runs else -1
