"""What statements mean and how they are refused, through the Python driver: language.py HOST PORT CLASS

As in python_driver.py, whose sessions and tables these tests use, everything here passes on Apache Cassandra too.
"""

import decimal
import math
import re
import sys
import unittest

import python_driver
from cassandra import FunctionFailure, InvalidRequest
from cassandra.protocol import ConfigurationException, SyntaxException
from cassandra.query import SimpleStatement


class Language(python_driver.Connected):
    def refused(self, query, message, error=InvalidRequest):
        with self.assertRaises(error) as raised:
            self.session.execute(query)
        self.assertRegex(str(raised.exception), re.escape(message), query)

    def pages(self, query, size):
        result = self.session.execute(SimpleStatement(query, fetch_size=size))
        pages = []
        while True:
            pages += [tuple(row) for row in result.current_rows]
            if not result.has_more_pages:
                return pages
            result.fetch_next_page()


class Ring(Language):
    def test_slices_of_it_in_pages(self):
        name = self.table("a int, b int, PRIMARY KEY (a, b)")
        insert = self.session.prepare(f"INSERT INTO {name} (a, b) VALUES (?, ?)")
        for a in range(200):
            for b in range(1 + a % 3):
                self.session.execute(insert, (a, b))
        order = [token for (token,) in self.pages(f"SELECT token(a) FROM {name}", 5000)]
        self.assertEqual((order, len(order)), (sorted(order), 399))
        for size in [1, 7, 100]:
            self.assertEqual([token for (token,) in self.pages(f"SELECT token(a) FROM {name}", size)], order)
        for low in range(0, 399, 40):
            for high, limit, size in [(low + 1, 5, 2), (low + 30, 7, 100), (398, 60, 9), (398, 1000, 50)]:
                after, until = order[low], order[min(high, 398)]
                query = f"SELECT token(a) FROM {name} WHERE token(a) > {after} AND token(a) <= {until} LIMIT {limit}"
                expected = [token for token in order if after < token <= until][:limit]
                self.assertEqual([token for (token,) in self.pages(query, size)], expected, query)


class Operators(Language):
    def setUp(self):
        columns = "k int PRIMARY KEY, t tinyint, b bigint, f float, v varint, d decimal, s text, at timestamp, on_ date"
        self.name = self.table(columns)
        self.session.execute(
            f"INSERT INTO {self.name} (k, t, b, f, v, d, s, at, on_) VALUES "
            "(1, 100, 7, 1.5, 5, 3.75, 'x', '2020-01-31T23:00:00Z', '2020-01-31')"
        )

    def test_numbers(self):
        for expression, name, value in [
            ("k + b", "k + b", 8),
            ("t + t", "t + t", -56),
            ("k - b * 2", "k - b * 2", -13),
            ("b / 2", "b / 2", 3),
            ("b % 4", "b % 4", 3),
            ("f * 2", "f * 2", 3.0),
            ("v + k", "v + k", 6),
            ("d / 3", "d / 3", decimal.Decimal("1.25")),
            ("d + f", "d + f", decimal.Decimal("5.25")),
            ("b + (bigint)null", "b + (bigint)NULL", None),
            ("max(b) + 1", "system.max(b) + 1", 8),
            ("writetime(b) - writetime(b)", "writetime(b) - writetime(b)", 0),
        ]:
            result = self.session.execute(f"SELECT {expression} FROM {self.name} WHERE k = 1")
            self.assertEqual((result.column_names, list(result.one())), ([name], [value]))

    def test_moments(self):
        query = f"SELECT CAST(at + 1mo2h AS text), CAST(on_ - 31d AS text) FROM {self.name}"
        self.assertEqual(self.rows(query), [("2020-03-01T01:00:00.000Z", "2019-12-31")])

    def test_where_and_values(self):
        insert = f"INSERT INTO {self.name} (k, t, f) VALUES (1 + 2 * 3, 100 + 100, 10 / 4)"
        self.session.execute(insert)
        self.assertEqual(self.rows(f"SELECT k, t, f FROM {self.name} WHERE k = (9 - 2)"), [(7, -56, 2.5)])
        self.session.execute(f"UPDATE {self.name} SET b = 3 * -4 WHERE k IN (5 + 2, 4 - 3)")
        self.assertEqual(self.rows(f"SELECT k, b FROM {self.name}"), [(1, -12), (7, -12)])

    def test_refusals(self):
        self.refused(f"SELECT k / 0 FROM {self.name}", "the operation 'int / int' failed: / by zero", FunctionFailure)
        self.refused(f"SELECT on_ + 2h FROM {self.name}", "must have a day precision", FunctionFailure)
        self.refused(f"SELECT at + s FROM {self.name}", "the '+' operation is not supported")
        self.refused(f"INSERT INTO {self.name} (k) VALUES (1.5 + 1)", "the '+' operation is not supported")
        self.refused(f"UPDATE {self.name} SET b = k * 2 WHERE k = 1", "Syntax error", SyntaxException)
        with self.assertRaises(InvalidRequest):
            self.session.prepare(f"SELECT k + ? FROM {self.name}")


