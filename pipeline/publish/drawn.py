"""Documents of means that Python drew: `covdp.mean.Release.to_document`.

Their form is that of a release, so that ``compare``, ``combine`` and ``match`` read them. Their
account is null, and their statement says why: no ledger paid them.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from covdp import __version__
from covdp.descriptors import DescriptorDomain
from covdp.errors import ConfigError, CovdpError
from covdp.geometry.covariances import covariances_of
from covdp.mean import AdaptivePlan, Release, SinglePlan
from covdp.mean.release import Drawing
from covdp.privacy import Budget, budget_from, main_parameter, privacy_statement
from covdp.publish.release import class_part
from covdp.schema import ReleaseDocument, SettingsPart, read_settings, serialised

UNPAID = (
    "Python drew this document and no ledger paid it: what else was released of the same images is "
    "not known, and the promise is that of this document alone"
)
"""Sentence of the statement in place of what an account was charged."""


def drawn_document(
    releases: Mapping[str, Release], name: str, unit: Literal["image", "person"]
) -> dict[str, Any]:
    """Return a document of means that Python drew, as JSON values.

    Parameters
    ----------
    releases : mapping of str to Release
        Release of each class, by the name of the class.
    name : str
        Name of the release, and of its population.
    unit : {"image", "person"}
        Meaning of one record: an image, or all images of a person in a class.

    Raises
    ------
    ConfigError
        As `covdp.mean.Release.to_document`.
    """
    for title in (name, *releases):
        if not (isinstance(title, str) and title.strip() and title.isprintable()):
            raise ConfigError(f'a name must be text, such as "ward", found {title!r}')
    if unit not in ("image", "person"):
        raise ConfigError(f'unit must be "image" or "person", found {unit!r}')
    first = next(iter(releases.values()))
    kinds = {(_drawing(item)._replace(n=None), item.manifold) for item in releases.values()}
    if len(kinds) > 1:
        raise ConfigError(
            "classes of one document have one budget, domain, manifold, plan, source of noise and "
            "total, found several; make a document of each"
        )
    drawing = _drawing(first)
    sizes = {title: _drawing(release).n for title, release in releases.items()}
    settings = _settings(first, sizes, name, unit)
    statement = privacy_statement(
        settings.promise,
        n_by_class={title: n for title, n in sizes.items() if n is not None},
        total=settings.total,
        unit=unit,
        classes_per_person=settings.classes_per_person,
        public=("descriptor, domain and plan",),
        hardened=drawing.hardened,
    )
    rows = [
        class_part(release, drawing.budget, sizes[title], label, title, hardened=drawing.hardened)
        for label, (title, release) in enumerate(releases.items())
    ]
    document = ReleaseDocument.model_construct(
        title=name,
        settings=settings,
        classes=rows,
        statement=[*statement.items(), ("Not paid from a ledger", UNPAID)],
        account=None,
    )
    values: dict[str, Any] = json.loads(serialised(document))
    return values


def _settings(
    release: Release, sizes: Mapping[str, int | None], name: str, unit: str
) -> SettingsPart:
    """Return the settings of means of classes of some sizes, as they stand in the document."""
    drawing, bound = _drawing(release), _bound(release)
    plan, total = drawing.plan, drawing.labels.total
    shares = plan.shares if isinstance(plan, AdaptivePlan) else None
    named = dict.fromkeys(("name", "title", "population", "dataset"), name)
    absent = dict.fromkeys(("size", "splits", "stream", "images_per_person"))
    return read_settings(
        {
            **named,
            **absent,
            "labels": "public" if total is None else "secret",
            "descriptor": bound.descriptor,
            "eta": bound.eta,
            "manifold": release.manifold.name,
            "definition": drawing.budget.name,
            "budget": _one_number(drawing.budget),
            "mechanism": plan.mechanism if isinstance(plan, SinglePlan) else "auto",
            "shares": None if shares is None else list(shares.all),
            "noise": "hardened" if drawing.hardened else "float",
            "run_key": "Python",
            "smallest_class": 1,
            "classes_per_person": len(sizes) if unit == "person" else None,
            "unit": unit,
            **{key: value for key, value in bound.images.items() if value},
            "classes": [(label, *size) for label, size in enumerate(sizes.items())],
            **({} if total is None else {"total": total}),
            "version": __version__,
        }
    )


def _drawing(release: Release) -> Drawing:
    """Return the settings that a release was drawn with."""
    if not isinstance(release, Release):
        raise ConfigError(f"a class is a Release, as private_mean returns, found {release!r:.40}")
    if release.drawing is None:
        raise ConfigError(
            "only what covdp.private_mean returns knows its settings, which a document states; "
            "draw it so"
        )
    return release.drawing


def _bound(release: Release) -> DescriptorDomain:
    """Return the bound on the descriptors that a release is of."""
    bound = _drawing(release).domain
    if not isinstance(bound, DescriptorDomain) or covariances_of(release.manifold) is None:
        raise ConfigError(
            f"a document is of covariance descriptors, found a {type(bound).__name__} on "
            f'{release.manifold.name}; draw it with domain("oct5", height=…, width=…)'
        )
    return bound


def _one_number(budget: Budget) -> float:
    """Return the number of a budget that has no other."""
    value = main_parameter(budget)
    try:
        if budget_from(budget.name, value) == budget:
            return value
    except CovdpError:
        pass
    raise ConfigError(f"a document states a budget of one number, found {budget}; take GDP or ZCDP")
