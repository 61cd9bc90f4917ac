"""Clients that break the protocol or abuse it, on bare sockets: hostile.py HOST PORT CLASS[.test] ... After each, a
client that keeps to it is served. See python_driver.py.

HOSTILE_CONNECTIONS is how many connections a flood has; 300 unless told.
"""

import os
import random
import socket
import struct
import time

import python_driver
from python_driver import Connected, main

CONNECTIONS = int(os.environ.get("HOSTILE_CONNECTIONS", "300"))
STARTUP, OPTIONS, QUERY, PREPARE, EXECUTE, REGISTER, BATCH, AUTH_RESPONSE = 1, 5, 7, 9, 10, 11, 13, 15
ERROR, READY = 0, 2


def frame(opcode, body, version=4, stream=1, flags=0, length=None):
    return struct.pack("!BBhBI", version, flags, stream, opcode, len(body) if length is None else length) + body


HELLO = frame(STARTUP, b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0")


def query(text, page=b"\x00"):
    return frame(QUERY, struct.pack("!I", len(text)) + text + b"\x00\x01" + page)


class Hostile(Connected):
    def socket(self):
        connection = socket.create_connection((python_driver.HOST, python_driver.PORT), timeout=python_driver.DEADLINE_S)
        self.addCleanup(connection.close)
        return connection

    def started(self):
        connection = self.socket()
        connection.sendall(HELLO)
        self.assertEqual(self.answer(connection)[0], READY)
        return connection

    def read(self, connection, count):
        data = b""
        while len(data) < count:
            part = connection.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def answer(self, connection):
        header = self.read(connection, 9)
        _, _, _, opcode, length = struct.unpack("!BBhBI", header)
        return opcode, self.read(connection, length)

    def tearDown(self):
        """Others are served whatever has happened."""
        self.assertEqual(len(list(self.session.execute("SELECT key FROM system.local"))), 1)
        fresh = self.started()
        fresh.sendall(query(b"SELECT key FROM system.local"))
        self.assertNotEqual(self.answer(fresh)[0], ERROR)

    def test_half_frames_that_never_end(self):
        whole = HELLO + query(b"SELECT key FROM system.local")
        held = []
        for cut in range(1, len(whole)):
            connection = self.socket()
            connection.sendall(whole[:cut])
            held.append(connection)

    def test_a_frame_that_is_too_long_is_refused_and_the_connection_ends(self):
        for length in (2**31 - 1, 2**32 - 1, 257 * 2**20):
            connection = self.started()
            connection.sendall(frame(QUERY, b"", length=length))
            self.assertEqual(self.answer(connection)[0], ERROR)
            with self.assertRaises((EOFError, ConnectionResetError)):
                self.read(connection, 1)

    def test_counts_that_lie(self):
        many = b"\xff\xff"
        bodies = [
            (QUERY, b"\x7f\xff\xff\xff"),
            (QUERY, b"\xff\xff\xff\xff"),
            (QUERY, b"\x00\x00\x00\x08SELECT 1\x00\x01\x01" + many),
            (QUERY, b"\x00\x00\x00\x08SELECT 1\x00\x01\x41" + many + b"\x00\x05ab"),
            (QUERY, b"\x00\x00\x00\x08SELECT 1\x00\x01\x04\x00\x10"),
            (QUERY, b"\x00\x00\x00\x02\xff\xfe\x00\x01\x00"),
            (PREPARE, b"\x00\x00\x00\x64AB"),
            (EXECUTE, b"\x00\x05ABC"),
            (BATCH, b"\x00" + many),
            (BATCH, b"\x00\x00\x01\xff"),
            (BATCH, b"\x63\x00\x00\x00\x01\x00"),
            (REGISTER, many + b"\x00\x05ABC"),
            (AUTH_RESPONSE, b"\x7f\xff\xff\xff"),
        ]
        connection = self.started()
        for opcode, body in bodies:
            connection.sendall(frame(opcode, body))
            self.assertEqual(self.answer(connection)[0], ERROR, (opcode, body))

    def test_requests_before_and_beside_the_handshake(self):
        connection = self.socket()
        early = (query(b"SELECT key FROM system.local"), frame(REGISTER, b"\x00\x00"), frame(AUTH_RESPONSE, b"\x00" * 4))
        for request in early:
            connection.sendall(request)
            self.assertEqual(self.answer(connection)[0], ERROR)
        connection.sendall(HELLO)
        self.assertEqual(self.answer(connection)[0], READY)
        connection.sendall(HELLO)
        self.assertEqual(self.answer(connection)[0], ERROR)
        # A version that was not the one of STARTUP.
        connection.sendall(frame(OPTIONS, b"", version=3))
        self.assertEqual(self.answer(connection)[0], ERROR)

    def test_noise(self):
        chance = random.Random(7)
        for _ in range(200):
            connection = self.socket() if chance.random() < 0.5 else self.started()
            try:
                for _ in range(4):
                    body = chance.randbytes(chance.randrange(200))
                    noise = frame(chance.randrange(17), body, chance.choice([3, 4, 5]), flags=chance.randrange(32))
                    connection.sendall(chance.choice([body, noise]))
            except OSError:
                pass
            connection.close()

    def test_a_broken_segment_ends_the_connection(self):
        connection = self.socket()
        hello = HELLO.replace(b"\x04", b"\x05", 1)
        connection.sendall(hello)
        self.assertEqual(self.answer(connection)[0], READY)
        connection.sendall(b"\x10\x00\x02\x00\x00\x00" + b"x" * 20)
        with self.assertRaises((EOFError, ConnectionResetError)):
            while True:
                self.read(connection, 1)

    def test_an_answer_nobody_reads_holds_up_nobody(self):
        table = self.table("p int PRIMARY KEY, v blob")
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, 0x{'ab' * 100_000})")
        text = f"SELECT v FROM drivers.{table} WHERE p = 1".encode()
        slow = [self.started() for _ in range(8)]
        for connection in slow:
            connection.setblocking(False)
            try:
                for _ in range(2_000):
                    connection.send(query(text))
            except BlockingIOError:
                pass
        for _ in range(20):
            self.assertEqual(len(self.rows(f"SELECT p FROM {table}")), 1)

    def test_who_leaves_without_reading_is_gone(self):
        table = self.table("p int PRIMARY KEY, v blob")
        self.session.execute(f"INSERT INTO {table} (p, v) VALUES (1, 0x{'ab' * 100_000})")
        text = query(f"SELECT v FROM drivers.{table} WHERE p = 1".encode())
        before = self.clients()
        for _ in range(8):
            connection = self.started()
            connection.setblocking(False)
            try:
                for _ in range(2_000):
                    connection.send(text)
            except BlockingIOError:
                pass
            connection.close()
        deadline = time.monotonic() + python_driver.DEADLINE_S
        while self.clients() > before and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertLessEqual(self.clients(), before)

    def clients(self):
        return self.rows("SELECT count(*) FROM system.clients")[0][0]

    def test_many_connections(self):
        held = [self.started() for _ in range(CONNECTIONS)]
        for connection in held:
            connection.sendall(query(b"SELECT key FROM system.local"))
        for connection in held:
            self.assertNotEqual(self.answer(connection)[0], ERROR)
        for connection in held:
            connection.close()

    def test_connections_that_come_and_go(self):
        for _ in range(CONNECTIONS):
            connection = self.socket()
            connection.sendall(HELLO[: random.randrange(len(HELLO))])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

    def test_a_flood_of_requests_is_answered_in_full(self):
        connection = self.started()
        text = query(b"SELECT key FROM system.local")
        for _ in range(20):
            connection.sendall(text * 100)
            for _ in range(100):
                self.answer(connection)

    def test_statements_that_nest_and_repeat(self):
        connection = self.started()
        relations = b"SELECT * FROM t WHERE " + b"a = 1 AND " * 20_000 + b"b = 2"
        for text in (b"SELECT " + b"f(" * 50_000, b"[" * 100_000, relations, b"\x00" * 1_000):
            connection.sendall(query(text))
            self.assertEqual(self.answer(connection)[0], ERROR)


if __name__ == "__main__":
    main()
