"""The Python driver against a running server: python_driver.py HOST PORT CLASS[.test] ...

Each class is one ability of the server. Nothing here is Orrery's own: every test passes on Apache Cassandra too,
and that is how the tests themselves are checked. Each test makes its own table, so any subset runs alone.
"""

import datetime
import decimal
import ipaddress
import itertools
import math
import sys
import time
import unittest
import uuid

from cassandra import AlreadyExists, ConsistencyLevel, InvalidRequest, Unavailable
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy
from cassandra.protocol import ConfigurationException, SyntaxException
from cassandra.query import BatchStatement, BatchType, SimpleStatement, UNSET_VALUE
from cassandra.util import Date, Duration, Time

HOST, PORT = "127.0.0.1", 9042
DEADLINE_S = 30


def connect(**options):
    profile = ExecutionProfile(
        load_balancing_policy=RoundRobinPolicy(), retry_policy=FallthroughRetryPolicy(), request_timeout=DEADLINE_S
    )
    options.setdefault("compression", False)
    options.setdefault("port", PORT)
    return Cluster([HOST], execution_profiles={EXEC_PROFILE_DEFAULT: profile}, **options)


def eventually(check, what):
    """Waits for something that is allowed to take a moment; the deadline is far beyond it."""
    end = time.monotonic() + DEADLINE_S
    while not check():
        if time.monotonic() > end:
            raise AssertionError(f"not within {DEADLINE_S} s: {what}")
        time.sleep(0.05)


