"""The protocol itself, through the Python driver: protocol.py HOST PORT CLASS[.test] ... See python_driver.py."""

import uuid

from cassandra import InvalidRequest
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import BatchStatement, SimpleStatement
from python_driver import Connected, connect, eventually, main


class Compression(Connected):
    options = {"compression": "lz4"}

    def test_lz4_both_ways(self):
        self.assertIsNotNone(self.cluster.control_connection._connection.compressor)
        table = self.table("p int PRIMARY KEY, v blob")
        insert = self.session.prepare(f"INSERT INTO {table} (p, v) VALUES (?, ?)")
        noise = uuid.uuid5(uuid.NAMESPACE_DNS, "noise").bytes
        for _ in range(13):
            noise = noise + uuid.uuid5(uuid.NAMESPACE_DNS, noise.hex()).bytes + noise
        values = [b"", b"x", b"\x00" * 1_000_000, noise[:500_000]]
        for p, value in enumerate(values):
            self.session.execute(insert, (p, value))
        for p, value in enumerate(values):
            self.assertEqual(self.session.execute(f"SELECT v FROM {table} WHERE p = {p}").one().v, value)


class Versions(Connected):
    """The same requests in every version of the protocol, with and without compression."""

    def round_trips(self, version, compression):
        cluster = connect(protocol_version=version, compression=compression, allow_beta_protocol_version=False)
        try:
            session = cluster.connect("drivers")
            self.assertEqual(cluster.protocol_version, version)
            table = self.table("p int PRIMARY KEY, v text")
            insert = session.prepare(f"INSERT INTO {table} (p, v) VALUES (?, ?)")
            select = session.prepare(f"SELECT v FROM {table} WHERE p = ?")
            # One that fits a segment with others, one that compresses, one over several segments.
            values = ["small", "x" * 10_000, "".join(chr(97 + (i * i) % 26) for i in range(400_000))]
            execute_concurrent_with_args(session, insert, list(enumerate(values)))
            for p, value in enumerate(values):
                self.assertEqual(session.execute(select, (p,)).one().v, value)
            self.assertEqual(len(list(session.execute(SimpleStatement(f"SELECT * FROM {table}", fetch_size=1)))), 3)
            batch = BatchStatement()
            batch.add(insert, (7, "batch"))
            session.execute(batch)
            self.assertEqual(session.execute(select, (7,)).one().v, "batch")
            with self.assertRaises(InvalidRequest):
                session.execute("SELECT * FROM no_such_table")
        finally:
            cluster.shutdown()

    def test_v3(self):
        self.round_trips(3, False)

    def test_v4(self):
        self.round_trips(4, False)

    def test_v5(self):
        self.round_trips(5, False)

    def test_v5_lz4(self):
        self.round_trips(5, "lz4")

    def test_v4_snappy(self):
        try:
            import snappy  # noqa: F401
        except ImportError:
            self.skipTest("the driver has no Snappy here")
        self.round_trips(4, "snappy")

    def test_a_changed_column_list_reaches_those_who_prepared_before(self):
        cluster = connect(protocol_version=5)
        try:
            session = cluster.connect("drivers")
            table = self.table("p int PRIMARY KEY, v text")
            session.execute(f"INSERT INTO {table} (p, v) VALUES (1, 'a')")
            select = session.prepare(f"SELECT * FROM {table} WHERE p = 1")
            self.assertEqual(session.execute(select).one()._fields, ("p", "v"))
            self.session.execute(f"ALTER TABLE {table} ADD w int")
            eventually(lambda: session.execute(select).one()._fields == ("p", "v", "w"), "the new column shows")
        finally:
            cluster.shutdown()


if __name__ == "__main__":
    main()
