"""Speed and memory of OpenMGE, alone and beside its peers. See ``python -m benchmarks --help``."""
