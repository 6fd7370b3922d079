"""``python -m r2b``: the command line."""

from __future__ import annotations

import sys

from r2b.cli import main

if __name__ == "__main__":
    sys.exit(main())
