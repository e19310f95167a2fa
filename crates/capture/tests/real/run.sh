#!/usr/bin/env bash
# run.sh: types of allocations of real programs, held against the tables beside this file.
#
# Fetches the sources of sqlite3, Lua, zlib and redis, compiles them with `quipu cc`, runs each for a few seconds, and judges the
# types. QUIPU_REAL_DIR says where all that lies (target/real if not said). Redis is left out if its sources cannot be had.

set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
real=${QUIPU_REAL_DIR:-$target/real}
level=${QUIPU_REAL_LEVEL:--O1}
mkdir -p "$real/scratch/src" "$real/recordings"

cargo build --quiet --manifest-path "$root/Cargo.toml" -p quipu-cli
quipu=$target/debug/quipu

# Packages whose sources are bundled: the versions that the tables are of.
cat >"$real/scratch/Cargo.toml" <<'TOML'
[package]
name = "scratch"
version = "0.1.0"
edition = "2021"
[workspace]
[dependencies]
libsqlite3-sys = { version = "=0.40.0", features = ["bundled"] }
lua-src = "=551.1.0"
libz-sys = "=1.1.31"
TOML
touch "$real/scratch/src/lib.rs"
cargo fetch --quiet --manifest-path "$real/scratch/Cargo.toml"
bundled() { ls -d "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$1" | head -n 1; }

sqlite=$(bundled libsqlite3-sys-0.40.0)/sqlite3
lua=$(bundled lua-src-551.1.0)/lua-5.4.9
zlib=$(bundled libz-sys-1.1.31)/src/zlib

"$quipu" cc "$level" -I"$sqlite" -DSQLITE_THREADSAFE=1 -DSQLITE_ENABLE_FTS3 -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_RTREE \
    -DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_ENABLE_STAT4 -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_MEMORY_MANAGEMENT \
    "$sqlite/sqlite3.c" "$here/sqlite3.c" -o "$real/sqlite3" -lm -lpthread -ldl
"$quipu" cc "$level" -DLUA_USE_POSIX -I"$lua" "$lua"/*.c "$here/lua.c" -o "$real/lua" -lm
"$quipu" cc "$level" -DHAVE_UNISTD_H -I"$zlib" "$zlib"/*.c "$here/zlib.c" -o "$real/zlib"

cd "$real/recordings"
rm -f ./*.quipu
QUIPU_OUT=sqlite3.quipu "$real/sqlite3"
QUIPU_OUT=lua.quipu "$real/lua" "$here/lua.lua" >/dev/null
QUIPU_OUT=zlib.quipu "$real/zlib" >/dev/null

redis=$real/redis-8.0.2
archive=redis_8.0.2.orig.tar.gz
if [ ! -d "$redis" ] && [ -e "$real/$archive" ]; then
    echo "caf3c0069f06fc84c5153bd2a348b204c578de80490c73857bee01d9b5d7401f  $real/$archive" | sha256sum --check --quiet
    tar xf "$real/$archive" -C "$real"
fi
if [ -d "$redis" ]; then
    make --quiet -C "$redis/src" redis-server redis-cli MALLOC=libc OPTIMIZATION="$level" CC="$quipu cc" REDIS_CFLAGS=-g \
        USE_SYSTEMD=no BUILD_TLS=no >"$real/redis.log" 2>&1
    socket=$real/redis.socket
    QUIPU_OUT=redis.quipu "$redis/src/redis-server" --port 0 --unixsocket "$socket" --save "" --appendonly no \
        --io-threads 1 >>"$real/redis.log" 2>&1 &
    server=$!
    for _ in $(seq 100); do [ -S "$socket" ] && break; sleep 0.1; done
    commands() {
        local i
        for i in $(seq 300); do
            printf '%s\n' "SET key:$i value:$i" "HSET h:$((i % 20)) f$i v$i" "ZADD z $i m$i" "SADD s:$((i % 7)) a$i" \
                "RPUSH l:$((i % 5)) e$i" "XADD x * f v$i" "GET key:$i" "EXPIRE key:$i 1000"
        done
        for i in $(seq 40); do
            printf '%s\n' "ZRANGE z 0 50" "LRANGE l:1 0 -1" "HGETALL h:3" "SMEMBERS s:2"
        done
        echo "SHUTDOWN NOSAVE"
    }
    commands | QUIPU_OUT=off "$redis/src/redis-cli" -s "$socket" >/dev/null || true
    wait "$server"
else
    echo "redis is left out: put $archive of Debian's archive into $real" >&2
fi

QUIPU_REAL=$real/recordings cargo test --quiet --manifest-path "$root/Cargo.toml" -p quipu-capture --test real -- \
    --ignored --nocapture
