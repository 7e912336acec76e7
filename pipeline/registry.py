"""Registries: members by name, of the ground floor, of add-ons and of packages of others.

    own members ────────┐
    addons.MEMBERS ─────┼─► Registry: knows all names, imports a member when it is asked for
    entry points ───────┘

A member that stands elsewhere has an address, ``module:attribute``. Those of covdp's add-ons are
listed in ``covdp.addons.MEMBERS``; a package of anybody lists its own under the entry point group
`ENTRY_POINTS`, with the registry before the name::

    [project.entry-points."covdp.addons"]
    "descriptors.laplace4" = "mypackage.laplace:LAPLACE4"
"""

import warnings
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    ValuesView,
)
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Generic, NamedTuple, TypeVar, cast

from covdp.errors import EXTRAS, ConfigError, CovdpError, MemberWarning, one_line, require_extra

Member = TypeVar("Member")

ENTRY_POINTS = "covdp.addons"
"""Entry point group of packages that bring members."""


class Address(NamedTuple):
    """Place of a member that is not imported yet.

    Attributes
    ----------
    module, attribute : str
    package : str
        Distribution that brings it, with its version; "" for covdp itself.
    """

    module: str
    attribute: str
    package: str = ""


class Later(NamedTuple):
    """A member that is made on first use.

    Attributes
    ----------
    make : callable
        Function without parameters that returns it.
    """

    make: Callable[[], Any]


def at(address: str) -> Address:
    """Return the place of a member.

    Parameters
    ----------
    address : str
        ``module:attribute``.
    """
    return Address(*address.split(":"))