class Connected(unittest.TestCase):
    """One session for the class, one keyspace for the run, a fresh table name for each test."""

    tables = itertools.count()
    options = {}

    @classmethod
    def open(cls):
        return connect(**cls.options)

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.open()
        cls.session = cls.cluster.connect()
        cls.session.execute(
            "CREATE KEYSPACE IF NOT EXISTS drivers WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        cls.session.set_keyspace("drivers")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.shutdown()

    def table(self, columns, options=""):
        name = f"{type(self).__name__.lower()}_{next(self.tables)}"
        self.session.execute(f"DROP TABLE IF EXISTS {name}")
        self.session.execute(f"CREATE TABLE {name} ({columns}) {options}")
        return name

    def rows(self, query, *values):
        return [tuple(row) for row in self.session.execute(query, *values)]


class Connect(Connected):
    def test_handshake_settles_on_a_version_both_speak(self):
        cluster = connect()
        try:
            cluster.connect()
            self.assertIn(cluster.protocol_version, (4, 5))
        finally:
            cluster.shutdown()

    def test_protocol_4_on_request(self):
        cluster = connect(protocol_version=4)
        try:
            self.assertEqual(len(list(cluster.connect().execute("SELECT key FROM system.local"))), 1)
        finally:
            cluster.shutdown()

    def test_the_node_describes_itself(self):
        (host,) = self.cluster.metadata.all_hosts()
        self.assertEqual(str(host.address), HOST)
        self.assertTrue(host.is_up)
        self.assertTrue(host.datacenter and host.rack and host.release_version and host.host_id)
        row = self.session.execute("SELECT * FROM system.local WHERE key = 'local'").one()
        self.assertEqual(row.partitioner, "org.apache.cassandra.dht.Murmur3Partitioner")
        self.assertEqual(row.host_id, host.host_id)
        self.assertGreater(len(row.tokens), 0)
        self.assertTrue(all(-(2**63) <= int(token) < 2**63 for token in row.tokens))
        self.assertEqual(len(self.cluster.metadata.token_map.ring), len(row.tokens))

    def test_no_peers_alone(self):
        self.assertEqual(list(self.session.execute("SELECT * FROM system.peers")), [])

    def test_use_is_of_the_connection(self):
        self.table("p int PRIMARY KEY")
        other = self.cluster.connect()
        with self.assertRaises(InvalidRequest):
            other.execute("SELECT * FROM connect_nowhere")
        other.execute("USE drivers")
        self.assertEqual(other.keyspace, "drivers")


class Types(Connected):
    """Every scalar type, its edges, as literal, as bound value and as clustering key."""

    uuid_1 = uuid.UUID("2b8b1d10-e511-11f1-a6b7-9753ff18e6c3")
    values = {
        "ascii": ["", "a", "~ !"],
        "bigint": [-(2**63), -1, 0, 1, 2**63 - 1],
        "blob": [b"", b"\x00", b"\xca\xfe" * 100, bytes(range(256))],
        "boolean": [False, True],
        "date": [Date(-719162), Date(-1), Date(0), Date(20000), Date(2932896)],
        "decimal": [
            decimal.Decimal("-1234567890123456789012345678901234567890.5"),
            decimal.Decimal("-0.001"),
            decimal.Decimal("0"),
            decimal.Decimal("1E-20"),
            decimal.Decimal("1E+30"),
        ],
        "double": [-math.inf, -1.5e300, -0.0, 0.0, 5e-324, 1.7976931348623157e308, math.inf],
        "float": [-math.inf, -1.5, 0.0, 1.401298464324817e-45, 3.4028234663852886e38, math.inf],
        "inet": ["0.0.0.0", "127.0.0.1", "255.255.255.255", "::", "::1", "2001:db8::ff00:42:8329"],
        "int": [-(2**31), -1, 0, 1, 2**31 - 1],
        "smallint": [-(2**15), -1, 0, 1, 2**15 - 1],
        "text": ["", "a", "é", "日本語", "\U0001f680", "it's", "x" * 5000],
        "time": [Time(0), Time(1), Time(86399999999999)],
        "timestamp": [
            datetime.datetime(1, 1, 1),
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999000),
            datetime.datetime(1970, 1, 1),
            datetime.datetime(2026, 2, 28, 12, 34, 56, 789000),
            datetime.datetime(9999, 12, 31, 23, 59, 59),  # the driver computes in doubles: no milliseconds this late
        ],
        "timeuuid": [uuid.UUID("00000000-0000-1000-8080-808080808080"), uuid_1],
        "tinyint": [-128, -1, 0, 1, 127],
        "uuid": [uuid.UUID(int=0), uuid_1, uuid.UUID("ffffffff-ffff-4fff-bfff-ffffffffffff")],
        "varchar": ["", "abc"],
        "varint": [-(2**200), -129, -128, -1, 0, 127, 128, 2**200],
    }
    durations = [Duration(0, 0, 0), Duration(1, 2, 3), Duration(-12, -30, -(10**15)), Duration(2**31 - 1, 0, 2**63 - 1)]

    def same(self, kind, got, sent):
        if kind == "inet":
            got, sent = ipaddress.ip_address(got), ipaddress.ip_address(sent)
        if kind in ("double", "float"):
            self.assertEqual(math.copysign(1, got), math.copysign(1, sent))
        if kind == "decimal":
            self.assertEqual(got.as_tuple(), sent.as_tuple())
        self.assertEqual(got, sent)

    def test_bound_values_come_back(self):
        for kind, values in {**self.values, "duration": self.durations}.items():
            table = self.table(f"p int PRIMARY KEY, v {kind}")
            insert = self.session.prepare(f"INSERT INTO {table} (p, v) VALUES (?, ?)")
            select = self.session.prepare(f"SELECT v FROM {table} WHERE p = ?")
            for p, value in enumerate(values):
                with self.subTest(kind=kind, value=value):
                    self.session.execute(insert, (p, value))
                    self.same(kind, self.session.execute(select, (p,)).one().v, value)

    def test_not_a_number(self):
        table = self.table("p int PRIMARY KEY, d double, f float")
        self.session.execute(f"INSERT INTO {table} (p, d, f) VALUES (1, NaN, -NaN)")
        (row,) = self.rows(f"SELECT d, f FROM {table}")
        self.assertTrue(math.isnan(row[0]) and math.isnan(row[1]))

    def test_literals_come_back(self):
        literals = {
            "ascii": ("'it''s'", "it's"),
            "bigint": ("-9223372036854775808", -(2**63)),
            "blob": ("0xCAfe", b"\xca\xfe"),
            "boolean": ("TRUE", True),
            "date": ("'2026-02-28'", Date("2026-02-28")),
            "decimal": ("-12.50e-3", decimal.Decimal("-0.01250")),
            "double": ("1.5e10", 1.5e10),
            "duration": ("1mo2d3h4m", Duration(1, 2, (3 * 60 + 4) * 60 * 10**9)),
            "float": ("-0.5", -0.5),
            "inet": ("'::1'", "::1"),
            "int": ("-7", -7),
            "smallint": ("300", 300),
            "text": ("$$it's$$", "it's"),
            "time": ("'08:12:54.123456789'", Time("08:12:54.123456789")),
            "timestamp": ("'2026-02-28 12:34:56.789+0100'", datetime.datetime(2026, 2, 28, 11, 34, 56, 789000)),
            "timeuuid": (str(self.uuid_1), self.uuid_1),
            "tinyint": ("-128", -128),
            "uuid": (str(self.uuid_1).upper(), self.uuid_1),
            "varint": (str(2**100), 2**100),
        }
        for kind, (literal, value) in literals.items():
            with self.subTest(kind=kind, literal=literal):
                table = self.table(f"p int PRIMARY KEY, v {kind}")
                self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, {literal})")
                self.same(kind, self.session.execute(f"SELECT v FROM {table} WHERE p = 1").one().v, value)

    def test_null_of_every_type(self):
        columns = ", ".join(f"c_{kind} {kind}" for kind in [*self.values, "duration"])
        table = self.table(f"p int PRIMARY KEY, {columns}")
        names = [f"c_{kind}" for kind in [*self.values, "duration"]]
        insert = self.session.prepare(
            f"INSERT INTO {table} (p, {', '.join(names)}) VALUES (?{', ?' * len(names)})"
        )
        self.session.execute(insert, [1] + [None] * len(names))
        (row,) = self.rows(f"SELECT {', '.join(names)} FROM {table} WHERE p = 1")
        self.assertEqual(set(row), {None})

    def test_as_partition_key(self):
        for kind, values in self.values.items():
            table = self.table(f"p {kind} PRIMARY KEY, n int")
            insert = self.session.prepare(f"INSERT INTO {table} (p, n) VALUES (?, ?)")
            select = self.session.prepare(f"SELECT n FROM {table} WHERE p = ?")
            # An empty key is refused by the protocol's servers.
            values = [value for value in values if value not in ("", b"")]
            for n, value in enumerate(values):
                self.session.execute(insert, (value, n))
            for n, value in enumerate(values):
                with self.subTest(kind=kind, value=value):
                    self.assertEqual(self.session.execute(select, (value,)).one().n, n)

    def test_clustering_order(self):
        for kind, values in self.values.items():
            ordered = list(values)
            if kind in ("text", "blob", "inet"):
                by_bytes = {"text": str.encode, "blob": bytes, "inet": lambda v: ipaddress.ip_address(v).packed}[kind]
                ordered = sorted(values, key=by_bytes)
            for order in ("ASC", "DESC"):
                with self.subTest(kind=kind, order=order):
                    table = self.table(f"p int, c {kind}, PRIMARY KEY (p, c)", f"WITH CLUSTERING ORDER BY (c {order})")
                    insert = self.session.prepare(f"INSERT INTO {table} (p, c) VALUES (1, ?)")
                    for value in ordered[::2] + ordered[1::2]:
                        self.session.execute(insert, (value,))
                    got = [row[0] for row in self.rows(f"SELECT c FROM {table} WHERE p = 1")]
                    self.assertEqual(len(got), len(ordered))
                    for one, other in zip(got, ordered if order == "ASC" else reversed(ordered)):
                        self.same(kind, one, other)


