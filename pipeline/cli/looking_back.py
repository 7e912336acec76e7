"""Commands on what was released: history, schema."""

from pathlib import Path

from pipeline.cli.options import PLAIN, Ledger, Printing, begin, print_paths


def history(
    *, out: Path, population: str | None = None, ledger: Ledger = None, how: Printing = PLAIN
) -> None:
    """Write one page with all that was released about a population, run after run.

    Means in terms that readers of images use, with bands; budget left; each release with its
    statement and its committed bytes. Only these bytes are read, so the page costs no privacy. It
    needs no network and no JavaScript.

    ```
    covdp history --out /srv/released/history
    covdp history --out history --population ward-7
    ```

    Parameters
    ----------
    out
        The folder of ``index.html`` and of the committed bytes.
    population
        Whose history; may be left out where the ledger holds releases of one only.
    """
    from pipeline.errors import LedgerError
    from pipeline.ledger import committed_results, open_ledger
    from pipeline.publish import ledger_address
    from pipeline.report import build_history

    begin(how)
    book = open_ledger(ledger_address(ledger))
    found = committed_results(book, population)
    if population is None and len(found) != 1:
        raise LedgerError(
            f"{len(found)} populations in {book.database.place} have releases"
            f"{''.join(f', {name!r}' for name in found)}; a page shows the history of one: "
            + ("name it with --population" if found else "`covdp release` makes a release")
        )
    name, results = next(iter(found.items()), (str(population), ()))
    print_paths({"history": build_history(name, results, out)}, how)


def schema() -> None:
    """Print the JSON Schema of the document that a release, or a night of a stream, commits.

    ```
    covdp schema > document.schema.json
    ```
    """
    from pipeline.publish import SCHEMA

    print(SCHEMA.read_text(encoding="utf-8"), end="")
