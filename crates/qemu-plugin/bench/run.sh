#!/usr/bin/env bash
# What recording under the emulator costs: the program alone, the emulator alone, with a plugin that does nothing, and
# recorded. Wall time and processor time in seconds, the least of ROUNDS (5) rounds; millions of instructions a second.
#
# Needs gcc and qemu-user. QUIPU names the program, else ./dev builds one: a release build.

set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
quipu=${QUIPU:-}
if [ -z "$quipu" ]; then
    "$here/../../../dev" quipu record --list >&2
    quipu=${CARGO_TARGET_DIR:-$here/../../../target}/release/quipu
fi
quipu=$(realpath "$quipu")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
gcc -O2 -shared -fPIC -o empty.so "$here/empty.c"
emulator=qemu-$(uname -m)

# least COMMAND…: the least wall time and the least processor time.
least() {
    local TIMEFORMAT='%R %U %S' i
    for ((i = 0; i < ${ROUNDS:-5}; i++)); do
        { time "$@" >/dev/null 2>said; } 2>&1
    done | awk '{ cpu = $2 + $3 }
        NR == 1 || $1 < wall { wall = $1 }
        NR == 1 || cpu < least { least = cpu }
        END { printf "%.3f %.3f\n", wall, least }'
}

row() {
    local name=$1 instrs=$2 wall cpu
    shift 2
    read -r wall cpu < <(least "$@")
    printf '%-28s %8s s %8s s %8.1f M/s\n' "$name" "$wall" "$cpu" "$(awk "BEGIN { print $instrs / $wall / 1e6 }")"
}

for source in array table; do
    gcc -O1 -o "$source" "$here/$source.c"
    "$quipu" record --force -o trace --max-size 4G -- "./$source" >/dev/null 2>said
    instrs=$(sed -n 's/^recorded: \([0-9,]*\) instructions.*/\1/p' said | tr -d ,)
    size=$(du -sm trace | cut -f 1)
    echo "$source: $instrs instructions, $size MiB as zip (wall time, processor time, instructions)"
    row "  alone" "$instrs" "./$source"
    row "  emulator" "$instrs" "$emulator" "./$source"
    row "  emulator, empty plugin" "$instrs" "$emulator" -plugin ./empty.so "./$source"
    for container in zip lz4; do
        row "  recorded, $container" "$instrs" \
            "$quipu" record -q --force --container "$container" -o trace -- "./$source"
    done
done
