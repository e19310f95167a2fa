"""The command line: `python -m quipu report TRACE` is `quipu report TRACE`."""

from __future__ import annotations

import os
import sys

from . import _native


def main() -> int:
    """Runs the command line with the arguments of this process; its exit code."""
    return _native.main([os.fsencode(word) for word in sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
