"""Scopes, decorators and settings of autocast."""

import threading

import numpy as np
import pytest

import megengine as mge
import megengine.functional as F
from megengine import amp
from megengine.amp import autocast


def state():
    return amp.enabled, amp.low_prec_dtype, amp.high_prec_dtype


def product_dtype():
    a = mge.tensor(np.ones((2, 2), np.float32))
    return str(F.matmul(a, a).dtype)


OFF = (False, "bfloat16", "float32")


def test_off_at_first():
    assert state() == OFF
    assert product_dtype() == "float32"


def test_scopes_nest_and_bring_back_what_they_found():
    with autocast():
        assert state() == (True, "bfloat16", "float32")
        assert product_dtype() == "bfloat16"
        with autocast(low_prec_dtype="float16"):
            assert state() == (True, "float16", "float32")
            assert product_dtype() == "float16"
            with autocast(enabled=False):
                assert not amp.enabled
                assert product_dtype() == "float32"
            assert product_dtype() == "float16"
        assert product_dtype() == "bfloat16"
    assert state() == OFF


def test_an_exception_ends_a_scope():
    with pytest.raises(ZeroDivisionError), autocast():
        _ = 1 / 0
    assert state() == OFF


def test_one_object_can_be_entered_again_while_it_is_open():
    scope = autocast()
    with scope:
        with scope:
            assert amp.enabled
        assert amp.enabled
    assert state() == OFF


def test_the_default_is_the_fast_one_and_what_is_asked_for_is_given():
    assert autocast().low_prec_dtype == "bfloat16"
    assert autocast(low_prec_dtype="float16").low_prec_dtype == "float16"
    assert autocast(True, "float16").low_prec_dtype == "float16"
    assert autocast(low_prec_dtype=np.float16).low_prec_dtype == "float16"
    assert autocast().high_prec_dtype == "float32"
    assert autocast(False).enabled is False


def test_low_can_be_float32():
    with autocast(low_prec_dtype="float32"):
        assert product_dtype() == "float32"


def test_high_can_be_low():
    x = mge.tensor([1.0, 2.0])
    with autocast(low_prec_dtype="float16", high_prec_dtype="float16"):
        assert str(F.exp(x).dtype) == "float16"


def test_decorator():
    @autocast(low_prec_dtype="float16")
    def f(a, b=2):
        """Text."""
        return a, b, state(), product_dtype()

    assert f(1, b=3) == (1, 3, (True, "float16", "float32"), "float16")
    assert (f.__name__, f.__doc__) == ("f", "Text.")
    assert state() == OFF


def test_decorated_functions_recurse():
    @autocast()
    def f(n):
        return product_dtype() if n == 0 else f(n - 1)

    assert f(3) == "bfloat16"
    assert state() == OFF


def test_decorator_without_parentheses_says_so():
    with pytest.raises(TypeError, match=r"write @autocast\(\) with parentheses"):
        autocast(lambda: None)


def test_settings_can_be_set():
    try:
        amp.enabled = True
        assert product_dtype() == "bfloat16"
        amp.low_prec_dtype = "float16"
        assert product_dtype() == "float16"
        amp.high_prec_dtype = "bfloat16"
        assert str(F.exp(mge.tensor([1.0])).dtype) == "bfloat16"
        with autocast():
            amp.low_prec_dtype = "float32"
            assert product_dtype() == "float32"
        assert state() == (True, "float16", "bfloat16")
    finally:
        amp.enabled, amp.low_prec_dtype, amp.high_prec_dtype = OFF
    assert product_dtype() == "float32"


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"low_prec_dtype": "int8"},
            ValueError,
            "low_prec_dtype can be float16, bf",
        ),
        ({"low_prec_dtype": "float64"}, ValueError, "got 'float64'"),
        ({"high_prec_dtype": "half"}, ValueError, "high_prec_dtype can be .*got 'half'"),
        ({"low_prec_dtype": 16}, TypeError, "expected the name of a dtype as low_prec_dtype"),
    ],
)
def test_wrong_dtypes(arguments, error, text):
    with pytest.raises(error, match=text):
        autocast(**arguments)
    assert state() == OFF


def test_wrong_settings():
    with pytest.raises(ValueError, match="low_prec_dtype can be"):
        amp.low_prec_dtype = "int8"
    with pytest.raises(ValueError, match="high_prec_dtype can be"):
        amp.high_prec_dtype = "foo"
    assert state() == OFF


def test_leaving_a_scope_that_is_not_open():
    with pytest.raises(RuntimeError, match="no scope is open"):
        autocast().__exit__(None, None, None)


def test_each_thread_has_its_own():
    seen = []

    def look():
        seen.append((state(), product_dtype()))
        with autocast(low_prec_dtype="float16"):
            seen.append((state()[1], product_dtype()))

    with autocast():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert product_dtype() == "bfloat16"
    assert seen == [(OFF, "float32"), ("float16", "float16")]


def test_float64_and_integers_stay():
    a = mge.tensor(np.ones((2, 2)), dtype="float64")
    i = mge.tensor(np.ones((2, 2), np.int8))
    with autocast():
        assert str(F.matmul(a, a).dtype) == "float64"
        assert str(F.exp(a).dtype) == "float64"
        assert str(F.matmul(i, i).dtype) == "int32"
        b = mge.tensor(np.ones((2, 2), np.float32))
        assert str(F.matmul(a, b).dtype) == "float64"
        assert str(F.matmul(i, b).dtype) == "bfloat16"


def test_numbers_keep_their_digits_in_the_high_precision():
    x = mge.tensor([2.0]).astype("bfloat16")
    with autocast():
        np.testing.assert_allclose((x / 0.1).numpy(), [20], rtol=1e-6)
        np.testing.assert_allclose((x**0.1).numpy(), [2**0.1], rtol=1e-6)


def test_masks_and_indices_are_left_alone():
    x = mge.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    with autocast():
        assert str((x > 2).dtype) == "bool"
        assert str(F.argmax(x, 1).dtype) == "int32"
        loss = F.loss.cross_entropy(x.astype("bfloat16"), mge.tensor([2, 0], dtype="int32"))
        assert str(loss.dtype) == "float32"


def test_parameters_stay_float32():
    w = mge.Parameter(np.ones((2, 2), np.float32))
    with autocast():
        F.matmul(w, w)
    assert str(w.dtype) == "float32"
    assert w.numpy().dtype == np.float32
