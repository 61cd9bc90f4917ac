"""Connections over TLS, through the Python driver and bare sockets: tls.py HOST PORT CLASS[.test] ...

Certificates are in the folder where it runs; see tls.rs and python_driver.py.
"""

import http.client
import shutil
import socket
import ssl
import time
import unittest

import python_driver
from cassandra import Unauthorized
from cassandra.cluster import NoHostAvailable
from cassandra.concurrent import execute_concurrent_with_args
from hostile import HELLO
from python_driver import connect, eventually, main

# The node gives a handshake ten seconds.
HANDSHAKE_S = 10


def context(certificate=None, version=None):
    context = ssl.create_default_context(cafile="ca.pem")
    if certificate:
        context.load_cert_chain(f"{certificate}.pem", f"{certificate}.key")
    if version:
        context.minimum_version = context.maximum_version = version
    return context


def over_tls(certificate=None, version=None, **options):
    options.setdefault("port", python_driver.PORT)
    return connect(
        ssl_context=context(certificate, version), ssl_options={"server_hostname": python_driver.HOST}, **options
    )


class Encrypted(unittest.TestCase):
    def session(self, **options):
        cluster = over_tls(**options)
        self.addCleanup(cluster.shutdown)
        session = cluster.connect()
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS tls WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute("CREATE TABLE IF NOT EXISTS tls.t (p int PRIMARY KEY, v blob)")
        return session

    def round_trips(self, version):
        session = self.session(version=version)
        insert = session.prepare("INSERT INTO tls.t (p, v) VALUES (?, ?)")
        values = [b"", b"x", bytes(range(256)) * 4000, *(bytes([n % 256]) * n for n in range(300))]
        execute_concurrent_with_args(session, insert, list(enumerate(values)))
        select = session.prepare("SELECT v FROM tls.t WHERE p = ?")
        for p, result in enumerate(execute_concurrent_with_args(session, select, [(p,) for p in range(len(values))])):
            self.assertEqual(result.result_or_exc.one().v, values[p])
        self.assertEqual(sum(len(row.v) for row in session.execute("SELECT v FROM tls.t")), sum(map(len, values)))

    def test_tls_12(self):
        self.round_trips(ssl.TLSVersion.TLSv1_2)

    def test_tls_13(self):
        self.round_trips(ssl.TLSVersion.TLSv1_3)

    def test_clients_are_shown_with_their_encryption(self):
        rows = list(self.session(version=ssl.TLSVersion.TLSv1_3).execute("SELECT * FROM system.clients"))
        self.assertTrue(all(row.ssl_enabled for row in rows))
        self.assertEqual({row.ssl_protocol for row in rows}, {"TLSv1.3"})
        self.assertTrue(all(row.ssl_cipher_suite.startswith("TLS13_") for row in rows))

    def address(self):
        return python_driver.HOST, python_driver.PORT

    def test_who_does_not_speak_tls_is_cut_off(self):
        for said in (HELLO, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b"\xff" * 100):
            with socket.create_connection(self.address(), timeout=5) as plain:
                try:
                    plain.sendall(said)
                    while plain.recv(4096):
                        pass
                except ConnectionResetError:
                    pass
        self.session().execute("SELECT key FROM system.local")

    def test_half_handshakes_end_and_hold_up_nobody(self):
        begun = time.monotonic()
        half = [socket.create_connection(self.address(), timeout=2 * HANDSHAKE_S) for _ in range(200)]
        for n, connection in enumerate(half):
            self.addCleanup(connection.close)
            connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[: n % 12])
        session = self.session()
        for _ in range(100):
            session.execute("SELECT key FROM system.local")
        self.assertLess(time.monotonic() - begun, HANDSHAKE_S, "served before the others are given up")
        for connection in half:
            self.assertEqual(connection.recv(1), b"")
        self.assertLess(time.monotonic() - begun, 2 * HANDSHAKE_S)

    def presented(self):
        with socket.create_connection(self.address(), timeout=5) as plain:
            with context().wrap_socket(plain, server_hostname=python_driver.HOST) as encrypted:
                return encrypted.getpeercert(binary_form=True)

    def ask(self, path):
        api = http.client.HTTPConnection(python_driver.HOST, 10000, timeout=10)
        api.request("POST", path)
        answer = api.getresponse()
        return answer.status, answer.read()

    def test_new_certificates_are_taken(self):
        session, before = self.session(), self.presented()
        for end in ("pem", "key"):
            shutil.copy(f"server.{end}", f"old.{end}")
            shutil.copy(f"renewed.{end}", f"server.{end}")
        self.assertEqual(self.ask("/storage_service/reload_ssl")[0], 200)
        after = self.presented()
        self.assertNotEqual(before, after)
        # What cannot be used leaves what is.
        shutil.copy("old.pem", "server.pem")
        status, answer = self.ask("/storage_service/reload_ssl")
        self.assertEqual(status, 500, answer)
        self.assertEqual(self.presented(), after)
        # Without being asked.
        shutil.copy("old.key", "server.key")
        eventually(lambda: self.presented() == before, "the files are looked at")
        session.execute("SELECT key FROM system.local")


class Certified(unittest.TestCase):
    def as_role(self, name):
        cluster = over_tls(name, port=9142)
        self.addCleanup(cluster.shutdown)
        return cluster.connect()

    def refusal(self, certificate):
        cluster = over_tls(certificate, port=9142)
        self.addCleanup(cluster.shutdown)
        with self.assertRaises(NoHostAvailable) as refused:
            cluster.connect()
        return str(list(refused.exception.errors.values())[0])

    def test_clients_are_who_their_certificates_say(self):
        admin = self.as_role("cassandra")
        admin.execute("CREATE ROLE IF NOT EXISTS bob WITH LOGIN = true")
        bob = self.as_role("bob")
        with self.assertRaises(Unauthorized):
            bob.execute("CREATE ROLE alice")
        self.assertIn("bob", {row.username for row in admin.execute("SELECT username FROM system.clients")})
        self.assertIn("names no role", self.refusal("nobody"))

    def test_who_has_no_certificate_of_ours_is_refused(self):
        self.assertTrue(self.refusal(None))
        self.assertTrue(self.refusal("stranger"))

    def test_the_plain_port_shows_nobody(self):
        cluster = connect()
        self.addCleanup(cluster.shutdown)
        with self.assertRaises(NoHostAvailable):
            cluster.connect()


if __name__ == "__main__":
    main()
