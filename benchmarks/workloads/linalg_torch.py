"""Linear algebra, complex numbers and draws from weights, through PyTorch."""

from __future__ import annotations

import torch

from benchmarks.workloads import Work, repeat, workload
from benchmarks.workloads.torch_peer import backward, forward


@workload
def inverse_of_1000_3x3() -> Work:
    x = torch.randn(1000, 3, 3)
    return repeat(lambda: torch.linalg.inv(x), 20)


@workload
def inverse_of_256_16x16() -> Work:
    x = torch.randn(256, 16, 16)
    return repeat(lambda: torch.linalg.inv(x), 10)


@workload
def inverse_256() -> Work:
    x = torch.randn(256, 256)
    return forward(lambda: torch.linalg.inv(x))


@workload
def inverse_1024() -> Work:
    x = torch.randn(1024, 1024)
    return forward(lambda: torch.linalg.inv(x))


@workload
def inverse_1024_float64() -> Work:
    x = torch.randn(1024, 1024, dtype=torch.float64)
    return forward(lambda: torch.linalg.inv(x))


@workload
def inverse_training() -> Work:
    x = torch.randn(64, 32, 32)
    return backward(lambda: torch.linalg.inv(x), [x])


@workload
def svd_of_1000_3x3() -> Work:
    x = torch.randn(1000, 3, 3)
    return repeat(lambda: torch.linalg.svd(x, full_matrices=False), 10)


@workload
def svd_of_32_32x32() -> Work:
    x = torch.randn(32, 32, 32)
    return forward(lambda: torch.linalg.svd(x, full_matrices=False))


@workload
def svd_128() -> Work:
    x = torch.randn(128, 128)
    return forward(lambda: torch.linalg.svd(x, full_matrices=False))


@workload
def svd_512() -> Work:
    x = torch.randn(512, 512)
    return forward(lambda: torch.linalg.svd(x, full_matrices=False))


@workload
def svd_512_float64() -> Work:
    x = torch.randn(512, 512, dtype=torch.float64)
    return forward(lambda: torch.linalg.svd(x, full_matrices=False))


@workload
def svd_tall() -> Work:
    x = torch.randn(2000, 50)
    return forward(lambda: torch.linalg.svd(x, full_matrices=False))


@workload
def svd_wide() -> Work:
    x = torch.randn(64, 1024)
    return forward(lambda: torch.linalg.svd(x, full_matrices=False))


@workload
def singular_values_512() -> Work:
    x = torch.randn(512, 512)
    return forward(lambda: torch.linalg.svdvals(x))


@workload
def svd_training() -> Work:
    x = torch.randn(64, 16, 16)

    def f() -> torch.Tensor:
        u, s, v = torch.linalg.svd(x, full_matrices=False)
        return (u * s.sqrt()[:, None]) @ v

    return backward(f, [x])


@workload
def cross_1m() -> Work:
    a, b = torch.randn(1 << 20, 3), torch.randn(1 << 20, 3)
    return forward(lambda: torch.linalg.cross(a, b))


@workload
def einsum_attention() -> Work:
    q, k = torch.randn(4, 256, 8, 64), torch.randn(4, 256, 8, 64)
    return forward(lambda: torch.einsum("bqhd,bkhd->bhqk", q, k))


@workload
def einsum_chain() -> Work:
    a, b, c = torch.randn(300, 500), torch.randn(500, 400), torch.randn(400, 20)
    return forward(lambda: torch.einsum("ij,jk,kl->il", a, b, c))


@workload
def complex_make_4m() -> Work:
    a, b = torch.randn(1 << 22), torch.randn(1 << 22)
    return forward(lambda: torch.complex(a, b))


@workload
def complex_multiply_4m() -> Work:
    z = torch.complex(torch.randn(1 << 22), torch.randn(1 << 22))
    return forward(lambda: z * z)


@workload
def complex_divide_4m() -> Work:
    z = torch.complex(torch.randn(1 << 22), torch.randn(1 << 22))
    return forward(lambda: z / z)


@workload
def complex_abs_4m() -> Work:
    z = torch.complex(torch.randn(1 << 22), torch.randn(1 << 22))
    return forward(lambda: z.abs())


@workload
def complex_add_10() -> Work:
    z = torch.complex(torch.randn(10), torch.randn(10))
    return repeat(lambda: z + z, 1000)


@workload
def complex_training() -> Work:
    a, b = torch.randn(1 << 20), torch.randn(1 << 20)

    def f() -> torch.Tensor:
        z = torch.complex(a, b)
        return (z * z).real + z.imag

    return backward(f, [a, b])


@workload
def multinomial_replace() -> Work:
    w = torch.rand(128, 1000)
    return forward(lambda: torch.multinomial(w, 1000, replacement=True))


@workload
def multinomial_once() -> Work:
    w = torch.rand(128, 1000)
    return forward(lambda: torch.multinomial(w, 10))