class Rows(Connected):
    """What statements do to rows."""

    def test_insert_and_update_are_both_upserts(self):
        table = self.table("p int, c int, v text, PRIMARY KEY (p, c)")
        self.session.execute(f"INSERT INTO {table} (p, c, v) VALUES (1, 1, 'a')")
        self.session.execute(f"INSERT INTO {table} (p, c, v) VALUES (1, 1, 'b')")
        self.session.execute(f"UPDATE {table} SET v = 'c' WHERE p = 1 AND c = 2")
        self.assertEqual(self.rows(f"SELECT * FROM {table}"), [(1, 1, "b"), (1, 2, "c")])

    def test_an_inserted_row_outlives_its_cells_and_an_updated_one_does_not(self):
        table = self.table("p int, c int, v text, PRIMARY KEY (p, c)")
        self.session.execute(f"INSERT INTO {table} (p, c, v) VALUES (1, 1, 'a')")
        self.session.execute(f"UPDATE {table} SET v = 'a' WHERE p = 1 AND c = 2")
        self.session.execute(f"UPDATE {table} SET v = null WHERE p = 1 AND c = 1")
        self.session.execute(f"DELETE v FROM {table} WHERE p = 1 AND c = 2")
        self.assertEqual(self.rows(f"SELECT c, v FROM {table} WHERE p = 1"), [(1, None)])

    def test_delete_cell_row_range_and_partition(self):
        table = self.table("p int, c int, v int, w int, PRIMARY KEY (p, c)")
        for p, c in itertools.product(range(2), range(6)):
            self.session.execute(f"INSERT INTO {table} (p, c, v, w) VALUES (%s, %s, %s, 0)", (p, c, c))
        self.session.execute(f"DELETE v FROM {table} WHERE p = 0 AND c = 0")
        self.session.execute(f"DELETE FROM {table} WHERE p = 0 AND c = 1")
        self.session.execute(f"DELETE FROM {table} WHERE p = 0 AND c >= 3 AND c < 5")
        self.session.execute(f"DELETE FROM {table} WHERE p = 1")
        self.assertEqual(self.rows(f"SELECT c, v, w FROM {table}"), [(0, None, 0), (2, 2, 0), (5, 5, 0)])
        self.session.execute(f"INSERT INTO {table} (p, c, v) VALUES (1, 3, 7)")
        self.assertEqual(self.rows(f"SELECT c, v, w FROM {table} WHERE p = 1"), [(3, 7, None)])

    def test_select_by_clustering(self):
        table = self.table("p int, a int, b text, v int, PRIMARY KEY (p, a, b)")
        for a, b in itertools.product(range(4), "xyz"):
            self.session.execute(f"INSERT INTO {table} (p, a, b, v) VALUES (1, %s, %s, %s)", (a, b, a))

        def keys(where):
            return ["%d%s" % row for row in self.rows(f"SELECT a, b FROM {table} WHERE p = 1 {where}")]

        self.assertEqual(keys("AND a = 2"), ["2x", "2y", "2z"])
        self.assertEqual(keys("AND a = 2 AND b > 'x'"), ["2y", "2z"])
        self.assertEqual(keys("AND a = 2 AND b >= 'y' AND b < 'z'"), ["2y"])
        self.assertEqual(keys("AND a > 1 AND a <= 3 LIMIT 4"), ["2x", "2y", "2z", "3x"])
        self.assertEqual(keys("AND a >= 2 ORDER BY a DESC LIMIT 4"), ["3z", "3y", "3x", "2z"])
        self.assertEqual(keys("AND a IN (0, 3) AND b = 'y'"), ["0y", "3y"])
        self.assertEqual(keys("AND a = 9"), [])

    def test_several_partitions(self):
        table = self.table("p text, c int, v int, PRIMARY KEY (p, c)")
        for p, c in itertools.product("abcdef", range(3)):
            self.session.execute(f"INSERT INTO {table} (p, c, v) VALUES (%s, %s, 1)", (p, c))
        self.assertEqual(len(self.rows(f"SELECT * FROM {table}")), 18)
        self.assertEqual(
            sorted(self.rows(f"SELECT p, c FROM {table} WHERE p IN ('a', 'c')")),
            [("a", 0), ("a", 1), ("a", 2), ("c", 0), ("c", 1), ("c", 2)],
        )
        self.assertEqual(self.rows(f"SELECT count(*) FROM {table}"), [(18,)])

    def test_aggregates_and_groups(self):
        table = self.table("a int, b int, c int, v int, d decimal, s int static, PRIMARY KEY (a, b, c)")
        for a, b, c in itertools.product(range(2), range(3), range(4)):
            v = 100 * a + 10 * b + c
            self.rows(f"INSERT INTO {table} (a, b, c, v, d) VALUES (%s, %s, %s, %s, %s)", (a, b, c, v, decimal.Decimal(v) / 4))
        self.assertEqual(
            self.rows(f"SELECT count(*), sum(v), avg(v), min(v), max(v), sum(d), count(s) FROM {table} WHERE a = 0"),
            [(12, 138, 11, 0, 23, decimal.Decimal("34.5"), 0)],
        )
        self.assertEqual(self.rows(f"SELECT b, max(v) FROM {table} WHERE a = 1"), [(0, 123)])
        self.assertEqual(
            self.rows(f"SELECT a, b, sum(v) AS total, cast(avg(v) AS text) FROM {table} WHERE a = 0 GROUP BY b"),
            [(0, 0, 6, "1"), (0, 1, 46, "11"), (0, 2, 86, "21")],
        )
        # Pages end between groups, never within one.
        paged = SimpleStatement(f"SELECT a, b, count(*) FROM {table} GROUP BY a, b", fetch_size=2)
        self.assertEqual(sorted(map(tuple, self.session.execute(paged))), [(a, b, 4) for a in range(2) for b in range(3)])
        self.assertEqual(
            self.rows(f"SELECT b, c FROM {table} WHERE a = 0 GROUP BY a, b LIMIT 2"), [(0, 0), (1, 0)]
        )
        per_partition = self.rows(f"SELECT a, b, count(c) FROM {table} GROUP BY a, b PER PARTITION LIMIT 1")
        self.assertEqual(sorted(per_partition), [(0, 0, 4), (1, 0, 4)])
        self.assertEqual(self.rows(f"SELECT sum(v), avg(v), min(v) FROM {table} WHERE a = 9"), [(0, 0, None)])
        self.assertEqual(self.rows(f"SELECT b, sum(v) FROM {table} WHERE a = 9 GROUP BY b"), [])
        self.assertEqual(self.rows(f"SELECT cast(v AS double), cast(c AS text) FROM {table} WHERE a = 0 LIMIT 1"), [(0.0, "0")])
        for wrong, why in [
            ("SELECT v FROM {} GROUP BY v", "columns of the PRIMARY KEY"),
            ("SELECT v FROM {} GROUP BY a, c", "declared order"),
            ("SELECT sum(max(v)) FROM {}", "arguments of aggregate"),
            ("SELECT cast(v AS uuid) FROM {}", "cannot be cast"),
        ]:
            with self.assertRaisesRegex(InvalidRequest, why):
                self.rows(wrong.format(table))

    def test_json_both_ways(self):
        table = self.table("a int, b text, l frozen<list<int>>, m frozen<map<int, text>>, t timestamp, PRIMARY KEY (a, b)")
        self.rows(f"INSERT INTO {table} JSON %s", ('{"a": 1, "b": "x", "l": [3, 1], "m": {"2": "two"}, "t": 1000}',))
        self.rows(f"INSERT INTO {table} (a, b, l) VALUES (1, 'y', fromJson('[7]'))")
        self.assertEqual(
            self.rows(f"SELECT JSON * FROM {table} WHERE a = 1"),
            [
                ('{"a": 1, "b": "x", "l": [3, 1], "m": {"2": "two"}, "t": "1970-01-01 00:00:01.000Z"}',),
                ('{"a": 1, "b": "y", "l": [7], "m": null, "t": null}',),
            ],
        )
        self.assertEqual(self.rows(f"SELECT toJson(m), toJson(t) FROM {table} WHERE a = 1 AND b = 'y'"), [("null", "null")])
        # What the object leaves out becomes null, or stays.
        self.rows(f"""INSERT INTO {table} JSON '{{"a": 1, "b": "x", "l": [9]}}' DEFAULT UNSET""")
        self.assertEqual(self.rows(f"SELECT l, m FROM {table} WHERE a = 1 AND b = 'x'"), [([9], {2: "two"})])
        self.rows(f"""INSERT INTO {table} JSON '{{"a": 1, "b": "x"}}'""")
        self.assertEqual(self.rows(f"SELECT l, m FROM {table} WHERE a = 1 AND b = 'x'"), [(None, None)])
        for wrong, why in [
            ('{"a": 1, "b": "x", "c": 1}', "unrecognized column: c"),
            ('{"a": "y", "b": "x"}', "Error decoding JSON value for a"),
            ('{"a": 1}', "b"),
            ("[]", "Could not decode JSON string as a map"),
        ]:
            with self.assertRaisesRegex(InvalidRequest, why):
                self.rows(f"INSERT INTO {table} JSON %s", (wrong,))

    def test_a_key_of_several_columns(self):
        table = self.table("a int, b text, v int, PRIMARY KEY ((a, b))")
        self.session.execute(f"INSERT INTO {table} (a, b, v) VALUES (1, 'x', 1)")
        self.session.execute(f"INSERT INTO {table} (a, b, v) VALUES (1, 'y', 2)")
        self.assertEqual(self.rows(f"SELECT v FROM {table} WHERE a = 1 AND b = 'y'"), [(2,)])

    def test_truncate(self):
        table = self.table("p int PRIMARY KEY, v int")
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, 1)")
        self.session.execute(f"TRUNCATE {table}")
        self.assertEqual(self.rows(f"SELECT * FROM {table}"), [])

    def test_names_with_quotes_and_case(self):
        table = self.table('"Key" int PRIMARY KEY, "two words" int, Plain int')
        self.session.execute(f'INSERT INTO {table} ("Key", "two words", PLAIN) VALUES (1, 2, 3)')
        result = self.session.execute(f"SELECT * FROM {table}")
        self.assertEqual(result.column_names, ["Key", "plain", "two words"])
        self.assertEqual(tuple(result.one()), (1, 3, 2))


