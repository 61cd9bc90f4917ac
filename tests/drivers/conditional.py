"""Conditional statements and filtering through the Python driver: conditional.py HOST PORT CLASS

As in python_driver.py, whose sessions and tables these tests use, everything here passes on Apache Cassandra too.
"""

import sys
import unittest

import python_driver
from cassandra import ConsistencyLevel, InvalidRequest
from cassandra.concurrent import execute_concurrent
from cassandra.query import BatchStatement, SimpleStatement


class Conditional(python_driver.Connected):
    def applied(self, query, *values):
        return self.session.execute(query, *values).was_applied

    def test_insert_if_not_exists(self):
        table = self.table("p int, c int, v int, PRIMARY KEY (p, c)")
        self.assertTrue(self.applied(f"INSERT INTO {table} (p, c, v) VALUES (1, 1, 1) IF NOT EXISTS"))
        self.assertFalse(self.applied(f"INSERT INTO {table} (p, c, v) VALUES (1, 1, 2) IF NOT EXISTS"))
        self.assertTrue(self.applied(f"INSERT INTO {table} (p, c, v) VALUES (1, 2, 2) IF NOT EXISTS"))
        self.assertEqual(self.rows(f"SELECT * FROM {table}"), [(1, 1, 1), (1, 2, 2)])

    def test_conditions(self):
        table = self.table("p int PRIMARY KEY, v int, t text, m map<text, int>, l list<int>")
        self.session.execute(f"INSERT INTO {table} (p, v, t, m, l) VALUES (1, 5, 'x', {{'a': 1}}, [7, 8])")
        for condition, expected in [
            ("EXISTS", True),
            ("v = 5", True),
            ("v = 6", False),
            ("v != 6", True),
            ("v < 5", False),
            ("v >= 5 AND t = 'x'", True),
            ("v >= 5 AND t = 'y'", False),
            ("v IN (4, 5)", True),
            ("v IN ()", False),
            ("m['a'] = 1", True),
            ("m['b'] = 1", False),
            ("m['b'] = null", True),
            ("m = {'a': 1}", True),
            ("l[1] = 8", True),
            ("l[0] > 8", False),
            ("l = [7, 8]", True),
        ]:
            self.assertEqual(self.applied(f"UPDATE {table} SET t = 'x' WHERE p = 1 IF {condition}"), expected, condition)
        self.assertFalse(self.applied(f"UPDATE {table} SET v = 1 WHERE p = 2 IF EXISTS"))
        self.assertTrue(self.applied(f"UPDATE {table} SET v = 1 WHERE p = 2 IF v = null"))
        self.assertTrue(self.applied(f"DELETE FROM {table} WHERE p = 1 IF v = 5"))
        self.assertEqual(self.rows(f"SELECT p, v FROM {table}"), [(2, 1)])

    def test_the_answer_shows_what_was_there(self):
        table = self.table("p int PRIMARY KEY, v int, w int")
        self.session.execute(f"INSERT INTO {table} (p, v, w) VALUES (1, 5, 6)")
        row = self.session.execute(f"UPDATE {table} SET v = 1 WHERE p = 1 IF v = 4").one()
        self.assertEqual((row.applied, row.v), (False, 5))

    def test_prepared(self):
        table = self.table("p int PRIMARY KEY, v int")
        insert = self.session.prepare(f"INSERT INTO {table} (p, v) VALUES (?, ?) IF NOT EXISTS")
        update = self.session.prepare(f"UPDATE {table} SET v = ? WHERE p = ? IF v = ?")
        self.assertTrue(self.applied(insert, (1, 1)))
        self.assertFalse(self.applied(insert, (1, 2)))
        self.assertTrue(self.applied(update, (2, 1, 1)))
        self.assertFalse(self.applied(update, (3, 1, 1)))
        self.assertEqual(self.rows(f"SELECT v FROM {table}"), [(2,)])

    def test_batches_are_all_or_nothing(self):
        table = self.table("p int, c int, s int static, v int, PRIMARY KEY (p, c)")
        self.session.execute(f"INSERT INTO {table} (p, s) VALUES (1, 0)")
        for expected, version in [(True, 0), (False, 0), (True, 1)]:
            batch = BatchStatement()
            batch.add(SimpleStatement(f"UPDATE {table} SET s = {version + 1} WHERE p = 1 IF s = {version}"))
            batch.add(SimpleStatement(f"INSERT INTO {table} (p, c, v) VALUES (1, {version}, {version})"))
            self.assertEqual(self.session.execute(batch).was_applied, expected)
        self.assertEqual(self.rows(f"SELECT c, s, v FROM {table}"), [(0, 2, 0), (1, 2, 1)])

    def test_nobody_is_lost_in_a_crowd(self):
        table = self.table("p int PRIMARY KEY, v int")
        insert = self.session.prepare(f"INSERT INTO {table} (p, v) VALUES (?, ?) IF NOT EXISTS")
        results = execute_concurrent(self.session, [(insert, (n % 5, n)) for n in range(50)], concurrency=20)
        won = [n for n, (_, result) in enumerate(results) if result.was_applied]
        self.assertEqual(sorted(n % 5 for n in won), [0, 1, 2, 3, 4])
        self.assertEqual(sorted(self.rows(f"SELECT v FROM {table}")), sorted((n,) for n in won))

    def test_serial_reads(self):
        table = self.table("p int PRIMARY KEY, v int")
        self.assertTrue(self.applied(f"INSERT INTO {table} (p, v) VALUES (1, 1) IF NOT EXISTS"))
        query = SimpleStatement(f"SELECT v FROM {table} WHERE p = 1", consistency_level=ConsistencyLevel.SERIAL)
        self.assertEqual(self.rows(query), [(1,)])

    def test_refusals(self):
        table = self.table("p int, c int, v int, PRIMARY KEY (p, c)")
        for query in [
            f"UPDATE {table} USING TIMESTAMP 1 SET v = 1 WHERE p = 1 AND c = 1 IF v = 1",
            f"UPDATE {table} SET v = 1 WHERE p IN (1, 2) AND c = 1 IF v = 1",
            f"UPDATE {table} SET v = 1 WHERE p = 1 AND c IN (1, 2) IF v = 1",
            f"UPDATE {table} SET v = 1 WHERE p = 1 AND c = 1 IF c = 1",
            f"UPDATE {table} SET v = 1 WHERE p = 1 AND c = 1 IF nothing = 1",
            f"DELETE FROM {table} WHERE p = 1 IF v = 1",
        ]:
            with self.assertRaises(InvalidRequest, msg=query):
                self.session.execute(query)


