"""Traces, slow queries and the audit log, through the Python driver: observed.py HOST PORT CLASS[.test] ...

See observed.rs and python_driver.py.
"""

import http.client
import json
import threading
import uuid

import python_driver
from cassandra import InvalidRequest, Unauthorized
from cassandra.cluster import NoHostAvailable
from cassandra.query import BatchStatement
from python_driver import Connected, eventually, main
from security import log_in


def ask(method, path):
    api = http.client.HTTPConnection(python_driver.HOST, 10000, timeout=10)
    api.request(method, path)
    answer = api.getresponse()
    text = answer.read()
    api.close()
    assert answer.status == 200, text
    return json.loads(text) if text else None


class Traces(Connected):
    def trace(self, statement, parameters=None):
        return self.session.execute(statement, parameters, trace=True).get_query_trace(max_wait_sec=10)

    def steps(self, trace):
        return [event.description for event in trace.events]

    def test_a_request_is_traced_when_asked(self):
        table = self.table("p int PRIMARY KEY, v int")
        text = f"INSERT INTO {table} (p, v) VALUES (1, 1)"
        trace = self.trace(text)
        self.assertEqual(trace.parameters["query"], text)
        self.assertEqual(trace.parameters["consistency_level"], "LOCAL_ONE")
        self.assertEqual(trace.request_type, "Execute CQL3 query")
        self.assertEqual(str(trace.coordinator), python_driver.HOST)
        self.assertGreaterEqual(trace.duration.total_seconds(), 0)
        self.assertTrue(any(step.startswith("Executing a mutation") for step in self.steps(trace)), self.steps(trace))
        elapsed = [event.source_elapsed for event in trace.events]
        self.assertEqual(elapsed, sorted(elapsed))

    def test_prepared_statements_and_batches(self):
        table = self.table("p int PRIMARY KEY, v int")
        insert = self.session.prepare(f"INSERT INTO {table} (p, v) VALUES (?, ?)")
        trace = self.trace(insert, (1, 1))
        self.assertEqual((trace.request_type, trace.parameters["query"]), ("Execute CQL3 prepared query", insert.query_string))
        batch = BatchStatement()
        batch.add(insert, (2, 2))
        batch.add(f"DELETE FROM {table} WHERE p = 1")
        trace = self.trace(batch)
        self.assertEqual(trace.parameters["query[1]"], f"DELETE FROM {table} WHERE p = 1")

    def test_a_request_that_fails_is_traced(self):
        future = self.session.execute_async("SELECT * FROM no_such_table", trace=True)
        with self.assertRaises(InvalidRequest):
            future.result()
        self.assertTrue(future.get_query_trace(max_wait=10).events)

    def test_conditions_show_their_rounds(self):
        table = self.table("p int PRIMARY KEY, v int")
        steps = self.steps(self.trace(f"INSERT INTO {table} (p, v) VALUES (1, 1) IF NOT EXISTS"))
        for what in ("a ballot", "a proposal", "a commit"):
            self.assertTrue(any(f"Sending {what} of Paxos" in step for step in steps), steps)

    def test_a_part_of_all_requests_is_traced(self):
        table = self.table("p int PRIMARY KEY, v int")

        def traced():
            return [row.parameters["query"] for row in self.session.execute("SELECT parameters FROM system_traces.sessions")]

        text = f"SELECT v FROM {table} WHERE p = 77"
        self.session.execute(text)
        ask("POST", "/storage_service/trace_probability?probability=1")
        try:
            self.assertEqual(ask("GET", "/storage_service/trace_probability"), 1)
            self.session.execute(text)
        finally:
            ask("POST", "/storage_service/trace_probability?probability=0")
        eventually(lambda: traced().count(text) == 1, "the one that was sampled")

    def test_what_is_traced_expires(self):
        table = self.table("p int PRIMARY KEY, v int")
        trace = self.trace(f"SELECT * FROM {table}")
        ttl = self.rows("SELECT ttl(request) FROM system_traces.sessions WHERE session_id = %s", (trace.trace_id,))[0][0]
        self.assertTrue(86_000 < ttl <= 86_400, ttl)


