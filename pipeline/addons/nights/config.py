"""The table ``[stream]`` of a release's file: its settings, and what is refused of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from covdp.addons.nights.certainty import check_opening
from covdp.addons.nights.stream import StreamPlan, later_openings
from covdp.addons.nights.stream.plan import OPENING
from covdp.config import Count, Positive
from covdp.datasets import Card, classes_per_person
from covdp.errors import ConfigError, LedgerError, MismatchError
from covdp.geometry import MANIFOLDS
from covdp.geometry.covariances import covariances_of
from covdp.ledger import clean_name
from covdp.privacy import Budget, main_parameter
from covdp.publish.config import ReleaseConfig, ReleaseTable

LONGEST_HORIZON = 100_000
"""Most nights of a horizon: 274 years."""
MOST_OPENING = 1 << 20
"""Records of an opening: as many are drawn of, to see that it can be, before a stream is paid."""


class StreamSettings(ReleaseTable):
    """A stream of nights: each image or person enters on one, and all are one charge.

    Attributes
    ----------
    horizon : int
        Nights that the one charge lasts.
    opening : float
        N·μ of a class at which its first mean is released.
    follows : str, optional
        Name of the stream before it, whose images or persons do not enter this one.
    """

    horizon: Count = Field(le=LONGEST_HORIZON)
    opening: Positive = OPENING
    follows: str | None = None

    def plan_of(self, cost: Budget, *, secret: bool) -> StreamPlan:
        """Return the plan that spreads a cost over nights.

        Parameters
        ----------
        cost : Budget
            Charge of the stream.
        secret : bool
            True if labels are secret.
        """
        again = later_openings(self.opening)
        return StreamPlan(cost, self.horizon, self.opening, secret, again)

    def check(self, name: str, manifold: str, *, usual: bool) -> None:
        """Refuse keys that no stream has.

        Parameters
        ----------
        name : str
            Name of the stream.
        manifold : str
            Name of the manifold of the means.
        usual : bool
            True if the mechanism plans a release by steps, and the shares are not named.
        """
        if not usual:
            raise ConfigError(
                "a stream has a plan of its own, whose shares are fixed; leave mechanism and "
                "shares out, or leave [stream] out"
            )
        if not MANIFOLDS[manifold](k=2).flat:
            flat = [
                other
                for other, kind in MANIFOLDS.items()
                if covariances_of(kind) and kind(k=2).flat
            ]
            raise ConfigError(
                "a stream adds up what its nights release, which has a meaning in the coordinates "
                f"of a flat manifold only, found {manifold}; choose {' or '.join(flat)}, or "
                "leave [stream] out: a release of its own for each night"
            )
        if self.follows is not None:
            try:
                before = clean_name("stream", self.follows)
            except LedgerError as error:
                raise ConfigError(f"follows: {error}") from None
            if before == name:
                raise ConfigError(
                    f"a stream follows another, found follows = {before!r}, its own name; give "
                    "this one a new name"
                )

    def check_card(self, card: Card) -> None:
        """Refuse a card that protects persons and cannot tell them again.

        Parameters
        ----------
        card : Card
            Card of the images.
        """
        if card.person_from is None:
            raise ConfigError(
                f"{card.name} takes each file for another person, who would enter a stream again "
                "where the file is moved or renamed; name {person} in pattern, or the table's "
                "column of the person"
            )

    def check_new(self, cost: Budget, dim: int, unit: str, *, secret: bool) -> None:
        """Refuse settings that no stream begins with, though one that has begun goes on.

        Parameters
        ----------
        cost : Budget
            Charge of the stream.
        dim : int
            Dimension of the means.
        unit : str
            Noun for a privacy unit.
        secret : bool
            True if labels are secret.
        """
        plan = self.plan_of(cost, secret=secret)
        records = max((plan.opening, *plan.again)) / plan.mu
        if records > MOST_OPENING:
            raise ConfigError(
                f"budget = {main_parameter(cost):g} is too small for a stream: a class would open "
                f"with {records:,.0f} {unit}s, and may with {MOST_OPENING:,}; give a larger "
                "budget, or a smaller opening"
            )
        check_opening(plan, dim)

    def check_worth(self, config: ReleaseConfig, most: int, where: str) -> None:
        """Refuse a first night of fewer images or persons than the first mean of a class needs.

        Parameters
        ----------
        config : ReleaseConfig
            Settings of the release.
        most : int
            Largest number of images or persons that a class may have.
        where : str
            Words for where these are counted, for the message.
        """
        from covdp.worth import OVERRULE

        plan, unit = self.plan_of(config.cost, secret=config.secret), config.unit
        if most < plan.first_mean:
            raise ConfigError(
                f"no class can open: {most:,} {unit}s are there {where}, and the first mean of a "
                f"class needs {plan.first_mean:,} at budget = {config.budget:g} and opening = "
                f"{plan.opening:g}; wait for more, or give a larger budget or a smaller opening; "
                f"{OVERRULE}"
            )

    def query(self, classes: Sequence[tuple[int, str, int | None]], card: Card) -> dict[str, Any]:
        """Return the settings that all nights have in common.

        Parameters
        ----------
        classes : sequence of (int, str, int or None)
            Label, name and number of privacy units of each class; None for a secret number.
        card : Card
            Card of the images.
        """
        common = {"run_key": None, "version": None}
        named = {"classes": [[label, name] for label, name, _ in classes]}
        rendering = rendering_of(card)
        return {**common, **named, **({"shown": rendering} if rendering else {})}


DECODING = "decoding"
"""Key of the digest of public images among the settings of a stream."""


def rendering_of(card: Card) -> dict[str, Any]:
    """Return what makes images of files: settings of the card and, of images, what decoders make.

    An image is known by its pixels, a person by who it is. So if a decoder made other pixels of
    files, images would enter again, and persons would not.

    Parameters
    ----------
    card : Card
        Card of the images.
    """
    decoding = card.decoding if classes_per_person(card) is None else ""
    return card.rendering_settings | ({DECODING: decoding} if decoding else {})


def check_decoding(now: Mapping[str, Any], then: Mapping[str, Any], name: str) -> None:
    """Raise where public files become other images than when a stream was opened.

    Parameters
    ----------
    now, then : mapping
        Settings of `rendering_of`, now and when the stream was opened.
    name : str
        Name of the stream.
    """
    if DECODING in then and now.get(DECODING) != then[DECODING]:
        raise MismatchError(
            f"public files become other images than when the stream {name!r} was opened, so images "
            "could enter again; go back to the kind of card and the versions of covdp, NumPy, "
            "Pillow and pydicom's decoders that opened it, or open a stream of another name that "
            "follows none, which is charged"
        )
