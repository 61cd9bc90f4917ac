"""A client that abuses its server until it is told to end: hostile.py HOST PORT KIND. Prints `ready` once it is at it.

KIND: half (frames whose rest never comes, on 1,000 connections), lengths (frames that claim gigabytes, each on a new
connection), noise (random bytes), flood (64 connections that send statements without a pause), slow (64 that ask for
large answers and read none), connections (CONNECTIONS, 10,000 unless told, held open and asked in turn). And what these
cost a loader on the same processor, the server left alone: talk (as flood, to itself), churn (as half, to itself), crowd
(as connections, to itself).
"""

import os
import random
import resource
import selectors
import socket
import struct
import sys

HOST, PORT, KIND = sys.argv[1], int(sys.argv[2]), sys.argv[3]
# Ports of connections that were closed are not free for a while: each run has an address of its own.
OWN = (f"127.1.{os.getpid() % 250}.1", 0) if HOST.startswith("127.") else None
STARTUP, QUERY = 1, 7


def frame(opcode, body, length=None):
    return struct.pack("!BBhBI", 4, 0, 1, opcode, len(body) if length is None else length) + body


def query(text):
    return frame(QUERY, struct.pack("!I", len(text)) + text + b"\x00\x01\x00")


HELLO = frame(STARTUP, b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0")
LOCAL = query(b"SELECT * FROM system.local")
ANSWER = bytes(10_000)
LARGE = query(b"SELECT * FROM keyspace1.standard1 LIMIT 5000")


def connect(hello=True):
    connection = socket.create_connection((HOST, PORT), timeout=20, source_address=OWN)
    if hello:
        connection.sendall(HELLO)
        connection.recv(9)
    return connection


def ready():
    print("ready", flush=True)


def half():
    whole = HELLO + LOCAL
    held = []
    for number in range(1000):
        held.append(connect(hello=False))
        held[-1].sendall(whole[: 1 + number % (len(whole) - 1)])
    ready()
    while True:
        oldest = held.pop(0)
        oldest.close()
        held.append(connect(hello=False))
        held[-1].sendall(whole[: 1 + random.randrange(len(whole) - 1)])


def lengths():
    ready()
    while True:
        with connect() as connection:
            connection.sendall(frame(QUERY, b"x" * 100, length=random.choice([2**31 - 1, 2**32 - 1, 2**30])))


def noise():
    ready()
    while True:
        with connect(hello=random.random() < 0.5) as connection:
            try:
                for _ in range(10):
                    connection.sendall(random.randbytes(random.randrange(1, 4000)))
            except OSError:
                pass


def pour(statement, count, read):
    """`statement` again and again on `count` connections, as fast as they take it."""
    data = statement * 200
    selector = selectors.DefaultSelector()
    for _ in range(count):
        connection = connect()
        connection.setblocking(False)
        events = selectors.EVENT_WRITE | (selectors.EVENT_READ if read else 0)
        selector.register(connection, events, [0])
    ready()
    while True:
        for key, events in selector.select():
            try:
                if events & selectors.EVENT_READ and not key.fileobj.recv(1 << 20):
                    raise ConnectionResetError
                if events & selectors.EVENT_WRITE:
                    at = key.data[0]
                    key.data[0] = (at + key.fileobj.send(data[at:])) % len(data)
            except BlockingIOError:
                pass
            except OSError:
                selector.unregister(key.fileobj)
                connection = connect()
                connection.setblocking(False)
                selector.register(connection, key.events, [0])


def connections():
    count = int(os.environ.get("CONNECTIONS", "10000"))
    held = [connect() for _ in range(count)]
    ready()
    while True:
        for connection in held:
            connection.sendall(LOCAL)
            connection.recv(1 << 16)


def crowd():
    count = min(int(os.environ.get("CONNECTIONS", "10000")), hard // 2 - 100)
    pairs = [to_itself() for _ in range(count)]
    ready()
    while True:
        for near, far in pairs:
            near.sendall(LOCAL)
            far.recv(64)
            far.sendall(ANSWER)
            near.recv(1 << 16)


def to_itself():
    with socket.create_server(("127.0.0.92", 0), backlog=100) as listener:
        near = socket.create_connection(listener.getsockname(), source_address=OWN)
        return near, listener.accept()[0]


def talk():
    pairs = [to_itself() for _ in range(64)]
    ready()
    while True:
        for near, far in pairs:
            near.send(LOCAL * 200)
            far.recv(1 << 20)


def churn():
    listener = socket.create_server(("127.0.0.92", 0), backlog=100)
    held = []
    ready()
    while True:
        near = socket.create_connection(listener.getsockname(), source_address=OWN)
        far = listener.accept()[0]
        near.sendall(HELLO[:5])
        far.recv(64)
        held.append((near, far))
        if len(held) > 1000:
            for connection in held.pop(0):
                connection.close()


_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
kinds = {
    "half": half,
    "lengths": lengths,
    "noise": noise,
    "flood": lambda: pour(LOCAL, 64, read=True),
    "slow": lambda: pour(LARGE, 64, read=False),
    "connections": connections,
    "talk": talk,
    "churn": churn,
    "crowd": crowd,
}
kinds[KIND]()
