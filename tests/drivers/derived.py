"""Materialized views and secondary indexes through the Python driver: derived.py HOST PORT CLASS

As in python_driver.py, whose sessions and tables these tests use, everything here passes on Apache Cassandra too, with
materialized views enabled in its configuration. Views and indexes are waited for: other servers tell them later.
"""

import sys
import unittest

import python_driver
from cassandra import InvalidRequest
from cassandra.query import SimpleStatement
from python_driver import eventually


class Views(python_driver.Connected):
    def view(self, table, key, restricted, select="*"):
        name = f"{table}_view_{next(self.tables)}"
        where = " AND ".join(f"{column} IS NOT NULL" for column in restricted)
        self.session.execute(
            f"CREATE MATERIALIZED VIEW {name} AS SELECT {select} FROM {table} WHERE {where} PRIMARY KEY ({key})"
        )
        self.addCleanup(self.session.execute, f"DROP MATERIALIZED VIEW {name}")
        return name

    def shows(self, view, expected, columns="*"):
        rows = lambda: sorted(self.rows(f"SELECT {columns} FROM {view}"))
        eventually(lambda: rows() == sorted(expected), f"{expected} in {view}, which has {rows()}")

    def test_rows_move_with_a_column_of_the_key(self):
        table = self.table("p int PRIMARY KEY, v int, w int")
        view = self.view(table, "v, p", "vp")
        self.session.execute(f"INSERT INTO {table} (p, v, w) VALUES (1, 10, 5)")
        self.shows(view, [(10, 1, 5)])
        self.session.execute(f"UPDATE {table} SET v = 20 WHERE p = 1")
        self.shows(view, [(20, 1, 5)])
        self.session.execute(f"UPDATE {table} SET w = 6 WHERE p = 1")
        self.shows(view, [(20, 1, 6)])
        # Back to where it has been: what was there must be seen again.
        self.session.execute(f"UPDATE {table} SET v = 10 WHERE p = 1")
        self.shows(view, [(10, 1, 6)])
        self.session.execute(f"DELETE v FROM {table} WHERE p = 1")
        self.shows(view, [])
        self.session.execute(f"UPDATE {table} SET v = 10 WHERE p = 1")
        self.shows(view, [(10, 1, 6)])

    def test_deletions_of_every_size(self):
        table = self.table("p int, c int, v int, PRIMARY KEY (p, c)")
        view = self.view(table, "v, p, c", "vpc")
        for c in range(6):
            self.session.execute(f"INSERT INTO {table} (p, c, v) VALUES (1, {c}, {c})")
        self.session.execute(f"DELETE FROM {table} WHERE p = 1 AND c = 0")
        self.shows(view, [(c, 1, c) for c in range(1, 6)])
        self.session.execute(f"DELETE FROM {table} WHERE p = 1 AND c > 3")
        self.shows(view, [(c, 1, c) for c in range(1, 4)])
        self.session.execute(
            f"BEGIN BATCH DELETE FROM {table} WHERE p = 1; INSERT INTO {table} (p, c, v) VALUES (2, 2, 2); APPLY BATCH"
        )
        self.shows(view, [(2, 2, 2)])
        self.session.execute(f"TRUNCATE {table}")
        self.shows(view, [])

    def test_a_row_lives_by_columns_that_the_view_has_not(self):
        table = self.table("p int, c int, v int, PRIMARY KEY (p, c)")
        view = self.view(table, "c, p", "cp", select="c, p")
        self.session.execute(f"UPDATE {table} SET v = 1 WHERE p = 1 AND c = 2")
        self.shows(view, [(2, 1)])
        self.session.execute(f"DELETE v FROM {table} WHERE p = 1 AND c = 2")
        self.shows(view, [])

    def test_rows_from_before_the_view(self):
        table = self.table("p int, c int, v int, PRIMARY KEY (p, c)")
        for n in range(50):
            self.session.execute(f"INSERT INTO {table} (p, c, v) VALUES ({n % 7}, {n}, {n})")
        view = self.view(table, "v, p, c", "vpc")
        self.shows(view, [(n, n % 7, n) for n in range(50)])

    def test_an_empty_value_is_a_key_of_a_view(self):
        table = self.table("p int PRIMARY KEY, v text")
        view = self.view(table, "v, p", "vp")
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, '')")
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (2, 'x')")
        self.shows(view, [("", 1), ("x", 2)])

    def test_a_conditional_write_reaches_the_view(self):
        table = self.table("p int PRIMARY KEY, v int")
        view = self.view(table, "v, p", "vp")
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, 2) IF NOT EXISTS")
        self.shows(view, [(2, 1)])
        self.session.execute(f"UPDATE {table} SET v = 3 WHERE p = 1 IF v = 2")
        self.shows(view, [(3, 1)])

    def test_a_view_is_written_through_its_table_alone(self):
        table = self.table("p int PRIMARY KEY, v int")
        view = self.view(table, "v, p", "vp")
        for statement in [
            f"INSERT INTO {view} (v, p) VALUES (1, 1)",
            f"DELETE FROM {view} WHERE v = 1",
            f"DROP TABLE {view}",
            f"DROP TABLE {table}",
            f"CREATE INDEX ON {view} (p)",
        ]:
            with self.assertRaises(InvalidRequest, msg=statement):
                self.session.execute(statement)


