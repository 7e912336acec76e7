"""Commands on nights: all that was released of a population, on one page."""

from pathlib import Path
from typing import Annotated

from covdp.cli.options import PLAIN, LedgerAddress, Printing, Written


def history(
    *,
    out: Annotated[Path, Written()],
    population: str | None = None,
    ledger: LedgerAddress = None,
    output: Printing = PLAIN,
) -> None:
    """Write one page with all that was released about a population, run after run.

    The page shows means in terms that readers of images use, with bands, the budget that is left,
    and each release with its statement and its file. Only what was released is read, so the page
    costs no privacy. The page needs no network and no JavaScript.

    ```
    covdp history --out /srv/released/history
    covdp history --out history --population ward-7
    ```

    Parameters
    ----------
    out
        The folder of ``index.html`` and of the files.
    population
        Population of the history; may be left out where the ledger holds releases of one only.
    """
    from covdp.addons.nights.history_page import build_history
    from covdp.addons.nights.ledger import committed_results
    from covdp.errors import LedgerError
    from covdp.ledger import open_ledger
    from covdp.publish import ledger_address

    book = open_ledger(ledger_address(ledger))
    populations = committed_results(book, population)
    if population is None and len(populations) != 1:
        raise LedgerError(
            f"{len(populations)} populations in {book.database.place} have releases"
            f"{''.join(f', {name!r}' for name in populations)}; a page shows the history of one: "
            + ("name it with --population" if populations else "`covdp release` makes a release")
        )
    name, results = next(iter(populations.items()), (str(population), ()))
    output.paths({"history": build_history(name, results, out)})
