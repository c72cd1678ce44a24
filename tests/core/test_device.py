"""Questions about devices and their answers on a machine with CPUs only."""

import pytest

import megengine as mge
from megengine import device


def test_counts():
    assert device.get_device_count("cpu") >= 1
    assert device.get_device_count("gpu") == device.get_device_count("cuda") == 0
    with pytest.raises(ValueError, match="unknown device type 'foo'"):
        device.get_device_count("foo")


@pytest.mark.parametrize("name", ["cuda", "rocm", "cambricon", "atlas"])
def test_no_accelerator_is_available(name):
    assert getattr(mge, f"is_{name}_available")() is False


@pytest.mark.parametrize(
    "ask",
    [
        mge.get_cuda_version,
        mge.get_cuda_driver_version,
        mge.get_cudnn_version,
        mge.get_tensorrt_version,
        lambda: mge.get_cuda_compute_capability(0),
        lambda: mge.get_cuda_device_property(0),
    ],
)
def test_questions_about_cuda_raise(ask):
    with pytest.raises(RuntimeError, match="no CUDA"):
        ask()


def test_prealloc_config_is_checked():
    mge.set_prealloc_config(growth_factor=1.5)
    with pytest.raises(ValueError, match="growth_factor"):
        mge.set_prealloc_config(growth_factor=0.5)


def test_threads():
    n = device.get_num_threads()
    try:
        device.set_num_threads(1)
        assert device.get_num_threads() == 1
        with pytest.raises(ValueError, match="positive"):
            device.set_num_threads(0)
    finally:
        device.set_num_threads(n)


def test_memory_of_the_machine():
    total, free = mge.get_mem_status_bytes()
    assert 0 < free <= total


def test_as_device():
    assert str(device.as_device("cpu0")) == str(device.as_device(mge.tensor(1.0, device="cpu0")))
    assert device.as_device(device.as_device("cpux")) == device.as_device("cpux")