class Paging(Connected):
    rows_in_partition = 10_000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.session.execute("DROP TABLE IF EXISTS paged")
        cls.session.execute("CREATE TABLE paged (p int, c int, v text, PRIMARY KEY (p, c))")
        insert = cls.session.prepare("INSERT INTO paged (p, c, v) VALUES (?, ?, ?)")
        one = [(0, c, "v%d" % c) for c in range(cls.rows_in_partition)]
        many = [(p, c, "v") for p in range(1, 501) for c in range(3)]
        execute_concurrent_with_args(cls.session, insert, one + many, concurrency=200)

    def test_a_large_partition(self):
        query = SimpleStatement("SELECT c, v FROM paged WHERE p = 0", fetch_size=100)
        result = self.session.execute(query)
        pages, rows = 0, []
        while True:
            pages += 1
            self.assertLessEqual(len(result.current_rows), 100)
            rows.extend(result.current_rows)
            if not result.has_more_pages:
                break
            result.fetch_next_page()
        self.assertGreaterEqual(pages, 100)
        self.assertEqual([tuple(r) for r in rows], [(c, "v%d" % c) for c in range(self.rows_in_partition)])

    def test_backwards(self):
        query = SimpleStatement("SELECT c FROM paged WHERE p = 0 ORDER BY c DESC", fetch_size=999)
        self.assertEqual([r.c for r in self.session.execute(query)], list(reversed(range(self.rows_in_partition))))

    def test_over_all_partitions(self):
        query = SimpleStatement("SELECT p, c FROM paged", fetch_size=101)
        rows = [tuple(r) for r in self.session.execute(query)]
        self.assertEqual(len(rows), self.rows_in_partition + 1500)
        self.assertEqual(len(set(rows)), len(rows))

    def test_a_limit_ends_the_pages(self):
        query = SimpleStatement("SELECT c FROM paged WHERE p = 0 LIMIT 250", fetch_size=100)
        self.assertEqual([r.c for r in self.session.execute(query)], list(range(250)))

    def test_a_range_in_pages(self):
        select = self.session.prepare("SELECT c FROM paged WHERE p = 0 AND c >= ? AND c < ?")
        select.fetch_size = 7
        self.assertEqual([r.c for r in self.session.execute(select, (100, 200))], list(range(100, 200)))

    def test_the_state_resumes_elsewhere(self):
        query = SimpleStatement("SELECT c FROM paged WHERE p = 0", fetch_size=10)
        state = self.session.execute(query).paging_state
        other = connect()
        try:
            result = other.connect("drivers").execute(query, paging_state=state)
            self.assertEqual(result.current_rows[0].c, 10)
        finally:
            other.shutdown()

    def test_without_a_page_size_all_comes_at_once(self):
        query = SimpleStatement("SELECT c FROM paged WHERE p = 0", fetch_size=None)
        result = self.session.execute(query)
        self.assertEqual(len(result.current_rows), self.rows_in_partition)


