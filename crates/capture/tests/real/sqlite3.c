#include "sqlite3.h"
#include <stdio.h>
#include <stdlib.h>
static int row(void *n, int c, char **v, char **k) { ++*(int *)n; return 0; }
static void run(sqlite3 *db, const char *sql) {
    char *error = 0; int n = 0;
    if (sqlite3_exec(db, sql, row, &n, &error) != SQLITE_OK) { fprintf(stderr, "%s: %s\n", sql, error); exit(1); }
}
int main(void) {
    sqlite3 *db;
    if (sqlite3_open(":memory:", &db) != SQLITE_OK) return 1;
    run(db, "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price REAL, kind INTEGER);"
            "CREATE TABLE kind(id INTEGER PRIMARY KEY, word TEXT);"
            "CREATE INDEX by_kind ON item(kind, price);");
    for (int i = 0; i < 20; i++) {
        char *sql = sqlite3_mprintf("INSERT INTO kind VALUES(%d, 'kind%d')", i, i * 7);
        run(db, sql); sqlite3_free(sql);
    }
    run(db, "BEGIN");
    sqlite3_stmt *insert;
    sqlite3_prepare_v2(db, "INSERT INTO item(name, price, kind) VALUES(?, ?, ?)", -1, &insert, 0);
    for (int i = 0; i < 3000; i++) {
        char name[32]; snprintf(name, sizeof name, "item number %d", (i * 7919) % 3000);
        sqlite3_bind_text(insert, 1, name, -1, SQLITE_TRANSIENT);
        sqlite3_bind_double(insert, 2, (i * 31 % 997) / 7.0);
        sqlite3_bind_int(insert, 3, i % 20);
        sqlite3_step(insert); sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    run(db, "COMMIT");
    run(db, "SELECT kind.word, count(*), sum(price), group_concat(name) FROM item JOIN kind ON kind.id = item.kind GROUP BY kind.word ORDER BY 3 DESC");
    run(db, "SELECT * FROM item WHERE price > 20 AND kind IN (1,3,5,7) ORDER BY name, price LIMIT 100");
    run(db, "UPDATE item SET price = price * 1.1 WHERE kind = 4");
    run(db, "DELETE FROM item WHERE kind = 9");
    run(db, "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x < 500) SELECT sum(x) FROM c");
    run(db, "SELECT DISTINCT substr(name, 1, 13) FROM item ORDER BY 1");
    sqlite3_close(db);
    return 0;
}
