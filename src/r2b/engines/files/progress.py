"""How far a pass over files is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PassProgress:
    """How far a pass over files is, reading or writing.

    ``rows`` are done so far, a ``share`` from 0 to 1 of the whole (by rows where their number is
    known, else by bytes read; None where neither tells), in so many ``seconds``. Of a write that
    goes on with one that was stopped, ``taken_over`` files were finished before, a share of
    ``before``.

    Examples
    --------
    >>> print(PassProgress(250_000, 0.25, 10.0))
    250,000 rows, 25 %, 30 s left
    >>> print(PassProgress(750_000, 0.75, 10.0, taken_over=5, before=0.5))
    750,000 rows, 75 %, 10 s left, 5 files taken over
    """

    rows: int
    share: float | None
    seconds: float
    taken_over: int = 0
    before: float = 0.0

    @property
    def seconds_left(self) -> float | None:
        """About as long it still takes."""
        return (
            self.seconds * (1.0 - self.share) / (self.share - self.before)
            if self.share and self.share > self.before
            else None
        )

    def __str__(self) -> str:
        left = "" if self.share is None else f", {self.share:.0%}".replace("%", " %")
        left += "" if self.seconds_left is None else f", {self.seconds_left:,.0f} s left"
        files = f"{self.taken_over:,} file{'' if self.taken_over == 1 else 's'}"
        return f"{self.rows:,} rows{left}" + (f", {files} taken over" if self.taken_over else "")
