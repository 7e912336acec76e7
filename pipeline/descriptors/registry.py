"""The known descriptors by name. Next on the path: `describe`, then `bounds`."""

from pipeline.descriptors.base import Descriptor
from pipeline.descriptors.images import GRID9, GRID11, OCT5
from pipeline.descriptors.volumes import VOL7
from pipeline.errors import ConfigError, MismatchError

DESCRIPTORS: dict[str, Descriptor] = {
    descriptor.name: descriptor
    for descriptor in (
        OCT5,
        VOL7,
        GRID9,
        GRID11,
    )
}
"""Name → descriptor."""


def find_descriptor(name: str) -> Descriptor:
    """Return the descriptor called `name`, or raise `ConfigError` with the names there are."""
    if name not in DESCRIPTORS:
        raise ConfigError(f"unknown descriptor {name!r}; choose one of {', '.join(DESCRIPTORS)}")
    return DESCRIPTORS[name]


def descriptors_for(*, channels: int, volumes: bool) -> list[str]:
    """Return the descriptors of gray or colour images, or of volumes."""
    wanted = (channels, 3 if volumes else 2)
    return [name for name, x in DESCRIPTORS.items() if (x.channels, x.dimensions) == wanted]


def require_descriptor_for(name: str, *, channels: int, volumes: bool) -> None:
    """Raise `MismatchError` with the descriptors to choose when `name` is for other images."""
    names = descriptors_for(channels=channels, volumes=volumes)
    if name not in names:
        raise MismatchError(
            f"{name} describes {find_descriptor(name).takes}, and the card has "
            f"{'volumes' if volumes else 'images'} of {channels} channel(s); choose descriptor "
            f"{' or '.join(names) or 'of your own'}, or correct the card"
        )
