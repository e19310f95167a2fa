"""What concerns the whole process: signals, threads, memory, files, the time that an import takes, hostile bytes."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
from conftest import CALLS, ROOT, SMALL, TRACES, TYPED

import quipu

LOOPS = """
import sys, time
import quipu
trace = quipu.open(sys.argv[1])
print("ready", flush=True)
try:
    while True:
        {work}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    "work",
    [
        "trace.reuse_distance()",
        "trace.table('accesses').count()",
        "trace.simulate('cache')",
        "trace.table('accesses', where='addr = 1').to_dicts()",
    ],
)
def test_an_interrupt_ends_work_at_once(work: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", LOOPS.format(work=work), str(SMALL)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    sent = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert out == "interrupted\n" and child.returncode == 0
    # The machine may be busy with other things.
    assert time.monotonic() - sent < 10


def test_an_interrupted_conversion_leaves_nothing(tmp_path: Path) -> None:
    work = f"trace.convert({str(tmp_path / 'out.zip')!r}, force=True)"
    child = subprocess.Popen(
        [sys.executable, "-c", LOOPS.format(work=work), str(SMALL)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "interrupted\n"
    left = [path.name for path in tmp_path.iterdir() if path.name != "out.zip"]
    assert left == []


def test_other_threads_run_while_a_trace_is_read(small: quipu.Trace) -> None:
    is_over, ticks = threading.Event(), 0

    def tick() -> None:
        nonlocal ticks
        while not is_over.is_set():
            ticks += 1
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    began = time.monotonic()
    while time.monotonic() - began < 1:
        small.reuse_distance(jobs=1)
    is_over.set()
    ticker.join()
    assert ticks > 50


def test_threads_share_a_trace_and_have_their_own(small: quipu.Trace) -> None:
    expected, failed = small.counts().value, []

    def work(trace: quipu.Trace) -> None:
        try:
            for _ in range(5):
                assert trace.counts(jobs=1).value == expected
                assert trace.simulate("tlb")["complete"]
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    own = quipu.open(SMALL)
    threads = [threading.Thread(target=work, args=(trace,)) for trace in (small, small, own)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


class Allocated(ctypes.Structure):
    """What the allocator of glibc says of all its arenas."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]


def in_use() -> int:
    """Bytes that are allocated: what is resident varies by tens of megabytes with what the allocator keeps."""
    told = ctypes.CDLL(None).mallinfo2
    told.restype = Allocated
    now = told()
    return int(now.uordblks + now.hblkhd)


def n_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_ten_thousand_opens_leak_nothing() -> None:
    paths = [SMALL, CALLS, TYPED, TRACES / "drmemtrace" / "allasm"]

    def opens(n: int) -> None:
        for at in range(n):
            with quipu.open(paths[at % len(paths)]) as trace:
                assert trace.format
                if at % 50 == 0:
                    next(iter(trace.table(next(iter(trace.lenses)), batch_rows=256)))

    opens(1000)
    gc.collect()
    files, memory = n_files(), in_use()
    opens(9000)
    gc.collect()
    assert n_files() <= files
    # A leak of 128 bytes each would be more.
    assert in_use() - memory < 1 << 20


def test_importing_takes_fifty_milliseconds() -> None:
    times = []
    for _ in range(7):
        code = "import time; t = time.process_time(); import quipu; print(time.process_time() - t)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        times.append(float(done.stdout))
    # Time of the processor: what else runs on the machine does not count.
    assert min(times) <= 0.05, statistics.median(times)


def test_importing_loads_no_other_library() -> None:
    code = "import quipu, sys; print(sorted({'numpy', 'pyarrow', 'pandas', 'polars', 'tqdm'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def hostile() -> list[Path]:
    """The corpus of the fuzz targets, and every damaged trace of the repository."""
    seeds = [path for path in (ROOT / "fuzz" / "seeds").rglob("*") if path.is_file()]
    damaged = [path for path in TRACES.rglob("*") if path.is_file() and "damaged" in path.parts]
    return sorted(seeds + damaged)


def test_hostile_bytes_raise_and_never_abort(tmp_path: Path) -> None:
    warnings.simplefilter("ignore", quipu.DamageWarning)
    paths = hostile()
    assert len(paths) > 10
    formats = ["drmemtrace", "apitrace", "cacheray", "lackey", "din", "dtrace", "prism", "stream"]
    n_opened = n_raised = 0
    for at, path in enumerate(paths):
        # As what it is, as what its folder says, and as something else.
        own = next((name for name in path.parts if name in formats), None)
        for format_name in {None, own, formats[at % len(formats)]}:
            try:
                with quipu.open(path, format=format_name) as trace:
                    n_opened += 1
                    sources = [*list(trace.tables)[:8], *(f"lens.{name}" for name in trace.lenses)]
                    for source in sources:
                        try:
                            trace.table(source, limit=10_000).count()
                        except quipu.Error:
                            n_raised += 1
                    trace.check()
                    trace.report(progress=False)
            except quipu.InternalError:
                raise
            except quipu.Error:
                n_raised += 1
    assert n_opened > 0 and n_raised > 0


@pytest.mark.parametrize("n_flips", [1, 16])
def test_flipped_bytes_raise_and_never_abort(n_flips: int, tmp_path: Path) -> None:
    import random

    warnings.simplefilter("ignore", quipu.DamageWarning)
    random.seed(n_flips)
    for sample in (CALLS, TYPED, TRACES / "prism" / "prodcons.prism", TRACES / "lackey" / "mixed.lackey"):
        whole = sample.read_bytes()
        for at in range(40):
            hurt = bytearray(whole)
            for _ in range(n_flips):
                hurt[random.randrange(len(hurt))] ^= 1 << random.randrange(8)
            path = tmp_path / f"{at}{sample.suffix}"
            path.write_bytes(hurt)
            try:
                with quipu.open(path) as trace:
                    for name in trace.lenses:
                        trace.lens(name, damaged="keep").count()
            except quipu.InternalError:
                raise
            except quipu.Error:
                pass


def test_the_command_line_is_reachable() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "quipu", "report", str(SMALL)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "Branches" in done.stdout
    done = subprocess.run([sys.executable, "-m", "quipu", "nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "nonsense" in done.stderr


def test_the_command_line_ends_as_a_program_does() -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "quipu", "view", str(SMALL)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.read(100)
    child.stdout.close()
    assert child.wait(timeout=60) == 0
