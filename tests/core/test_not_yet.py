"""What is not there yet says so."""

import pytest

import megengine as mge


@pytest.mark.parametrize("name", ["quantization", "traced_module"])
def test_packages_that_are_not_there_say_so(name):
    with pytest.raises(AttributeError, match=f"megengine.{name} is not supported yet"):
        getattr(mge, name)
    with pytest.raises(AttributeError, match="no attribute 'foo'"):
        _ = mge.foo
