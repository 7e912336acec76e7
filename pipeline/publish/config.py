"""Settings of a release, read from TOML: every choice is public and made before data are read.

The ledger is where COVDP_LEDGER says, else in a file that cleaning up never removes.
"""

import hashlib
import json
import os
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializeAsAny,
    ValidationInfo,
    model_validator,
)

from covdp.config import Count, Positive
from covdp.datasets import (
    Card,
    ImageSource,
    beside,
    classes_per_person,
    fetch,
    find_card,
    may_be_empty,
    open_fetched,
)
from covdp.datasets.cards import LocalFilesCard
from covdp.datasets.listing import read_exclusions
from covdp.descriptors import DESCRIPTORS
from covdp.errors import (
    ConfigError,
    EmptyError,
    ImageError,
    LedgerError,
    MismatchError,
    require_known,
)
from covdp.files import make_folder
from covdp.geometry import MANIFOLDS
from covdp.geometry.covariances import covariances_of
from covdp.ledger import Ledger, charge_for, clean_name, clean_run_key
from covdp.mean import Plan, SinglePlan, release_plan
from covdp.mean.plan import RELEASE_PLANS
from covdp.mechanisms import MECHANISMS, refusal
from covdp.mechanisms.noise import NOISES, Noise
from covdp.privacy import Budget, budget_from, gaussian_sigma, repeat
from covdp.publish.redact import images_error, redact_images
from covdp.registry import Registry
from covdp.schema import OpeningPlan
from covdp.store import Place
from covdp.toml import Record, parse, read_toml


def _plain(clean: Callable[[str], str]) -> AfterValidator:
    """Take a name as the ledger does, so that it knows it again."""

    def cleaned(value: str) -> str:
        try:
            return clean(value)
        except LedgerError as error:
            raise ConfigError(str(error)) from None

    return AfterValidator(cleaned)


class NightsPlan(OpeningPlan, Protocol):
    """Plan by which a release is spread over nights."""

    @property
    def horizon(self) -> int:
        """The most nights there will be."""

    @property
    def opening(self) -> float:
        """N·μ of a class at which its first mean is released."""


