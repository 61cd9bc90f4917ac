"""Values of several parts through the Python driver: typed_values.py HOST PORT CLASS

As in python_driver.py, whose sessions and tables these tests use, everything here passes on Apache Cassandra too, but for
functions, which are in another language there.
"""

import sys
import unittest

import python_driver
from cassandra import FunctionFailure, InvalidRequest
from cassandra.protocol import SyntaxException


class Elements(python_driver.Connected):
    def one(self, table, column):
        return self.rows(f"SELECT {column} FROM {table} WHERE p = 1")[0][0]

    def test_sets_and_maps(self):
        table = self.table("p int PRIMARY KEY, s set<int>, m map<text, int>")
        update = lambda change: self.session.execute(f"UPDATE {table} SET {change} WHERE p = 1")
        update("s = {3, 1}, m = {'a': 1}")
        update("s = s + {2, 1}, m = m + {'b': 2, 'c': 3}")
        update("s = s - {3}, m = m - {'a'}")
        update("m['c'] = 33, m['d'] = 4")
        self.assertEqual(set(self.one(table, "s")), {1, 2})
        self.assertEqual(dict(self.one(table, "m")), {"b": 2, "c": 33, "d": 4})
        self.session.execute(f"DELETE s[1], m['b'] FROM {table} WHERE p = 1")
        update("m['d'] = null")
        self.assertEqual((set(self.one(table, "s")), dict(self.one(table, "m"))), ({2}, {"c": 33}))
        self.assertEqual(self.rows(f"SELECT m['c'], m['x'], s[2] FROM {table}"), [(33, None, 2)])
        update("s = {}, m = {}")
        self.assertEqual(self.rows(f"SELECT s, m FROM {table}"), [])

    def test_slices_of_sets_and_maps(self):
        table = self.table("p int PRIMARY KEY, s set<int>, m map<text, int>, f frozen<map<int, int>>, l list<int>")
        self.session.execute(
            f"INSERT INTO {table} (p, s, m, f, l) VALUES (1, {{1, 3, 5}}, {{'a': 1, 'b': 2, 'd': 4}}, {{1: 1, 2: 2}}, [1])"
        )
        for selector, name, expected in [
            ("m['a'..'c']", "m['a'..'c']", {"a": 1, "b": 2}),
            ("m['b'..]", "m['b'..]", {"b": 2, "d": 4}),
            ("m[..'a']", "m[..'a']", {"a": 1}),
            ("f[2..9]", "f[2..9]", {2: 2}),
            ("s[2..5]", "s[2..5]", {3, 5}),
            ("m['x'..'z']", "m['x'..'z']", None),
        ]:
            result = self.session.execute(f"SELECT {selector} FROM {table}")
            value = result.one()[0]
            value = value if value is None else set(value) if isinstance(expected, set) else dict(value)
            self.assertEqual((result.column_names, value), ([name], expected))
        prepared = self.session.prepare(f"SELECT m[? .. ?] FROM {table} WHERE p = 1")
        self.assertEqual(dict(self.session.execute(prepared, ["a", "b"]).one()[0]), {"a": 1, "b": 2})
        for wrong in ["l[0..1]", "p[1..2]", "m[..]", "m[1..2]"]:
            with self.assertRaises((InvalidRequest, SyntaxException)):
                self.session.execute(f"SELECT {wrong} FROM {table}")

    def test_lists(self):
        table = self.table("p int PRIMARY KEY, l list<int>")
        update = lambda change: self.session.execute(f"UPDATE {table} SET {change} WHERE p = 1")
        update("l = [3, 4]")
        update("l = l + [5, 3]")
        update("l = [1, 2] + l")
        self.assertEqual(self.one(table, "l"), [1, 2, 3, 4, 5, 3])
        update("l[1] = 22")
        update("l = l - [3]")
        self.assertEqual(self.one(table, "l"), [1, 22, 4, 5])
        self.session.execute(f"DELETE l[0] FROM {table} WHERE p = 1")
        self.assertEqual(self.one(table, "l"), [22, 4, 5])
        with self.assertRaisesRegex(InvalidRequest, "out of bound"):
            update("l[3] = 0")

    def test_writers_of_different_elements_do_not_disturb_each_other(self):
        table = self.table("p int PRIMARY KEY, m map<int, int>")
        self.session.execute(f"UPDATE {table} USING TIMESTAMP 20 SET m[1] = 20 WHERE p = 1")
        self.session.execute(f"UPDATE {table} USING TIMESTAMP 10 SET m[1] = 10, m[2] = 10 WHERE p = 1")
        self.assertEqual(dict(self.one(table, "m")), {1: 20, 2: 10})
        self.session.execute(f"UPDATE {table} USING TIMESTAMP 15 SET m = {{3: 15}} WHERE p = 1")
        self.assertEqual(dict(self.one(table, "m")), {1: 20, 3: 15})

    def test_bound_values_are_sorted(self):
        table = self.table("p frozen<set<int>> PRIMARY KEY")
        self.session.execute(self.session.prepare(f"INSERT INTO {table} (p) VALUES (?)"), [(3, 1, 2)])
        self.assertEqual(len(self.rows(f"SELECT * FROM {table} WHERE p = {{2, 3, 1}}")), 1)

    def test_what_must_be_frozen(self):
        for columns in ["p list<int> PRIMARY KEY", "p int PRIMARY KEY, l list<set<int>>"]:
            with self.assertRaisesRegex(InvalidRequest, "[Nn]on-frozen"):
                self.table(columns)