class Restrictions(Language):
    def setUp(self):
        self.name = self.table("p int, c int, d int, s int static, v int, PRIMARY KEY (p, c, d)")
        for p, c, d in [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0)]:
            self.session.execute(f"INSERT INTO {self.name} (p, c, d, s, v) VALUES ({p}, {c}, {d}, {p}, 0)")

    def test_of_no_values(self):
        for where in ["p IN ()", "p = 0 AND c IN ()", "p = 0 AND (c, d) IN ()"]:
            self.assertEqual(self.rows(f"SELECT * FROM {self.name} WHERE {where}"), [], where)

    def test_order_behind_equal(self):
        query = f"SELECT d FROM {self.name} WHERE p = 0 AND c = 1 ORDER BY d DESC"
        self.assertEqual(self.rows(query), [(1,), (0,)])

    def test_pages_of_partitions(self):
        for size in [1, 2, 3]:
            query = f"SELECT DISTINCT p, s FROM {self.name}"
            self.assertEqual(self.pages(query, size), [(1, 1), (0, 0)])
            everything = [(1, 0, 0, 1), (0, 0, 0, 0), (0, 0, 1, 0), (0, 1, 0, 0), (0, 1, 1, 0)]
            self.assertEqual(self.pages(f"SELECT p, c, d, s FROM {self.name}", size), everything)
            query = f"SELECT p, c, d FROM {self.name} PER PARTITION LIMIT 2"
            self.assertEqual(self.pages(query, size), [(1, 0, 0), (0, 0, 0), (0, 0, 1)])

    def test_refusals(self):
        for where, message in [
            ("p = 0 AND d = 1", 'PRIMARY KEY column "d" cannot be restricted as preceding column "c" is not restricted'),
            ("p = 0 AND c > 0 AND d = 1", 'Clustering column "d" cannot be restricted (preceding column "c"'),
            ("p = 0 AND (c, d) > (0, 0) AND (c) > (0)", "More than one restriction was found for the start bound on c"),
            ("token(p, p) > 0", "duplicate partition key components"),
            ("token(c) > 0", "must be applied to all partition key components or none of them"),
            ("token(p) > null", "Invalid null token value"),
        ]:
            self.refused(f"SELECT * FROM {self.name} WHERE {where}", message)
        self.refused(f"SELECT DISTINCT s FROM {self.name}", "must request all the partition key columns (missing p)")
        self.refused(f"SELECT DISTINCT p FROM {self.name} WHERE p = 0 AND c = 0", "SELECT DISTINCT with WHERE clause")

    def test_keys_that_are_too_long(self):
        self.session.execute("CREATE TABLE IF NOT EXISTS long_keys (p int, q text, c text, PRIMARY KEY ((p, q), c))")
        long = "x" * 70_000
        self.refused(f"SELECT * FROM long_keys WHERE p = 1 AND q = '{long}'", "Key length of")
        self.refused(f"INSERT INTO long_keys (p, q, c) VALUES (1, '{long}', 'c')", "Key length of")
        self.assertEqual(self.rows("SELECT * FROM long_keys"), [])