class Prepared(Connected):
    def test_metadata_of_markers(self):
        table = self.table("a int, b text, c bigint, v blob, PRIMARY KEY ((a, b), c)")
        insert = self.session.prepare(f"INSERT INTO {table} (v, c, b, a) VALUES (?, ?, ?, ?)")
        self.assertEqual([c.name for c in insert.column_metadata], ["v", "c", "b", "a"])
        self.assertEqual([c.type.typename for c in insert.column_metadata], ["blob", "bigint", "varchar", "int"])
        self.assertEqual(list(insert.routing_key_indexes), [3, 2])

    def test_named_markers(self):
        table = self.table("p int PRIMARY KEY, v int")
        insert = self.session.prepare(f"INSERT INTO {table} (p, v) VALUES (:key, :value)")
        self.session.execute(insert, {"key": 1, "value": 2})
        self.assertEqual(self.rows(f"SELECT * FROM {table}"), [(1, 2)])

    def test_unset_leaves_what_is_there(self):
        table = self.table("p int PRIMARY KEY, v int, w int")
        insert = self.session.prepare(f"INSERT INTO {table} (p, v, w) VALUES (?, ?, ?)")
        self.session.execute(insert, (1, 2, 3))
        self.session.execute(insert, (1, UNSET_VALUE, 4))
        self.assertEqual(self.rows(f"SELECT v, w FROM {table}"), [(2, 4)])

    def test_limit_ttl_and_timestamp_are_markers_too(self):
        table = self.table("p int, c int, v int, PRIMARY KEY (p, c)")
        insert = self.session.prepare(f"INSERT INTO {table} (p, c, v) VALUES (1, ?, 0) USING TTL ? AND TIMESTAMP ?")
        for c in range(5):
            self.session.execute(insert, (c, 1000, 77))
        select = self.session.prepare(f"SELECT c, writetime(v) FROM {table} WHERE p = ? LIMIT ?")
        self.assertEqual([tuple(r) for r in self.session.execute(select, (1, 2))], [(0, 77), (1, 77)])

    def test_the_token_is_the_driver_s(self):
        table = self.table("p text PRIMARY KEY")
        insert = self.session.prepare(f"INSERT INTO {table} (p) VALUES (?)")
        keys = ["", "a", "ab", "é", "x" * 15, "x" * 16, "x" * 17, "\U0001f680" * 9]
        ours = self.cluster.metadata.token_map.token_class
        for key in keys[1:]:
            self.session.execute(insert, (key,))
        got = dict(self.rows(f"SELECT p, token(p) FROM {table}"))
        self.assertEqual(got, {key: ours.from_key(key.encode()).value for key in keys[1:]})

    def test_a_dropped_table_s_statement_fails(self):
        table = self.table("p int PRIMARY KEY, v int")
        select = self.session.prepare(f"SELECT v FROM {table} WHERE p = ?")
        self.session.execute(f"DROP TABLE {table}")
        with self.assertRaises(InvalidRequest):
            self.session.execute(select, (1,))


