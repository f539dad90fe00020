"""The state of a rendezvous: who takes part in which round, and who waits.

Takes and gives JSON texts. Gives: `State` and what may happen to it.
Keeps true: a round that is complete does not change, but for machines that leave it; when all have left, the
next begins; what is no state is told.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from facula.core.errors import fail
from facula.distributed.elastic.rendezvous.api import RendezvousStateError


@dataclass
class State:
    """Who takes part. Machines are named by texts that sort."""

    round: int = 0
    complete: bool = False
    closed: bool = False
    #: by name, the number in a complete round (before: -1)
    participants: dict[str, int] = field(default_factory=dict)
    #: machines whose coming restarts the workers
    waiting: list[str] = field(default_factory=list)
    #: signs of life that each machine has given
    beats: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, data: bytes) -> State:
        """A state that a machine wrote."""
        try:
            found = cls(**json.loads(data.decode()))
            found.check()
        except (ValueError, TypeError, RecursionError) as error:
            raise RendezvousStateError(
                f"the state of the rendezvous is malformed: {error}"
            ) from error
        return found

    def check(self) -> None:
        """Raise ValueError unless this is a state."""
        numbers = [*self.participants.values(), *self.beats.values(), self.round]
        texts = [*self.participants, *self.beats, *self.waiting]
        if not all(type(n) is int for n in numbers) or not all(isinstance(t, str) for t in texts):
            fail(ValueError, "rendezvous", "names as texts, and whole numbers, were required", self,
                 hint="let agents of this version of facula alone use this name of a job")  # fmt: skip

    def written(self) -> bytes:
        """The state as bytes."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    def beat(self, node: str) -> None:
        """A machine lives."""
        self.beats[node] = self.beats.get(node, 0) + 1

    def leave(self, node: str) -> None:
        """A machine takes no part any more."""
        self.beats.pop(node, None)
        self.waiting = [one for one in self.waiting if one != node]
        if self.participants.pop(node, None) is not None and self.complete:
            self._begin_again()

    def _begin_again(self) -> None:
        if not self.participants:
            self.complete = False
            self.round += 1

    def join(self, node: str, most: int) -> None:
        """A machine wants to take part: in this round if it can, else in the next."""
        if node in self.participants or len(self.participants) >= most:
            return
        if self.complete:
            if node not in self.waiting:
                self.waiting.append(node)
            return
        self.participants[node] = -1
        self.waiting = [one for one in self.waiting if one != node]

    def finish(self) -> None:
        """This round has all who take part: they get numbers."""
        self.complete = True
        self.participants = {node: n for n, node in enumerate(sorted(self.participants))}
