# Compiled programs behind one call: recording off, the graph, its node on the tape, the results.
#
# Takes: the compiled functions of lists, and what `lower.aot.runtime` knows of the program. Gives: `GraphCall` (nothing is
# recorded), `TrainingCall` (one node on the tape), `ArgumentsCall` (a function of arguments instead of a list), `ApartCall`
# (a function of arguments that share no memory).
# Keeps true: the graphs run with recording off; a kept tensor that was written to since is an error; what is rare
# (cotangents of another layout, gradients of gradients, writes and views behind the graph) is Python, handed in.

cdef object run_graph(object compiled, list args):
    """Call what a compiler of graphs gave."""
    if type(compiled) is GraphLaunch:
        return (<GraphLaunch>compiled).launch(args)
    return compiled(args)


cdef object run_unrecorded(object compiled, list args):
    cdef uint32_t tls = fk_tls_keys()
    fk_tls_set(tls | K_NOGRAD)
    try:
        return run_graph(compiled, args)
    finally:
        fk_tls_set(tls)


cdef class GraphCall:
    """A program without a node: `call(inputs)`, a list that the graph may empty."""
    cdef readonly object compiled, finish

    def __cinit__(self, compiled, finish):
        self.compiled = compiled
        self.finish = finish

    @property
    def _boxed_call(self):
        """True: it takes a list of inputs."""
        return True

    cdef object run(self, list args):
        cdef list inputs
        if self.finish is None:
            return run_unrecorded(self.compiled, args)
        inputs = list(args)
        return self.finish(inputs, run_unrecorded(self.compiled, args))

    def __call__(self, list args not None):
        return self.run(args)


cdef class TrainingCall:
    """A program with a node: as `GraphCall`, with what is said of it in `lower.aot.runtime.Training`."""
    cdef readonly object forward, backward, finish, graph
    cdef object fit, once, partial
    cdef tuple wanted, flags, passed, shared, exposed, copied, cotangents, metas
    cdef Layout *layouts         # of the cotangents

    def __cinit__(self, program, layouts, finish, fit, once):
        """layouts: (shape, strides, dtype) of the cotangents; fit: (gradient, meta of the value) -> a cotangent as the
        graph expects it; once: gradients -> the same, not to be differentiated again."""
        cdef int i
        self.forward = program.forward; self.backward = program.backward
        self.finish = finish; self.fit = fit; self.once = once
        self.graph = program.graph; self.partial = program.partial
        self.wanted = tuple(program.wanted); self.flags = tuple(program.signature.differentiable)
        self.passed = tuple(program.passed); self.shared = tuple(program.shared)
        self.exposed = tuple(program.exposed); self.copied = tuple(program.copied)
        self.cotangents = tuple(program.cotangents)
        self.metas = tuple([program.metas[n] for n in self.cotangents])
        self.layouts = <Layout *>malloc((len(self.metas) + 1) * sizeof(Layout))
        for i, (shape, strides, dtype) in enumerate(layouts):
            read_layout(&self.layouts[i], shape, strides, dtype)

    def __dealloc__(self):
        free(self.layouts)

    @property
    def _boxed_call(self):
        """True: it takes a list of inputs."""
        return True

    cdef object run(self, list args):
        # a launch leaves the list as it is, other graphs may empty it
        cdef list inputs = args if type(self.forward) is GraphLaunch else list(args)
        cdef list found = list(run_unrecorded(self.forward, args))
        cdef list kept
        cdef int place, count = <int>len(self.flags)
        for place in self.passed:
            found[place] = plain_detach(found[place])
        kept = found[count:]
        for place in self.shared:
            kept[place] = plain_detach(kept[place])
        for place in self.copied:
            kept[place] = unrecorded_copy(kept[place])
        del found[count:]
        self.record(inputs, found, kept)
        return found if self.finish is None else self.finish(inputs, found)

    cdef int record(self, list inputs, list values, list kept) except -1:
        """Make one node the origin of the values."""
        global SEQUENCE
        cdef CompiledFunctionBackward node = CompiledFunctionBackward.__new__(CompiledFunctionBackward)
        cdef int i, number
        cdef Tensor t
        node.program = self
        node.kept = kept
        if self.exposed:
            node.versions = [version_of(<Tensor?>kept[i]) for i in self.exposed]
        node.nin = <int>len(self.wanted)
        node.nout = <int>len(values) if values else 1
        SEQUENCE += 1
        node.seq = SEQUENCE
        if ANOMALY[0]:
            anomaly_note(node)
        i = 0
        for number in self.wanted:
            t = <Tensor?>inputs[number]
            if t.keys & K_GRAD: add_edge(node, i, t)
            elif i >= 3: set_edge(node, i, None, 0)
            i += 1
        for i in range(len(values)):
            if self.flags[i]:
                attach(<Tensor?>values[i], node, i)
        return 0

    def __call__(self, list args not None):
        return self.run(args)


cdef object plain_detach(Tensor t):
    return t.detach() if t.keys & (K_SLOW | K_DISPATCH) else detach_(t)


cdef object unrecorded_copy(Tensor t):
    cdef uint32_t tls = fk_tls_keys()
    fk_tls_set(tls | K_NOGRAD)
    try:
        return t.clone()
    finally:
        fk_tls_set(tls)


