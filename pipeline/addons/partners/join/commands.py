"""Commands on joint releases: admit, approve the terms, run, see how a study stands, withdraw."""

from itertools import chain
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.markup import escape

from covdp.cli.options import PLAIN, LedgerAddress, Out, Printing
from covdp.cli.output import new_table
from covdp.errors import ConfigError
from covdp.files import default_out

SIMULATED = " simulated: one ledger signed for all, so the releases are not fit to leave"


def admit(kit: Path, /, *, output: Printing = PLAIN) -> None:
    """Let a site of NVFlare run joint releases, and nothing else.

    Without this a site runs any code that comes with a job. Admit the kit of the server and of each
    hospital once, before it is started.

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

    Compare the fingerprints with all other hospitals by telephone first. The whole budget is
    charged now, and the images are pinned. The printed use is predicted as if all hospitals had as
    many images.

    ```
    covdp join approve study.toml --config ward.toml
    ```

    Parameters
    ----------
    study
        The terms in TOML, the same at all hospitals.
    config
        The release in TOML, as for `covdp release`. If the terms say otherwise, the terms hold.
    """
    from covdp.addons.partners.join import hospital
    from covdp.planning import expected_uses
    from covdp.privacy import equation, main_parameter

    terms, account, name = hospital.own_study(study, ledger)
    _, n, charged = hospital.approve(terms, name, config, account, out or default_out(terms.name))
    settings, total = terms.config(name, config), n * len(terms.hospitals)
    left = account.show(settings.population)[0].left
    noise = terms.noise(total).budget_of_total(settings.cost)
    likely = settings.model_copy(update={"budget": main_parameter(noise)})
    evenly = dict.fromkeys(terms.classes, max(total // len(terms.classes), 1))
    predictions, errors = expected_uses(likely, evenly)
    use = tuple(chain(*predictions))
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

    A simulation is a rehearsal: one ledger signs for all hospitals, in place of the keys of the
    terms, so its releases are not fit to leave. It charges the accounts of its configs, as any
    release does. After a break it goes on at no cost, and the same terms give the same releases.

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
        Folder of an NVFlare startup kit that may submit jobs.
    """
    from covdp.addons.partners.join import engine, hospital
    from covdp.addons.partners.join.study import read_study

    terms = read_study(study)
    if simulate:
        folder = out or default_out(terms.name)
        paths = hospital.simulate(terms, simulate, ledger, folder, engine.simulate)
        output.answer({}, SIMULATED, paths=paths)
        return
    if kit is None:
        way = "with --kit FOLDER, a startup kit that may submit jobs to the server of NVFlare"
        raise ConfigError(f"submit a study {way}, or try it here with --simulate CONFIG…")
    job = engine.run(terms.digest, terms.name, terms.hospitals, kit)
    line = f" job {job} has ended: each hospital has its release, as `covdp join status` says there"
    output.answer({"study": terms.digest, "job": job}, line)


def status(*, ledger: LedgerAddress = None, output: Printing = PLAIN) -> None:
    """Show the studies that were approved with this ledger, and how far each is.

    ```
    covdp join status
    ```
    """
    from covdp.addons.partners.join import hospital

    heads, rows = ("study", "hospital", "state"), hospital.states(ledger)
    table = new_table(*heads, rows=[[escape(text) for text in row] for row in rows])
    nobody = "no study was approved; `covdp join approve` does"
    output.answer([dict(zip(heads, row, strict=True)) for row in rows], table if rows else nobody)


def withdraw(study: Path, /, *, ledger: LedgerAddress = None, output: Printing = PLAIN) -> None:
    """Withdraw from a study before anything was sent; its charge is given back.

    ```
    covdp join withdraw study.toml
    ```

    Parameters
    ----------
    study
        The terms in TOML, as they were approved.
    """
    from covdp.addons.partners.join import hospital

    terms, account, name = hospital.own_study(study, ledger)
    hospital.withdraw(account, hospital.approved(account, terms.digest, name)[0])
    line = f" {name} has withdrawn from {terms.name}; its charge is given back"
    output.answer({"study": terms.digest, "hospital": name}, line)


ABOUT = "One release of several hospitals, whose sums nobody else sees."
book = App(name="join", help=ABOUT, help_epilogue="", help_format="markdown")
for command in (admit, approve, run, status, withdraw):
    book.command(command)
