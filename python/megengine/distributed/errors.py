"""What is raised when a job cannot go on."""

from __future__ import annotations

__all__ = ["RankError"]


class RankError(RuntimeError):
    """A process of the job failed: it raised, died, or was not heard of any more.

    Attributes:
        rank: its number; -1 where nobody knows.
    """

    def __init__(self, message: str, rank: int = -1):
        super().__init__(message)
        self.rank = rank

    def __reduce__(self) -> tuple[type[RankError], tuple[str, int]]:
        return type(self), (str(self), self.rank)
