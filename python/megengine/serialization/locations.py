"""Where loaded tensors go."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["MapLocation", "dmap", "given", "location_map"]

MapLocation = str | Mapping[str, str] | Callable[[str], str] | None

_locations: list[Callable[[str], str]] = []  # of the dmap blocks that are open


class dmap:  # noqa: N801 - the reference's name
    """A block in which :func:`load` puts tensors where ``map_location`` says.

    It holds for calls that do not say it themselves.

    Args:
        map_location: as in :func:`load`.

    >>> import io
    >>> import megengine as mge
    >>> file = io.BytesIO()
    >>> mge.save(mge.tensor([1.0]), file)
    >>> _ = file.seek(0)
    >>> with dmap({"xpux": "cpu0"}):
    ...     mge.load(file)
    Tensor([1.], device=cpu0:0)
    """

    def __init__(self, map_location: MapLocation) -> None:
        self._location = location_map(map_location)

    def __enter__(self) -> dmap:
        _locations.append(self._location)
        return self

    def __exit__(self, *exc_info: object) -> None:
        _locations.remove(self._location)


def given(map_location: MapLocation) -> bool:
    """Whether a call or a :class:`dmap` block says where tensors go."""
    return map_location is not None or bool(_locations)


def location_map(map_location: MapLocation) -> Callable[[str], str]:
    """The function from a device's name in the file to where its tensors go."""
    if map_location is None:
        return _locations[-1] if _locations else lambda name: name
    if isinstance(map_location, str):
        place = map_location
        return lambda name: place
    if isinstance(map_location, Mapping):
        places = dict(map_location)
        # "xpux" also means its stream 0, which is what a file says: "xpux:0".
        return lambda name: places.get(name, places.get(name.removesuffix(":0"), name))
    if callable(map_location):
        return map_location
    raise TypeError(
        f"map_location should be str, dict or function, got {type(map_location).__name__}"
    )