class UserTypes(python_driver.Connected):
    def test_fields(self):
        self.session.execute("CREATE TYPE IF NOT EXISTS address (street text, no int)")
        table = self.table("p int PRIMARY KEY, a address, f frozen<address>, l list<frozen<address>>")
        self.session.execute(
            f"INSERT INTO {table} (p, a, f, l) VALUES (1, {{street: 'x', no: 1}}, {{no: 2}}, [{{street: 'y'}}])"
        )
        self.session.execute(f"UPDATE {table} SET a.no = 11 WHERE p = 1")
        self.assertEqual(self.rows(f"SELECT a.street, a.no, f.no, l FROM {table}")[0][:3], ("x", 11, 2))
        self.session.execute(f"DELETE a.street FROM {table} WHERE p = 1")
        self.assertEqual(self.rows(f"SELECT a FROM {table}")[0][0], (None, 11))
        with self.assertRaisesRegex(InvalidRequest, "frozen"):
            self.session.execute(f"UPDATE {table} SET f.no = 3 WHERE p = 1")
        with self.assertRaisesRegex(InvalidRequest, "used"):
            self.session.execute("DROP TYPE address")

    def test_altered(self):
        self.session.execute("DROP TYPE IF EXISTS growing")
        self.session.execute("CREATE TYPE growing (a int)")
        table = self.table("p int PRIMARY KEY, g growing, f frozen<list<growing>>")
        self.session.execute(f"INSERT INTO {table} (p, g, f) VALUES (1, {{a: 1}}, [{{a: 2}}])")
        self.session.execute("ALTER TYPE growing ADD b text")
        self.session.execute(f"UPDATE {table} SET g.b = 'new' WHERE p = 1")
        self.assertEqual(self.rows(f"SELECT g, f FROM {table}")[0], ((1, "new"), [(2, None)]))
        self.session.execute("ALTER TYPE growing RENAME a TO c")
        self.assertEqual(self.rows(f"SELECT g.c FROM {table}"), [(1,)])
        fields = "SELECT field_names FROM system_schema.types WHERE keyspace_name = 'drivers' AND type_name = 'growing'"
        self.assertEqual(self.rows(fields), [(["c", "b"],)])
        self.session.execute(f"DROP TABLE {table}")
        self.session.execute("DROP TYPE growing")