class Batches(Connected):
    def test_logged_and_unlogged(self):
        table = self.table("p int, c int, v int, PRIMARY KEY (p, c)")
        insert = self.session.prepare(f"INSERT INTO {table} (p, c, v) VALUES (?, ?, ?)")
        for p, kind in enumerate((BatchType.LOGGED, BatchType.UNLOGGED)):
            batch = BatchStatement(batch_type=kind)
            for c in range(20):
                batch.add(insert, (p, c, c))
            batch.add(SimpleStatement(f"UPDATE {table} SET v = 100 WHERE p = {p} AND c = 20"))
            batch.add(f"DELETE FROM {table} WHERE p = %s AND c = %s", (p, 99))
            self.session.execute(batch)
            self.assertEqual(
                self.rows(f"SELECT c, v FROM {table} WHERE p = {p}"), [(c, c) for c in range(20)] + [(20, 100)]
            )

    def test_over_partitions(self):
        table = self.table("p int PRIMARY KEY, v int")
        insert = self.session.prepare(f"INSERT INTO {table} (p, v) VALUES (?, ?)")
        batch = BatchStatement()
        for p in range(50):
            batch.add(insert, (p, p))
        self.session.execute(batch)
        self.assertEqual(sorted(self.rows(f"SELECT p, v FROM {table}")), [(p, p) for p in range(50)])

    def test_one_timestamp_for_all(self):
        table = self.table("p int PRIMARY KEY, v int")
        self.session.execute(
            f"BEGIN BATCH USING TIMESTAMP 5 INSERT INTO {table} (p, v) VALUES (1, 1); "
            f"INSERT INTO {table} (p, v) VALUES (2, 2); APPLY BATCH"
        )
        self.assertEqual(sorted(self.rows(f"SELECT p, writetime(v) FROM {table}")), [(1, 5), (2, 5)])

    def test_a_select_has_no_place_in_a_batch(self):
        table = self.table("p int PRIMARY KEY")
        batch = BatchStatement()
        batch.add(SimpleStatement(f"SELECT * FROM {table}"))
        with self.assertRaises(InvalidRequest):
            self.session.execute(batch)


class Times(Connected):
    """TTL and timestamps."""

    def test_the_newest_timestamp_wins_whatever_the_order(self):
        table = self.table("p int PRIMARY KEY, v text")
        for timestamp, value in ((20, "b"), (10, "a"), (30, "c"), (5, "z")):
            self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, '{value}') USING TIMESTAMP {timestamp}")
        self.assertEqual(self.rows(f"SELECT v, writetime(v) FROM {table}"), [("c", 30)])

    def test_deletes_have_timestamps(self):
        table = self.table("p int PRIMARY KEY, v text")
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, 'a') USING TIMESTAMP 20")
        self.session.execute(f"DELETE FROM {table} USING TIMESTAMP 10 WHERE p = 1")
        self.assertEqual(self.rows(f"SELECT v FROM {table}"), [("a",)])
        self.session.execute(f"DELETE FROM {table} USING TIMESTAMP 20 WHERE p = 1")
        self.assertEqual(self.rows(f"SELECT v FROM {table}"), [])
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, 'b') USING TIMESTAMP 15")
        self.assertEqual(self.rows(f"SELECT v FROM {table}"), [])

    def test_equal_timestamps_choose_the_greater_value(self):
        table = self.table("p int PRIMARY KEY, v text")
        for value in ("b", "c", "a"):
            self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, '{value}') USING TIMESTAMP 1")
        self.assertEqual(self.rows(f"SELECT v FROM {table}"), [("c",)])

    def test_the_driver_s_timestamp_counts(self):
        table = self.table("p int PRIMARY KEY, v int")
        before = int(time.time() * 1e6) - 60_000_000
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, 1)")
        written = self.session.execute(f"SELECT writetime(v) FROM {table}").one()[0]
        self.assertTrue(before < written < before + 120_000_000, written)

    def test_ttl_is_reported(self):
        table = self.table("p int PRIMARY KEY, v int, w int")
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, 1) USING TTL 1000")
        self.session.execute(f"UPDATE {table} SET w = 2 WHERE p = 1")
        ((v, w),) = self.rows(f"SELECT ttl(v), ttl(w) FROM {table}")
        self.assertTrue(900 < v <= 1000, v)
        self.assertIsNone(w)

    def test_cells_expire(self):
        table = self.table("p int PRIMARY KEY, v int, w int")
        self.session.execute(f"INSERT INTO {table} (p, w) VALUES (1, 1)")
        self.session.execute(f"UPDATE {table} USING TTL 1 SET v = 1 WHERE p = 1")
        eventually(lambda: self.rows(f"SELECT v, w FROM {table}") == [(None, 1)], "the cell expires, the row stays")

    def test_rows_expire(self):
        table = self.table("p int PRIMARY KEY, v int")
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, 1) USING TTL 1")
        eventually(lambda: self.rows(f"SELECT * FROM {table}") == [], "the row expires")

    def test_a_table_s_default_ttl(self):
        table = self.table("p int PRIMARY KEY, v int", "WITH default_time_to_live = 500")
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, 1)")
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (2, 1) USING TTL 0")
        got = dict(self.rows(f"SELECT p, ttl(v) FROM {table}"))
        self.assertTrue(400 < got[1] <= 500, got)
        self.assertIsNone(got[2])


