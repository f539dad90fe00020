"""The cheapest cut through a network.

Takes edges with capacities between numbered nodes.  Gives the flow and the side of each node
[Dinic 1970].
Keeps true: capacities are numbers or infinity; of all cheapest cuts it is the one next to the sink: the
nodes on the far side are exactly those that still reach the sink when no more can flow.
"""

from __future__ import annotations

from collections import deque

INFINITY = float("inf")


class Network:
    """Nodes `0 .. size - 1` with directed edges."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.heads: list[list[int]] = [[] for _ in range(size)]
        self.target: list[int] = []
        self.capacity: list[float] = []

    def edge(self, start: int, end: int, capacity: float) -> None:
        """An edge; its reverse, of capacity 0, has the next number."""
        self.heads[start].append(len(self.target))
        self.target.append(end)
        self.capacity.append(capacity)
        self.heads[end].append(len(self.target))
        self.target.append(start)
        self.capacity.append(0.0)

    def _levels(self, source: int) -> list[int]:
        levels = [-1] * self.size
        levels[source] = 0
        pending = deque([source])
        while pending:
            node = pending.popleft()
            for number in self.heads[node]:
                end = self.target[number]
                if self.capacity[number] > 0 and levels[end] < 0:
                    levels[end] = levels[node] + 1
                    pending.append(end)
        return levels

    def _before(self, sink: int) -> list[bool]:
        """For each node whether the sink is out of its reach."""
        before = [True] * self.size
        before[sink] = False
        pending = [sink]
        while pending:
            for number in self.heads[pending.pop()]:
                start = self.target[number]
                if before[start] and self.capacity[number ^ 1] > 0:
                    before[start] = False
                    pending.append(start)
        return before

    def _augment(self, source: int, sink: int, levels: list[int], at: list[int]) -> float:
        """Send along one path of the level graph; gives how much, 0 where there is no path."""
        path: list[int] = []
        node = source
        while node != sink:
            while at[node] < len(self.heads[node]):
                number = self.heads[node][at[node]]
                end = self.target[number]
                if self.capacity[number] > 0 and levels[end] == levels[node] + 1:
                    break
                at[node] += 1
            else:
                if not path:
                    return 0.0
                number = path.pop()
                node = self.target[number ^ 1]
                at[node] += 1
                continue
            path.append(number)
            node = end
        amount = min(self.capacity[number] for number in path)
        for number in path:
            self.capacity[number] -= amount
            self.capacity[number ^ 1] += amount
        return amount

    def cut(self, source: int, sink: int) -> tuple[float, list[bool]]:
        """The capacity of the cheapest cut, and for each node whether it is on the source's side.

        Raises:
            ValueError: source and sink are joined by edges without a limit.
        """
        total = 0.0
        while True:
            levels = self._levels(source)
            if levels[sink] < 0:
                return total, self._before(sink)
            at = [0] * self.size
            while True:
                sent = self._augment(source, sink, levels, at)
                if not sent:
                    break
                if sent == INFINITY:
                    raise ValueError("[cut] a path with a limit was required from source to sink")
                total += sent
