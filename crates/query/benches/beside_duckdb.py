"""Asks the same five questions of a trace by `quipu sql`, of its Parquet files by `quipu sql`, and of the files by DuckDB.

    target/python/bin/python crates/query/benches/beside_duckdb.py QUIPU TRACE FOLDER.parquet

QUIPU is a release build with the engine for SQL, FOLDER.parquet what it made of TRACE by `convert`. The three take turns,
each question in a process of its own, start included, on all processors. Prints the least time of five rounds in seconds,
with the peak memory of that program, and whether the three answers are equal.
"""

import csv
import io
import json
import os
import subprocess
import sys
import time

ROUNDS = 5
# Written for `quipu sql`; the table is the lens, or its files.
QUESTIONS = [
    ("count", "SELECT count(*) AS n FROM {t}"),
    ("addresses between", "SELECT count(*) AS n FROM {t} WHERE addr BETWEEN {low} AND {high}"),
    ("sum by kind", "SELECT kind, count(*) AS n, sum(size) AS bytes FROM {t} GROUP BY kind ORDER BY n DESC"),
    ("group by address", "SELECT count(*) AS n, max(m) AS most FROM (SELECT addr, count(*) AS m FROM {t} GROUP BY addr)"),
    ("range in the middle", "SELECT count(*) AS n, sum(size) AS bytes FROM {t} WHERE record BETWEEN {first} AND {last}"),
]
DUCKDB = (
    "import duckdb, json, sys; duckdb.sql('SET enable_progress_bar = false');"
    "print(json.dumps([[str(v) for v in row] for row in duckdb.sql(sys.argv[1]).fetchall()]))"
)


def run(command: list[str]) -> tuple[float, float, str]:
    """Returns the wall time in seconds, the peak memory in MB and the output of a program."""
    begun = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert child.stdout is not None
    out = child.stdout.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    took = time.monotonic() - begun
    if status != 0:
        raise SystemExit(f"{command} failed: {status}")
    return took, usage.ru_maxrss / 1000, out


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))[1:]


def main() -> None:
    program, trace, folder = sys.argv[1:]
    ask = [program, "sql", "--as", "csv", "-q"]
    of_trace = "SELECT min(addr), max(addr), max(record) FROM accesses"
    low, high, last = (int(value) for value in rows(run([*ask, of_trace, f"t={trace}"])[2])[0])
    limits = {
        "low": low + (high - low) // 4,
        "high": low + (high - low) // 4 * 3,
        "first": last // 2,
        "last": last // 2 + 100_000,
    }
    for name, question in QUESTIONS:
        asked = question.format(t="accesses", **limits)
        files = f"read_parquet('{folder}/lens.accesses/*.parquet')"
        commands = {
            "trace": [*ask, asked, f"t={trace}"],
            "parquet": [*ask, asked, f"t={folder}"],
            "duckdb": [sys.executable, "-c", DUCKDB, question.format(t=files, **limits)],
        }
        best: dict[str, tuple[float, float]] = {}
        answers = {}
        for _ in range(ROUNDS):
            for who, command in commands.items():
                took, peak, out = run(command)
                answers[who] = json.loads(out) if who == "duckdb" else rows(out)
                best[who] = min(best.get(who, (took, peak)), (took, peak))
        equal = answers["trace"] == answers["parquet"] == answers["duckdb"]
        figures = ", ".join(f"{who} {took:.2f} s {peak:.0f} MB" for who, (took, peak) in best.items())
        print(f"{name}: {figures}; {'equal' if equal else f'DIFFERENT: {answers}'}", flush=True)


main()
