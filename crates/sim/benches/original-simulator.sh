#!/usr/bin/env bash
# Times the original's simulator in Java next to ours, on the same trace and caches; both write their events and logs.
#
# usage: crates/sim/benches/original-simulator.sh [COPIES]
#
# The trace is a sample of 2884 records, COPIES times (500 unless said): a trace has no header, so files can be put together.
# CACHERAY_SIMULATOR is the original: its jar, or the script that starts it. Without it, only ours is timed. With it, the
# events, the log and the sorted lines of the tables are compared, too.
# QUIPU is ours; it is built unless said.

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

fail() {
    echo "$*" >&2
    exit 2
}

original=()
case ${CACHERAY_SIMULATOR:-} in
'') ;;
*.jar)
    [[ -f $CACHERAY_SIMULATOR ]] || fail "CACHERAY_SIMULATOR: there is no jar $CACHERAY_SIMULATOR"
    command -v java >/dev/null || fail "there is no java to run $CACHERAY_SIMULATOR with; Debian has default-jre-headless"
    original=(java -jar "$(realpath "$CACHERAY_SIMULATOR")")
    ;;
*)
    [[ -f $CACHERAY_SIMULATOR && -x $CACHERAY_SIMULATOR ]] ||
        fail "CACHERAY_SIMULATOR: there is no start script $CACHERAY_SIMULATOR that can be executed"
    original=("$(realpath "$CACHERAY_SIMULATOR")")
    ;;
esac

if [[ -z ${QUIPU:-} ]]; then
    cargo build --quiet --release -p quipu-cli
    QUIPU=${CARGO_TARGET_DIR:-$PWD/target}/release/quipu
fi
timed quipu "$(realpath "$QUIPU")" as cacheray simulator
if [[ ${#original[@]} -eq 0 ]]; then
    echo "the original is passed over: it is not in this repository; set CACHERAY_SIMULATOR to its jar, or to a script"
    echo "that starts it (sim/simulator_java of https://github.com/cacheray/cacheray, which Maven builds)"
    exit
fi
timed original "${original[@]}"

# Compares what both wrote; structures come in no order in the original's tables.
same() {
    if cmp -s "$2" "$3"; then echo "$1: the same"; else echo "$1: DIFFERENT" && differ=1; fi
}
differ=0
for name in quipu original; do
    cp "$folder/$name"/*.SimulationOutput.* "$folder/$name.events"
    sort "$folder/$name/out.txt" >"$folder/$name.tables"
done
same events "$folder"/{quipu,original}.events
same log "$folder"/{quipu,original}/traceLog.txt
same tables "$folder"/{quipu,original}.tables
exit "$differ"
