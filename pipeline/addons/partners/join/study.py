"""Terms of a study, which all hospitals approve, and what they make of a hospital's own config."""

import hashlib
import json
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from covdp import __version__
from covdp.addons.partners.join.shares import Hospitals, JointNoise, Rehearsal
from covdp.config import Count, Positive
from covdp.errors import ConfigError
from covdp.privacy.composition import scaled
from covdp.privacy.rounding import round_up
from covdp.publish.config import ReleaseConfig, load_release
from covdp.schema import SettingsPart
from covdp.toml import Record, parse, read_toml

# Parts of the statement, each with its titles and texts.
PROMISES = tomllib.loads(Path(__file__).with_name("promises.toml").read_text(encoding="utf-8"))
PlainName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]*$", max_length=40)]


class Study(Record):
    """Terms of a study: what is released of whom, at what price, and who takes part.

    Attributes
    ----------
    name : str
        Name of the study, and of the releases.
    hospitals : tuple of str
        Names of all hospitals; the first one leads.
    colluders : int
        t: number of hospitals that may show their noise to an attacker.
    descriptor, manifold : str
        Names of the descriptor and of the manifold.
    classes : tuple of str
        Names of the classes, in order.
    unit : {"image", "person"}
        Privacy unit.
    eta : float
        Number η that is added to the diagonal of a descriptor.
    budget : float
        μ of the release, which each hospital pays.
    size : int
        Side of the images, in pixels.
    fingerprints : dict of str to str
        Fingerprint of the key of each hospital, as `covdp ledger key` prints it.
    id : str
        Random text, so that no two studies are the same.
    version : str
        Version of covdp.
    """

    name: PlainName
    hospitals: tuple[PlainName, ...] = Field(min_length=1, max_length=100)
    colluders: int = Field(ge=0, strict=True)
    descriptor: str
    manifold: str
    classes: tuple[str, ...] = Field(min_length=1)
    unit: Literal["image", "person"] = "image"
    eta: Positive = 1e-6
    budget: Positive
    size: Count
    fingerprints: dict[str, str] = Field({})
    id: str = Field("", max_length=100)
    version: str = __version__

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if any(len(set(names)) < len(names) for names in (self.hospitals, self.classes)):
            raise ConfigError("each hospital and each class has a name of its own, found one twice")
        m, t = len(self.hospitals), self.colluders
        if t >= m:
            raise ConfigError(f"colluders are fewer than hospitals, found {t} of {m}")
        return self

    @property
    def digest(self) -> str:
        """Digest of the terms, 64 hexadecimal digits."""
        terms = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(terms.encode()).hexdigest()

    def noise(self, total: int, way: Hospitals | None = None) -> JointNoise:
        """Return the source of noise of a hospital.

        Parameters
        ----------
        total : int
            N, of all hospitals together.
        way : Hospitals, optional
            Way to the others; none of a rehearsal, when left out.
        """
        return JointNoise(len(self.hospitals), self.colluders, total, way or Rehearsal())

    def promises(self, settings: SettingsPart) -> dict[str, str]:
        """Return what a hospital is promised beside what all releases say: texts by title.

        Parameters
        ----------
        settings : SettingsPart
            Settings of the release.
        """
        words = {"all": ", ".join(self.hospitals), "m": len(self.hospitals), "t": self.colluders}
        hidden, weaker = len(self.hospitals) - self.colluders, ""
        if hidden > 1:  # one more shows its noise, and others are left
            more = scaled(settings.promise, Fraction(hidden, hidden - 1), round_up)
            facts = {"hidden": hidden, "next": self.colluders + 1, "more": more}
            weaker = PROMISES["weaker"]["text"].format(settings=settings, **words, **facts)
        words |= {"weaker": weaker, "settings": settings}
        one_key = len({*self.fingerprints.values()}) == 1
        parts = ["all", *["two"] * (len(self.hospitals) == 2), *["simulated"] * one_key]
        texts = {title: text for part in parts for title, text in PROMISES[part].items()}
        return {title: text.format_map(words) for title, text in texts.items()}

    def hospital_of(self, fingerprint: str) -> str:
        """Return the hospital whose key has a fingerprint.

        Parameters
        ----------
        fingerprint : str
            Fingerprint of the key of a ledger.

        Raises
        ------
        ConfigError
            When it is of none, or the key of each hospital, and no other, is not known.
        """
        names, wanted = {key: name for name, key in self.fingerprints.items()}, {*self.hospitals}
        if self.fingerprints.keys() != wanted or len(names) < len(wanted):
            way = f"{', '.join(self.hospitals)}; `covdp ledger key` prints a hospital's own"
            raise ConfigError(f"the terms need [fingerprints] with the key of each hospital, {way}")
        if fingerprint not in names:
            found = f"the key of this ledger, {fingerprint}, is of no hospital of {self.name}"
            raise ConfigError(f"{found}; choose another with --ledger, or ask who wrote the study")
        return names[fingerprint]

    def config(self, hospital: str, path: Path) -> ReleaseConfig:
        """Return the settings of the release at a hospital: the terms, of its config's images.

        Parameters
        ----------
        hospital : str
            Name of the hospital.
        path : Path
            Its config, as of `covdp release`.

        Raises
        ------
        ConfigError
            When the config or its card is not of these terms.
        """
        own = load_release(path.resolve(), opened=True)
        if own.dataset.endswith(".toml") and not Path(own.dataset).is_absolute():
            raise ConfigError(f"{path}: put its card {own.dataset} beside it, where sites look")
        card, has = own.card, own.model_dump(include={*USUAL}) | {"unit": own.unit}
        has |= {"classes": card.classes, "masked": card.masked, "version": __version__}
        has["size"] = own.size or card.size or self.size
        for key, wanted in {**self.model_dump(include={*has} - {*USUAL}), **USUAL}.items():
            if has[key] != wanted:
                found = "nights, which are for later" if key == "stream" else repr(has[key])
                raise ConfigError(f"{path}: {self.name} has {key} = {wanted!r}, found {found}")
        terms = self.model_dump(include={"name", "descriptor", "manifold", "eta", "budget"})
        terms["run_key"] = f"{hospital}-{self.digest[:12]}"
        terms["size"] = self.size if card.sizes else None
        return parse(ReleaseConfig, {**dict(own), **terms}, path).of_card(card)


USUAL: dict[str, Any] = {"labels": "secret", "definition": "gdp", "mechanism": "auto"}
USUAL |= {"noise": "hardened", "masked": False, "stream": None, "shares": None}
"""Settings that all joint releases have."""


def read_study(path: Path) -> Study:
    """Return the terms in a file; raise `ConfigError` where they are none.

    Parameters
    ----------
    path : Path
        File of the terms, in TOML.
    """
    return parse(Study, read_toml(path, ConfigError, "study"), path)
