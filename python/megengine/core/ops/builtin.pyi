# The classes are made at run time, one for each op of the core.
from typing import Any

OpDef: Any

def __getattr__(name: str) -> Any: ...
