"""Commands on joint releases: admit, approve the terms, run, see how a study stands, withdraw."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from rich.markup import escape

from covdp.cli.options import PLAIN, LedgerAddress, Out, Printing
from covdp.cli.output import new_table
from covdp.errors import ConfigError

if TYPE_CHECKING:
    from covdp.addons.partners.join.study import Study
    from covdp.ledger import Ledger


def admit(kit: Path, /, *, output: Printing = PLAIN) -> None:
    """Let a site of NVFlare run joint releases, and nothing else.

    As provisioned, a site runs what whoever starts jobs sends it, code included. Admit the kit of
    the server and of each hospital once, before it is started.

    ```
    covdp join admit kits/north
    ```

    Parameters
    ----------
    kit
        Folder of the startup kit, as it was provisioned.
    """
    from covdp.addons.partners.join import engine

    engine.admit(kit)
    line = f" {kit} runs joint releases, and nothing else; start it anew if it runs"
    output.answer({"kit": str(kit)}, escape(line))


def approve(
    study: Path,
    /,
    *,
    config: Path,
    out: Out = None,
    ledger: LedgerAddress = None,
    output: Printing = PLAIN,
) -> None:
    """Check the terms of a study against card and account, pay, and wait for its job.

    The whole budget is charged now, and the images are pinned. What is expected is foreseen as if
    all hospitals had as many images. Compare the fingerprints with all others by telephone first.

    ```
    covdp join approve study.toml --config ward.toml
    ```

    Parameters
    ----------
    study
        The terms in TOML, the same at all hospitals.
    config
        The release in TOML, as for `covdp release`; where the terms say otherwise they hold.
    """
    from covdp.addons.partners.join import hospital
    from covdp.addons.partners.join.shares import Rehearsal
    from covdp.files import default_out
    from covdp.planning import expected_uses
    from covdp.privacy import equation, main_parameter

    terms, account, name = _own(study, ledger)
    folder = out or default_out(terms.name)
    _, n, charged = hospital.approve(terms, name, config, account, folder)
    settings, total = terms.config(name, config), n * len(terms.hospitals)
    left = account.show(settings.population)[0].left
    noise = terms.noise(total, Rehearsal()).budget_of_total(settings.cost)
    likely = settings.model_copy(update={"budget": main_parameter(noise)})
    evenly = dict.fromkeys(terms.classes, max(total // len(terms.classes), 1))
    use, errors = expected_uses(likely, evenly)
    cost = f"charged {equation(settings.charge)}" if charged else "paid before, nothing charged"
    value = {"study": terms.digest, "hospital": name, "n": n, "use": use, "expected": errors}
    value |= {"charged": settings.charge if charged else None, "left": left}
    lines = (
        f" {name} has {n:,} {terms.unit}s; {cost}; left {equation(left) if left else 'nothing'}",
        f" if all {len(terms.hospitals)} hospitals have as many, {total:,} in all: {' '.join(use)}",
        f" {terms.name} is approved and waits for its job; terms {terms.digest}",
    )
    table = new_table("hospital", "fingerprint", rows=terms.fingerprints.items())
    output.answer(value, table, *map(escape, lines))


def run(
    study: Path,
    /,
    *,
    simulate: Annotated[tuple[Path, ...], Parameter(consume_multiple=True, negative="")] = (),
    kit: Path | None = None,
    out: Out = None,
    ledger: LedgerAddress = None,
    output: Printing = PLAIN,
) -> None:
    """Start a study that all hospitals have approved, or simulate it on this machine.

    A simulation is paid from the accounts of its configs, as any release is, and does not count as
    the study itself: all have one key. Run again after a break, it goes on at no cost, and the
    same terms give the same releases.

    ```
    covdp join run study.toml --kit startup/admin@hospital.org
    covdp join run study.toml --simulate north.toml south.toml west.toml --out joint
    ```

    Parameters
    ----------
    study
        The terms in TOML.
    simulate
        Configs of all hospitals, in the order of the terms or with their names.
    kit
        Folder of the startup kit of NVFlare, of whoever may submit jobs.
    """
    from covdp.addons.partners.join import engine
    from covdp.addons.partners.join.hospital import simulated
    from covdp.addons.partners.join.study import read_study
    from covdp.files import default_out
    from covdp.publish import ledger_address

    terms = read_study(study)
    if simulate:
        configs, folder = _each(terms.hospitals, simulate), out or default_out(terms.name)
        account, address = _opened(ledger), str(ledger_address(ledger))
        with simulated(terms, configs, account, folder) as every:
            engine.simulate(every[0].study.digest, dict.fromkeys(terms.hospitals, address))
        paths = {mine.hospital: mine.document(account) for mine in every}
        output.answer({}, paths=paths)
        return
    if kit is None:
        raise ConfigError(
            "a study is submitted with --kit FOLDER, the startup kit of whoever may submit jobs to "
            "the server of NVFlare, or tried on this machine with --simulate CONFIG…"
        )
    terms.check_keys()
    engine.follow(job := engine.submit(terms.digest, terms.name, terms.hospitals, kit), kit)
    line = f" job {job} has ended: each hospital has its release, as `covdp join status` says there"
    output.answer({"study": terms.digest, "job": job}, line)


def status(*, ledger: LedgerAddress = None, output: Printing = PLAIN) -> None:
    """Show the studies that were approved with this ledger, and how far each is.

    ```
    covdp join status
    ```
    """
    from covdp.addons.partners.join.hospital import approvals

    account = _opened(ledger)
    rows = [
        {"study": each.study.name, "hospital": each.hospital, "state": each.state(account)}
        for each in approvals(account)
    ]
    cells = [[escape(text) for text in row.values()] for row in rows]
    nobody = "no study was approved; `covdp join approve` does"
    output.answer(rows, new_table(*rows[0], rows=cells) if rows else nobody)


def withdraw(study: Path, /, *, ledger: LedgerAddress = None, output: Printing = PLAIN) -> None:
    """Withdraw from a study before its first word has left; its charge is given back.

    ```
    covdp join withdraw study.toml
    ```

    Parameters
    ----------
    study
        The terms in TOML, as they were approved.
    """
    from covdp.addons.partners.join import hospital

    terms, account, name = _own(study, ledger)
    mine = next(iter(hospital.approvals(account, terms.digest, name)), None)
    if mine is None:
        raise ConfigError(f"{name} has not approved {study}, so there is nothing to withdraw")
    hospital.withdraw(account, mine)
    line = f" {name} has withdrawn from {terms.name}; its charge is given back"
    output.answer({"study": terms.digest, "hospital": name}, line)


ABOUT = "One release of several hospitals, whose sums nobody else sees."
book = App(name="join", help=ABOUT, help_epilogue="", help_format="markdown")
for command in (admit, approve, run, status, withdraw):
    book.command(command)


def _opened(address: str | None) -> "Ledger":
    """Return the ledger of an address."""
    from covdp.ledger import open_ledger
    from covdp.publish import ledger_address

    return open_ledger(ledger_address(address))


def _own(path: Path, address: str | None) -> "tuple[Study, Ledger, str]":
    """Return the terms, the ledger, and the hospital that has its key."""
    from covdp.addons.partners.join.hospital import own_fingerprint
    from covdp.addons.partners.join.study import read_study

    terms, account = read_study(path), _opened(address)
    return terms, account, terms.hospital_of(own_fingerprint(account))


def _each(hospitals: Sequence[str], configs: Sequence[Path]) -> dict[str, Path]:
    """Return the config of each hospital: that of its name, else the one in its place."""
    if len(configs) != len(hospitals):
        raise ConfigError(
            f"--simulate takes a config of each of {', '.join(hospitals)}, found {len(configs)}"
        )
    named = {config.stem: config for config in configs}
    return named if named.keys() == {*hospitals} else dict(zip(hospitals, configs, strict=True))
