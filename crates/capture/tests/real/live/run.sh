#!/usr/bin/env bash
# run.sh: the time that programs take under each front end of `quipu run`, as the table in docs/live.md.
#
# Five programs, compiled at -O1, run alone and with a tool that counts instructions, loads and stores; the best of ROUNDS (5) runs, of one under Valgrind.
# The sources of Lua and zlib are those of ../run.sh. QUIPU names the program, target/release/quipu if not said.

set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../../../.." && pwd)
quipu=${QUIPU:-${CARGO_TARGET_DIR:-$root/target}/release/quipu}
work=${QUIPU_REAL_DIR:-${CARGO_TARGET_DIR:-$root/target}/real}/live
rounds=${ROUNDS:-5}
mkdir -p "$work/src"

cat >"$work/Cargo.toml" <<'TOML'
[package]
name = "scratch"
version = "0.1.0"
edition = "2021"
[workspace]
[dependencies]
lua-src = "=551.1.0"
libz-sys = "=1.1.31"
TOML
touch "$work/src/lib.rs"
cargo fetch --quiet --manifest-path "$work/Cargo.toml"
bundled() { ls -d "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$1" | head -n 1; }
lua=$(bundled lua-src-551.1.0)/lua-5.4.9
zlib=$(bundled libz-sys-1.1.31)/src/zlib

# build SUFFIX COMPILER…
build() {
    local suffix=$1 name
    shift
    for name in loop hash threads; do "$@" -O1 "$here/$name.c" -pthread -o "$work/$name$suffix"; done
    "$@" -O1 -DLUA_USE_POSIX -I"$lua" "$lua"/*.c "$here/../lua.c" -lm -o "$work/lua$suffix"
    "$@" -O1 -DHAVE_UNISTD_H -I"$zlib" "$zlib"/*.c "$here/deflate.c" -o "$work/deflate$suffix"
}
build .native cc
build .tsan "$quipu" cc
cc -O2 -shared -fPIC -I"$root/crates/hooks/include" "$here/count.c" -o "$work/libcount.so"
head -c 1000000 "$quipu" >"$work/input"

# best COMMAND…: the least seconds.
best() {
    local rounds=${runs:-$rounds}
    local begun ended
    for _ in $(seq "$rounds"); do
        begun=$(date +%s.%N)
        "$@" >"$work/out" 2>"$work/err" </dev/null
        ended=$(date +%s.%N)
        echo "$begun $ended"
    done | awk '{ took = $2 - $1; if (!best || took < best) best = took } END { print best }'
}

# cell NATIVE FRONT-END PROGRAM…: seconds, how many times those of the program alone, millions of events in a second.
cell() {
    local native=$1 with=$2 took
    shift 2
    took=$(best "$quipu" run -q --tool "$work/libcount.so" --with "$with" -- "$@")
    awk -v took="$took" -v native="$native" \
        'NF == 3 { n = $1 + $2 + $3 } END { printf " %.2f s, %.0f ×, %.0f M/s |", took, took / native, n / took / 1e6 }' "$work/out"
}

echo "| program | alone | \`tsan\` | \`qemu\` | \`valgrind\` | \`qemu-x86_64\` alone |"
echo "|---|---|---|---|---|---|"
row() {
    local name=$1 native
    shift
    native=$(best "$work/$name.native" "$@")
    printf '| `%s` | %.3f s |' "$name $(basename "$1")" "$native"
    cell "$native" tsan "$work/$name.tsan" "$@"
    cell "$native" qemu "$work/$name.native" "$@"
    runs=1 cell "$native" valgrind "$work/$name.native" "$@"
    awk -v took="$(best qemu-x86_64 "$work/$name.native" "$@")" -v native="$native" 'BEGIN { printf " %.0f × |\n", took / native }'
}
row loop 1000
row hash 200000
row deflate "$work/input"
row lua "$here/interpreted.lua"
row threads 500000
