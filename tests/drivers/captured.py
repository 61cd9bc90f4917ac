"""What the server does with writes beyond the tables they name: captured.py HOST PORT CLASS

Logs of changes and rows that expire by a column are ScyllaDB's; see python_driver.py.
"""

import time

from cassandra import InvalidRequest
from cassandra.query import BatchStatement
from python_driver import Connected, eventually, main


class Captured(Connected):
    def captured(self, options=""):
        return self.table(
            "p int, c int, v int, s int static, m map<text, int>, PRIMARY KEY (p, c)",
            f"WITH cdc = {{'enabled': true{options}}}",
        )

    def logged(self, table):
        rows = self.session.execute(
            f'SELECT "cdc$operation" AS op, "cdc$deleted_v" AS gone, "cdc$end_of_batch" AS ended, c, v, s, m '
            f"FROM {table}_scylla_cdc_log"
        )
        return [tuple(row) for row in rows]

    def test_changes_are_logged(self):
        table = self.captured()
        self.session.execute(f"INSERT INTO {table} (p, c, v, m) VALUES (1, 2, 3, {{'a': 1}})")
        self.session.execute(f"UPDATE {table} SET v = null WHERE p = 1 AND c = 2")
        self.session.execute(f"UPDATE {table} SET s = 9 WHERE p = 1")
        self.session.execute(f"DELETE FROM {table} WHERE p = 1 AND c = 2")
        self.session.execute(f"DELETE FROM {table} WHERE p = 1 AND c > 2")
        self.session.execute(f"DELETE FROM {table} WHERE p = 1")
        self.assertEqual(
            self.logged(table),
            [
                (2, None, True, 2, 3, None, {"a": 1}),
                (1, True, True, 2, None, None, None),
                (1, None, True, None, None, 9, None),
                (3, None, True, 2, None, None, None),
                (6, None, None, 2, None, None, None),
                (7, None, True, None, None, None, None),
                (4, None, True, None, None, None, None),
            ],
        )
        expires = self.rows(f'SELECT ttl("cdc$operation") FROM {table}_scylla_cdc_log')
        self.assertTrue(all(0 < ttl <= 86400 for (ttl,) in expires), expires)

    def test_images(self):
        table = self.captured(", 'preimage': true, 'postimage': true, 'ttl': 0")
        insert = self.session.prepare(f"INSERT INTO {table} (p, c, v) VALUES (?, ?, ?)")
        batch = BatchStatement()
        batch.add(insert, (1, 1, 1))
        batch.add(insert, (2, 1, 1))
        self.session.execute(batch)
        self.session.execute(f"UPDATE {table} SET v = 2 WHERE p = 1 AND c = 1 IF v = 1")
        self.session.execute(f"UPDATE {table} SET v = 3 WHERE p = 1 AND c = 1 IF v = 1")
        said = self.rows(f'SELECT "cdc$operation", v FROM {table}_scylla_cdc_log WHERE p = 1 ALLOW FILTERING')
        self.assertEqual(said, [(2, 1), (9, 1), (0, 1), (1, 2), (9, 2)])

    def test_what_a_guardrail_refuses_is_not_logged(self):
        table = self.captured()
        self.session.execute(f"ALTER TABLE {table} WITH large_data_guardrails_enabled = true")
        setting = "UPDATE system.config SET value = '{}' WHERE name = 'large_collection_elements_fail_threshold'"
        self.session.execute(setting.format(1))
        try:
            with self.assertRaises(InvalidRequest):
                self.session.execute(f"INSERT INTO {table} (p, c, m) VALUES (1, 1, {{'a': 1, 'b': 2}})")
        finally:
            self.session.execute(setting.format(0))
        self.assertEqual(self.logged(table), [])

    def test_the_log_follows_its_table(self):
        table = self.captured()
        log = f"{table}_scylla_cdc_log"
        self.session.execute(f"ALTER TABLE {table} ADD x int")
        self.session.execute(f"INSERT INTO {table} (p, c, x) VALUES (1, 1, 7)")
        self.session.execute(f"ALTER TABLE {table} DROP v")
        self.assertEqual(self.rows(f"SELECT x FROM {log}"), [(7,)])
        for refused in [f"SELECT v FROM {log}", f"ALTER TABLE {log} ADD y int", f"DROP TABLE {log}"]:
            with self.assertRaises(InvalidRequest):
                self.session.execute(refused)
        listed = [row.name for row in self.session.execute("DESCRIBE TABLES")]
        self.assertNotIn(log, listed)
        self.session.execute(f"ALTER TABLE {table} WITH cdc = {{'enabled': false}}")
        self.session.execute(f"INSERT INTO {table} (p, c, x) VALUES (2, 2, 8)")
        self.assertEqual(self.rows(f"SELECT x FROM {log}"), [(7,)])
        self.session.execute(f"DROP TABLE {table}")
        with self.assertRaises(InvalidRequest):
            self.session.execute(f"SELECT * FROM {log}")

    def test_all_streams_are_told(self):
        table = self.captured()
        for p in range(50):
            self.session.execute(f"INSERT INTO {table} (p, c) VALUES ({p}, 1)")
        used = set(self.rows(f'SELECT "cdc$stream_id" FROM {table}_scylla_cdc_log'))
        rows = self.session.execute("SELECT streams FROM system_distributed.cdc_streams_descriptions_v2")
        told = {(stream,) for row in rows for stream in row.streams}
        self.assertTrue(len(used) > 1 and used <= told)

    def test_rows_expire_by_a_column(self):
        self.session.execute("UPDATE system.config SET value = '0.2' WHERE name = 'alternator_ttl_period_in_seconds'")
        table = self.table("p int, c int, e bigint TTL, PRIMARY KEY (p, c)")
        now = int(time.time())
        for c, expires in [(1, now - 60), (2, now + 3600), (3, "null")]:
            self.session.execute(f"INSERT INTO {table} (p, c, e) VALUES (1, {c}, {expires})")
        eventually(lambda: self.rows(f"SELECT c FROM {table}") == [(2,), (3,)], "the row that has expired is gone")
        self.session.execute(f"ALTER TABLE {table} TTL NULL")
        with self.assertRaises(InvalidRequest):
            self.session.execute(f"ALTER TABLE {table} TTL c")

    def test_a_logged_batch_leaves_nothing_in_the_batch_log(self):
        table = self.table("p int PRIMARY KEY, v int")
        self.session.execute(
            f"BEGIN BATCH INSERT INTO {table} (p, v) VALUES (1, 1); INSERT INTO {table} (p, v) VALUES (2, 2) APPLY BATCH"
        )
        self.assertEqual(sorted(self.rows(f"SELECT p, v FROM {table}")), [(1, 1), (2, 2)])
        eventually(lambda: self.rows("SELECT id FROM system.batches") == [], "the batch is forgotten")


if __name__ == "__main__":
    main()
