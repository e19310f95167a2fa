"""What batches of a lens cost in Python, against the same loop in Rust, by processor time.

    python python/benches/batches.py TRACE [READS]
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Callable

import quipu

COLUMNS: list[list[str] | None] = [["addr"], ["addr", "size"], ["addr", "size", "kind"], None]


def cost(read: Callable[[], int]) -> float:
    begun = time.process_time()
    read()
    return time.process_time() - begun


def main(path: str, n_reads: int) -> None:
    trace = quipu.open(path)
    for columns in COLUMNS:

        def rows() -> quipu.Rows:
            return trace.lens("accesses", columns=columns, jobs=1)

        def in_python() -> int:
            return sum(len(batch) for batch in rows())

        def in_rust() -> int:
            return rows().count()

        n_rows = in_python()
        assert n_rows == in_rust() > 0
        # In turn, so that both meet the same machine.
        pairs = [(cost(in_python), cost(in_rust)) for _ in range(n_reads)]
        own, other = (statistics.median(times) for times in zip(*pairs))
        print(f"{', '.join(columns or ['all columns'])}: {n_rows} rows, {own / other - 1:+.1%}")


main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60)
