#!/usr/bin/env bash
# Times the original's simulator in Java next to ours, on the same trace and caches; both write their events and logs.
#
# usage: crates/sim/benches/original-simulator.sh [COPIES]
#
# The trace is a sample of 2884 records, COPIES times (500 unless said): a trace has no header, so files can be put together.
# CACHERAY_SIMULATOR is the original: its jar, or the script that starts it. Without it, only ours is timed.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

copies=${1:-500}
samples=traces/cacheray
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

for ((i = 0; i < copies; i++)); do cat "$samples/reorder-bad.trace"; done >"$folder/t.trace"
records=$((copies * 2884))
config=$PWD/$samples/configs/two-level.json
types=$PWD/$samples/types/reorder.dwarf.json

# Runs a command in a folder of its own and says how many records a second that is.
timed() {
    local name=$1 start end
    shift
    mkdir "$folder/$name"
    start=$(date +%s%N)
    # The original makes the names of its files out of the trace's, which so has to be without folders.
    ln -s ../t.trace "$folder/$name/t.trace"
    (cd "$folder/$name" && "$@" -i t.trace -c "$config" -d "$types" -t >out.txt)
    end=$(date +%s%N)
    printf '%-10s %6d ms  %8.2f M records/s\n' "$name" $(((end - start) / 1000000)) \
        "$(awk "BEGIN { print $records * 1000 / ($end - $start) }")"
}

cargo build --quiet --release -p quipu-cli
timed quipu "${CARGO_TARGET_DIR:-$PWD/target}/release/quipu" as cacheray simulator
case ${CACHERAY_SIMULATOR:-} in
'') echo "the original is passed over: set CACHERAY_SIMULATOR to its jar or start script" ;;
*.jar) timed original java -jar "$(realpath "$CACHERAY_SIMULATOR")" ;;
*) timed original "$(realpath "$CACHERAY_SIMULATOR")" ;;
esac
