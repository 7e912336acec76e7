"""The document of a release: what the ledger commits, of noised values and public facts alone.

Next on the path: ``settle.py``, which pays for it.
"""

import json
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from pipeline import __version__
from pipeline.datasets import find_card, rendering_settings
from pipeline.descriptors import DESCRIPTORS, DescriptorDomain
from pipeline.geometry import MANIFOLDS, Manifold
from pipeline.ledger import Account, Reservation
from pipeline.mean import Batches, Release, mean, person_records
from pipeline.mean.noisy_moments import as_values
from pipeline.privacy import GDP, Budget, main_parameter, privacy_statement
from pipeline.publish.config import ReleaseConfig
from pipeline.publish.transcript import cost_rows
from pipeline.store import Form, StoredImages

EQUALITY = (
    "equality of contents: the ledger tells images that were charged before, and two classes of "
    "the same images, from others; an image that cannot be read stops a release"
)
"""What else may be seen from outside, as the statement says."""


FIRST_KEYS = frozenset(
    {"name", "title", "population", "dataset", "size", "splits", "descriptor", "eta", "manifold"}
    | {"labels_and_class_sizes_are_public", "definition", "budget", "mechanism", "shares", "noise"}
    | {"run_key", "images_per_person"}
)
"""The keys of a config in 0.1.0."""


@dataclass(frozen=True)
class Public:
    """What everybody may know before anything is drawn.

    `excluded` is how many files of each class are left out, where the card says that is public.
    """

    config: ReleaseConfig
    domain: DescriptorDomain
    classes: tuple[tuple[int, str, int], ...]
    excluded: tuple[int, ...] | None = None

    def query(self) -> str:
        """Return what, with the data and the run key, tells one release from another.

        It is what the law of the result depends on: the title, and where the images were read
        from, are not. Of a stream it is what all its nights have in common. Keys of the config that
        0.1.0 did not have are in it only where they are not at their defaults, so that a release
        paid before there was a key stays paid.
        """
        chosen = self.config.model_dump(exclude_defaults=True)
        later = set(ReleaseConfig.model_fields) - FIRST_KEYS - set(chosen)
        named = {key: value for key, value in self.settings().items() if key not in later}
        del named["unit"]  # classes_per_person says it, and 0.1.0 had none
        if self.config.stream is not None:  # the same every night, whatever comes on it
            named |= {"run_key": None, "version": None}
            named["classes"] = [[label, name] for label, name, _ in self.classes]
            if told := rendering_settings(find_card(self.config.dataset)):
                named["shown"] = told
        return json.dumps({**named, "title": None, "dataset": None}, sort_keys=True)

    @property
    def manifold(self) -> Manifold:
        """Where the means lie."""
        return MANIFOLDS[self.config.manifold](k=DESCRIPTORS[self.config.descriptor].k)

    @property
    def form(self) -> Form | None:
        """How the images of a unit become one record; None where each is one."""
        if self.config.classes_per_person is None:
            return None
        return partial(person_records, manifold=self.manifold)

    @property
    def left_out(self) -> dict[str, str]:
        """What the statement says of files that are left out; nothing unless that is public."""
        if self.excluded is None:
            return {}
        pairs = zip(self.classes, self.excluded, strict=True)
        return {"Files left out of each class": ", ".join(f"{c[1]}: {count}" for c, count in pairs)}

    def settings(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return {
            **self.config.model_dump(mode="json"),
            "unit": self.config.unit,
            "image_height": self.domain.height,
            "image_width": self.domain.width,
            **({"image_depth": self.domain.depth} if self.domain.depth else {}),
            **({"masked": True} if self.domain.masked else {}),
            "classes": [list(item) for item in self.classes],
            "version": __version__,
        }


def serialised(document: dict[str, Any]) -> bytes:
    """Return JSON in UTF-8; a number that JSON does not have, such as NaN, is an error."""
    return json.dumps(document, sort_keys=True, allow_nan=False).encode()


def make_document(stored: StoredImages, public: Public, held: Reservation) -> dict[str, Any]:
    """Return the document as JSON values: draw the private mean of each class."""
    config = public.config
    rows, left_out = [], public.left_out
    for label, name, n in public.classes:
        records = stored.records(label, public.form)
        rows.append({"label": label, "class_name": name, "n": n, **private_part(records, public)})
    statement = privacy_statement(
        config.promise,
        n_by_class={name: n for _, name, n in public.classes},
        classes_per_person=config.classes_per_person,
        group=config.images_per_person,
        public=("class sizes", "descriptor, domain and plan", *(name.lower() for name in left_out)),
        hardened=config.hardened,
        not_covered=(EQUALITY,),
    )
    return {
        "title": config.title,
        "settings": public.settings(),
        "classes": rows,
        "statement": [
            *map(list, statement.items()),
            *map(list, left_out.items()),
            ["Charged to the account", _charged(held, public)],
        ],
        **({} if public.excluded is None else {"excluded": list(public.excluded)}),
        "account": account_part(held.account, held.cost),
    }


def _charged(held: Reservation, public: Public) -> str:
    """Return what the account paid, and why it is not what one image is promised."""
    images, classes = public.config.images_per_person, public.config.classes_per_person
    if held.cost != public.config.charge:
        return f"{held.cost}, as it was when this release was first asked for"
    if classes is not None:
        together = "" if classes == 1 else f"; {public.config.cost} for each of {classes} classes"
        return f"{held.cost}: it protects people, and all images of one are one record{together}"
    if images is None:
        return f"{held.cost}: one image a person is counted, since images_per_person is not set"
    return f"{held.cost}: it protects people, so it pays for all images of one, at most {images}"


def account_part(row: Account, charged: Budget) -> dict[str, Any]:
    """Return the account right after a charge, in the parameter of its definition."""
    budgets = {"charged": charged, "total": row.budget, "spent": row.spent, "left": row.left}
    return {
        "definition": row.budget.name,
        **{name: main_parameter(one) if one else 0.0 for name, one in budgets.items()},
        "releases": row.releases,
        "releases_left": row.releases_left,
        "delta": row.delta,
        "images_per_person": row.group,
        "epsilon_total": row.epsilon_budget,
        "epsilon_spent": row.epsilon_spent,
        "epsilon_left": row.epsilon_left,
    }


def observed_values(drawn: Release) -> dict[str, Any] | None:
    """Return what regions, tests and classifiers read of an adaptive mean, None of a single one.

    The base is written as its coordinates, as the mean is.
    """
    if drawn.observed is None:
        return None
    told, space = drawn.statistics[0], drawn.space
    return {
        **as_values(drawn.observed),
        "base": space.log(space.origin, drawn.observed.base).tolist(),
        "survey": told.survey.tolist(),
        "shells": told.shells.tolist(),
        "belief": told.belief.tolist(),
    }


def private_part(points: Batches, public: Public) -> dict[str, Any]:
    """Return the private mean of one class and what it cost."""
    config = public.config
    drawn = mean(
        points,
        config.cost,
        domain=public.domain,
        manifold=public.manifold,
        plan=config.plan,
        noise=config.source,
    )
    rhos = drawn.rhos[0].tolist()
    error = drawn.expected_error if drawn.predicted_error is None else drawn.predicted_error[0]
    return {
        "point": drawn.point.tolist(),
        "coordinates": drawn.coordinates.tolist(),
        "manifold": config.manifold,
        "observed": observed_values(drawn),
        "mu": config.cost.mu if isinstance(config.cost, GDP) else None,
        "predicted_error": None if error is None else float(error),
        "rho": math.fsum(rhos) if config.hardened else None,
        "costs": cost_rows(drawn.steps, rhos),
    }
