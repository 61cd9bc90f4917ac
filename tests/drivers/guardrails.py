"""Guardrails through the Python driver: guardrails.py HOST PORT CLASS

They are set in `system.config`, as in ScyllaDB; what is said is what Apache Cassandra says with the same thresholds.
"""

import sys
import unittest

import python_driver
from cassandra import ConsistencyLevel, InvalidRequest, OperationTimedOut, ReadFailure
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import ConfigurationException, OverloadedErrorMessage
from cassandra.query import SimpleStatement


class Guardrails(python_driver.Connected):
    def guard(self, name, warn, fail):
        for kind, threshold in [("warn", warn), ("fail", fail)]:
            update = "UPDATE system.config SET value = %s WHERE name = %s"
            self.session.execute(update, [str(threshold), f"{name}_{kind}_threshold"])

    def said(self, statement):
        """The warnings, or the refusal."""
        future = self.session.execute_async(statement)
        try:
            future.result()
        except InvalidRequest as error:
            return [str(error).split('message="')[1][:-1]]
        return future.warnings or []

    def guarded(self, name, statements, warn, fail):
        """What each of the statements says, without the name of the guardrail."""
        self.guard(name, warn, fail)
        try:
            said = [self.said(statement) for statement in statements]
        finally:
            self.guard(name, -1, -1)
        prefix = f"Guardrail {name} violated: "
        self.assertTrue(all(text.startswith(prefix) for texts in said for text in texts), said)
        return [text[len(prefix) :] for texts in said for text in texts]

    def test_selects(self):
        table = self.table("k int, c int, d int, PRIMARY KEY (k, c, d)")
        sizes = [SimpleStatement(f"SELECT * FROM {table}", fetch_size=size) for size in [10, 15, 21]]
        self.assertEqual(
            self.guarded("page_size", sizes, 10, 20),
            [
                f"Query for table {table} with page size 15 exceeds warning threshold of 10.",
                f"Aborting query for table {table}, page size 21 exceeds fail threshold of 20.",
            ],
        )
        keys = [f"SELECT * FROM {table} WHERE k IN ({keys})" for keys in ["1", "1, 2", "1, 2, 3"]]
        self.assertEqual(
            self.guarded("partition_keys_in_select", keys, 1, 2),
            [
                f"Query with partition keys in IN clause on table {table}, with number of partition keys 2 exceeds "
                "warning threshold of 1.",
                f"Aborting query with partition keys in IN clause on table {table}, number of partition keys 3 exceeds "
                "fail threshold of 2.",
            ],
        )
        rows = [f"SELECT * FROM {table} WHERE k = 1 AND c IN ({c}) AND d IN (1, 2)" for c in ["1", "1, 2", "1, 2, 3"]]
        product = "cartesian product of the IN restrictions on clustering key produces"
        self.assertEqual(
            self.guarded("in_select_cartesian_product", rows, 3, 5),
            [
                f"The {product} 4 values, this exceeds warning threshold of 3.",
                f"Aborting query because the {product} 6 values, this exceeds fail threshold of 5.",
            ],
        )

    def test_definitions(self):
        table = self.table("k int PRIMARY KEY, a int, b int")
        columns = [f"ALTER TABLE {table} ADD {column} int" for column in ["c", "d"]]
        self.assertEqual(
            self.guarded("columns_per_table", columns, 3, 4),
            [
                f"The table {table} has 4 columns, this exceeds the warning threshold of 3.",
                f"Tables cannot have more than 4 columns, but 5 provided for table {table}",
            ],
        )
        indexes = [f"CREATE INDEX guarded_{column} ON {table} ({column})" for column in "abc"]
        self.assertEqual(
            self.guarded("secondary_indexes_per_table", indexes, 1, 2),
            [
                f"Creating secondary index guarded_b on table {table}, current number of indexes 2 exceeds warning "
                "threshold of 1.",
                "Tables cannot have more than 2 secondary indexes, aborting the creation of secondary index guarded_c "
                f"on table {table}",
            ],
        )
        types = ["CREATE TYPE guarded (a int, b int)", "ALTER TYPE guarded ADD c int", "DROP TYPE guarded"]
        self.assertEqual(
            self.guarded("fields_per_udt", types, 1, 2),
            [
                "The user type guarded has 2 columns, this exceeds the warning threshold of 1.",
                "User types cannot have more than 2 columns, but 3 provided for user type guarded.",
            ],
        )
        (refusal,) = self.guarded("tables", ["CREATE TABLE guarded (k int PRIMARY KEY)"], -1, 0)
        self.assertEqual(refusal, "Cannot have more than 0 tables, aborting the creation of table guarded")

    def set(self, name, value):
        self.session.execute("UPDATE system.config SET value = %s WHERE name = %s", [value, name])

    def with_setting(self, name, value, statement):
        """What a statement says while a setting of ScyllaDB's has a value."""
        before = self.session.execute("SELECT value FROM system.config WHERE name = %s", [name]).one().value
        self.set(name, value)
        try:
            return self.said(statement)
        except ConfigurationException as error:
            return [str(error).split('message="')[1][:-1]]
        finally:
            self.set(name, before)

    def test_large_data(self):
        table = self.table("k int PRIMARY KEY, v blob, s set<int>")
        insert = SimpleStatement(f"INSERT INTO {table} (k, v, s) VALUES (1, 0x{'00' * 1100000}, {{1, 2, 3}})")
        self.assertEqual(self.with_setting("large_cell_fail_threshold_mb", "1", insert), [])
        self.session.execute(f"ALTER TABLE {table} WITH large_data_guardrails_enabled = true")
        (refusal,) = self.with_setting("large_cell_fail_threshold_mb", "1", insert)
        self.assertRegex(refusal, f"Large data guardrail: cell size of 1100000 bytes .*table={table}, column=v")
        (warning,) = self.with_setting("compaction_collection_elements_count_warning_threshold", "2", insert)
        self.assertIn("soft limit violation of cell size, collection size", warning)
        self.session.execute(f"DELETE FROM {table} WHERE k = 1 BYPASS LARGE_DATA_GUARDRAILS")

    def test_tombstones(self):
        table = self.table("k int, c int, PRIMARY KEY (k, c)")
        for c in range(20):
            self.session.execute(f"DELETE FROM {table} WHERE k = 1 AND c = {c}")
        self.session.execute(f"INSERT INTO {table} (k, c) VALUES (1, 100)")
        select = f"SELECT c FROM {table} WHERE k = 1"
        self.assertEqual(self.with_setting("tombstone_warn_threshold", "20", select), [])
        (warning,) = self.with_setting("tombstone_warn_threshold", "19", select)
        self.assertRegex(warning, f"^Read 1 live rows and 20 tombstone cells for a query of drivers.{table} ")
        self.session.execute("UPDATE system.config SET value = '19' WHERE name = 'tombstone_failure_threshold'")
        try:
            with self.assertRaisesRegex(ReadFailure, "READ_TOO_MANY_TOMBSTONES"):
                self.session.execute(select)
        finally:
            self.session.execute("UPDATE system.config SET value = '100000' WHERE name = 'tombstone_failure_threshold'")
        self.assertEqual(self.rows(select), [(100,)])

    def test_a_scan_ends_its_page_after_so_many_tombstones(self):
        table = self.table("k int PRIMARY KEY")
        for k in range(50):
            self.session.execute(f"DELETE FROM {table} WHERE k = {k}")
        self.session.execute(f"INSERT INTO {table} (k) VALUES (100)")
        self.session.execute("UPDATE system.config SET value = '10' WHERE name = 'query_tombstone_page_limit'")
        try:
            result, pages = self.session.execute(SimpleStatement(f"SELECT k FROM {table}", fetch_size=10)), 1
            found = [row.k for row in result.current_rows]
            while result.has_more_pages:
                result.fetch_next_page()
                pages += 1
                found += [row.k for row in result.current_rows]
            self.assertEqual(self.rows(f"SELECT count(*) FROM {table}"), [(1,)])
        finally:
            self.session.execute("UPDATE system.config SET value = '10000' WHERE name = 'query_tombstone_page_limit'")
        self.assertEqual(found, [100])
        self.assertGreaterEqual(pages, 5)

    def test_requests_at_once(self):
        table = self.table("k int PRIMARY KEY")
        self.session.execute("UPDATE system.config SET value = '1' WHERE name = 'max_concurrent_requests_per_shard'")
        try:
            # Scans ask the other shard too, so that one request meets another.
            asked = [self.session.execute_async(f"SELECT * FROM {table}") for _ in range(200)]
            refused = 0
            for future in asked:
                try:
                    future.result()
                except (OperationTimedOut, NoHostAvailable, OverloadedErrorMessage) as error:
                    refused += "max_concurrent_requests_per_shard" in str(error)
        finally:
            restored = "UPDATE system.config SET value = '4294967295' WHERE name = 'max_concurrent_requests_per_shard'"
            self.session.execute(restored)
        self.assertGreater(refused, 0)
        self.assertEqual(self.rows(f"SELECT * FROM {table}"), [])

    def test_levels_of_writes(self):
        table = self.table("k int PRIMARY KEY, v int")
        for statement in [
            f"INSERT INTO {table} (k, v) VALUES (1, 1)",
            f"INSERT INTO {table} (k, v) VALUES (1, 1) IF NOT EXISTS",
            f"BEGIN BATCH INSERT INTO {table} (k, v) VALUES (1, 1); UPDATE {table} SET v = 2 WHERE k = 2 APPLY BATCH",
        ]:
            statement = SimpleStatement(statement, consistency_level=ConsistencyLevel.ALL)
            self.assertEqual(self.with_setting("write_consistency_levels_warned", "QUORUM", statement), [])
            (warning,) = self.with_setting("write_consistency_levels_warned", "ALL, ANY", statement)
            self.assertIn("ALL is listed in write_consistency_levels_warned", warning)
            (refusal,) = self.with_setting("write_consistency_levels_disallowed", "ALL", statement)
            self.assertIn("ALL is forbidden for writes", refusal)

    def test_replication(self):
        create = "CREATE KEYSPACE guarded WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
        (refusal,) = self.with_setting("minimum_replication_factor_fail_threshold", "2", create)
        self.assertIn("=1 is forbidden: it is below minimum_replication_factor_fail_threshold=2", refusal)
        (warning,) = self.with_setting("minimum_replication_factor_warn_threshold", "2", create)
        self.assertIn("=1 is below minimum_replication_factor_warn_threshold=2, which is not recommended", warning)
        self.session.execute("DROP KEYSPACE guarded")
        create = create.replace("NetworkTopologyStrategy", "SimpleStrategy")
        (refusal,) = self.with_setting("replication_strategy_fail_list", "SimpleStrategy", create)
        self.assertIn("SimpleStrategy is forbidden", refusal)


if __name__ == "__main__":
    python_driver.HOST, python_driver.PORT = sys.argv[1], int(sys.argv[2])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
