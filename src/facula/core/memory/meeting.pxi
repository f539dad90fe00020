# Processes that wait for each other in memory that all of them map.
#
# Takes: zeroed `SharedMemory`, this process's number, and how many there are. Gives: `Meeting`.
# Keeps true: the GIL is free while a process waits.

cdef extern from "fk_meeting.h" nogil:
    ctypedef struct fk_meeting_line:
        pass
    void fk_meeting_arrive(fk_meeting_line *, int, int, int64_t)
    int fk_meeting_behind(fk_meeting_line *, int, int64_t)
    int fk_meeting_wait(fk_meeting_line *, int, int64_t, int64_t, int)


cdef class Meeting:
    """Some processes, each of which counts its steps where the others see it."""
    cdef SharedMemory memory        # keeps the lines mapped
    cdef fk_meeting_line *lines
    cdef readonly int rank, size
    cdef readonly int64_t step
    cdef int64_t waited             # the last step that was waited for

    def __cinit__(self, SharedMemory memory, int rank, int size):
        if not 0 <= rank < size or memory.nbytes < 64 * (<int64_t>size + 1) or memory.skip % 64:
            raise said(ValueError, "[Meeting] a rank below the number of processes, and a line of memory for each and for all were required: got rank %d of %d, %d bytes" % (rank, size, memory.nbytes) + "\nhint: reserve 64 bytes for each process, and 64 for all")
        self.memory = memory
        self.lines = <fk_meeting_line *>(memory.start + memory.skip)
        self.rank = rank
        self.size = size

    def arrive(self):
        """Say that this process is a step further."""
        self.step += 1
        fk_meeting_arrive(self.lines, self.size, self.rank, self.step)

    def wait(self, double seconds):
        """Wait for the others, at most this long; gives whether they came."""
        cdef int came
        cdef int64_t limit = <int64_t>(min(max(seconds, 0.0), 1e6) * 1e9)
        if fk_meeting_behind(self.lines, self.size, self.step) < 0:
            return True
        with nogil:
            came = fk_meeting_wait(self.lines, self.size, self.step, limit, self.waited == self.step)
        self.waited = self.step
        return bool(came)

    def behind(self):
        """The numbers of those that are not as far as this process."""
        cdef int i
        cdef list found = []
        for i in range(self.size):
            if fk_meeting_behind(self.lines + i, 1, self.step) >= 0: found.append(i)
        return found
