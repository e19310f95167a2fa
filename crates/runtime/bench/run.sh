#!/usr/bin/env bash
# What recording costs programs that were compiled with instrumentation: nanoseconds of the thread's own processor time for each
# access, the least of all rounds, as a table. CC names the compiler, ROUNDS how often the whole is repeated.
#
# "live" runs the recorded program under `quipu run` with a counting hook, on the wall clock: while the program waits for the hook, its
# processor has nothing to do. "alone, wall" is its share for comparison. Two cores should be idle.
#
# "empty" is the same object with functions that return at once in place of the runtime. CACHERAY_RUNTIME may name a static library of
# the original runtime, which is measured too, then.

set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
cc=${CC:-gcc}
rounds=${ROUNDS:-3}

(cd "$root" && cargo build --release --quiet --locked -p quipu-rt -p quipu-cli)
library=${CARGO_TARGET_DIR:-$root/target}/release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

flags=()
if "$cc" --version | grep -q clang; then
    flags=(-mllvm -tsan-instrument-read-before-write=1)
fi
"$cc" -O1 -fsanitize=thread "${flags[@]}" -c "$here/programs.c" -o programs.o
"$cc" -O1 -c "$here/empty.c" -o empty.o
"$cc" -O1 -shared -fPIC "$here/empty.c" -o libempty.so
"$cc" -O1 "$here/programs.c" -o alone
"$cc" programs.o -L. -lempty -Wl,-rpath,"$work" -o empty
"$cc" programs.o -L"$library" -lquipu_rt -Wl,-rpath,"$library" -o recorded
"$cc" programs.o empty.o -o empty-static
"$cc" programs.o "$library/libquipu_rt.a" -ldl -lpthread -o recorded-static
ways=(alone empty recorded empty-static recorded-static)
if "$cc" -fsanitize=thread programs.o -o detector 2>/dev/null; then
    ways+=(detector)
fi
ways+=(alone-wall live)
if [ -n "${CACHERAY_RUNTIME:-}" ]; then
    "$cc" programs.o "$CACHERAY_RUNTIME" -lpthread -o original
    ways+=(original)
fi

# The least of all rounds of one way to run one program; rounds of all ways take turns, for other work on the machine disturbs them.
declare -A least bytes
for round in $(seq "$rounds"); do
    for program in product array scatter list; do
        for way in "${ways[@]}"; do
            n=5
            [ "$way" = original ] && n=1
            case $way in
                live) run=(env WALL=1 "$library/quipu" run --quiet --force --backend simplecount -o out.counts -- ./recorded) ;;
                alone-wall) run=(env WALL=1 ./alone) ;;
                *) run=(env QUIPU_OUT=out.quipu CACHERAY_OPTIONS=tracefile=out.trace "./$way") ;;
            esac
            read -r each n_accesses < <("${run[@]}" "$program" "$n")
            key=$program.$way
            if [ -z "${least[$key]:-}" ] || awk "BEGIN { exit !($each < ${least[$key]}) }"; then
                least[$key]=$each
            fi
            if [ "$way" = recorded ]; then
                bytes[$program]=$(awk "BEGIN { printf \"%.2f\", $(stat -c %s out.quipu) / $n_accesses }")
            fi
            rm -rf out.quipu out.trace out.counts
        done
    done
done

line="| program | bytes |"
rule="|---|---:|"
for way in "${ways[@]}"; do
    line="$line ${way/-/, } |"
    rule="$rule---:|"
done
echo "$line recorded / empty | static | live / alone |"
echo "$rule---:|---:|---:|"
for program in product array scatter list; do
    line="| $program | ${bytes[$program]} |"
    for way in "${ways[@]}"; do line="$line $(printf %.2f "${least[$program.$way]}") |"; done
    ratio=$(awk "BEGIN { printf \"%.2f\", ${least[$program.recorded]} / ${least[$program.empty]} }")
    static=$(awk "BEGIN { printf \"%.2f\", ${least[$program.recorded-static]} / ${least[$program.empty-static]} }")
    live=$(awk "BEGIN { printf \"%.1f\", ${least[$program.live]} / ${least[$program.alone-wall]} }")
    echo "$line $ratio | $static | $live |"
done