class SlowQueries(Connected):
    def log(self):
        return list(self.session.execute("SELECT * FROM system_traces.node_slow_log"))

    def test_what_is_slow_is_logged(self):
        table = self.table("p int PRIMARY KEY, v int")
        ask("POST", "/storage_service/slow_query?enable=true&threshold=3600000000&ttl=60")
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, 1)")
        ask("POST", "/storage_service/slow_query?threshold=0")
        text = f"SELECT v FROM {table} WHERE p = 1"
        self.session.execute(text)
        ask("POST", "/storage_service/slow_query?enable=false")
        told = ask("GET", "/storage_service/slow_query")
        self.assertEqual((told["enable"], told["threshold"], told["ttl"]), (False, 0, 60))
        eventually(lambda: any(row.command == text for row in self.log()), "the slow one")
        row = next(row for row in self.log() if row.command == text)
        self.assertEqual((row.username, set(row.table_names)), ("anonymous", {f"drivers.{table}"}))
        self.assertFalse(any(row.command.startswith("INSERT") for row in self.log()))
        session = self.session.execute("SELECT * FROM system_traces.sessions WHERE session_id = %s", (row.session_id,))
        self.assertIsInstance(session.one().session_id, uuid.UUID)


class StorageJournal(Connected):
    def large(self, table):
        def of(name):
            where = "keyspace_name = 'drivers' AND table_name = %s"
            return list(self.session.execute(f"SELECT * FROM system.{name} WHERE {where}", (table,)))

        return {name: of(name) for name in ("large_partitions", "large_rows", "large_cells")}

    def test_what_is_large_is_told_of_until_it_is_compacted(self):
        thresholds = {
            "compaction_large_partition_warning_threshold_mb": "0.05",
            "compaction_large_row_warning_threshold_mb": "0.02",
            "compaction_large_cell_warning_threshold_mb": "0.01",
            "compaction_collection_elements_count_warning_threshold": "50",
        }
        for name, value in thresholds.items():
            self.session.execute("UPDATE system.config SET value = %s WHERE name = %s", (value, name))
        table = self.table("p text, c int, v text, s set<int>, PRIMARY KEY (p, c)")
        self.session.execute(f"INSERT INTO {table} (p, c, v) VALUES ('small', 1, 'x')")
        self.session.execute(f"INSERT INTO {table} (p, c, v) VALUES ('wide', 1, %s)", ("x" * 15_000,))
        self.session.execute(f"INSERT INTO {table} (p, c, v) VALUES ('wide', 2, %s)", ("x" * 60_000,))
        self.session.execute(f"INSERT INTO {table} (p, c, s) VALUES ('many', 3, %s)", (set(range(60)),))
        ask("POST", f"/storage_service/keyspace_flush/drivers?cf={table}")
        eventually(lambda: len(self.large(table)["large_cells"]) == 3, "three cells")
        found = self.large(table)
        self.assertEqual([(row.partition_key, row.rows) for row in found["large_partitions"]], [("wide", 2)])
        self.assertEqual([(row.partition_key, row.clustering_key) for row in found["large_rows"]], [("wide", "2")])
        cells = {(row.clustering_key, row.column_name, row.collection_elements) for row in found["large_cells"]}
        self.assertEqual(cells, {("1", "v", None), ("2", "v", None), ("3", "s", 60)})
        self.assertTrue(all(row.cell_size > 0 and row.sstable_name.endswith("-Data.db") for row in found["large_cells"]))
        self.session.execute(f"DELETE FROM {table} WHERE p = 'wide'")
        ask("POST", f"/storage_service/keyspace_compaction/drivers?cf={table}")
        eventually(lambda: len(self.large(table)["large_cells"]) == 1, "what is left")
        self.assertEqual(self.large(table)["large_partitions"], [])

        def compactions():
            rows = self.session.execute("SELECT * FROM system.compaction_history")
            return [row for row in rows if row.columnfamily_name == table]

        # Each shard compacts its own.
        def became_less():
            return any(row.bytes_in > row.bytes_out > 0 and row.rows_merged for row in compactions())

        eventually(became_less, "a compaction that dropped something")
        told = ask("GET", "/compaction_manager/compaction_history")
        self.assertIn(table, {one["cf"] for one in told})