cdef object version_of(Tensor t):
    check_savable(t)
    return t.st.version


cdef class CompiledFunctionBackward(Node):
    """The node of a compiled program."""
    cdef readonly TrainingCall program
    cdef list kept
    cdef list versions

    def name(self):
        """The node's name."""
        return "CompiledFunctionBackward"

    @property
    def saved_tensors(self):
        """The tensors that the backward graph reads."""
        return tuple([t for t in self.kept or () if isinstance(t, Tensor)])

    def apply(self, *grads):
        """The gradients of the inputs."""
        return tuple(self.gradients(list(grads)))

    def release_variables(self):
        """Drop what was kept."""
        self.kept = None

    cdef list gradients(self, list grads, bint retain=True):
        """`retain`: whether what was kept is needed once more; else the graph drops each tensor after its last use."""
        cdef TrainingCall program = self.program
        cdef list args
        cdef int i, number
        cdef bint missing = False
        cdef uint32_t tls = fk_tls_keys()
        if self.kept is None:
            raise_freed(self)
        for i in range(len(program.exposed)):
            check_version(<Tensor>self.kept[program.exposed[i]], self.versions[i], self)
        args = list(self.kept)
        for i in range(len(program.cotangents)):
            number = program.cotangents[i]
            if grads[number] is None: missing = True
            else: args.append(cotangent(program, i, grads[number]))
        graph, compiled = program.graph, program.backward
        if missing:
            graph, compiled = program.partial(tuple([grads[number] is not None for number in program.cotangents]))
        if tls & K_NOGRAD:
            if not self.node_hooks:
                del grads[:]
            if tls & K_DISPATCH and graph is not None:
                return list(graph(*args))      # a trace of the backward run: its operators, not its kernels
            if not retain:
                self.kept = None
            return list(run_unrecorded(compiled, args))
        return self.watched(args, run_unrecorded(compiled, list(args)))

    cdef list watched(self, list args, object found):
        """Gradients that raise when they are differentiated: by the node's inputs, or by what it read."""
        cdef list made = list(self.program.once(found))
        cdef Node second
        cdef int i
        for t in made:
            if t is not None and (<Tensor>t).fn_ is not None:
                second = (<Tensor>t).fn_
                for i, (target, number) in enumerate(edges_of(self)):
                    set_edge(second, i, <Node>target, number)
                second.nin = self.nin
                for x in args:
                    if isinstance(x, Tensor) and (<Tensor>x).keys & K_GRAD:
                        add_edge(second, second.nin, <Tensor>x)
                        second.nin += 1
                break
        return made


cdef object cotangent(TrainingCall program, int number, object grad):
    """A gradient in the layout that the backward graph was made for."""
    cdef Layout *layout = &program.layouts[number]
    cdef Tensor t
    cdef int i
    if grad is not None:
        t = grad
        if t.dt == layout.dt and t.nd == layout.nd:
            for i in range(t.nd):
                if t.sd[i] != layout.sd[i] or t.sh[i] != layout.sh[i]:
                    break
            else:
                return t
    return program.fit(grad, program.metas[number])


cdef class ArgumentsCall:
    """A function of arguments that calls a function of their list; gives a tuple, or the only result."""
    cdef readonly object program
    cdef bint single

    def __cinit__(self, program, bint single):
        self.program = program
        self.single = single

    cdef object values_of(self, list given):
        """All results for a list of arguments, which may be emptied."""
        if type(self.program) is TrainingCall: return (<TrainingCall>self.program).run(given)
        if type(self.program) is GraphCall: return (<GraphCall>self.program).run(given)
        return self.program(given)

    def __call__(self, *args):
        cdef list given = list(args)
        args = ()
        found = self.values_of(given)
        if self.single:
            return found[0]
        return found if type(found) is tuple else tuple(found)


cdef bint lie_apart(list given) except -1:
    """Whether no two tensors in a list are on one memory."""
    cdef Py_ssize_t count = len(given), i, j
    cdef fk_storage *few[16]
    cdef fk_storage *own
    cdef Py_ssize_t found = 0
    if count > 16:
        keys = [<uintptr_t>(<Tensor>x).st for x in given if isinstance(x, Tensor)]
        return len(set(keys)) == len(keys)
    for i in range(count):
        if not isinstance(given[i], Tensor):
            continue
        own = (<Tensor>given[i]).st
        for j in range(found):
            if few[j] == own:
                return False
        few[found] = own
        found += 1
    return True


cdef class ApartCall:
    """A function that writes to its arguments: `program` where no two tensors among these share memory, else `otherwise`."""
    cdef readonly object program, otherwise

    def __cinit__(self, program, otherwise):
        self.program = program
        self.otherwise = otherwise

    cdef object values_of(self, list given):
        """All results for a list of arguments, which may be emptied."""
        if not lie_apart(given): return self.otherwise(*given)
        if type(self.program) is ArgumentsCall: return (<ArgumentsCall>self.program).values_of(given)
        return self.program(*given)

    def __call__(self, *args):
        if lie_apart(list(args)):
            return self.program(*args)
        return self.otherwise(*args)
