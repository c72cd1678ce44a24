"""The programs of the tutorial "Basic concepts": tensors to linear regression, in 25 cells.

Typed in from the document, whose indentation and quotes were lost in places. Each function is a run
of cells that share their variables.
"""

import numpy as np

import megengine as mge
import megengine.functional as F


def version() -> None:
    import megengine

    print(type(megengine.__version__))


def making_tensors() -> None:
    py_list = range(5)
    print(mge.tensor(py_list))
    np_ndarray = np.arange(5).astype("float32")
    print(mge.tensor(np_ndarray))
    mge_tensor = F.arange(5)
    print(mge_tensor)
    print(mge_tensor.dtype)
    print(type(mge_tensor))
    new_tensor = mge_tensor.astype("float16")
    print(new_tensor)
    print(type(mge_tensor.numpy()))


def constructors() -> None:
    from megengine import Tensor, tensor

    print(tensor([1, 2, 3]))
    print(Tensor([1.0, 2.0, 3.0]))
    matrix_tensor = mge.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    print(matrix_tensor.shape)
    print(matrix_tensor.size)
    a = mge.tensor([[5.0]])
    print(a.item(), type(a.item()))


def arithmetic() -> None:
    A = mge.tensor([[2.0, 4.0, 2.0], [2.0, 4.0, 2.0]])
    B = mge.tensor([[1.0, 2.0, 1.0], [1.0, 2.0, 1.0]])
    print(A + B)
    print(A - B)
    print(A * B)
    print(A / B)
    print(F.add(A, B))
    print(F.sub(A, B))
    print(F.mul(A, B))
    print(F.div(A, B))


def shapes() -> None:
    A = mge.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    print(A[1, :2])
    print(A.shape)
    A = A.reshape(3, 2)
    print(A.shape)
    A = mge.tensor(np.random.random((2, 3, 4, 5)))
    print(A.shape)
    A = A.reshape(2, -1, 5)
    print(A.shape)


def matrix_product() -> None:
    x = mge.tensor([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]])
    w = mge.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    p = F.matmul(x, w)
    print(p)
    x = np.array([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]])
    w = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    p = np.matmul(x, w)
    print(p)


def gradients() -> None:
    from megengine.autodiff import GradManager

    w = mge.tensor([3.0])
    x = mge.tensor([2.0])
    b = mge.tensor(-1.0)
    gm = GradManager().attach([w, b])
    with gm:
        p = F.mul(w, x)
        y = p + b
        gm.backward(y)
    print(w.grad)
    print(b.grad)


def parameters_and_optimizer() -> None:
    import megengine.optimizer as optim
    from megengine.autodiff import GradManager

    w = mge.Parameter([3.0])
    x = mge.Tensor([2.0])
    b = mge.Parameter(-1.0)
    print(type(w))
    print(type(b))
    gm = GradManager().attach([w, b])
    with gm:
        p = F.mul(w, x)
        y = p + b
        gm.backward(y)
    print(type(w.grad))
    optimizer = optim.SGD([w, b], lr=0.01)
    optimizer.step()
    optimizer.clear_grad()
    print(w, w.grad)
    w = np.array([3.0])
    dw = np.array([2.0])
    lr = 0.01
    w = w - lr * dw
    print(w)


def losses() -> None:
    pred = np.array([3, 3, 3, 3]).astype(np.float32)
    real = np.array([2, 8, 6, 1]).astype(np.float32)
    loss = np.mean((pred - real) ** 2)
    print(loss)
    loss = F.loss.square_loss(pred, real)
    print(loss)


def examples(n: int = 100, noise: float = 5) -> tuple[np.ndarray, np.ndarray]:
    """The data of the exercise: labels near a line, from a fixed seed, with w = 9 and b = 0."""
    rng = np.random.RandomState(0)
    w, b = 9, 0
    data = np.zeros((n,))
    label = np.zeros((n,))
    for i in range(n):
        data[i] = rng.uniform(-10, 10)
        label[i] = w * data[i] + b + rng.uniform(-noise, noise)
    return data, label


def regression_numpy() -> None:
    epochs = 5
    lr = 0.01
    data, label = examples()
    n = len(data)
    w = 0
    b = 0

    def linear_model(x):
        return w * x + b

    for epoch in range(epochs):
        loss = 0
        sum_grad_w = 0
        sum_grad_b = 0
        for i in range(n):
            pred = linear_model(data[i])
            loss += (pred - label[i]) ** 2
            sum_grad_w += 2 * (pred - label[i]) * data[i]
            sum_grad_b += 2 * (pred - label[i])
        loss = loss / n
        grad_w = sum_grad_w / n
        grad_b = sum_grad_b / n
        w = w - lr * grad_w
        b = b - lr * grad_b
        print(f"epoch = {epoch}, w = {w:.3f}, b = {b:.3f}, loss = {loss:.3f}")


def regression() -> None:
    import megengine.optimizer as optim
    from megengine.autodiff import GradManager

    epochs = 5
    lr = 0.01
    original_data, original_label = examples()
    data = mge.tensor(original_data)
    label = mge.tensor(original_label)
    w = mge.Parameter([0.0])
    b = mge.Parameter([0.0])

    def linear_model(x):
        return F.mul(w, x) + b

    gm = GradManager().attach([w, b])
    optimizer = optim.SGD([w, b], lr=lr)
    for epoch in range(epochs):
        with gm:
            pred = linear_model(data)
            loss = F.loss.square_loss(pred, label)
            gm.backward(loss)
            optimizer.step().clear_grad()
        print(f"epoch = {epoch}, w = {w.item():.3f}, b = {b.item():.3f}, loss = {loss.item():.3f}")
    x = np.array([-10, 10])
    y = w.numpy() * x + b.numpy()
    print(y.shape)


PROGRAMS = [
    version,
    making_tensors,
    constructors,
    arithmetic,
    shapes,
    matrix_product,
    gradients,
    parameters_and_optimizer,
    losses,
    regression_numpy,
    regression,
]
