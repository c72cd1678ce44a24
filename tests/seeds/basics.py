"""The programs of the tutorial "MegEngine basics": tensors, devices, operators, GradManager.

Typed in from the document, whose indentation and quotes were lost in places. Each function is one
cell or a few that share their variables. The document draws random numbers without a seed: here
they are the ones that it prints.
"""

import numpy as np

import megengine as mge


def tensor_from_array_and_list() -> None:
    a = mge.tensor(
        np.array(
            [[0.2397, 0.6569, 0.8097, 0.3523, 0.4676], [0.9492, 0.9415, 0.5636, 0.614, 0.8424]]
        ).astype("float32")
    )
    print(a)
    b = mge.tensor([1.0, 2.0, 3.0])
    print(b)
    print(a.dtype)
    d = a.astype("float16")
    print(d.dtype)
    print(a.shape)


def to_numpy() -> None:
    values = [
        [0.8246328, 0.8447421, 0.32254046, 0.25825405, 0.60646415],
        [0.47006, 0.59400123, 0.16122891, 0.77490866, 0.0067136],
    ]
    a = mge.tensor(np.array(values).astype("float32"))
    print(a)
    b = a.numpy()
    print(b)


def devices() -> None:
    a = mge.tensor([1.0, 2.0, 3.0])
    print(a.device)
    b = a.to("cpu0")
    print(b.device)
    mge.set_default_device("cpux")
    print(mge.tensor([1.0]))


def operators() -> None:
    mge.set_default_device("cpux")
    a = mge.tensor(
        np.array(
            [[0.1337, 0.5079, 0.0929, 0.0834, 0.7817], [0.461, 0.7906, 0.81, 0.6579, 0.5813]]
        ).astype("float32")
    )
    print(a)
    b = mge.tensor(
        np.array(
            [[0.8897, 0.451, 0.6765, 0.3549, 0.88], [0.4421, 0.7505, 0.6881, 0.9912, 0.6448]]
        ).astype("float32")
    )
    print(b)
    print(a + b)
    print(a[1, :])
    print(repr(a.reshape(5, 2)))
    a = a.reshape(1, -1)
    print(a.shape)
    print(a.device)


def gradients() -> None:
    import megengine.functional as F
    from megengine.autodiff import GradManager

    mge.set_default_device("cpux")
    x = mge.tensor([1.0, 3.0, 5.0]).reshape(1, 3)
    w = mge.tensor([2.0, 4.0, 6.0]).reshape(3, 1)
    b = mge.tensor(-1.0)

    gm = GradManager().attach([w, b])
    with gm:
        p = F.matmul(x, w)
        y = p + b
        gm.backward(y)
    print(w.grad)
    print(b.grad)


def record_and_release() -> None:
    import megengine.functional as F
    from megengine.autodiff import GradManager

    mge.set_default_device("cpux")
    x = mge.tensor([1.0, 3.0, 5.0]).reshape(1, 3)
    w = mge.tensor([2.0, 4.0, 6.0]).reshape(3, 1)
    b = mge.tensor(-1.0)

    gm = GradManager().attach([w, b])
    gm.record()
    p = F.matmul(x, w)
    y = p + b
    gm.backward(y)
    gm.release()
    print(w.grad)
    print(b.grad)


def detached() -> None:
    import megengine.functional as F
    from megengine.autodiff import GradManager

    x = mge.tensor([1.0, 3.0, 5.0]).reshape(1, 3)
    w = mge.tensor([2.0, 4.0, 6.0]).reshape(3, 1)
    b = mge.tensor(-1.0)

    gm = GradManager().attach([w, b])
    with gm:
        p = F.matmul(x, w)
        y = p + b.detach()
        gm.backward(y)
    print(b.grad)


PROGRAMS = [
    tensor_from_array_and_list,
    to_numpy,
    devices,
    operators,
    gradients,
    record_and_release,
    detached,
]