class Errors(Connected):
    def code(self, statement, values=None):
        try:
            self.session.execute(statement, values)
        except Exception as error:
            return type(error)
        return None

    def test_syntax(self):
        for text in ("SELEC 1", "SELECT", "INSERT INTO t", "SELECT * FROM t WHERE p = 'open", "", "SELECT * FROM t;;x"):
            self.assertIs(self.code(text), SyntaxException, text)

    def test_invalid(self):
        table = self.table("p int, c int, v int, PRIMARY KEY (p, c)")
        for text in (
            "SELECT * FROM nowhere.t",
            "SELECT * FROM nothing",
            f"SELECT nothing FROM {table}",
            f"SELECT * FROM {table} WHERE c = 1",
            f"SELECT * FROM {table} WHERE v = 1",
            f"SELECT * FROM {table} WHERE p = 'text'",
            f"SELECT * FROM {table} WHERE p = 1 ORDER BY v",
            f"INSERT INTO {table} (p) VALUES (1)",
            f"INSERT INTO {table} (p, c, v) VALUES (1, 1, 'text')",
            f"INSERT INTO {table} (p, c, v) VALUES (1, 1)",
            f"INSERT INTO {table} (p, c) VALUES (1, null)",
            f"UPDATE {table} SET v = 1 WHERE p = 1",
            f"UPDATE {table} SET c = 1 WHERE p = 1 AND c = 1",
            f"INSERT INTO {table} (p, c) VALUES (1, 1) USING TTL -1",
            "USE nowhere",
            "CREATE TABLE nowhere.t (p int PRIMARY KEY)",
            "CREATE TABLE broken (p int)",
            "CREATE TABLE broken (p int, PRIMARY KEY (q))",
            "CREATE TABLE broken (p nothing PRIMARY KEY)",
            "DROP TABLE nothing",
            "DROP KEYSPACE nothing",
        ):
            self.assertIs(self.code(text), InvalidRequest, text)

    def test_exists(self):
        table = self.table("p int PRIMARY KEY")
        self.assertIs(self.code(f"CREATE TABLE {table} (p int PRIMARY KEY)"), AlreadyExists)
        self.assertIs(
            self.code(
                "CREATE KEYSPACE drivers WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
            ),
            AlreadyExists,
        )
        self.assertIsNone(self.code(f"CREATE TABLE IF NOT EXISTS {table} (p int PRIMARY KEY)"))
        self.assertIsNone(self.code("DROP TABLE IF EXISTS nothing"))
        self.assertIsNone(self.code("DROP KEYSPACE IF EXISTS nothing"))

    def test_configuration(self):
        self.assertIs(self.code("CREATE KEYSPACE misconfigured WITH replication = {'class': 'Nothing'}"), ConfigurationException)
        self.assertIs(
            self.code("CREATE KEYSPACE misconfigured WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 'x'}"),
            ConfigurationException,
        )

    def test_unavailable(self):
        self.session.execute(
            "CREATE KEYSPACE IF NOT EXISTS three WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
        )
        self.session.execute("CREATE TABLE IF NOT EXISTS three.t (p int PRIMARY KEY, v int)")
        for text in ("INSERT INTO three.t (p, v) VALUES (1, 1)", "SELECT * FROM three.t WHERE p = 1"):
            for level, required in ((ConsistencyLevel.QUORUM, 2), (ConsistencyLevel.ALL, 3), (ConsistencyLevel.TWO, 2)):
                with self.assertRaises(Unavailable) as caught:
                    self.session.execute(SimpleStatement(text, consistency_level=level))
                self.assertEqual(caught.exception.required_replicas, required)
                self.assertEqual(caught.exception.alive_replicas, 1)
        for level in (ConsistencyLevel.ONE, ConsistencyLevel.LOCAL_ONE, ConsistencyLevel.ANY):
            self.session.execute(SimpleStatement("INSERT INTO three.t (p, v) VALUES (2, 2)", consistency_level=level))

    def test_values_of_the_wrong_size(self):
        table = self.table("p int PRIMARY KEY, v bigint")
        insert = self.session.prepare(f"INSERT INTO {table} (p, v) VALUES (?, ?)")
        bound = insert.bind((1, 1))
        bound.values[1] = b"\x00\x00\x00"
        with self.assertRaises(InvalidRequest):
            self.session.execute(bound)

    def test_the_connection_survives(self):
        for _ in range(50):
            self.code("SELEC 1")
        self.assertEqual(len(self.rows("SELECT key FROM system.local")), 1)