class TopPartitions(Connected):
    def test_the_busiest_come_first(self):
        table = self.table("p text PRIMARY KEY, v int")
        insert = self.session.prepare(f"INSERT INTO {table} (p, v) VALUES (?, ?)")
        select = self.session.prepare(f"SELECT v FROM {table} WHERE p = ?")
        sampled = []
        path = f"/column_family/toppartitions/drivers:{table}?duration=2000&list_size=3"
        sampler = threading.Thread(target=lambda: sampled.append(ask("GET", path)))
        sampler.start()
        while sampler.is_alive():
            for n in range(20):
                self.session.execute(insert, (f"rare {n}", n))
                self.session.execute(insert, ("often", n))
                self.session.execute(select, ("read",))
        told = sampled[0]
        self.assertEqual((told["write"][0]["partition"], len(told["write"])), ("often", 3))
        self.assertEqual([one["partition"] for one in told["read"]], ["read"])
        self.assertGreater(told["write"][0]["count"], 2 * told["write"][1]["count"])
        self.assertEqual((told["write_cardinality"], told["read_cardinality"]), (21, 1))


class AuditLog(Connected):
    @classmethod
    def open(cls):
        cluster = log_in("cassandra", "cassandra")
        cluster.connect().execute(
            "CREATE KEYSPACE IF NOT EXISTS audited WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        return cluster

    def log(self):
        return list(self.session.execute("SELECT * FROM audit.audit_log"))

    def entry(self, operation):
        return next((row for row in self.log() if row.operation == operation), None)

    def test_statements_are_recorded_before_they_are_answered(self):
        texts = [
            ("DDL", "CREATE TABLE audited.t (p int PRIMARY KEY, v int)"),
            ("DML", "INSERT INTO audited.t (p, v) VALUES (1, 1)"),
            ("QUERY", "SELECT v FROM audited.t"),
            ("DDL", "DROP TABLE audited.t"),
        ]
        for category, text in texts:
            self.session.execute(text)
            row = self.entry(text)
            self.assertEqual((row.category, row.keyspace_name, row.table_name), (category, "audited", "t"))
            self.assertEqual((row.username, str(row.node), row.error), ("cassandra", python_driver.HOST, False))
            self.assertTrue(row.source and row.consistency)

    def test_other_keyspaces_are_not(self):
        table = self.table("p int PRIMARY KEY, v int")
        text = f"SELECT v FROM {table}"
        self.session.execute(text)
        self.assertIsNone(self.entry(text))

    def test_no_password_is_in_it(self):
        secret = "a secret that nobody must find"
        self.session.execute(f"CREATE ROLE audited_role WITH PASSWORD = '{secret}' AND LOGIN = true")
        self.session.execute(f"ALTER ROLE audited_role WITH PASSWORD = '{secret}'", trace=True)
        self.assertEqual(self.entry("ALTER ROLE audited_role WITH PASSWORD = '***'").category, "DCL")
        with self.assertRaises(NoHostAvailable):
            log_in("audited_role", secret + " not").connect()
        eventually(lambda: len(list(self.session.execute("SELECT * FROM system_traces.sessions"))) > 0, "the trace")
        for table in ("audit.audit_log", "system_traces.sessions", "system_traces.events"):
            for row in self.session.execute(f"SELECT * FROM {table}"):
                self.assertNotIn(secret, str(row))

    def test_what_was_refused_is_recorded(self):
        self.session.execute("CREATE ROLE refused_role WITH PASSWORD = 'r' AND LOGIN = true")
        refused = log_in("refused_role", "r")
        self.addCleanup(refused.shutdown)
        text = "CREATE ROLE another"
        with self.assertRaises(Unauthorized):
            refused.connect().execute(text)
        row = self.entry(text)
        self.assertEqual((row.username, row.error), ("refused_role", True))
        with self.assertRaises(NoHostAvailable):
            log_in("no_such_role", "x").connect()
        logins = {(row.username, row.error) for row in self.log() if row.category == "AUTH"}
        self.assertTrue({("refused_role", False), ("no_such_role", True), ("cassandra", False)} <= logins, logins)


if __name__ == "__main__":
    main()
