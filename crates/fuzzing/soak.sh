#!/usr/bin/env bash
# All that takes longer than a change may wait for: every fuzz target, the damage suite with all checks, the runtime under sanitizers,
# long recordings. `./dev soak` calls this.
#
# What was done stands in target/soak, a line for each run, so that `--resume` goes on with what still lacks time. The last lines are a
# table of all targets, as docs/fuzzing.md shows it.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
    cat <<'TEXT'
usage: ./dev soak [SECONDS] [--resume] [--only STEP]… [TARGET…]

  SECONDS    how long each fuzz target runs, 600 if not said
  --resume   keep what earlier runs did, and do what is missing
  --only     fuzz, damage, runtime or recording; all of them if not said
  TARGET     fuzz these targets only
environment: SOAK_LANES, how many targets run side by side (2)
             SOAK_SANITIZER, what the fuzz programs are built with: address, or none (about twice as fast)
             SOAK_PROGRAMS, a folder of fuzz programs that were built before
TEXT
}

say() { printf '%s\n' "$*" >&2; }

seconds=600
resume=
only=()
targets=()
while [ $# -gt 0 ]; do
    case $1 in
        --resume) resume=yes ;;
        --only) only+=("${2:?--only wants a step}"); shift ;;
        -h | --help) usage; exit 0 ;;
        [0-9]*) seconds=$1 ;;
        -*) usage >&2; exit 2 ;;
        *) targets+=("$1") ;;
    esac
    shift
done

state=${CARGO_TARGET_DIR:-target}/soak
[ -n "$resume" ] || rm -rf "$state"
mkdir -p "$state"
[ "${#targets[@]}" -gt 0 ] || mapfile -t targets < <(cargo run --quiet -p xtask -- seeds --targets)
failed=()

wanted() { [ "${#only[@]}" = 0 ] || printf '%s\n' "${only[@]}" | grep -qx "$1"; }

# step NAME COMMAND…: runs a step unless it was done before; its output is kept.
step() {
    local name=$1 start=$SECONDS
    shift
    wanted "${name%% *}" || return 0
    if [ -e "$state/$name.done" ]; then
        say "==> $name: done before"
        return
    fi
    say "==> $name"
    if "$@" >"$state/$name.log" 2>&1 </dev/null; then
        touch "$state/$name.done"
        say "    $name: ok, $((SECONDS - start)) s"
    else
        failed+=("$name")
        say "    $name: FAILED, see $state/$name.log"
    fi
}

# sum FILE COLUMN: of the runs of a target.
sum() { [ -e "$1" ] && awk -v at="$2" '{ total += $at } END { print total + 0 }' "$1" || echo 0; }

# fuzz TARGET: runs it until it had its time; an input that fails is kept and does not end that.
fuzz() {
    # What `time` says: seconds of processors, in the program and in the system.
    local TIMEFORMAT='%U %S'
    local target=$1 runs=$state/fuzz-$1.runs log=$state/fuzz-$1.log left started spent status last
    # Formats without a program of their own share one, which asks the environment.
    local program=$programs/$1 seeds=()
    [ -e "fuzz/fuzz_targets/$target.rs" ] || program=$programs/format
    [ ! -d "fuzz/seeds/$target" ] || seeds=("fuzz/seeds/$target")
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
    while left=$((seconds - $(sum "$runs" 1))) && [ "$left" -gt 0 ] && [ "$(sum "$runs" 6)" -lt 20 ]; do
        started=$(date +%s)
        status=0
        {
            time QUIPU_FORMAT=$target "$program" "fuzz/corpus/$target" "${seeds[@]}" \
                -max_total_time=$((left < 120 ? left : 120)) -max_len=4096 -timeout=120 -rss_limit_mb=2048 \
                -detect_leaks=0 -print_final_stats=1 -artifact_prefix="fuzz/artifacts/$target/" \
                >"$log" 2>&1 </dev/null || status=$?
        } 2>"$log.time"
        spent=$(($(date +%s) - started))
        last=$(grep -aE '^#[0-9]+.*cov: ' "$log" | tail -1) || true
        # seconds, inputs, coverage, features, inputs kept, findings, seconds of processors
        awk -v spent=$((spent > 0 ? spent : 1)) -v bad=$((status != 0)) -v line="$last" -v cpu="$(tail -1 "$log.time")" 'BEGIN {
            n = split(line, word, /[ \t]+/); sub("#", "", word[1])
            for (i = 2; i < n; i++) value[word[i]] = word[i + 1]
            sub("/.*", "", value["corp:"])
            split(cpu, own, " ")
            print spent, word[1] + 0, value["cov:"] + 0, value["ft:"] + 0, value["corp:"] + 0, bad, own[1] + own[2]
        }' >>"$runs"
        if [ "$status" != 0 ]; then
            cp "$log" "$state/fuzz-$target.finding-$(sum "$runs" 6).log"
            say "    $target: an input fails, see $state and fuzz/artifacts/$target"
        fi
    done
}

fuzz_all() {
    local lanes=${SOAK_LANES:-2} target
    if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
        say "fuzzing needs a nightly toolchain and cargo-fuzz:"
        say "    rustup toolchain install nightly && cargo install cargo-fuzz"
        exit 2
    fi
    # libdeflate compiles one table several times under one name, which is harmless and not what is looked for here.
    export ASAN_OPTIONS="detect_odr_violation=0:detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
    programs=${SOAK_PROGRAMS:-}
    if [ -z "$programs" ]; then
        say "==> building the fuzz targets"
        cargo +nightly fuzz build -s "${SOAK_SANITIZER:-address}" >&2
        programs=${CARGO_TARGET_DIR:-fuzz/target}/$(rustc -vV | sed -n 's/^host: //p')/release
    fi
    [ -d fuzz/corpus ] || cargo run --quiet -p xtask -- seeds
    say "==> fuzzing, $seconds s each, $lanes side by side"
    for target in "${targets[@]}"; do
        while [ "$(jobs -rp | wc -l)" -ge "$lanes" ]; do wait -n || true; done
        fuzz "$target" &
    done
    wait
}

# The figures of all runs, as a table.
table() {
    local target runs
    echo "| target | seconds | of processors | executions | per second | per second of processors | coverage | features | findings |"
    echo "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for target in "${targets[@]}"; do
        runs=$state/fuzz-$target.runs
        [ -e "$runs" ] || { echo "| \`$target\` | 0 | 0 | 0 | – | – | – | – | – |"; continue; }
        awk -v name="$target" '{ s += $1; n += $2; bad += $6; cpu += $7; if ($3 > cov) cov = $3; if ($4 > ft) ft = $4 }
            END { printf "| `%s` | %d | %d | %d | %d | %d | %d | %d | %d |\n", name, s, cpu, n, n / s, n / (cpu > 1 ? cpu : 1), cov, ft, bad }' "$runs"
    done
}

# The profile of the tests has overflow checks and debug assertions; the large form of the suite runs in it.
step damage env QUIPU_DAMAGE=full cargo test --workspace damage
step recording env QUIPU_RECORD=full cargo test -p quipu-capture -p quipu-cli record
[ ! -e crates/runtime/soak.sh ] || step runtime crates/runtime/soak.sh "$seconds"
if wanted fuzz; then
    fuzz_all
    for target in "${targets[@]}"; do
        [ "$(sum "$state/fuzz-$target.runs" 6)" = 0 ] || failed+=("fuzz $target")
    done
    table
fi
for name in "${failed[@]}"; do say "failed: $name"; done
[ "${#failed[@]}" = 0 ]
