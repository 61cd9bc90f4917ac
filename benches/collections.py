#!/usr/bin/env python3
"""What a JVM's log of collections and its counters tell, for benches/cassandra-3.0.sh.

  collections.py operations N NODE.. -- COMMAND    bytes allocated, CPU and pauses for each of N operations of a command
  collections.py log NODE RATE                     how fast young collections copy; memtables, compactions, CPU by thread

NODE is a folder with `pid`, `logs/gc.log` (-Xlog:gc*) and `logs/system.log`.
"""

import collections
import os
import re
import subprocess
import sys


def collected(node):
    """Young collections: seconds, kind, MiB before and after, ms, and regions of survivors and old before and after."""
    seen, order = {}, []
    for line in open(f"{node}/logs/gc.log", errors="ignore"):
        head = re.match(r"\[([\d.]+)s\].*GC\((\d+)\) (.*)", line)
        if not head:
            continue
        of = seen.setdefault(int(head[2]), {})
        if regions := re.match(r"(Survivor|Old) regions: (\d+)->(\d+)", head[3]):
            of[regions[1]] = int(regions[2]), int(regions[3])
        if pause := re.match(r"Pause (\w+) ?(?:\((\w+)\))?.* (\d+)M->(\d+)M\(\d+M\) ([\d.]+)ms", head[3]):
            of.update(at=float(head[1]), kind=pause[2], before=int(pause[3]), after=int(pause[4]), ms=float(pause[5]))
            order.append(of)
    return order


def snapshot(node):
    pid = open(f"{node}/pid").read().strip()
    heap = subprocess.run(["jcmd", pid, "GC.heap_info"], capture_output=True, text=True, check=True).stdout
    of = collected(node)
    stat = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    ticks = int(stat[11]) + int(stat[12])
    used_mib = int(re.search(r"used (\d+)K", heap)[1]) / 1024
    allocated = (used_mib + sum(c["before"] - c["after"] for c in of)) * 2**20
    return allocated, ticks / os.sysconf("SC_CLK_TCK"), sum(c["ms"] for c in of)


def operations(number, nodes, command):
    before = [snapshot(node) for node in nodes]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    after = [snapshot(node) for node in nodes]
    allocated, cpu, paused = (sum(a[i] - b[i] for a, b in zip(after, before)) / number for i in range(3))
    print(f"{command[-1].split()[0]}: {allocated / 1e3:.1f} kB allocated, {cpu * 1e6:.0f} us of CPU, "
          f"{paused * 1e3:.1f} us of pauses an operation, on all {len(nodes)} nodes")


def solve(rows, values):
    """Least squares by the normal equations: small, so that it needs no library."""
    n = len(rows[0])
    a = [[sum(r[i] * r[j] for r in rows) for j in range(n)] + [sum(r[i] * v for r, v in zip(rows, values))]
         for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(a[k][i]))
        a[i], a[pivot] = a[pivot], a[i]
        for k in range(n):
            if k != i:
                factor = a[k][i] / a[i][i]
                a[k] = [x - factor * y for x, y in zip(a[k], a[i])]
    return [a[i][n] / a[i][i] for i in range(n)]


def log(node, rate):
    region_mib = int(re.search(r"(?i)heap region size: (\d+)M", open(f"{node}/logs/gc.log").read())[1])
    rows, values, allocated, retained = [], [], [], 0
    previous, begin = None, None
    for c in collected(node):
        if previous and c["kind"] == "Normal" and c["at"] > 60 and "Old" in c:
            seconds = c["at"] - previous["at"]
            mb = region_mib * 2**20 / 1e6
            again = c["Survivor"][0] * mb
            new = (c["Survivor"][1] + c["Old"][1] - c["Old"][0]) * mb - again
            rows.append([1.0, max(new, 0.0), again])
            values.append(c["ms"])
            allocated.append((c["before"] - previous["after"]) * 2**20 / 1e6 / seconds)
            begin = begin if begin is not None else previous["at"]
            retained += new
        previous = c
    if len(rows) < 10:
        sys.exit("fewer than ten collections to tell from: let it run longer")
    base, first, second = solve(rows, values)
    print(f"{len(rows)} collections: {base:.0f} ms, and {1e3 / first:.0f} MB/s of what is new, {1e3 / second:.0f} MB/s again")
    print(f"retained: {retained * 1e3 / (previous['at'] - begin) / rate:.2f} kB a write")
    allocated.sort()
    print(f"allocated: {allocated[len(allocated) // 10]:.0f} to {allocated[len(allocated) * 9 // 10]:.0f} MB/s "
          "(nine tenths and one: with and without a compaction)")
    # A remark frees dead regions, and mixed collections the rest.
    for line in open(f"{node}/logs/gc.log", errors="ignore"):
        if re.search(r"Pause (Remark|Cleanup|Young \((Concurrent Start|Prepare Mixed|Mixed)\)).*->", line):
            print(" ", re.sub(r"\[info *\]\[gc *\] ", "", line.strip()))
    updates = [float(avg) for avg in re.findall(r"Update RS \(ms\):.*Avg: *([\d.]+)",
                                                    open(f"{node}/logs/gc.log", errors="ignore").read())]
    if late := sorted(updates[len(updates) // 2:]):
        print(f"remembered sets are updated for {late[0]:.0f} to {late[-1]:.0f} ms, median {late[len(late) // 2]:.0f}, "
              "in the later half of the collections (Java up to 13)")
    for line in open(f"{node}/logs/system.log"):
        if "standard1" in line and ("Completed flushing" in line or "bytes to" in line):
            print(" ", re.sub(r"\S*/", "", line.strip())[:200])
    pid = open(f"{node}/pid").read().strip()
    cpu = collections.Counter()
    for task in os.listdir(f"/proc/{pid}/task"):
        name = open(f"/proc/{pid}/task/{task}/comm").read().strip()
        cpu[re.sub(r"[-#:]?\d+.*$", "", name)] += int(open(f"/proc/{pid}/task/{task}/schedstat").read().split()[0]) / 1e9
    for name, seconds in cpu.most_common(8):
        print(f"  {seconds:8.1f} s of CPU: {name}")


if __name__ == "__main__":
    if len(sys.argv) > 4 and sys.argv[1] == "operations" and "--" in sys.argv:
        at = sys.argv.index("--")
        operations(int(sys.argv[2]), sys.argv[3:at], sys.argv[at + 1:])
    elif len(sys.argv) == 4 and sys.argv[1] == "log":
        log(sys.argv[2], float(sys.argv[3]))
    else:
        sys.exit(__doc__)
