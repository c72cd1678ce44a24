"""Linear algebra, complex numbers and draws from weights, through OpenMGE."""

from __future__ import annotations

import megengine as mge
import megengine.functional as F
from benchmarks.workloads import Work, repeat, workload
from benchmarks.workloads.openmge import backward, normal


@workload
def inverse_of_1000_3x3() -> Work:
    x = normal(1000, 3, 3)
    return repeat(lambda: F.matinv(x), 20)


@workload
def inverse_of_256_16x16() -> Work:
    x = normal(256, 16, 16)
    return repeat(lambda: F.matinv(x), 10)


@workload
def inverse_256() -> Work:
    x = normal(256, 256)
    return Work(lambda: F.matinv(x))


@workload
def inverse_1024() -> Work:
    x = normal(1024, 1024)
    return Work(lambda: F.matinv(x), flops=2 * 1024**3)


@workload
def inverse_1024_float64() -> Work:
    x = normal(1024, 1024).astype("float64")
    return Work(lambda: F.matinv(x))


@workload
def inverse_training() -> Work:
    x = normal(64, 32, 32)
    return backward(lambda: F.matinv(x), [x])


@workload
def svd_of_1000_3x3() -> Work:
    x = normal(1000, 3, 3)
    return repeat(lambda: F.svd(x), 10)


@workload
def svd_of_32_32x32() -> Work:
    x = normal(32, 32, 32)
    return Work(lambda: F.svd(x))


@workload
def svd_128() -> Work:
    x = normal(128, 128)
    return Work(lambda: F.svd(x))


@workload
def svd_512() -> Work:
    x = normal(512, 512)
    return Work(lambda: F.svd(x))


@workload
def svd_512_float64() -> Work:
    x = normal(512, 512).astype("float64")
    return Work(lambda: F.svd(x))


@workload
def svd_tall() -> Work:
    x = normal(2000, 50)
    return Work(lambda: F.svd(x))


@workload
def svd_wide() -> Work:
    x = normal(64, 1024)
    return Work(lambda: F.svd(x))


@workload
def singular_values_512() -> Work:
    x = normal(512, 512)
    return Work(lambda: F.svd(x, compute_uv=False))


@workload
def svd_training() -> Work:
    x = normal(64, 16, 16)

    def f() -> mge.Tensor:
        u, s, v = F.svd(x)
        return F.matmul(u * F.expand_dims(F.sqrt(s), 1), v)

    return backward(f, [x])


@workload
def cross_1m() -> Work:
    a, b = normal(1 << 20, 3), normal(1 << 20, 3)
    return Work(lambda: F.cross(a, b), bytes=36 << 20)


@workload
def einsum_attention() -> Work:
    q, k = normal(4, 256, 8, 64), normal(4, 256, 8, 64)
    return Work(lambda: F.einsum("bqhd,bkhd->bhqk", q, k))


@workload
def einsum_chain() -> Work:
    a, b, c = normal(300, 500), normal(500, 400), normal(400, 20)
    return Work(lambda: F.einsum("ij,jk,kl->il", a, b, c))


@workload
def complex_make_4m() -> Work:
    a, b = normal(1 << 22), normal(1 << 22)
    return Work(lambda: F.complex(a, b), bytes=16 << 22)


@workload
def complex_multiply_4m() -> Work:
    z = F.complex(normal(1 << 22), normal(1 << 22))
    return Work(lambda: z * z, bytes=16 << 22)


@workload
def complex_divide_4m() -> Work:
    z = F.complex(normal(1 << 22), normal(1 << 22))
    return Work(lambda: z / z, bytes=16 << 22)


@workload
def complex_abs_4m() -> Work:
    z = F.complex(normal(1 << 22), normal(1 << 22))
    return Work(lambda: F.abs(z), bytes=12 << 22)


@workload
def complex_add_10() -> Work:
    z = F.complex(normal(10), normal(10))
    return repeat(lambda: z + z, 1000)


@workload
def complex_training() -> Work:
    a, b = normal(1 << 20), normal(1 << 20)

    def f() -> mge.Tensor:
        z = F.complex(a, b)
        return F.real(z * z) + F.imag(z)

    return backward(f, [a, b])


@workload
def multinomial_replace() -> Work:
    w = mge.random.uniform(size=(128, 1000))
    return Work(lambda: mge.random.multinomial(w, 1000, replacement=True))


@workload
def multinomial_once() -> Work:
    w = mge.random.uniform(size=(128, 1000))
    return Work(lambda: mge.random.multinomial(w, 10))
