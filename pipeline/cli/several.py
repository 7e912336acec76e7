"""Commands on several releases: compare and combine, from their documents alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.cli.options import PLAIN, Printing, begin, new_table, print_json, show
from pipeline.errors import ConfigError

ALIKE = ("descriptor", "eta", "manifold", "image_height", "image_width", "image_depth")
"""Settings without which means of two releases are of different things."""


def compare(first: Path, second: Path, /, *, how: Printing = PLAIN) -> None:
    """Test, class by class, whether two releases are of one population.

    Only released values are read, so it costs no privacy. It holds for releases of different
    people. Together the classes differ where the smallest p-value times their number is small.

    ```
    covdp compare hospital-a.json hospital-b.json
    covdp compare monday.json friday.json --json
    ```

    Parameters
    ----------
    first, second
        Documents of releases, `OUT/release/*.json`.
    """
    from pipeline.inference import two_sample

    begin(how)
    classes = _classes((first, second))
    found = {name: two_sample(*rows) for name, rows in classes.items()}
    together = min(1.0, len(found) * min(one.p_value for one in found.values()))
    if how.json:
        rows = [{"class": name, **vars(one)} for name, one in found.items()]
        print_json({"p_value": together, "classes": rows})
        return
    table = new_table("class", "p-value", "distance", "sound")
    for name, one in found.items():
        table.add_row(name, f"{one.p_value:.3g}", f"{one.distance:.3g}", _yes(one.offered))
    show(table, how)
    show(f" all classes together: p = {together:.3g}", how)


def combine(*documents: Path, how: Printing = PLAIN) -> None:
    """Put the releases of several hospitals together, class by class, without moving an image.

    Only released values are read, so it costs no privacy; who is in several of them pays in each.
    Radii are those of regions of 95 %.

    ```
    covdp combine hospital-a.json hospital-b.json hospital-c.json
    covdp combine hospital-*.json --json
    ```

    Parameters
    ----------
    documents
        Documents of releases of different people, `OUT/release/*.json`.
    """
    from pipeline.inference import combine as combined

    begin(how)
    found = {name: combined(rows) for name, rows in _classes(documents).items()}
    if how.json:
        print_json({"classes": [_combined(name, one) for name, one in found.items()]})
        return
    table = new_table(
        "class", "n", "radius, mean of all", "common mean", "one population: p", "sound"
    )
    for name, one in found.items():
        radii = (f"{where.radius:.3g}" for where in (one.all, one.common))
        table.add_row(name, f"{one.n:,}", *radii, f"{one.p_value:.3g}", _yes(one.all.offered))
    show(table, how)


def _combined(name: str, found: Any) -> dict[str, Any]:
    """Return what releases of a class say together under the names that programs may rely on."""
    means = {
        title: {
            "point": where.centre.tolist(),
            "covariance": where.covariance.tolist(),
            "radius": where.radius,
            "offered": where.offered,
        }
        for title, where in (("all", found.all), ("common", found.common))
    }
    test = {"statistic": found.statistic, "freedom": found.freedom, "p_value": found.p_value}
    return {"class": name, "n": found.n, **means, "heterogeneity": test}


def _yes(offered: bool) -> str:
    return "yes" if offered else "no, too many records were clipped"


def _classes(documents: tuple[Path, ...]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rows of each class that all documents have, in the order of the first.

    Raises
    ------
    ConfigError
        When there are fewer than two, one is no release, or they are of different things.
    """
    from pipeline.publish import read_document

    if len(documents) < 2:
        raise ConfigError(f"give two documents of releases or more, found {len(documents)}")
    read = [read_document(path) for path in documents]
    for path, document in zip(documents, read, strict=True):
        if not isinstance(document, dict) or not {"settings", "classes"} <= set(document):
            raise ConfigError(f"{path} is no document of a release; give OUT/release/*.json")
        if "night" in document:
            raise ConfigError(
                f"{path} is a night of a stream, which has its units in common with other nights; "
                "give releases of their own, or see the windows of a stream in `covdp history`"
            )
        for name in ALIKE:
            one, other = (found["settings"].get(name) for found in (read[0], document))
            if one != other:
                raise ConfigError(
                    f"{documents[0]} has {name} = {one!r}, {path} has {other!r}; release both "
                    "with the same settings"
                )
    rows = [{row["class_name"]: row for row in document["classes"]} for document in read]
    names = [name for name in rows[0] if all(name in one for one in rows)]
    if not names:
        raise ConfigError(
            f"no class stands in all documents: {', '.join(map(repr, rows[0]))} in {documents[0]}"
        )
    return {name: [one[name] for one in rows] for name in names}
