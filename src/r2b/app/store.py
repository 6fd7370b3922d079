"""The tables that are open: in memory, each under an id of its own that nobody can guess, a bounded number of them."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from threading import Lock

from r2b.app.workspace import Workspace
from r2b.engines.files import FileSource
from r2b.errors import InputError


class ClosedError(InputError):
    """A table is not open, or not any more."""


class Store:
    r"""Open tables by id; opening one more than fit closes the one that was left alone longest.

    Parameters
    ----------
    most : int

    Examples
    --------
    >>> from r2b.app.uploads import read_upload
    >>> store = Store(most=1)
    >>> first, second = (store.add(read_upload("x.csv", b"a,b\n1,2\n", 100)) for _ in range(2))
    >>> len(store), store.get(second.id) is second
    (1, True)
    """

    def __init__(self, most: int = 6) -> None:
        self.most = most
        self._open: OrderedDict[str, Workspace] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, table: FileSource, source: str = "file") -> Workspace:
        """Open a table."""
        workspace = Workspace(secrets.token_urlsafe(12), table, source)
        with self._lock:
            self._open[workspace.id] = workspace
            while len(self._open) > self.most:
                self._open.popitem(last=False)[1].closed.set()
        return workspace

    def get(self, name: str) -> Workspace:
        """Give a table that is open.

        Raises
        ------
        ClosedError
            It is not.
        """
        with self._lock:
            if name not in self._open:
                raise ClosedError(
                    "This table is not open any more.",
                    remedy=f"Open the file again. The app keeps the last {self.most} tables, and none after it stops.",
                )
            self._open.move_to_end(name)
            return self._open[name]

    def close(self, name: str) -> None:
        """Forget a table, and stop what is solved for it."""
        with self._lock:
            gone = self._open.pop(name, None)
        if gone is not None:
            gone.closed.set()

    def close_all(self) -> None:
        """Forget all tables."""
        for name in list(self._open):
            self.close(name)
