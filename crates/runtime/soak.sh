#!/usr/bin/env bash
# What is loaded into traced programs, under sanitizers: `soak.sh [SECONDS]`, 60 if not said. `./dev soak` calls this.
#
#   unit tests   of the ring, cells and the annotations, under AddressSanitizer; their docs'
#                examples are left out, because rustdoc links them without it
#   runtime      programs (`soak/programs.c`) linked with a runtime that is checked by AddressSanitizer, by assertions, by checks of overflow
#                and of unsafe calls; the programs' own C by AddressSanitizer and UndefinedBehaviorSanitizer
#   plugin       programs under QEMU with a plugin that is checked in the same way
#
# Each program runs again, with other rounds, until the time is over. Needs a nightly toolchain and clang; the last part needs QEMU.

set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
seconds=${1:-60}
target=${CARGO_TARGET_DIR:-$root/target}/sanitized
host=$(rustc -vV | sed -n 's/^host: //p')
sysroot=$(rustc +nightly --print sysroot)
asan=$sysroot/lib/rustlib/$host/lib/librustc-nightly_rt.asan.a
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()

say() { printf '%s\n' "$*"; }

# What Rust code is built with.
checks="-Zsanitizer=address -Zub-checks=yes -Cdebug-assertions=on -Coverflow-checks=on -Cforce-frame-pointers=yes"
# Leaks are the programs' own, for what the runtime maps stays until the end. Some ask for too much memory on purpose.
export ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=0:detect_stack_use_after_return=1:abort_on_error=1:strict_string_checks=1"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1"

built() { (cd "$root" && RUSTFLAGS="$checks ${2:-}" cargo +nightly "$1" --quiet --target-dir "$target" --target "$host" "${@:3}"); }

# run NAME COMMAND…: says what failed.
run() {
    local name=$1 log=$work/log
    shift
    if ! "$@" >"$log" 2>&1; then
        failed+=("$name")
        say "FAILED: $name"
        tail -50 "$log"
        return 1
    fi
}

# unhung COMMAND…: again, twice at most, where it did not end in time: a process that forks while others of its threads run may
# wait for a lock of AddressSanitizer's own.
unhung() {
    local code=0
    for _ in 1 2 3; do
        "$@" && return 0 || code=$?
        [ "$code" = 124 ] || return "$code"
    done
    return "$code"
}

if ! clang -fsanitize=address,undefined -x c - -o "$work/sanitized" <<<'int main(void) { return 0; }' 2>/dev/null; then
    version=$(clang -dumpversion 2>/dev/null | cut -d. -f1) || version=
    say "this needs clang and its sanitizers; on Debian: apt-get install clang libclang-rt-${version:-14}-dev" >&2
    exit 2
fi

say "==> unit tests under AddressSanitizer"
run "unit tests" built test "" --lib --tests -p quipu-ring -p quipu-cells -p quipu-annotate || true

say "==> programs that record themselves"
built build "" --release -p quipu-rt
# The program that reads what they leave; `QUIPU` names one that is there.
if [ -z "${QUIPU:-}" ]; then (cd "$root" && cargo build --quiet --release -p quipu-cli); fi
quipu=${QUIPU:-${CARGO_TARGET_DIR:-$root/target}/release/quipu}
cd "$work"
flags=(-g -O1 -fno-omit-frame-pointer)
clang -O1 -shared -fPIC "$here/soak/behind.c" -o libbehind.so
clang "${flags[@]}" -fsanitize=thread -c "$here/soak/programs.c" -o recorded.o
clang "${flags[@]}" -fsanitize=address,undefined -fno-sanitize-recover=all "$here/soak/programs.c" -o checked -lpthread
# `gate.c` stands before the runtime's functions, which get other names, until AddressSanitizer has begun.
clang "${flags[@]}" -c "$here/soak/gate.c" -o gate.o
objcopy --redefine-sym malloc=recorded_malloc --redefine-sym calloc=recorded_calloc --redefine-sym realloc=recorded_realloc \
    --redefine-sym free=recorded_free "$target/$host/release/libquipu_rt.a" librecorded.a
# Both the runtime and AddressSanitizer define the functions about coverage that do nothing here; the first is taken.
clang -Wl,--allow-multiple-definition recorded.o gate.o librecorded.a -Wl,--whole-archive "$asan" -Wl,--no-whole-archive \
    -rdynamic -L. -lbehind -Wl,-rpath,"$work" -lpthread -ldl -lm -lrt -o programs

names=(accesses locks atomics allocations signals jumps forks execs ends disk_full)
for name in "${names[@]}"; do
    [ "$name" = signals ] || run "$name, without the runtime" unhung timeout 60 ./checked "$name" 1 || true
done
n_runs=0
end=$((SECONDS + seconds))
rounds=1
while [ "$SECONDS" -lt "$end" ] && [ "${#failed[@]}" = 0 ]; do
    for name in "${names[@]}"; do
        rm -f ./*.quipu
        run "$name, $rounds rounds" env QUIPU_OUT="$work/%n.%p.quipu" timeout 300 ./programs "$name" "$rounds" || continue
        n_runs=$((n_runs + 1))
        for capture in *.quipu; do
            run "$name: $capture" "$quipu" collect --force -o made.trace "$capture" || true
            n_captures=$((${n_captures:-0} + 1))
        done
    done
    rounds=$((rounds % 5 + 1))
done
say "    $n_runs runs of ${#names[@]} programs, ${n_captures:-0} recordings read"

say "==> programs under QEMU"
emulator=$(command -v "qemu-${host%%-*}") || emulator=
library=$(clang -print-file-name="libclang_rt.asan-${host%%-*}.so")
if [ -z "$emulator" ] || [ ! -e "$library" ]; then
    say "    left out: there is no qemu-${host%%-*} (on Debian: qemu-user), or clang has no shared AddressSanitizer"
else
    built build "" --release -p quipu-qemu
    mkdir plugin emulators
    cp "$target/$host/release/libquipu_qemu.so" plugin
    # The emulator loads the sanitizer, and the program does not.
    printf '#!/bin/sh\nLD_PRELOAD=%s exec %s -U LD_PRELOAD "$@"\n' "$library" "$emulator" >"emulators/${emulator##*/}"
    chmod +x "emulators/${emulator##*/}"
    clang "${flags[@]}" "$here/soak/programs.c" -o plain -lpthread
    n_recorded=0
    end=$((SECONDS + seconds))
    while [ "$SECONDS" -lt "$end" ] && [ "${#failed[@]}" = 0 ]; do
        for name in "${names[@]}"; do
            # After `exec` the emulator starts itself, without the sanitizer.
            [ "$name" != execs ] || continue
            run "$name under QEMU" env PATH="$work/emulators:$PATH" QUIPU_LIB="$work/plugin" timeout 300 \
                "$quipu" record --force --follow-fork --with qemu -o recorded -- ./plain "$name" "$rounds" || continue
            n_recorded=$((n_recorded + 1))
            rm -rf recorded*
        done
    done
    say "    $n_recorded recordings"
fi

for name in "${failed[@]}"; do say "failed: $name"; done
[ "${#failed[@]}" = 0 ]