class Filtering(python_driver.Connected):
    def test_contains(self):
        table = self.table("p int PRIMARY KEY, s set<int>, m map<text, int>, l list<text>")
        self.session.execute(f"INSERT INTO {table} (p, s, m, l) VALUES (1, {{1, 2}}, {{'a': 5}}, ['x'])")
        self.session.execute(f"INSERT INTO {table} (p, s, m, l) VALUES (2, {{3}}, {{'b': 6}}, ['y', 'x'])")
        for where, expected in [
            ("s CONTAINS 2", [1]),
            ("m CONTAINS 6", [2]),
            ("m CONTAINS KEY 'a'", [1]),
            ("m['b'] = 6", [2]),
            ("l CONTAINS 'x'", [1, 2]),
            ("l CONTAINS 'x' AND s CONTAINS 3", [2]),
        ]:
            found = self.rows(f"SELECT p FROM {table} WHERE {where} ALLOW FILTERING")
            self.assertEqual(sorted(found), [(p,) for p in expected], where)

    def test_tuples_over_mixed_orders(self):
        order = "WITH CLUSTERING ORDER BY (a ASC, b DESC)"
        table = self.table("p int, a int, b int, PRIMARY KEY (p, a, b)", order)
        rows = [(a, b) for a in range(3) for b in range(3)]
        for row in rows:
            self.session.execute(f"INSERT INTO {table} (p, a, b) VALUES (1, %s, %s)", row)
        select = self.session.prepare(f"SELECT a, b FROM {table} WHERE p = 1 AND (a, b) > ? AND (a, b) <= ?")
        expected = sorted((row for row in rows if (0, 1) < row <= (2, 0)), key=lambda row: (row[0], -row[1]))
        self.assertEqual(self.rows(select, ((0, 1), (2, 0))), expected)

    def test_bound_lists_of_tuples(self):
        table = self.table("p int, a int, b int, PRIMARY KEY (p, a, b)")
        for a, b in [(1, 1), (1, 2), (2, 1)]:
            self.session.execute(f"INSERT INTO {table} (p, a, b) VALUES (1, %s, %s)", (a, b))
        select = self.session.prepare(f"SELECT a, b FROM {table} WHERE p = 1 AND (a, b) IN ?")
        self.assertEqual(self.rows(select, ([(2, 1), (1, 2), (9, 9)],)), [(1, 2), (2, 1)])

    def test_token_of_bound_values(self):
        table = self.table("p int PRIMARY KEY")
        for p in range(10):
            self.session.execute(f"INSERT INTO {table} (p) VALUES (%s)", (p,))
        every = self.rows(f"SELECT p FROM {table}")
        select = self.session.prepare(f"SELECT p FROM {table} WHERE token(p) > token(?)")
        self.assertEqual(self.rows(select, every[3]), every[4:])


if __name__ == "__main__":
    python_driver.HOST, python_driver.PORT = sys.argv[1], int(sys.argv[2])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