class Changes(Language):
    def test_refusals(self):
        name = self.table("p int, c int, v int, s int static, m map<int, int>, PRIMARY KEY (p, c)")
        modified = "since the {} statement modifies only static columns"
        for statement, message in [
            (f"UPDATE {name} SET s = 1 WHERE p = 1 AND c = 1", modified.format("UPDATE")),
            (f"DELETE s FROM {name} WHERE p = 1 AND c = 1", modified.format("DELETE")),
            (f"UPDATE {name} SET v = 1 WHERE p = 1 AND c > 1", "Slice restrictions are not supported"),
            (f"UPDATE {name} SET v = 1 WHERE p > 1 AND c = 1", "Only EQ and IN relation are supported"),
            (f"UPDATE {name} SET v = 1 WHERE token(p) = 1 AND c = 1", "The token function cannot be used"),
            (f"DELETE v FROM {name} WHERE p = 1", "Range deletions are not supported for specific columns"),
            (f"DELETE v FROM {name} WHERE p = 1 AND c > 1", "Range deletions are not supported for specific columns"),
            (f"DELETE FROM {name} WHERE p > 1", "Only EQ and IN relation are supported"),
            (f"DELETE FROM {name} WHERE p = 1 AND m CONTAINS 1", "Cannot use DELETE with CONTAINS"),
            (f"DELETE FROM {name} WHERE p IN (1, 2) AND c = 1 IF EXISTS", "not supported with conditional deletions"),
        ]:
            self.refused(statement, message)
        self.refused(f"UPDATE {name} SET v = 1, v = 2 WHERE p = 1 AND c = 1", "Multiple incompatible", SyntaxException)
        self.session.execute(f"UPDATE {name} SET v = 1 WHERE p = 1 AND (c) IN ((1), (2))")
        self.session.execute(f"DELETE v, v FROM {name} WHERE p = 1 AND c = 2")
        self.assertEqual(self.rows(f"SELECT c, v FROM {name}"), [(1, 1)])

    def test_counters_in_batches(self):
        counters, others = self.table("k int PRIMARY KEY, n counter"), self.table("k int PRIMARY KEY, v int")
        count, write = f"UPDATE {counters} SET n = n + 1 WHERE k = 1", f"INSERT INTO {others} (k, v) VALUES (1, 1)"
        self.session.execute(f"BEGIN UNLOGGED BATCH {count}; {count} APPLY BATCH")
        self.session.execute(f"BEGIN COUNTER BATCH {count} APPLY BATCH")
        self.assertEqual(self.rows(f"SELECT n FROM {counters}"), [(3,)])
        mixed = "Counter and non-counter mutations cannot exist in the same batch"
        self.refused(f"BEGIN UNLOGGED BATCH {count}; {write} APPLY BATCH", mixed)
        self.refused(f"BEGIN BATCH {count} APPLY BATCH", "Cannot include a counter statement in a logged batch")
        self.refused(f"BEGIN COUNTER BATCH {write} APPLY BATCH", "Cannot include non-counter statement")
        timed = "USING TIMESTAMP 5"
        self.refused(f"BEGIN COUNTER BATCH {timed} {count} APPLY BATCH", "Cannot provide custom timestamp")
        self.refused(f"DELETE FROM {counters} {timed} WHERE k = 1", "Cannot provide custom timestamp")

    def test_definitions(self):
        for columns, message in [
            ("k int, c int, PRIMARY KEY (k, c, c)", "Duplicate column 'c' in PRIMARY KEY"),
            ("k int PRIMARY KEY, v int PRIMARY KEY", "Multiple PRIMARY KEY"),
        ]:
            self.refused(f"CREATE TABLE refused ({columns})", message)
        create = "CREATE TABLE refused (k int PRIMARY KEY) WITH default_time_to_live = "
        for ttl, message in [(-1, "greater than or equal to 0"), (630720001, "less than or equal to 630720000")]:
            self.refused(f"{create}{ttl}", message, ConfigurationException)
        counters = self.table("k int PRIMARY KEY, n counter")
        self.refused(f"ALTER TABLE {counters} ADD v int", "Cannot have a non counter column", ConfigurationException)


class Functions(Language):
    def setUp(self):
        self.name = self.table(
            "k int PRIMARY KEY, n int, d double, m map<text, int>, l list<int>, s set<int>, secret text"
        )
        self.session.execute(
            f"INSERT INTO {self.name} (k, n, d, m, l, s, secret) VALUES "
            "(1, -7, 2.5, {'a': 1, 'b': 2}, [3, 1, 2], {4, 5}, 'Alice')"
        )

    def one(self, expression):
        return self.session.execute(f"SELECT {expression} AS x FROM {self.name} WHERE k = 1").one().x

    def test_of_numbers(self):
        for expression, value in [
            ("abs(n)", 7),
            ("exp(n)", 0),
            ("log(d)", math.log(2.5)),
            ("log10(d * 40)", 2.0),
            ("round(d)", 3.0),
            ("abs(d)", 2.5),
        ]:
            self.assertEqual(self.one(expression), value, expression)
        self.refused(f"SELECT abs(secret) FROM {self.name}", "abs")

    def test_of_collections(self):
        for expression, value in [
            ("map_keys(m)", {"a", "b"}),
            ("map_values(m)", [1, 2]),
            ("collection_count(m)", 2),
            ("collection_count(l)", 3),
            ("collection_min(l)", 1),
            ("collection_max(s)", 5),
            ("collection_sum(l)", 6),
            ("collection_avg(s)", 4),
        ]:
            found = self.one(expression)
            self.assertEqual(set(found) if isinstance(value, set) else found, value, expression)
        name = self.session.execute(f"SELECT map_keys(m) FROM {self.name}").column_names
        self.assertEqual(name, ["system.map_keys(m)"])
        self.refused(f"SELECT map_keys(l) FROM {self.name}", "map_keys")

    def test_of_secrets(self):
        for expression, value in [
            ("mask_null(n)", None),
            ("mask_default(secret)", "****"),
            ("mask_default(n)", 0),
            ("mask_replace(secret, 'x')", "x"),
            ("mask_inner(secret, 1, 2)", "A**ce"),
            ("mask_outer(secret, 1, null)", "*lice"),
            ("mask_inner(secret, null, 1, '#')", "####e"),
        ]:
            self.assertEqual(self.one(expression), value, expression)


if __name__ == "__main__":
    python_driver.HOST, python_driver.PORT = sys.argv[1], int(sys.argv[2])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
