"""What the fuzzers share: altered bytes, and cases that are tried in child processes, a batch each.

A case is made from the seed and its number, so that one that failed can be tried again.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import mmap
import os
import random
import signal
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable

NUMBERS = [0, 1, 2, 3, 7, 8, 63, 64, 65, 255, 256, 4096, 2**16, 2**31 - 1, 2**31, 2**32, 2**40]
NUMBERS += [2**62, 2**63 - 1, 2**63, 2**64 - 1]
MOST_FAILURES = 20


def alter_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flips, cuts, doubles, inserts and overwrites bytes."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        if not out:
            break
        at, kind = rng.randrange(len(out)), rng.randrange(7)
        end = min(len(out), at + rng.choice([1, 2, 4, 8, 64]))
        if kind == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif kind == 2:
            del out[at:end]
        elif kind == 3:
            out[at:at] = out[at:end]
        elif kind == 4:
            out[at:at] = rng.randbytes(end - at)
        elif kind == 5:
            number = struct.pack("<Q", rng.choice(NUMBERS))[: rng.choice([1, 2, 4, 8])]
            out[at : at + len(number)] = number
        else:
            del out[at:]
    return bytes(out)


def arguments(description: str | None) -> argparse.Namespace:
    """The command line of a fuzzer."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=2000, help="cases of one child process")
    parser.add_argument("--only", type=int, help="the number of one case, tried in this process")
    return parser.parse_args()


def run(options: argparse.Namespace, attempt: Callable[[int], str], seconds: float) -> int:
    """Keeps child processes busy with cases; returns 1 where one of them failed.

    Args:
        options: what :func:`arguments` gave.
        attempt: tries the case of a number; says how that ended. An exception is a failure.
        seconds: of processor time that a case may take.
    """
    place = mmap.mmap(-1, 8 * options.jobs)  # the number of the case that each child is at
    totals: Counter[str] = Counter()
    running: dict[int, tuple[int, int, int]] = {}  # pid: slot, pipe, end
    failures, start, done = 0, time.monotonic(), 0
    last = options.first + options.cases
    begins = range(options.first, last, options.batch)
    pending = [(begin, min(begin + options.batch, last)) for begin in begins]
    while pending or running:
        free = [s for s in range(options.jobs) if s not in [r[0] for r in running.values()]]
        while pending and free:
            (begin, end), slot = pending.pop(0), free.pop()
            reading, writing = os.pipe()
            pid = os.fork()
            if pid == 0:
                _child(attempt, begin, end, seconds, place, slot, writing)
            os.close(writing)
            running[pid] = (slot, reading, end)
        pid, status = os.wait()
        slot, reading, end = running.pop(pid)
        text = os.read(reading, 1 << 16).decode()
        os.close(reading)
        if status or not text:
            failures += 1
            (number,) = struct.unpack_from("<q", place, 8 * slot)
            sys.stdout.write(
                f"FAILED with status {status}: --seed {options.seed} --only {number}\n"
            )
            if number + 1 < end:  # the rest of its batch
                pending.append((number + 1, end))
            if failures > MOST_FAILURES:
                break
            continue
        for key, count in json.loads(text).items():
            totals[key] += count
            done += count
        rate = done / (time.monotonic() - start)
        sys.stdout.write(f"{done} cases, {rate:.0f} a second, {failures} failures\n")
        sys.stdout.flush()
    for key, count in totals.most_common():
        sys.stdout.write(f"{count:10d} {key}\n")
    return 1 if failures else 0


def _child(
    attempt: Callable[[int], str],
    begin: int,
    end: int,
    seconds: float,
    place: mmap.mmap,
    slot: int,
    writing: int,
) -> None:
    """Tries cases begin ... end - 1, writes how often each end was met, and ends the process."""
    faulthandler.enable()
    counts: Counter[str] = Counter()
    try:
        for number in range(begin, end):
            struct.pack_into("<q", place, 8 * slot, number)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            counts[attempt(number)] += 1
        signal.setitimer(signal.ITIMER_PROF, 0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os.write(writing, json.dumps(counts).encode())
    os._exit(0)
