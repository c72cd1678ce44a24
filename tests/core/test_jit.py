"""What jit says until it is there."""

import pytest

from megengine.jit import trace


def test_trace_says_what_to_do_instead():
    with pytest.raises(NotImplementedError, match="call the function itself"):
        trace(lambda x: x, symbolic=True)
    with pytest.raises(NotImplementedError, match="call the function itself"):

        @trace
        def f(x):
            return x
