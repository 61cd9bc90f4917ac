"""Definitions changed and described, through the Python driver: definition.py HOST PORT CLASS

As in python_driver.py, whose sessions and tables these tests use, everything here passes on Apache Cassandra too.
"""

import sys
import unittest

import python_driver
from cassandra import InvalidRequest
from cassandra.query import SimpleStatement


class Alter(python_driver.Connected):
    def test_a_dropped_column_is_gone_and_comes_back_empty(self):
        table = self.table("p int PRIMARY KEY, a int, b text, m map<int, int>")
        self.session.execute(f"INSERT INTO {table} (p, a, b, m) VALUES (1, 1, 'x', {{1: 1}})")
        self.session.execute(f"ALTER TABLE {table} DROP (a, m)")
        self.assertEqual(self.rows(f"SELECT * FROM {table}"), [(1, "x")])
        with self.assertRaises(InvalidRequest):
            self.session.execute(f"SELECT a FROM {table}")
        with self.assertRaises(InvalidRequest):
            self.session.execute(f"ALTER TABLE {table} ADD a text")
        self.session.execute(f"ALTER TABLE {table} ADD (a int, m map<int, int>)")
        self.assertEqual(self.rows(f"SELECT p, a, b, m FROM {table}"), [(1, None, "x", None)])
        self.session.execute(f"INSERT INTO {table} (p, a, m) VALUES (1, 2, {{2: 2}})")
        ((a, m),) = self.rows(f"SELECT a, m FROM {table}")
        self.assertEqual((a, dict(m)), (2, {2: 2}))
        dropped = f"SELECT column_name FROM system_schema.dropped_columns WHERE keyspace_name = 'drivers' AND table_name = '{table}'"
        self.assertEqual(self.rows(dropped), [("a",), ("m",)])

    def test_keys_are_renamed(self):
        table = self.table("p int, c int, v int, PRIMARY KEY (p, c)")
        self.session.execute(f"INSERT INTO {table} (p, c, v) VALUES (1, 2, 3)")
        self.session.execute(f"ALTER TABLE {table} RENAME p TO q AND c TO d")
        self.assertEqual(self.rows(f"SELECT q, d, v FROM {table} WHERE q = 1 AND d = 2"), [(1, 2, 3)])
        for refused in ["RENAME v TO w", "RENAME q TO d", "DROP q", "DROP nothing"]:
            with self.assertRaises(InvalidRequest, msg=refused):
                self.session.execute(f"ALTER TABLE {table} {refused}")


class Described(python_driver.Connected):
    def test_a_table_is_made_again_from_its_description(self):
        table = self.table('p int, c text, "V" list<int>, s int static, PRIMARY KEY (p, c)', "WITH comment = 'it''s'")
        (row,) = self.session.execute(f"DESCRIBE TABLE {table}")
        self.assertEqual((row.keyspace_name, row.type, row.name), ("drivers", "table", table))
        self.session.execute(f"DROP TABLE {table}")
        self.session.execute(row.create_statement)
        (again,) = self.session.execute(f"DESCRIBE TABLE drivers.{table}")
        self.assertEqual(again.create_statement, row.create_statement)

    def test_lists(self):
        table = self.table("p int PRIMARY KEY")
        listed = [tuple(row) for row in self.session.execute("DESCRIBE TABLES")]
        self.assertIn(("drivers", "table", table), listed)
        self.assertIn("drivers", [row.keyspace_name for row in self.session.execute("DESC KEYSPACES")])
        (only,) = self.session.execute("DESCRIBE ONLY KEYSPACE drivers")
        self.assertTrue(only.create_statement.startswith("CREATE KEYSPACE drivers"))
        for refused in ["DESCRIBE TABLE nothing", "DESCRIBE TYPE nothing", "DESCRIBE KEYSPACE nothing"]:
            with self.assertRaises(InvalidRequest, msg=refused):
                self.session.execute(refused)


class Ordered(python_driver.Connected):
    def test_several_partitions_share_an_order(self):
        table = self.table("p int, c int, PRIMARY KEY (p, c)")
        for p, c in [(1, 1), (1, 4), (2, 2), (2, 3)]:
            self.session.execute(f"INSERT INTO {table} (p, c) VALUES ({p}, {c})")
        query = f"SELECT c FROM {table} WHERE p IN (1, 2) ORDER BY c DESC"
        self.assertEqual(self.rows(SimpleStatement(query, fetch_size=None)), [(4,), (3,), (2,), (1,)])
        self.assertEqual(self.rows(SimpleStatement(f"{query} LIMIT 2", fetch_size=None)), [(4,), (3,)])
        with self.assertRaises(InvalidRequest):
            self.session.execute(SimpleStatement(query, fetch_size=100))


if __name__ == "__main__":
    python_driver.HOST, python_driver.PORT = sys.argv[1], int(sys.argv[2])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