class Indexes(python_driver.Connected):
    def index(self, table, target):
        self.session.execute(f"CREATE INDEX ON {table} ({target})")

    def finds(self, query, expected):
        rows = lambda: sorted(self.rows(query))
        eventually(lambda: rows() == sorted(expected), f"{expected} by {query}, which gives {rows()}")

    def test_values(self):
        table = self.table("p int, c int, v int, w int, PRIMARY KEY (p, c)")
        for n in range(20):
            self.session.execute(f"INSERT INTO {table} (p, c, v, w) VALUES ({n % 3}, {n}, {n % 2}, {n})")
        self.index(table, "v")
        self.finds(f"SELECT c FROM {table} WHERE v = 1", [(n,) for n in range(1, 20, 2)])
        self.session.execute(f"UPDATE {table} SET v = 5 WHERE p = 0 AND c = 3")
        self.session.execute(f"DELETE FROM {table} WHERE p = 1")
        self.finds(f"SELECT c FROM {table} WHERE v = 5", [(3,)])
        self.finds(f"SELECT c FROM {table} WHERE v = 1", [(n,) for n in range(1, 20, 2) if n % 3 != 1 and n != 3])
        self.finds(f"SELECT c FROM {table} WHERE p = 2 AND v = 1", [(5,), (11,), (17,)])
        self.finds(f"SELECT c FROM {table} WHERE v = 1 AND w > 11 ALLOW FILTERING", [(15,), (17,)])
        with self.assertRaises(InvalidRequest):
            self.session.execute(f"SELECT c FROM {table} WHERE v = 1 AND w > 11")

    def test_pages(self):
        table = self.table("p int, c int, v int, PRIMARY KEY (p, c)")
        self.index(table, "v")
        expected = [(n % 7, n) for n in range(100)]
        for p, c in expected:
            self.session.execute(f"INSERT INTO {table} (p, c, v) VALUES ({p}, {c}, 1)")
        self.finds(f"SELECT p, c FROM {table} WHERE v = 1", expected)
        for size in (1, 7, 99, 100, 1000):
            statement = SimpleStatement(f"SELECT p, c FROM {table} WHERE v = 1", fetch_size=size)
            self.assertEqual(sorted(self.rows(statement)), sorted(expected))
        self.assertEqual(len(self.rows(f"SELECT p FROM {table} WHERE v = 1 LIMIT 13")), 13)

    def test_parts_of_collections(self):
        table = self.table("p int PRIMARY KEY, s set<text>, l list<int>, m map<text, int>, f frozen<list<int>>")
        for target in ("s", "l", "keys(m)", "values(m)", "entries(m)", "full(f)"):
            self.index(table, target)
        self.session.execute(
            f"INSERT INTO {table} (p, s, l, m, f) VALUES (1, {{'a', 'b'}}, [7, 7], {{'x': 1, 'y': 1}}, [1, 2])"
        )
        self.session.execute(f"INSERT INTO {table} (p, s, l, m, f) VALUES (2, {{'b'}}, [8], {{'x': 2}}, [1])")
        for condition, expected in [
            ("s CONTAINS 'b'", [(1,), (2,)]),
            ("s CONTAINS 'a'", [(1,)]),
            ("l CONTAINS 7", [(1,)]),
            ("m CONTAINS KEY 'x'", [(1,), (2,)]),
            ("m CONTAINS 1", [(1,)]),
            ("m['x'] = 2", [(2,)]),
            ("f = [1, 2]", [(1,)]),
        ]:
            self.finds(f"SELECT p FROM {table} WHERE {condition}", expected)
        self.session.execute(f"UPDATE {table} SET s = s - {{'b'}}, m['x'] = 1 WHERE p = 2")
        self.finds(f"SELECT p FROM {table} WHERE s CONTAINS 'b'", [(1,)])
        self.finds(f"SELECT p FROM {table} WHERE m CONTAINS 1", [(1,), (2,)])

    def test_static_columns_and_keys(self):
        table = self.table("p int, c int, s int static, v int, PRIMARY KEY (p, c)")
        self.index(table, "s")
        self.index(table, "c")
        for n in range(6):
            self.session.execute(f"INSERT INTO {table} (p, c, s, v) VALUES ({n % 2}, {n}, {n % 2}, {n})")
        self.finds(f"SELECT c FROM {table} WHERE s = 1", [(1,), (3,), (5,)])
        self.finds(f"SELECT p FROM {table} WHERE c = 4", [(0,)])

    def test_an_index_has_one_name_and_one_target(self):
        table = self.table("p int PRIMARY KEY, v int, w int")
        self.session.execute(f"CREATE INDEX {table}_i ON {table} (v)")
        for statement in [f"CREATE INDEX {table}_i ON {table} (w)", f"CREATE INDEX ON {table} (v)"]:
            with self.assertRaises(InvalidRequest, msg=statement):
                self.session.execute(statement)
        self.session.execute(f"CREATE INDEX IF NOT EXISTS {table}_i ON {table} (v)")
        self.session.execute(f"DROP INDEX {table}_i")
        with self.assertRaises(InvalidRequest):
            self.session.execute(f"SELECT p FROM {table} WHERE v = 1")


if __name__ == "__main__":
    python_driver.HOST, python_driver.PORT = sys.argv[1], int(sys.argv[2])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