class ReleaseTable(Record):
    """A table that an add-on brings into a release's file: it makes another release of it.

    What is asked of such a release its table answers, by the config that it stands in.
    """

    @classmethod
    def under(cls, key: str) -> "type[ReleaseTable]":
        """Return the table of a key.

        Parameters
        ----------
        key : str
            Key under which the table stands.
        """
        return RELEASE_TABLES.get(key, cls)

    @abstractmethod
    def plan_of(self, cost: Budget, *, secret: bool) -> NightsPlan:
        """Return the plan by which it is spread over nights.

        Parameters
        ----------
        cost : Budget
            Charge for all nights.
        secret : bool
            True if labels are secret.
        """

    @abstractmethod
    def check(self, name: str, manifold: str, *, usual: bool) -> None:
        """Raise `ConfigError` for settings that such a release has not.

        Parameters
        ----------
        name : str
            Name of the release.
        manifold : str
            Name of the manifold.
        usual : bool
            True if it is planned as releases are where nothing is said.
        """

    @abstractmethod
    def check_card(self, card: Card) -> None:
        """Raise `ConfigError` for a card of which there is no such release.

        Parameters
        ----------
        card : Card
            Card of the images.
        """

    @abstractmethod
    def check_new(self, cost: Budget, dim: int, unit: str, *, secret: bool) -> None:
        """Raise `ConfigError` for what is not to begin, though one that did goes on.

        Parameters
        ----------
        cost : Budget
            Charge for all nights.
        dim : int
            Dimension of the means.
        unit : str
            Noun for a record: image or person.
        secret : bool
            True if labels are secret.
        """

    @abstractmethod
    def check_worth(self, config: "ReleaseConfig", most: int, where: str) -> None:
        """Raise `ConfigError` where so many images or persons, at most, make nothing usable.

        Parameters
        ----------
        config : ReleaseConfig
            Settings of the release.
        most : int
            Largest number of images, or persons, that a class may have.
        where : str
            Words for where these are counted, for the message.
        """

    @abstractmethod
    def check_account(
        self, config: "ReleaseConfig", ledger: Ledger, *, planned: bool, beside: bool
    ) -> None:
        """Raise where the account is not to pay, or nothing is due unless it is `planned`.

        Parameters
        ----------
        config : ReleaseConfig
            Settings of the release.
        ledger : Ledger
            Ledger whose account pays.
        planned : bool
            True if the release is planned for a time to come.
        beside : bool
            True if it may be paid beside a stream or another name.
        """

    @abstractmethod
    def unfinished(self, config: "ReleaseConfig", ledger: Ledger) -> str | None:
        """Return the run key of what has to be finished first.

        Parameters
        ----------
        config : ReleaseConfig
            Settings of the release.
        ledger : Ledger
            Ledger whose account pays.
        """

    @abstractmethod
    def release(
        self,
        config: "ReleaseConfig",
        ledger: Ledger,
        root: Path | None,
        store: Place | None,
        *,
        beside: bool,
        expect: "Expect | None",
    ) -> bytes:
        """Release, or return what was released; see `covdp.publish.release.release_once`.

        Parameters
        ----------
        config : ReleaseConfig
            Settings of the release.
        ledger : Ledger
            Ledger whose account pays.
        root : Path or None
            Data root.
        store : Place or None
            Store of descriptors; a private one when None.
        beside : bool
            True if it may be paid beside a stream or another name.
        expect : Expect or None
            Function that raises where public sizes say that nothing will be usable.

        Returns
        -------
        bytes
            Committed document, JSON in UTF-8.
        """

    @abstractmethod
    def is_stored(self, config: "ReleaseConfig", ledger: Ledger) -> bool:
        """Return whether the ledger holds the release of the config's run key.

        Parameters
        ----------
        config : ReleaseConfig
            Settings of the release.
        ledger : Ledger
            Ledger whose account pays.
        """

    @abstractmethod
    def query(self, classes: Sequence[tuple[int, str, int | None]], card: Card) -> dict[str, Any]:
        """Return what its query says otherwise than that of other releases.

        Parameters
        ----------
        classes : sequence of tuple
            Label, name and number of privacy units of each class; None for a number that is secret.
        card : Card
            Card of the images.
        """

    @abstractmethod
    def intention(self, config: "ReleaseConfig", ledger: Ledger) -> tuple[str, bool]:
        """Return what a release would do, and whether it would be paid now.

        Parameters
        ----------
        config : ReleaseConfig
            Settings of the release.
        ledger : Ledger
            Ledger whose account pays.
        """

    @abstractmethod
    def waiting(self, config: "ReleaseConfig", ledger: Ledger, root: Path | None) -> str:
        """Return what is there and not in a release that is stored, in words; "" for nothing.

        Parameters
        ----------
        config : ReleaseConfig
            Settings of the release.
        ledger : Ledger
            Ledger whose account pays.
        root : Path or None
            Data root.
        """


RELEASE_TABLES = Registry[type[ReleaseTable]]("tables", {}, word="table")
"""Tables by the key under which they stand."""


def _read_table(value: Any, info: ValidationInfo) -> Any:
    """Return what is under the key of a table as the record that its add-on makes of it."""
    if value is None or isinstance(value, ReleaseTable):
        return value
    name = str(info.field_name)
    return RELEASE_TABLES.need(name, f"a table [{name}]").model_validate(value)


Expect = Callable[[Sequence[int]], None]
"""A check of public sizes, which raises where nothing released of so few would be usable."""


