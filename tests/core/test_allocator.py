"""The caching allocator, through tensors: reuse, statistics, threads."""

import gc
import threading

import numpy as np

import megengine as mge


def _tensor(n):
    return mge.tensor(np.zeros(n, "uint8"))


def test_a_freed_block_is_used_again():
    mge.coalesce_free_memory()
    _tensor(8 << 20)
    reserved = mge.get_reserved_memory()
    for _ in range(20):
        _tensor(8 << 20)
    assert mge.get_reserved_memory() == reserved
    mge.coalesce_free_memory()
    assert mge.get_reserved_memory() <= reserved - (8 << 20)


def test_the_cache_does_not_grow_without_bound():
    mge.coalesce_free_memory()
    mge.reset_max_memory_stats()
    for i in range(200):
        _tensor((1 << 20) + i * 300_000)
    assert mge.get_max_reserved_memory() < mge.get_allocated_memory() + (400 << 20)


def test_maxima_start_again():
    t = _tensor(16 << 20)
    assert mge.get_max_allocated_memory() >= 16 << 20
    del t
    mge.reset_max_memory_stats()
    assert mge.get_max_allocated_memory() < mge.get_allocated_memory() + (1 << 20)


def test_tensors_cross_threads():
    gc.collect()  # what earlier tests left in cycles must not go in between
    before = mge.get_allocated_memory()
    made = []

    def make():
        made.extend(_tensor(n) for n in (1, 100, 5000, 100_000, 3 << 20) for _ in range(50))

    for _ in range(4):
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        made.clear()
    assert mge.get_allocated_memory() == before
