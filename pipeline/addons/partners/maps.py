"""The file of maps that `covdp harmonise` writes and `covdp describe --map` reads.

Whoever sends one may make an error or mean harm: form and size are checked as those of documents
are.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
from pydantic import BaseModel, Field

from covdp.addons.partners.foreign import checked, foreign_json
from covdp.addons.partners.harmonise import Harmonisation
from covdp.addons.partners.several import DocumentSet
from covdp.arrays import BASIS, COORDINATES, COUNT, FLAG, NUMBERS, SIZE, FloatArray
from covdp.descriptors import DESCRIPTORS
from covdp.errors import ConfigError, MismatchError
from covdp.files import make_folder, write_whole
from covdp.geometry import AffineMap, Manifold, chart_of
from covdp.schema import SAME_MEANS, Name, manifold_named, point_at

Coordinates: TypeAlias = Annotated[FloatArray, COORDINATES]


class SitePart(BaseModel):
    """The map of a site: x ↦ common + matrix·(x − common − shift) in coordinates at the base."""

    name: Name
    digest: Name = Field(description="SHA-256 of the document it was made of")
    shift: Coordinates
    effect: Annotated[float, SIZE]
    standard_error: Annotated[float, SIZE]
    apart: Annotated[float, SIZE]
    left: Annotated[float, SIZE]
    matrix: Annotated[FloatArray, BASIS] | None = Field(description="null of a shift alone")
    reason: Name = Field(description="why it stays as it is; empty where it is mapped")


class MapsDocument(BaseModel):
    """Maps of sites to one scale."""

    descriptor: Name
    eta: Annotated[float, SIZE]
    manifold: Name
    masked: Annotated[bool, FLAG]
    image_height: Annotated[int, COUNT]
    image_width: Annotated[int, COUNT]
    image_depth: int = Field(strict=True, ge=0, le=1 << 30)
    classes: list[Name]
    weights: Annotated[FloatArray, NUMBERS]
    base: Coordinates
    common: Coordinates
    sites: list[SitePart]

    @property
    def space(self) -> Manifold:
        """Manifold of the descriptors."""
        return manifold_named(self.manifold, len(self.base))

    def map_of(self, name: str) -> AffineMap:
        """Return the map of a site; raise `ConfigError` where there is none of that name.

        Parameters
        ----------
        name : str
            Name of the site's release.
        """
        for site in self.sites:
            if site.name == name:
                matrix = np.eye(len(self.base)) if site.matrix is None else site.matrix
                base = point_at(self.space, self.base)
                return AffineMap(self.space, base, self.common + site.shift, self.common, matrix)
        names = ", ".join(repr(site.name) for site in self.sites)
        raise ConfigError(f"no site {name!r} in the maps; give --site one of {names}")

    def require_same(self, path: Path, **settings: Any) -> None:
        """Raise `MismatchError` unless the maps were made of such descriptors.

        Parameters
        ----------
        path : Path
            File of the maps, for the message.
        **settings : object
            Descriptor, manifold and rules of pixels of the images here, by their keys.
        """
        for key, ours in settings.items():
            if (value := getattr(self, key)) != ours:
                raise MismatchError(
                    f"{path} was made of releases with {key} = {value!r}, found {ours!r} here; "
                    "take maps of releases with the same, or describe the images as these were"
                )


def write_maps(several: DocumentSet, maps: Harmonisation, path: Path) -> Path:
    """Write the maps of some releases; return the path.

    Parameters
    ----------
    several : DocumentSet
        Documents of the releases.
    maps : Harmonisation
        Maps of their sites, in the same order.
    path : Path
        File that is written, in JSON.

    Returns
    -------
    Path
        The same path.
    """
    space = chart_of(maps.manifold)
    first = several.documents[0].settings
    sites = [
        SitePart.model_construct(
            **{**site._asdict(), "matrix": site.matrix if site.spread else None},
            name=name,
            digest=document.digest,
        )
        for (name, site), document in zip(maps.sites.items(), several.documents, strict=True)
    ]
    document = MapsDocument.model_construct(
        **{key: getattr(first, key) for key in SAME_MEANS},
        classes=list(several.classes),
        weights=maps.weights,
        base=space.log(space.origin, maps.base),
        common=maps.common,
        sites=sites,
    )
    content = json.dumps(document.model_dump(warnings=False), allow_nan=False)
    make_folder(path.parent)
    return write_whole(path, f"{content}\n")


def read_maps(path: Path) -> MapsDocument:
    """Return the maps in a file that somebody sent.

    Parameters
    ----------
    path : Path
        File of maps, in JSON.

    Raises
    ------
    ConfigError
        When it is no such file.
    OutputError
        When it cannot be read.
    """
    what, way = "file of maps", "give what `covdp harmonise` wrote"
    _, values = foreign_json(path, what, way)
    return checked(path, values, MapsDocument, _faults, what, way)


def _faults(maps: MapsDocument) -> Iterator[str]:
    """Yield what does not fit together."""
    try:
        dim = maps.space.dim
    except ConfigError as error:
        yield str(error)
        return
    known = DESCRIPTORS.get(maps.descriptor)
    if known and dim != known.k * (known.k + 1) // 2:
        yield f"base has length {dim}, which is not that of {maps.descriptor}"
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(point_at(maps.space, maps.base)).all():
            yield "base is no point that doubles can hold"
    names = [site.name for site in maps.sites]
    if len(set(names)) < len(names):
        yield "two sites have one name"
    if len(maps.common) != dim:
        yield f"common has length {len(maps.common)}, not {dim}"
    for site in maps.sites:
        if len(site.shift) != dim:
            yield f"the shift of {site.name!r} has length {len(site.shift)}, not {dim}"
        if site.matrix is not None and site.matrix.shape != (dim, dim):
            yield f"the matrix of {site.name!r} is not {dim} × {dim}"