class ReleaseConfig(Record):
    """One release: a private mean descriptor of each class of one population's images.

    Attributes
    ----------
    name : str
        Name of the release or stream, and of its files; that of the config when left out. With
        population and card it says which release this is.
    title : str
        Title of the page.
    population : str
        Population whose budget in the ledger pays.
    dataset : str
        Name of the dataset, or path of its card.
    data_root : Path, optional
        Folder of the images, beside the config or absolute.
    file : Path, optional
        File that the config was read from.
    size : int, optional
        Side of the images, in pixels; the dataset's least when left out.
    splits : tuple of {"train", "val", "test"}, optional
        Splits that images are taken of; all when left out.
    labels : {"secret", "public"}
        Protection of labels: ``secret`` protects in which class an image is, and how many are.
    descriptor : str
        Name of the descriptor.
    eta : float
        Number η that is added to the diagonal of a descriptor.
    manifold : str
        Name of the manifold; the descriptor's own, if it has one, when left out.
    definition : {"gdp", "zcdp"}
        Definition of privacy that the budget is in.
    budget : float
        Cost of this release, for all classes together.
    mechanism : str
        Mechanism: ``auto``, the adaptive mean, or a name of `covdp mechanisms`.
    shares : tuple of float, optional
        Shares of ``auto``: mean, shells, mean, shells, mean; sum 1. By n·μ when left out.
    noise : {"hardened", "float"}
        Source of noise; ``float`` accepts, in writing, noise that is not safe to publish.
    run_key : str, optional
        Key of the run; the date (UTC) when left out.
    stream : ReleaseTable, optional
        A release every night that each image or person pays for once, of the add-on for nights.
    images_per_person : int, optional
        Most images of one person, where the card cannot tell persons apart.
    smallest_class : int
        Fewest images or persons of a class, of a stream on one night, where labels are secret of
        all classes together; 1 accepts one.
    classes_per_person : int, optional
        The card's, where it protects persons; never in the release's file.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]*$", max_length=60)
    title: str = "Private mean covariance descriptors"
    population: Annotated[str, _plain(partial(clean_name, "population"))]
    dataset: str
    data_root: Path | None = Field(None, exclude=True)
    file: Path | None = Field(None, exclude=True)
    size: Count | None = None
    splits: tuple[Literal["train", "val", "test"], ...] | None = None
    labels: Literal["secret", "public"] = "secret"
    descriptor: str = "oct5"
    eta: Positive = 1e-6
    manifold: str = "spd-log-euclidean"
    definition: Literal["gdp", "zcdp"] = "gdp"
    budget: Positive
    mechanism: str = "auto"
    shares: tuple[float, ...] | None = None
    noise: Literal["hardened", "float"] = "hardened"
    run_key: Annotated[str, _plain(clean_run_key)] | None = None
    stream: Annotated[SerializeAsAny[ReleaseTable] | None, BeforeValidator(_read_table)] = None
    images_per_person: Count | None = None
    smallest_class: Count = 2
    classes_per_person: Count | None = None

    unwritten: ClassVar[tuple[str, ...]] = ("classes_per_person", "file")
    _card: Card | None = PrivateAttr(None)
    _source: Noise | None = PrivateAttr(None)

    @property
    def card(self) -> Card:
        """The card of the images: the one that the config was read with."""
        return self._card or find_card(self.dataset)

    @property
    def secret(self) -> bool:
        """True if it is protected in which class an image or person is."""
        return self.labels == "secret"

    @property
    def unit(self) -> str:
        """Privacy unit, "image" or "person"."""
        return "image" if self.classes_per_person is None else "person"

    @property
    def group(self) -> int | None:
        """The most records of one person; None where one record is all that a person has."""
        return None if self.classes_per_person is not None else self.images_per_person or 1

    @property
    def cost(self) -> Budget:
        """Cost of one class; of disjoint classes, of all of them together."""
        return budget_from(self.definition, self.budget)

    @property
    def promise(self) -> Budget:
        """Promise to one image or person: the cost of all classes it may be in."""
        return repeat(self.cost, self.classes_per_person or 1)

    @property
    def charge(self) -> Budget:
        """Budget that the account pays: it protects people, so the cost for all images of one."""
        return charge_for(self.cost, self.group, self.classes_per_person or 1)

    def of_card(self, card: Card) -> Self:
        """Return this config with what the card protects: only now is `charge` what is due.

        Parameters
        ----------
        card : Card
            Card of the images.

        Raises
        ------
        ConfigError
            When both say what a person is, or a stream cannot know persons again.
        """
        classes = classes_per_person(card)
        if classes is not None and self.stream is not None:
            self.stream.check_card(card)
        if classes is not None and self.images_per_person is not None:
            raise ConfigError(
                f"images_per_person = {self.images_per_person} is for images whose persons are "
                f'not known, and {card.name} says unit = "person", which protects all images '
                "of a person: leave images_per_person out"
            )
        config = self.model_copy(update={"classes_per_person": classes})
        config._card = card
        return config

    @model_validator(mode="before")
    @classmethod
    def _takes_its_descriptor_s_manifold(cls, fields: dict[str, Any]) -> dict[str, Any]:
        spec = DESCRIPTORS.get(str(fields.get("descriptor")))
        return {"manifold": spec.manifold} | fields if spec and spec.manifold else fields

    @property
    def plan(self) -> Plan:
        """Plan of spending: adaptively, or in one draw around the barycentre."""
        return release_plan(self.mechanism, hardened=self.hardened, shares=self.shares)

    @property
    def source(self) -> Noise:
        """Source of its noise; that of `drawn_with` where there is one."""
        return self._source or NOISES[self.noise]()

    def drawn_with(self, noise: Noise) -> Self:
        """Return this config with a source of noise of its own.

        Parameters
        ----------
        noise : Noise
            Source of noise, as of several hospitals.
        """
        config = self.model_copy()
        config._source = noise
        return config

    @property
    def hardened(self) -> bool:
        """True if its noise survives floating point."""
        return self.source.rng is None

    @property
    def nights(self) -> NightsPlan | None:
        """Plan by which a stream is spread over nights; None of a release."""
        return None if self.stream is None else self.stream.plan_of(self.cost, secret=self.secret)

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        require_known("descriptor", self.descriptor, DESCRIPTORS)
        spd = [name for name, kind in MANIFOLDS.items() if covariances_of(kind)]
        require_known("manifold", self.manifold, spd)
        way = "`covdp mechanisms` lists them"
        require_known("mechanism", self.mechanism, [*RELEASE_PLANS, *MECHANISMS], way)
        if gaussian_sigma(self.cost, 1.0) > WIDEST_NOISE:
            raise ConfigError(
                f"budget = {self.budget:g} masks one image with noise a million times as wide as "
                "any two images are apart; give at least μ = 1e-6, or ρ = 5e-13"
            )
        if isinstance(self.plan, SinglePlan):
            self._check_mechanism(self.mechanism)
        if self.secret and self.mechanism not in RELEASE_PLANS:
            raise ConfigError(
                f"{self.mechanism} draws its noise once around a mean, for which the size of the "
                f'class must be known, and labels = "secret" protects it; leave mechanism out, or '
                'say that labels and class sizes are public with labels = "public"'
            )
        if self.stream is not None:
            usual = self.mechanism in RELEASE_PLANS and self.shares is None
            self.stream.check(self.name, self.manifold, usual=usual)
        return self

    def _check_mechanism(self, name: str) -> None:
        """Refuse a mechanism with no guarantee, no covariances or not the noise asked for."""
        family, way = MECHANISMS[name], "choose auto" if self.secret else "choose auto or ewg"
        if reason := refusal(name, self.definition, self.manifold):
            raise ConfigError(reason)
        if family.embedded:
            raise ConfigError(
                f"{name} gives matrices that need not be covariances ({family.note}); {way}"
            )
        if self.hardened and not family.release:
            raise ConfigError(
                f"{name} has no hardened noise ({family.note}); {way}, or accept unsafe noise in "
                'writing with noise = "float"'
            )

    def check_sizes(self, counts: Mapping[str, int]) -> None:
        """Refuse a class of too few images or persons, before anything is charged.

        The mean of one record is that record, behind noise as wide as any two are apart: such a
        release is private and says nothing, and its page tells the world of a class of one. Where
        labels are secret nothing tells of such a class, so nothing may be refused for it.

        Parameters
        ----------
        counts : mapping of str to int
            Number of images, or persons, of each class.
        """
        if self.secret:
            return
        for name, n in counts.items():
            if not n:
                raise ConfigError(
                    f"class {name!r} has no {self.unit}: correct classes, pattern or splits, or "
                    "take the class out of the card. Nothing was charged"
                )
            if n < self.smallest_class:
                wanted = f"{self.smallest_class} {self.unit}s"
                raise ConfigError(
                    f"class {name!r} has {n} of the {wanted} that a release wants at least: join "
                    "it with another class in the card or leave its images out; "
                    f"smallest_class = {n} accepts it. Nothing was charged"
                )

    def check_new_stream(self) -> None:
        """Refuse what a stream is not to begin with, though one that did goes on."""
        if self.stream is not None:
            dim = MANIFOLDS[self.manifold](DESCRIPTORS[self.descriptor].k).dim
            self.stream.check_new(self.cost, dim, self.unit, secret=self.secret)

    def check_unit(self, source: ImageSource) -> None:
        """Raise unless the privacy unit of the images is what is paid for.

        Parameters
        ----------
        source : ImageSource
            Images that were opened.
        """
        limit = source.classes_per_person if source.unit == "person" else None
        if limit != self.classes_per_person:
            raise MismatchError(
                f"{self.dataset} protects one {self.unit} (classes_per_person = "
                f"{self.classes_per_person}), and its kind, {source.card.kind}, reads it as one "
                f"{source.unit} ({limit}); leave `unit` out of the card, or use a kind that knows "
                "persons"
            )

    def fetch_images(self, root: Path | None) -> Path:
        """Return where the images are, in `root` or the config's own.

        What may be wrong so far is of the card and the settings; so is a list of `exclude` that
        cannot be read.

        Parameters
        ----------
        root : Path or None
            Data root.
        """
        with suppress(ImageError):  # the digest of a file that is there
            path = fetch(self.card, root or self.data_root, size=self.size, progress=False)
            if isinstance(self.card, LocalFilesCard):
                folder = path if path.is_dir() else path.parent
                read_exclusions(self.card.exclude, self.card.folder, folder, there=False)
            return path
        raise images_error(self.file)

    def open_images(self, path: Path, key: bytes) -> ImageSource | None:
        """Open the images in `path`, persons under `key`; None where no image is in the splits.

        No class is looked at. With secret labels nothing may be refused because a class has no
        image, with public ones `check_sizes` does that.

        Parameters
        ----------
        path : Path
            Folder or file of the images.
        key : bytes
            Key of the ledger, under which persons are known.

        Returns
        -------
        ImageSource or None
            Images; None if none is in the splits.
        """
        try:
            source = redact_images(self.file, open_fetched, may_be_empty(self.card), path, key)
            source.select(self.splits)
        except EmptyError:
            return None
        self.check_unit(source)
        return source

    def declared(self, images: Path) -> tuple[str, ...]:
        """Return what is declared of images that are there, as the ledger compares it.

        The folder with the card's file, and for each class the folder with what the card says of
        which files in it are images of that class: whoever copies a card or edits it, or adds a
        class or drops one, declares the same images. Of a pattern ``{class}/*``, ``{class}/*.png``
        and ``{class}/**/*`` are the same. Without a pattern it is the file, whatever its classes
        are called.

        Parameters
        ----------
        images : Path
            The file or folder of the images, as `fetch_images` returns it.
        """
        card = self.card.model_dump(mode="json", include=SELECTING)
        own = self.dataset.endswith(".toml")
        file = str(Path(self.dataset).resolve()) if own else self.dataset
        where, pattern = images.resolve(), re.sub(ANY_FILE, "", card.pop("pattern", None) or "")
        pattern = re.sub(r"\{(person|date|split)\}", "*", pattern)
        classes = card.pop("classes")
        names = classes if pattern else ("",)
        says = ([str(where / pattern.replace("{class}", name)), name, card] for name in names)
        texts = (json.dumps(words, sort_keys=True) for words in says)
        return json.dumps([file, str(where)]), *texts

    def store_key(self, images: Path) -> str:
        """Return the name of the private store of the descriptors of images that are there.

        Parameters
        ----------
        images : Path
            Folder or file of the images.
        """
        settings = [self.dataset, self.splits, self.descriptor, self.eta]
        text = json.dumps([str(images.resolve()), *settings])
        return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


SELECTING = {"kind", "classes", "pattern", "files", "findings", "torchvision"}
"""Keys of a card that say which files are images of which class; all others say how to read them,
or what they are called."""
ANY_FILE = r"(/?[*]+)+([.]\w+)?$"
"""The end of a pattern that tells no images from others of the folder: any name, of a kind."""
WIDEST_NOISE = 2e6
"""Largest σ of noise on a move of 1. With secret labels a mean is divided by a noisy count. The
largest variance of its error is then up to σ²·z² times the smallest, z a normal number. Doubles
solve for ratios below 1e16, so a draw may fail where z is 50 or more: never."""

NO_KEYS = {
    "classes_per_person": "classes_per_person belongs to the card, beside `unit`; leave it out",
    "file": "a release has no key 'file', it is the file itself; leave it out",
    "seed": "a release takes no seed, for whoever knows it can take the noise away; leave it out",
}
"""Messages on keys that other files have, and that of a release has not."""


def plain_name(name: str) -> str:
    """Return a name in plain letters and in its own case, as files and releases have it.

    Parameters
    ----------
    name : str
        Name with any letters.
    """
    return re.sub("[^A-Za-z0-9]+", "-", name).strip("-")[:60] or "release"


def load_release(
    path: Path, *, run_key: str | None = None, at: datetime | None = None, opened: bool = False
) -> ReleaseConfig:
    """Read and check a release's TOML file, and fix its run key.

    The key is `run_key`, else the file's, else the date (UTC) of `at`, the time the run was planned
    for, or of now. A card that is not found from the current folder is searched beside the file.
    With `opened` it may be of a stream that has begun, which `check_account` then tells by the
    ledger.

    Parameters
    ----------
    path : Path
        File of the release, in TOML.
    run_key : str, optional
        Key of the run.
    at : datetime, optional
        Time that the run is planned for.
    opened : bool
        True if it may be of a stream that has begun.

    Returns
    -------
    ReleaseConfig
        Settings, with the card of the images.

    Raises
    ------
    ConfigError, DatasetError
        One line with the file, the key, the value and the way out.
    """
    fields = read_toml(path, ConfigError, "config")
    for key in NO_KEYS.keys() & fields:
        raise ConfigError(f"{path}: {NO_KEYS[key]}")
    if run_key is not None:
        fields["run_key"] = run_key
    fields.setdefault("name", plain_name(path.stem).lower())
    fields.setdefault("run_key", f"{(at or datetime.now(UTC)).astimezone(UTC):%Y-%m-%d}")
    config = parse(ReleaseConfig, fields, path)
    if not opened:
        config.check_new_stream()
    root = config.data_root and path.parent / config.data_root.expanduser()
    config = config.model_copy(
        update={"dataset": beside(config.dataset, path), "data_root": root, "file": path}
    )
    return config.of_card(find_card(config.dataset))


VARIABLE = "COVDP_LEDGER"


def ledger_address(address: str | None = None) -> str | Path:
    """Return the address of the ledger: a path or a database URL.

    A URL may hold a password, so flows read it here, where it is used: it enters neither their
    parameters nor a log.

    Parameters
    ----------
    address : str, optional
        Address that was given; what COVDP_LEDGER says, else the user's own, when left out.
    """
    import platformdirs

    address = address or os.environ.get(VARIABLE)
    if address:
        return address
    way = f"name another ledger with --ledger or {VARIABLE}"
    return make_folder(platformdirs.user_data_path("covdp"), way) / "ledger.sqlite"
