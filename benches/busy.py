#!/usr/bin/env python3
"""busy.py SECONDS PID..: how much of a processor each process uses, on average and in the slackest tenth of 100 ms each."""

import os
import sys
import time


def ran_s(pid):
    """Seconds on processors, of all threads."""
    tasks = f"/proc/{pid}/task"
    return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0]) for task in os.listdir(tasks)) / 1e9


end = time.monotonic() + float(sys.argv[1])
parts = []
before, last = time.monotonic(), [ran_s(pid) for pid in sys.argv[2:]]
while before < end:
    time.sleep(0.1)
    now, ran = time.monotonic(), [ran_s(pid) for pid in sys.argv[2:]]
    parts.append([(b - a) / (now - before) for a, b in zip(last, ran)])
    before, last = now, ran
for pid, of_one in zip(sys.argv[2:], zip(*parts)):
    slackest = sorted(of_one)[len(of_one) // 10]
    print(f"process {pid} is busy for {sum(of_one) / len(of_one):.3f}, at least {slackest:.3f} in nine tenths of the time")
