"""What is not there yet says so."""

import pytest

import megengine as mge
from megengine.jit import trace


def test_trace_says_what_to_do_instead():
    with pytest.raises(NotImplementedError, match="call the function itself"):
        trace(lambda x: x, symbolic=True)
    with pytest.raises(NotImplementedError, match="call the function itself"):

        @trace
        def f(x):
            return x


@pytest.mark.parametrize("name", ["amp", "distributed", "quantization"])
def test_packages_that_are_not_there_say_so(name):
    with pytest.raises(AttributeError, match=f"megengine.{name} is not supported yet"):
        getattr(mge, name)
    with pytest.raises(AttributeError, match="no attribute 'foo'"):
        _ = mge.foo