class Schema(Connected):
    """The driver's picture of our schema."""

    def test_of_a_table(self):
        table = self.table(
            "a int, b text, c timeuuid, d bigint, v text, w inet, PRIMARY KEY ((a, b), c, d)",
            "WITH CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'what it is for'",
        )
        seen = self.cluster.metadata.keyspaces["drivers"].tables[table]
        self.assertEqual([c.name for c in seen.partition_key], ["a", "b"])
        self.assertEqual([c.name for c in seen.clustering_key], ["c", "d"])
        self.assertEqual([c.is_reversed for c in seen.clustering_key], [True, False])
        self.assertEqual(
            {name: column.cql_type for name, column in seen.columns.items()},
            {"a": "int", "b": "text", "c": "timeuuid", "d": "bigint", "v": "text", "w": "inet"},
        )
        self.assertEqual(seen.options["comment"], "what it is for")
        self.assertFalse(seen.is_compact_storage)
        self.assertIn("CLUSTERING ORDER BY (c DESC, d ASC)", seen.export_as_string())

    def test_of_every_type(self):
        kinds = [*Types.values, "duration"]
        table = self.table("p int PRIMARY KEY, " + ", ".join(f"c_{kind} {kind}" for kind in kinds))
        seen = self.cluster.metadata.keyspaces["drivers"].tables[table].columns
        for kind in kinds:
            self.assertEqual(seen[f"c_{kind}"].cql_type, "text" if kind == "varchar" else kind)

    def test_of_a_keyspace(self):
        self.session.execute("DROP KEYSPACE IF EXISTS pictured")
        self.session.execute(
            "CREATE KEYSPACE pictured WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 2} "
            "AND durable_writes = false"
        )
        seen = self.cluster.metadata.keyspaces["pictured"]
        self.assertEqual(seen.replication_strategy.name, "NetworkTopologyStrategy")
        self.assertEqual(seen.replication_strategy.dc_replication_factors, {"datacenter1": 2})
        self.assertFalse(seen.durable_writes)
        self.session.execute("DROP KEYSPACE pictured")
        self.assertNotIn("pictured", self.cluster.metadata.keyspaces)

    def test_changes_reach_other_sessions(self):
        other = connect()
        try:
            other.connect()
            known = other.metadata.keyspaces["drivers"].tables
            table = self.table("p int PRIMARY KEY")
            eventually(lambda: table in known, "the event of the creation reached the other session")
            self.session.execute(f"DROP TABLE {table}")
            eventually(lambda: table not in known, "the event of the drop reached the other session")
        finally:
            other.shutdown()

    def test_a_full_refresh_agrees_with_the_events(self):
        table = self.table("p int, c int, v text, PRIMARY KEY (p, c)")
        before = self.cluster.metadata.keyspaces["drivers"].tables[table].as_cql_query()
        self.cluster.refresh_schema_metadata()
        self.assertEqual(self.cluster.metadata.keyspaces["drivers"].tables[table].as_cql_query(), before)

    def test_the_version_moves(self):
        def version():
            return self.rows("SELECT schema_version FROM system.local")[0][0]

        before = version()
        self.table("p int PRIMARY KEY")
        self.assertNotEqual(version(), before)


class Concurrency(Connected):
    def test_thousands_in_flight(self):
        table = self.table("p int, c int, v text, PRIMARY KEY (p, c)")
        insert = self.session.prepare(f"INSERT INTO {table} (p, c, v) VALUES (?, ?, ?)")
        select = self.session.prepare(f"SELECT v FROM {table} WHERE p = ? AND c = ?")
        keys = [(n % 97, n) for n in range(5000)]
        futures = [self.session.execute_async(insert, (p, c, str(c))) for p, c in keys]
        for future in futures:
            future.result()
        futures = [(c, self.session.execute_async(select, (p, c))) for p, c in keys]
        for c, future in futures:
            self.assertEqual(future.result().one().v, str(c))

    def test_several_connections(self):
        table = self.table("p int PRIMARY KEY, v int")
        clusters = [connect() for _ in range(8)]
        try:
            sessions = [cluster.connect("drivers") for cluster in clusters]
            futures = [
                session.execute_async(f"INSERT INTO {table} (p, v) VALUES (%s, %s)", (100 * n + k, k))
                for k in range(100)
                for n, session in enumerate(sessions)
            ]
            for future in futures:
                future.result()
        finally:
            for cluster in clusters:
                cluster.shutdown()
        self.assertEqual(self.rows(f"SELECT count(*) FROM {table}"), [(800,)])


def main():
    """For this file and for those of other topics, which import from it."""
    module = sys.modules["python_driver"]
    module.HOST, module.PORT = sys.argv[1], int(sys.argv[2])
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])


if __name__ == "__main__":
    sys.modules["python_driver"] = sys.modules["__main__"]
    main()