class Registry(MutableMapping[str, Member], Generic[Member]):
    """Members by name; those of add-ons and of other packages are imported on first use.

    Parameters
    ----------
    name : str
        Key in ``covdp.addons.MEMBERS``, and the first part of the names of entry points.
    members : mapping of str to Member, Address or Later
        Members of the ground floor; they come first.
    word : str
        Noun for one member, for messages.
    fault : type of CovdpError
        Error for a member whose extra is missing.

    Examples
    --------
    >>> from covdp.descriptors import DESCRIPTORS
    >>> "oct5" in DESCRIPTORS
    True
    """

    def __init__(
        self,
        name: str,
        members: Mapping[str, Member | Address | Later],
        *,
        word: str = "member",
        fault: type[CovdpError] = ConfigError,
    ) -> None:
        self.name, self._word, self._fault = name, word, fault
        self._places = {k: x for k, x in members.items() if isinstance(x, Address | Later)}
        self._members = {k: cast(Member, x) for k, x in members.items() if k not in self._places}
        self._first = tuple(members)
        self._imported = dict[str, Member]()
        self._removed = set[str]()

    def __getitem__(self, name: str) -> Member:
        """Return a member, imported first where it stands elsewhere.

        Raises
        ------
        KeyError
            For a name that nobody has registered.
        ConfigError
            For a member of another package that cannot be imported, or `fault` where an extra of
            covdp is missing: one line.
        """
        if name in self._removed:
            raise KeyError(name)
        if name in self._members:
            return self._members[name]
        if name not in self._imported:
            self._imported[name] = self._load(name, self._place(name))
        return self._imported[name]

    def __setitem__(self, name: str, member: Member) -> None:
        """Register a member for as long as the process lasts."""
        self._removed.discard(name)
        self._members[name] = member

    def __delitem__(self, name: str) -> None:
        """Remove a member for as long as the process lasts."""
        if name not in self:
            raise KeyError(name)
        self._members.pop(name, None)
        self._removed.add(name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over all names; nothing is imported."""
        names = dict.fromkeys([*self._first, *self._addons(), *self._others(), *self._members])
        return iter([name for name in names if name not in self._removed])

    def __len__(self) -> int:
        """Return the number of names."""
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        """Return True if a name is registered; nothing is imported."""
        if name in self._removed:
            return False
        own = name in self._members or name in self._places or name in self._addons()
        return own or name in self._others()

    def own(self) -> set[str]:
        """Return the names that are not of other packages; these are not even looked for."""
        return {*self._first, *self._members, *self._addons()} - self._removed

    def need(self, name: str, what: str) -> Member:
        """Return a member that `what` asks for, of an add-on that may not be there.

        Parameters
        ----------
        name : str
            Name of the member.
        what : str
            Subject of the refusal, such as a table of a config.

        Raises
        ------
        CovdpError
            `fault`, where nobody has registered it.
        """
        if name not in self:
            raise self._fault(
                f"{what} needs an add-on that is not there; use an installation of covdp with its "
                "add-ons"
            )
        return self[name]

    def address(self, name: str) -> str | None:
        """Return ``module:attribute`` of a member of ours that is not imported yet, else None.

        Parameters
        ----------
        name : str
            Name of a member.
        """
        place = self._places.get(name) or self._addons().get(name)
        if name in self._members or name in self._imported or not isinstance(place, Address):
            return None
        return f"{place.module}:{place.attribute}"

    def values(self) -> ValuesView[Member]:
        """Return all members; those of other packages that cannot be imported are left out."""
        return self.loaded().values()

    def items(self) -> ItemsView[str, Member]:
        """Return all names and members; what `values` leaves out is left out."""
        return self.loaded().items()

    def loaded(self, names: Iterable[str] | None = None) -> dict[str, Member]:
        """Return members that can be imported, all or those named; warn once of packages' others.

        Others are those that cannot be imported, and those with a name of ours. An add-on whose
        extra is missing is left out without a warning: nobody has asked for it.

        Parameters
        ----------
        names : iterable of str, optional
            Names of the members; all of them when left out.
        """
        loaded = dict[str, Member]()
        for name in self if names is None else names:
            try:
                loaded[name] = self[name]
            except CovdpError as error:
                place = self._place(name)
                if isinstance(place, Later):  # its own file is at fault
                    raise
                if place.package:
                    self._leave_out(name, str(error))
        for name in self.own() & self._others().keys():
            package = self._others()[name].package
            self._leave_out(name, f"{self._word} {name!r} of package {package} has a name of ours")
        return loaded

    def _leave_out(self, name: str, why: str) -> None:
        """Leave out a member of a package, with a warning, for as long as the process lasts."""
        warnings.warn(f"{why}; it is left out", MemberWarning, stacklevel=4)
        del self._others()[name]

    def _addons(self) -> Mapping[str, Any]:
        """Return the addresses of members of covdp's add-ons, by name."""
        return _of_addons().get(self.name, {})

    def _others(self) -> dict[str, Address]:
        """Return the addresses of members of other packages, by name."""
        return _of_packages().setdefault(self.name, {})

    def _place(self, name: str) -> Any:
        """Return where a member is that is not imported yet: ours come first."""
        for places in (self._places, self._addons()):
            if name in places:
                return places[name]
        return self._others()[name]

    def _load(self, name: str, address: Address | Later | Member) -> Member:
        """Import a member."""
        if isinstance(address, Later):
            return cast(Member, address.make())
        if not isinstance(address, Address):
            return address
        try:
            return cast(Member, getattr(import_module(address.module), address.attribute))
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing in EXTRAS:  # of an add-on, or shared by a package of others
                require_extra(missing, fault=self._fault)
            if not address.package:
                raise
            raise self._unusable(name, address, error) from error
        except Exception as error:
            if not address.package:
                raise
            raise self._unusable(name, address, error) from error

    def _unusable(self, name: str, address: Address, error: Exception) -> ConfigError:
        """Return the error of a member that its package cannot deliver."""
        return ConfigError(
            f"{self._word} {name!r} of package {address.package} cannot be imported "
            f"({type(error).__name__}: {one_line(error)}); mend or uninstall the package"
        )


def face(name: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module that shows what add-ons bring for it.

    Its ``__all__``, which `help` shows, has the members and the module's own public names.

    Parameters
    ----------
    name : str
        Registry of that name: its members are the attributes, imported on first use.
    """
    members = Registry[Any](name, {})
    module = f"covdp.{name}"

    def attribute(wanted: str) -> Any:
        if wanted == "__all__":
            own = vars(import_module(module)).items()
            hidden = {"face", *(x for x, value in own if isinstance(value, ModuleType))}
            return [x for x in attributes() if x not in hidden and not x.startswith("_")]
        if wanted not in members:
            raise AttributeError(f"module {module!r} has no attribute {wanted!r}")
        return members[wanted]

    def attributes() -> list[str]:
        return sorted({*vars(import_module(module)), *members})

    return attribute, attributes


@cache
def _of_addons() -> dict[str, dict[str, Any]]:
    """Return registry → name → address or member, of covdp's add-ons."""
    if find_spec("covdp.addons") is None:
        return {}
    return {
        registry: {
            name: at(member) if isinstance(member, str) else member
            for name, member in members.items()
        }
        for registry, members in import_module("covdp.addons").MEMBERS.items()
    }


@cache
def _of_packages() -> dict[str, dict[str, Address]]:
    """Return registry → name → address, of installed packages; to look takes some 0.03 s."""
    from importlib.metadata import entry_points

    found = dict[str, dict[str, Address]]()
    for point in entry_points(group=ENTRY_POINTS):
        registry, _, name = point.name.partition(".")
        dist = point.dist
        package = f"{dist.name} {dist.version}" if dist is not None else "unknown"
        found.setdefault(registry, {})[name] = Address(point.module, point.attr, package)
    return found
