"""Names in the C++ headers."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_enums_have_names_of_their_own() -> None:
    """Two of one name in a namespace are one to the linker, which keeps either one's table."""
    names: Counter[str] = Counter()
    for path in sorted((ROOT / "core").rglob("*.h")):
        names.update(re.findall(r"^enum class (\w+)", path.read_text(), re.MULTILINE))
    assert [name for name, count in names.items() if count > 1] == []
    assert names["PoolMode"] == 1
