"""Workers that die, raise or hang, loaders that are left or killed: an error that says what
happened, and nothing that stays behind.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from megengine.data import Collator, DataLoader, RandomSampler, SequentialSampler
from tests.data.workers import (
    HANG,
    PATIENCE,
    Items,
    children,
    exists,
    nothing_is_left,
    open_files,
    wait_until,
)

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    with nothing_is_left():
        yield


def at_5(act: Callable[[], Any]) -> Items:
    """A dataset of numbers, of which number 5 does something else."""
    return Items(lambda i: act() if i == 5 else i, 12)


def loader_of(dataset: Items, **options: Any) -> DataLoader:
    sampler = SequentialSampler(dataset, batch_size=2)
    return DataLoader(dataset, sampler, **{"num_workers": 2, **options})


# Death


def die_by(number: int) -> None:
    faulthandler.disable()  # pytest's would fill the report
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("act", "how"),
    [
        (lambda: os._exit(3), "exited unexpectedly with exit code 3"),
        (lambda: sys.exit(4), "exited unexpectedly with exit code 4"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), r"was killed by SIGKILL \(.*memory runs"),
        (lambda: die_by(signal.SIGSEGV), "was killed by SIGSEGV"),
        (lambda: die_by(signal.SIGBUS), "was killed by SIGBUS"),
        (lambda: die_by(signal.SIGABRT), "was killed by SIGABRT"),
    ],
)
def test_a_worker_that_ends(act: Callable[[], Any], how: str) -> None:
    iterator = iter(loader_of(at_5(act)))
    with pytest.raises(
        RuntimeError, match=rf"DataLoader worker 0 \(pid \d+\) {how}.* while it had batch [02], "
    ) as caught:
        list(iterator)
    assert "samples [4, 5]" in str(caught.value) or "samples [0, 1]" in str(caught.value)
    with pytest.raises(StopIteration):
        next(iterator)


def test_death_of_any_worker_is_seen_at_once() -> None:
    """The loader waits for worker 0, which takes its time, when worker 1 dies."""
    loader = loader_of(Items(lambda i: os._exit(9) if i == 2 else time.sleep(HANG), 12))
    with pytest.raises(RuntimeError, match=r"worker 1 .* exit code 9 .*samples \[2, 3\]"):
        next(iter(loader))


def test_many_samples_are_not_all_named() -> None:
    dataset = Items(lambda i: os._exit(1), 1000)
    loader = DataLoader(dataset, SequentialSampler(dataset, 1000), num_workers=1)
    with pytest.raises(RuntimeError, match=r"samples \[0, 1, .* 15, \.\.\. \(1000 in all\)\]"):
        list(loader)


def test_kills_at_random_moments() -> None:
    rng = np.random.default_rng(0)
    dataset = Items(lambda i: np.full(4000, i, "float32"), 2000)
    for _ in range(10):
        before = children()
        iterator = iter(loader_of(dataset))
        workers = sorted(children() - before)
        for _ in range(rng.integers(0, 20)):
            next(iterator)
        os.kill(workers[rng.integers(2)], signal.SIGKILL)
        with pytest.raises(RuntimeError, match="was killed by SIGKILL"):
            list(iterator)


# Exceptions


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_exception_comes_with_its_traceback(method: str) -> None:
    iterator = iter(loader_of(Items(raise_at_5, 12), start_method=method))
    next(iterator)
    next(iterator)
    with pytest.raises(ValueError, match="bad 5") as caught:
        next(iterator)
    assert str(caught.value) == "bad 5"
    text = "".join(traceback.format_exception(caught.value))
    assert "in raise_at_5" in text
    assert "Raised in DataLoader worker 0 (pid " in text
    assert "while it had batch 2, samples [4, 5]" in text
    with pytest.raises(StopIteration):
        next(iterator)


def raise_at_5(i: int) -> int:
    if i == 5:
        raise ValueError("bad 5")
    return i


class Peculiar(Exception):  # noqa: N818
    """An exception that cannot be unpickled."""

    def __init__(self, a: int, b: int):
        super().__init__(f"{a} and {b}")


def test_exceptions_of_all_kinds() -> None:
    def fail(error: BaseException) -> Callable[[], None]:
        def act() -> None:
            raise error

        return act

    with pytest.raises(FileNotFoundError) as caught:
        list(loader_of(at_5(lambda: os.stat("/no/such/file"))))
    assert (caught.value.errno, caught.value.filename) == (2, "/no/such/file")
    with pytest.raises(KeyError, match="'x'"):
        list(loader_of(at_5(lambda: {}["x"])))
    with pytest.raises(RuntimeError, match=r"(?s)Caught Peculiar in DataLoader worker 0.*1 and 2"):
        list(loader_of(at_5(fail(Peculiar(1, 2)))))


@pytest.mark.parametrize("workers", [0, 2])
def test_stop_iteration_does_not_pass_for_the_end(workers: int) -> None:
    for collator in (None, type("Own", (Collator,), {})()):
        loader = loader_of(at_5(lambda: next(iter(()))), num_workers=workers, collator=collator)
        with pytest.raises(RuntimeError, match="raised StopIteration"):
            list(loader)


def test_collators_and_samplers_that_raise() -> None:
    class Broken(Collator):
        def apply(self, inputs: Any) -> Any:
            raise ZeroDivisionError("no collation")

    with pytest.raises(ZeroDivisionError, match="no collation"):
        list(loader_of(at_5(int), collator=Broken()))

    class Sampler(RandomSampler):
        def batch(self) -> Iterator[list[int]]:
            yield [1, 2]
            raise ZeroDivisionError("no indices")

    dataset = at_5(int)
    iterator = iter(DataLoader(dataset, Sampler(dataset), num_workers=2))
    assert next(iterator).tolist() == [1, 2]
    with pytest.raises(ZeroDivisionError, match="no indices"):
        next(iterator)


def test_batches_that_cannot_be_sent() -> None:
    class Raw(Collator):
        def apply(self, inputs: Any) -> Any:
            return inputs

    with pytest.raises(Exception, match=r"pickle|local object") as caught:  # Python's words
        list(loader_of(at_5(lambda: lambda: 0), collator=Raw()))
    assert "samples [4, 5]" in caught.value.__notes__[0]


def test_what_cannot_be_pickled_needs_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = Items(lambda i: i)
    for method in ("spawn", "forkserver"):
        with pytest.raises(TypeError, match=f"start_method='{method}'.*are pickled.*use start_m"):
            iter(loader_of(dataset, start_method=method))
    monkeypatch.setenv("MGE_DATALOADER_START_METHOD", "spawn")
    with pytest.raises(TypeError, match="start_method='spawn'"):
        iter(loader_of(dataset))
    assert len(list(loader_of(dataset, start_method="fork"))) == 4


# Time


def test_a_worker_that_hangs() -> None:
    iterator = iter(loader_of(at_5(lambda: time.sleep(HANG)), timeout=2))
    assert [next(iterator).tolist(), next(iterator).tolist()] == [[0, 1], [2, 3]]
    with pytest.raises(
        RuntimeError,
        match=r"dataloader timeout: DataLoader worker 0 \(pid \d+\) has not answered within 2 s "
        r"while it had batch 2, samples \[4, 5\]",
    ):
        next(iterator)


def test_a_worker_that_hangs_and_will_not_end() -> None:
    def stubborn() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            pass

    started = time.monotonic()
    with pytest.raises(RuntimeError, match="dataloader timeout"):
        list(loader_of(at_5(stubborn), timeout=1))
    assert time.monotonic() - started < PATIENCE


# Loaders that are left


def slowly(i: int) -> Any:
    time.sleep(0.001)
    return np.full(5000, i, "float32")


def test_left_by_break_by_exception_and_by_dropping() -> None:
    dataset = Items(slowly, 1000)
    before = children()
    for _ in loader_of(dataset):
        break
    assert children() <= before
    with contextlib.suppress(ZeroDivisionError):
        for batch in loader_of(dataset):
            assert len(children() - before) == 2
            1 / (batch.size * 0)
    assert children() <= before
    iterator = iter(loader_of(dataset))
    del iterator
    assert children() <= before
    generator = (batch for batch in loader_of(dataset))
    kept = next(generator)
    generator.close()
    assert children() <= before
    assert (kept == [[0], [1]]).all()


def test_left_with_a_worker_that_hangs() -> None:
    before = children()
    for _ in loader_of(at_5(lambda: time.sleep(HANG))):
        break
    assert children() <= before


def test_half_used_200_times() -> None:
    dataset = Items(lambda i: np.full(5000, i, "float32"), 100)
    files = open_files()
    for _ in range(200):
        next(iter(loader_of(dataset, num_workers=1)))
        assert open_files() <= files


def test_other_children_do_not_keep_workers() -> None:
    """A process that is forked meanwhile has copies of all descriptors; it gives them up."""
    before = children()
    iterator = iter(loader_of(Items(slowly, 1000)))
    next(iterator)
    other = multiprocessing.get_context("fork").Process(target=time.sleep, args=(HANG,))
    other.start()
    next(iterator)
    iterator = None
    assert children() - before == {other.pid}
    other.kill()
    other.join()
    other.close()


def test_the_iterator_belongs_to_its_process() -> None:
    iterator = iter(loader_of(Items(slowly, 1000)))
    next(iterator)
    pid = os.fork()
    if pid == 0:
        try:
            next(iterator)
        except RuntimeError as error:
            os._exit(0 if "another process" in str(error) else 2)
        os._exit(3)
    assert os.waitpid(pid, 0)[1] == 0
    assert len(list(iterator)) == 499


# The process that iterates


@contextlib.contextmanager
def run(body: str, prefix: Sequence[str] = (), **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A program with a loader; ready() of it prints the pids of its workers."""
    program = f"""
        import os, signal, sys, time
        import numpy as np
        from megengine.data import DataLoader, SequentialSampler
        from tests.data.workers import HANG, Items, children

        def loader(item, **options):
            dataset = Items(item, 1000)
            return DataLoader(dataset, SequentialSampler(dataset, 2), num_workers=2, **options)

        def ready():
            print(*children(), flush=True)

        if __name__ == "__main__":
            # Whoever started the tests may have had them ignore it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
{textwrap.indent(textwrap.dedent(body), " " * 12)}
    """
    with subprocess.Popen(
        [*prefix, sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    pids = [int(word) for word in process.stdout.readline().split()]
    assert pids, process.communicate()[1]
    return pids


BUSY = {
    "waiting": """
        iterator = iter(loader(lambda i: np.full(5000, i)))
        next(iterator)
        ready()
        time.sleep(HANG)
    """,
    "hanging": """
        iterator = iter(loader(lambda i: time.sleep(HANG)))
        ready()
        next(iterator)
    """,
    "computing": """
        def compute(i):
            while True:
                pass
        iterator = iter(loader(compute))
        ready()
        next(iterator)
    """,
}


@pytest.mark.parametrize("body", BUSY.values(), ids=BUSY)
def test_killed_main_process(body: str) -> None:
    with run(body) as process:
        workers = workers_of(process)
        assert len(workers) == 2
        process.kill()
        wait_until(lambda: not any(map(exists, workers)))


@pytest.mark.parametrize("body", [BUSY["waiting"], BUSY["hanging"]], ids=["waiting", "hanging"])
def test_ctrl_c(body: str) -> None:
    """It goes to the whole group of processes, as from a terminal."""
    with run(body, start_new_session=True) as process:
        workers = workers_of(process)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGINT
        assert errors.count("Traceback") == 1  # the workers say nothing
        assert errors.rstrip().endswith("KeyboardInterrupt")
        assert not any(map(exists, workers))


def test_end_of_a_program_with_an_iterator() -> None:
    body = """
        iterator = iter(loader(lambda i: np.full(5000, i)))
        next(iterator)
        ready()
    """
    with run(body) as process:
        workers = workers_of(process)
        _, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (0, "")
        assert not any(map(exists, workers))


# Memory


def test_no_memory_for_a_batch() -> None:
    """A limit of the size of files stands for a system without memory: both fail in reserving."""

    def limited(i: int) -> Any:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, resource.RLIM_INFINITY))
        return np.zeros(2**16 if i < 4 else 2**20, "float32")

    iterator = iter(loader_of(Items(limited)))
    assert next(iterator).nbytes == 2**19
    assert next(iterator).nbytes == 2**19
    with pytest.raises(MemoryError, match=r"no shared memory for another \d+ bytes.*EFBIG"):
        next(iterator)


def test_full_dev_shm_does_not_matter() -> None:
    """Containers have a /dev/shm of 64 MB; here it has 64 KB, in a mount namespace of its own."""
    small = "mount -t tmpfs -o size=64k tmpfs /dev/shm"
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-m", "sh", "-c", small]).returncode:
        pytest.skip("a mount namespace needs rights that this user does not have")
    body = """
        print(os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize)
        batches = loader(lambda i: np.full(100000, i, "float32"))
        print(sum(b.nbytes + len(os.listdir("/dev/shm")) for b in batches))
    """
    with run(body, [unshare, "-m", "sh", "-c", f'{small} && exec "$@"', "sh"]) as process:
        out, errors = process.communicate(timeout=PATIENCE)
        assert (out.split(), errors) == (["65536", str(1000 * 400000)], "")
