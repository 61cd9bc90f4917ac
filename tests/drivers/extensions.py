"""Scylla's extensions of the protocol, through its own Python driver and bare sockets: extensions.py HOST PORT
CLASS[.test] ... See python_driver.py.
"""

import socket
import struct

import python_driver
from cassandra.query import SimpleStatement
from hostile import OPTIONS, frame
from python_driver import Connected, eventually, main

SUPPORTED = 6


def strings(body):
    """A string multimap."""
    at = 0

    def number():
        nonlocal at
        at += 2
        return struct.unpack("!H", body[at - 2 : at])[0]

    def string():
        nonlocal at
        length = number()
        at += length
        return body[at - length : at].decode()

    return {string(): [string() for _ in range(number())] for _ in range(number())}


class ShardAware(Connected):
    def supported(self, port, source_port=0):
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            connection.settimeout(10)
            connection.bind((python_driver.HOST, source_port))
            connection.connect((python_driver.HOST, port))
            connection.sendall(frame(OPTIONS, b""))
            data = b""
            while len(data) < 9 or len(data) < 9 + struct.unpack("!I", data[5:9])[0]:
                data += connection.recv(65536)
            self.assertEqual(data[4], SUPPORTED)
            return strings(data[9:])

    def test_the_port_that_one_connects_from_chooses_the_shard(self):
        told = self.supported(python_driver.PORT)
        port, shards = int(told["SCYLLA_SHARD_AWARE_PORT"][0]), int(told["SCYLLA_NR_SHARDS"][0])
        self.assertEqual((port, shards), (19042, 2))
        for source in range(40_000, 40_012):
            self.assertEqual(int(self.supported(port, source)["SCYLLA_SHARD"][0]), source % shards)

    def test_the_driver_is_connected_to_every_shard(self):
        def connected():
            stats = list(self.cluster.shard_aware_stats().values())
            return bool(stats) and all(one["shards_count"] == one["connected"] == 2 for one in stats)

        eventually(connected, "a connection to each shard")


class Marks(Connected):
    def test_conditional_statements_are_marked(self):
        table = self.table("p int PRIMARY KEY, v int")
        plain = self.session.prepare(f"INSERT INTO {table} (p, v) VALUES (?, ?)")
        conditional = self.session.prepare(f"INSERT INTO {table} (p, v) VALUES (?, ?) IF NOT EXISTS")
        self.assertEqual((plain.is_lwt(), conditional.is_lwt()), (False, True))
        self.assertTrue(self.session.execute(conditional, (1, 1)).was_applied)
        self.assertFalse(self.session.execute(conditional, (1, 1)).was_applied)
        self.assertEqual(len(list(self.session.execute(SimpleStatement(f"SELECT * FROM {table}")))), 1)


if __name__ == "__main__":
    main()
