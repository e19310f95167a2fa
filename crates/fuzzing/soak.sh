#!/usr/bin/env bash
# All that takes longer than a change may wait for: every fuzz target, the damage suite with all checks, the runtime under sanitizers,
# long recordings. `./dev soak` calls this.
#
# What was done stands in target/soak, a line for each run, so that `--resume` goes on with what still lacks time. The last lines are a
# table of all targets, as docs/fuzzing.md shows it, and the names of what failed. A step that fails keeps no other from running.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
    cat <<'TEXT'
usage: ./dev soak [SECONDS] [--resume] [--only STEP]… [TARGET…]

  SECONDS    how long each fuzz target runs, 600 if not said
  --resume   keep what earlier runs of these steps did, and do what is missing
  --only     fuzz, damage, runtime or recording; all of them if not said
  TARGET     fuzz these targets only
exit codes: 0 if all passed; 1 if a step failed, after all others ran; 2 for arguments that make no sense
environment: SOAK_LANES, how many targets run side by side (2)
             SOAK_SANITIZER, what the fuzz programs are built with: address, or none (about twice as fast)
             SOAK_PROGRAMS, a folder of fuzz programs that were built before
TEXT
}

say() { printf '%s\n' "$*" >&2; }

# wrong WORDS…: ends because of arguments.
wrong() {
    say "$@"
    usage >&2
    exit 2
}

STEPS=(damage recording runtime fuzz)

seconds=600
resume=
only=()
targets=()
while [ $# -gt 0 ]; do
    case $1 in
        --resume) resume=yes ;;
        --only)
            [ $# -gt 1 ] || wrong "--only wants a step"
            [[ " ${STEPS[*]} " = *" $2 "* ]] || wrong "there is no step $2"
            only+=("$2")
            shift
            ;;
        -h | --help) usage; exit 0 ;;
        -*) wrong "there is no option $1" ;;
        # Names of targets begin with letters.
        [0-9]*) [[ $1 =~ ^[0-9]+$ ]] || wrong "$1 is no number of seconds"; seconds=$1 ;;
        *) targets+=("$1") ;;
    esac
    shift
done

wanted() { [ "${#only[@]}" = 0 ] || [[ " ${only[*]} " = *" $1 "* ]]; }

state=${CARGO_TARGET_DIR:-target}/soak
mkdir -p "$state"
failed=()

# know_targets: all of them, unless some were named, which have to exist.
know_targets() {
    local all target
    all=$(cargo run --quiet -p xtask -- seeds --targets) || { failed+=("fuzz (the list of targets)"); return 1; }
    for target in "${targets[@]}"; do
        grep -qxF -e "$target" <<<"$all" || wrong "there is no target $target"
    done
    [ "${#targets[@]}" -gt 0 ] || mapfile -t targets <<<"$all"
}

can_fuzz=
if wanted fuzz && know_targets; then can_fuzz=yes; fi
[ "${#targets[@]}" = 0 ] || wanted fuzz || wrong "targets are for the step fuzz"

# What is asked for begins anew; the rest stays.
if [ -z "$resume" ]; then
    for name in "${STEPS[@]}"; do
        if wanted "$name"; then rm -f "$state/$name".*; fi
    done
    for name in "${targets[@]}"; do rm -f "$state/fuzz-$name".*; done
fi

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

# False if nothing can be fuzzed.
fuzz_all() {
    local lanes=${SOAK_LANES:-2} target
    if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
        say "fuzzing needs a nightly toolchain and cargo-fuzz:"
        say "    rustup toolchain install nightly && cargo install cargo-fuzz"
        return 1
    fi
    # libdeflate compiles one table several times under one name, which is harmless and not what is looked for here.
    export ASAN_OPTIONS="detect_odr_violation=0:detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
    programs=${SOAK_PROGRAMS:-}
    if [ -z "$programs" ]; then
        say "==> building the fuzz targets"
        cargo +nightly fuzz build -s "${SOAK_SANITIZER:-address}" >&2 || return 1
        programs=${CARGO_TARGET_DIR:-fuzz/target}/$(rustc -vV | sed -n 's/^host: //p')/release
    fi
    [ -d fuzz/corpus ] || cargo run --quiet -p xtask -- seeds || return 1
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
step damage env QUIPU_DAMAGE=full cargo test --workspace --no-fail-fast damage
step recording env QUIPU_RECORD=full cargo test -p quipu-capture -p quipu-cli --no-fail-fast record
step runtime crates/runtime/soak.sh "$seconds"
if [ -n "$can_fuzz" ]; then
    fuzz_all || failed+=("fuzz")
    for target in "${targets[@]}"; do
        [ "$(sum "$state/fuzz-$target.runs" 6)" = 0 ] || failed+=("fuzz $target")
    done
    table
fi
for name in "${failed[@]}"; do say "failed: $name"; done
[ "${#failed[@]}" = 0 ]
