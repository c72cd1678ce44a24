"""Functions that are recorded once and run from the record."""

from .config import DTRConfig, GraphOptimizationConfig, SublinearMemoryConfig
from .tracing import TraceError, exclude_from_trace, partial_trace, trace, xla_trace

__all__ = [
    "DTRConfig",
    "GraphOptimizationConfig",
    "SublinearMemoryConfig",
    "TraceError",
    "exclude_from_trace",
    "partial_trace",
    "trace",
    "xla_trace",
]
