"""What the PyTorch files of these tests hold, and the program that wrote them.

python tests/serialization/torch_contents.py   # with PyTorch: writes tests/serialization/data
"""

import collections
import os
import sys

import numpy as np

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"


def arrays():
    """The tensors as NumPy sees them (bfloat16 as float32)."""
    base = np.arange(24).reshape(2, 3, 4)
    out = collections.OrderedDict()
    for name in DTYPES.split():
        dtype = "float32" if name == "bfloat16" else name
        out[name] = (base % 2 if name == "bool" else base).astype(dtype)
    floats = base.astype("float32")
    out["scalar"] = np.array(2.5, "float32")
    out["empty"] = np.zeros((0, 3), "float32")
    out["part"] = floats[1]
    out["transposed"] = floats.transpose(2, 0, 1)
    out["steps"] = floats[:, ::2, 1:]
    out["channels last"] = floats[None].transpose(0, 1, 2, 3)
    out["expanded"] = np.broadcast_to(np.float32([[1], [2]]), (2, 3))
    out["uint16"] = np.array([1, 65535], "uint16")
    return out


def write():
    """With PyTorch: writes the files of the tests."""
    import torch

    tensors = {n: torch.from_numpy(np.array(a)) for n, a in arrays().items() if a.shape != (2, 3)}
    tensors["bfloat16"] = tensors["bfloat16"].to(torch.bfloat16)
    floats = tensors["float32"]  # a storage that several share
    tensors["part"] = floats[1]
    tensors["transposed"] = floats.permute(2, 0, 1)
    tensors["steps"] = floats[:, ::2, 1:]
    last = floats[None].contiguous(memory_format=torch.channels_last)
    tensors["channels last"] = last
    tensors["expanded"] = torch.tensor([[1.0], [2.0]]).expand(2, 3)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    with torch.no_grad():
        for i, parameter in enumerate(net.parameters()):
            parameter.copy_(torch.linspace(-1, i, parameter.numel()).reshape(parameter.shape))
    net(torch.ones(2, 1, 4, 4))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.25)
    net(torch.ones(2, 1, 4, 4)).sum().backward()
    optimizer.step()
    value = {
        "tensors": tensors,
        "net": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "parameter": torch.nn.Parameter(torch.tensor([1.0, 2.0])),
        "more": [torch.Size([2, 3]), torch.float16, torch.device("cpu"), {"epoch": 3}, "text"],
    }
    torch.save(value, os.path.join(HERE, "torch.zip.pth"))
    tensors.pop("uint16")  # which the older format cannot hold
    torch.save(value, os.path.join(HERE, "torch.legacy.pth"), _use_new_zipfile_serialization=False)
    base = torch.arange(6.0).reshape(2, 3)
    small = {"w": torch.nn.Parameter(base[1]), "t": base.T, "b": torch.tensor([True])}
    torch.save(small, os.path.join(HERE, "torch.small.zip.pth"))
    torch.save(
        small, os.path.join(HERE, "torch.small.legacy.pth"), _use_new_zipfile_serialization=False
    )
    torch.save(net, os.path.join(HERE, "torch.module.pth"))


if __name__ == "__main__":
    sys.exit(write())
