"""Analyses written in Python: forked for each part of a trace, fed batches, merged in the trace's order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from ._rows import Batch
    from ._trace import Trace

R = TypeVar("R")


class Pass(Generic[R]):
    """An analysis of your own.

    `fork` gives an empty one for each shard, `consume` takes its batches in order, `merge` adds what another one saw that
    read what comes right after, `finish` gives the result. So an answer never depends on the number of threads. Shards
    are read side by side; what NumPy computes over a batch is computed side by side, too.
    """

    table: str = "accesses"
    """The table or lens whose rows it takes."""
    columns: list[str] | None = None
    """The columns that it looks at; all if `None`."""

    def fork(self, shard: int) -> Pass[R]:
        """An empty pass for a shard, the same sort with the same options."""
        raise NotImplementedError

    def consume(self, batch: Batch) -> None:
        """Takes a batch in."""
        raise NotImplementedError

    def merge(self, later: Any) -> None:
        """Adds what a pass saw that read the rows right after."""
        raise NotImplementedError

    def finish(self) -> R:
        """The result."""
        raise NotImplementedError


def run_pass(trace: Trace, analysis: Pass[R], jobs: int, **selection: Any) -> R:
    """Runs a pass over all shards of a trace."""
    from concurrent.futures import ThreadPoolExecutor

    n_shards = len(trace.info["shards"])
    selection.setdefault("columns", analysis.columns)

    def part(shard: int) -> Pass[R]:
        own = analysis.fork(shard)
        rows = trace.table(analysis.table, shards=[shard], jobs=1, **selection)
        for batch in rows.batches(progress=False):
            own.consume(batch)
        return own

    workers = min(jobs or os.cpu_count() or 1, n_shards)
    with ThreadPoolExecutor(max_workers=max(workers, 1)) as pool:
        parts = [pool.submit(part, shard) for shard in range(n_shards)]
        try:
            whole = parts[0].result() if parts else analysis.fork(0)
            for later in parts[1:]:
                whole.merge(later.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return whole.finish()
