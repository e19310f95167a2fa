"""Hooks of Prism in Python: what is called for each workload event of a trace."""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple, Union

At = Tuple[Union[int, None], int, Union[int, None]]
"""Where an event stands: its thread if a swap said which, its ordinal in the stream from 0, its clock reading if there
is one."""

Method = Optional[Callable[..., Any]]


class Hooks:
    """What takes workload events. Leave out the methods that you do not need: those that stay `None` cost nothing.

    A call for each event costs about a microsecond. `on_batch` gets the accesses of some thousand events at once, as
    bytes that `numpy.frombuffer` sees as columns.
    """

    on_start: Method = None
    """`on_start()` is called once, before the first event."""
    on_memory: Method = None
    """`on_memory(at, what, address, size)`: a load or store; `what` is `"load"`, `"store"` or `None`."""
    on_compute: Method = None
    """`on_compute(at, format, operation, width, arguments)`: numbers as docs/formats/prism.md lists them, or `None`."""
    on_sync: Method = None
    """`on_sync(at, kind, data, second)`: a call of a thread library, or a swap."""
    on_context: Method = None
    """`on_context(at, kind, place)`: the border of an instruction, block, function or thread: an address or a name."""
    on_control_flow: Method = None
    """`on_control_flow(at, kind, taken, target, indirect)`: a jump, branch, call or return."""
    on_config: Method = None
    """`on_config(at, kind, fields)`: a change of the level of detail."""
    on_batch: Method = None
    """`on_batch((thread, first), stores, addresses, sizes)`: the accesses of a batch, as bytes of `uint8`, `uint64` and
    `uint16`."""
    on_finish: Method = None
    """`on_finish()` is called once, after the last event."""