class Counters(python_driver.Connected):
    def test_updates_add_up(self):
        table = self.table("p int, c int, n counter, m counter, PRIMARY KEY (p, c)")
        update = self.session.prepare(f"UPDATE {table} SET n = n + ?, m = m - 1 WHERE p = ? AND c = 0")
        futures = [self.session.execute_async(update, (by, 1)) for by in range(100)]
        for future in futures:
            future.result()
        self.assertEqual(self.rows(f"SELECT n, m FROM {table}"), [(4950, -100)])
        self.session.execute(
            f"BEGIN COUNTER BATCH UPDATE {table} SET n += 1 WHERE p = 1 AND c = 0; "
            f"UPDATE {table} SET n -= 5 WHERE p = 1 AND c = 1; APPLY BATCH"
        )
        self.assertEqual(self.rows(f"SELECT n FROM {table}"), [(4951,), (-5,)])

    def test_refusals(self):
        table = self.table("p int PRIMARY KEY, n counter")
        for text in [
            f"INSERT INTO {table} (p, n) VALUES (1, 1)",
            f"UPDATE {table} SET n = 1 WHERE p = 1",
            f"UPDATE {table} USING TTL 1 SET n = n + 1 WHERE p = 1",
            f"UPDATE {table} USING TIMESTAMP 1 SET n = n + 1 WHERE p = 1",
            "CREATE TABLE mixed (p int PRIMARY KEY, n counter, v int)",
        ]:
            with self.assertRaises(InvalidRequest, msg=text):
                self.session.execute(text)


class Functions(python_driver.Connected):
    def setUp(self):
        try:
            self.session.execute(
                "CREATE OR REPLACE FUNCTION plus (a int, b int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua "
                "AS 'return (a or 0) + (b or 0)'"
            )
        except InvalidRequest as error:
            self.skipTest(str(error))

    def test_functions_and_aggregates(self):
        table = self.table("p int PRIMARY KEY, v int")
        for p in range(5):
            self.session.execute(f"INSERT INTO {table} (p, v) VALUES ({p}, {p * 10})")
        self.assertEqual(self.rows(f"SELECT plus(v, 1) FROM {table} WHERE p = 2"), [(21,)])
        self.session.execute("CREATE OR REPLACE AGGREGATE total (int) SFUNC plus STYPE int INITCOND 100")
        self.assertEqual(self.rows(f"SELECT total(v) FROM {table}"), [(200,)])
        with self.assertRaisesRegex(InvalidRequest, "used"):
            self.session.execute("DROP FUNCTION plus")
        self.session.execute("DROP AGGREGATE total")
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (9, plus(plus(1, 2), null))")
        self.assertEqual(self.rows(f"SELECT v FROM {table} WHERE p = 9"), [(3,)])

    def test_overloads(self):
        table = self.table("p int PRIMARY KEY, t text")
        self.session.execute(
            "CREATE OR REPLACE FUNCTION plus (a text, b text) RETURNS NULL ON NULL INPUT RETURNS text LANGUAGE lua "
            "AS 'return a .. b'"
        )
        self.session.execute(f"INSERT INTO {table} (p, t) VALUES (1, 'x')")
        self.assertEqual(self.rows(f"SELECT plus(p, p), plus(t, 'y'), plus(t, null) FROM {table}"), [(2, "xy", None)])
        with self.assertRaisesRegex(InvalidRequest, "none of its type signatures match"):
            self.session.execute(f"SELECT plus(p, t) FROM {table}")

    def test_a_function_that_never_ends_is_stopped(self):
        table = self.table("p int PRIMARY KEY")
        self.session.execute(f"INSERT INTO {table} (p) VALUES (1)")
        self.session.execute(
            "CREATE OR REPLACE FUNCTION endless (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua "
            "AS 'while true do end'"
        )
        with self.assertRaisesRegex(FunctionFailure, "too long"):
            self.session.execute(f"SELECT endless(p) FROM {table}")
        self.assertEqual(self.rows(f"SELECT p FROM {table}"), [(1,)])


if __name__ == "__main__":
    python_driver.HOST, python_driver.PORT = sys.argv[1], int(sys.argv[2])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
