"""Command that attacks mechanisms: what leaks, beside what is claimed."""

import sys

from covdp.cli.options import PLAIN, Out, Printing


def audit(
    *,
    mechanism: str | None = None,
    trials: int = 100_000,
    out: Out = None,
    seed: int = 0,
    controls: bool = False,
    output: Printing = PLAIN,
) -> None:
    """Attack every mechanism, and write its claim and a lower bound of its leak to Parquet.

    The noise of experiments and of releases is tested against its law, too. Sound code fails an
    audit with probability 1e-6 at most.

    Exit code 1 means that a claim is violated (or, with `--controls`, that a fault was missed).

    ```
    covdp audit
    covdp audit --mechanism ewg --trials 1000000
    ```

    Parameters
    ----------
    mechanism
        One name from `covdp mechanisms`, or adaptive; all of them when left out.
    trials
        Draws on each of the two neighbouring data sets.
    seed
        Seed of all random streams.
    controls
        Also audit mechanisms broken on purpose, which must be caught.
    """
    from covdp.addons.audit import run_audit

    done = run_audit(
        mechanism, trials=trials, out=out, seed=seed, controls=controls, runner="processes"
    )
    table = done.every if output.verbose else done.table
    paths = {"results": done.path}
    output.answer({"good": done.good, "claims": done.claims}, table, paths=paths)
    if not done.good:
        sys.exit(1)
