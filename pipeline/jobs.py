"""Jobs: all steps of a release. `covdp` does them here, `flows` under Prefect.

    pay, draw, commit ─► publish (Parquet and page from the committed bytes)

A release is safe to kill and to start again: with the same run key it finds its charge, and draws
under it or gets the stored result. A night of a stream is paid already; one before it that was
killed is finished, and published, first.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covdp.datasets import fetch
from covdp.errors import BudgetError, CovdpError, LedgerError, OutputError, one_line
from covdp.files import atomic_path, default_out, make_folder
from covdp.ledger import Ledger, open_ledger
from covdp.privacy import equation
from covdp.publish import (
    ReleaseConfig,
    check_account,
    check_folder,
    ledger_address,
    load_release,
    read_document,
    release_once,
    write_document,
    write_parquet,
)
from covdp.publish.preview import (
    REFUSED,
    Preview,
    account_in_words,
    charged_elsewhere,
    intention,
    preview_images,
    refusals,
)
from covdp.report import build_release_report
from covdp.store import Place, find_place

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class ReleaseJob:
    """One release, or one night, and where it is paid, read and written.

    Attributes
    ----------
    settings : ReleaseConfig
        Settings with the run key.
    ledger : Ledger
        Ledger whose account pays.
    out : Path
        Folder of the results.
    root : Path or None
        The data root.
    store : Place or None
        Store of descriptors; a private folder, deleted after the release, when None.
    again, beside : bool
        True if a run that was paid with other images is paid once more; true if it is paid beside
        a stream or another name. See `release_once`.
    even_if_useless : bool
        True if it is paid where public numbers say that nothing will be usable.
    """

    settings: ReleaseConfig
    ledger: Ledger
    out: Path
    root: Path | None = None
    store: Place | None = None
    again: bool = False
    beside: bool = False
    even_if_useless: bool = False

    def expect(self, sizes: Sequence[int]) -> None:
        """Refuse a release of which public numbers say that nothing will be usable.

        Where the ledger holds this run, it may be that one which is asked for again, at no cost.

        Parameters
        ----------
        sizes : sequence of int
            Public number of images, or persons, of each class, or of all classes.
        """
        from covdp.worth import check_worth

        run = self.settings.population, self.settings.name, str(self.settings.run_key)
        held = not self.again and self.ledger.stored_since(*run, datetime.min.replace(tzinfo=UTC))
        if not (self.even_if_useless or held):
            check_worth(self.settings, sizes)


def prepare_release(
    config: Path,
    *,
    ledger: str | None,
    out: Path | None,
    root: Path | None,
    run_key: str | None = None,
    at: datetime | None = None,
    store: str | None = None,
    again: bool = False,
    beside: bool = False,
    even_if_useless: bool = False,
) -> ReleaseJob:
    """Check all that can be checked before images are read.

    Parameters
    ----------
    config : Path
        File of the release, in TOML.
    ledger : str or None
        Address of the ledger; what COVDP_LEDGER says, else the user's own, when None.
    out : Path or None
        Folder of the results; `default_out` of the release's name when None.
    root : Path or None
        Data root.
    run_key : str, optional
        Key of the run; the config's, else the date, when left out.
    at : datetime, optional
        The time that the release is planned for, which may be ahead; now when left out.
    store : str, optional
        Folder or address of a store of descriptors.
    again, beside, even_if_useless : bool
        See `ReleaseJob`.

    Returns
    -------
    ReleaseJob
        Release that can be done.

    Raises
    ------
    BudgetError
        When the account cannot pay and holds no release of this run.
    CovdpError
        Whatever else stands against it.
    """
    settings = load_release(config, run_key=run_key, at=at, opened=True)
    account = open_ledger(ledger_address(ledger))
    try:
        check_account(settings, account, planned=at is not None, beside=beside)
    except BudgetError as error:
        raise BudgetError(f"{config}: {error}") from error
    folder = out or default_out(settings.name)
    place = find_place(store, out=folder) if store else None  # refused before there is a folder
    folder = make_folder(folder).resolve()
    check_folder(folder)
    return ReleaseJob(settings, account, folder, root, place, again, beside, even_if_useless)


def release(job: ReleaseJob) -> Path:
    """Commit and publish a release, after a night that was not finished; return its document.

    Parameters
    ----------
    job : ReleaseJob
        Release that was checked.

    Returns
    -------
    Path
        Path of the document.
    """
    document = job.out
    for part in releases_due(job):
        document = settle_release(part)
        publish(document, job.out)
    return document


def releases_due(job: ReleaseJob) -> list[ReleaseJob]:
    """Return what is to be released, in order: a night that was not finished, then this release.

    Parameters
    ----------
    job : ReleaseJob
        Release that was checked.
    """
    settings, before = job.settings, None
    if settings.stream is not None:
        before = settings.stream.unfinished(settings, job.ledger)
    nights = [] if before is None else [settings.model_copy(update={"run_key": before})]
    return [replace(job, settings=each) for each in (*nights, settings)]


def settle_release(job: ReleaseJob) -> Path:
    """Pay, draw, commit, and write the committed bytes; return the path of the document.

    It draws noise: it is never done again by itself. A folder of no use is refused unpaid.

    Parameters
    ----------
    job : ReleaseJob
        Release that was checked.

    Returns
    -------
    Path
        Path of the document.
    """
    check_folder(job.out)
    asked, stream = (job.settings, job.ledger, job.root, job.store), job.settings.stream
    if stream is None:
        content = release_once(*asked, again=job.again, beside=job.beside, expect=job.expect)
    else:
        content = stream.release(*asked, beside=job.beside, expect=job.expect)
    with paid():
        return write_document(content, job.out)


@contextmanager
def paid() -> Iterator[None]:
    """Say of a file that cannot be written that its release is paid, and not lost."""
    try:
        yield
    except OutputError as error:
        raise OutputError(
            f"{error}; the ledger holds the release, which is paid: make room, or choose another "
            "folder with --out, and ask again with the same run key, which costs nothing"
        ) from error


@paid()
def publish(document: Path, out: Path) -> Path:
    """Write the table and the page of a committed document; return the path of the table.

    ``OUT/report.html`` is the page of the latest release; each keeps its own beside its table.

    Parameters
    ----------
    document : Path
        Committed document, in its folder.
    out : Path
        Folder of the results.

    Returns
    -------
    Path
        Path of the table.
    """
    released = read_document(document)
    page = build_release_report(released, document.with_suffix(".html"))
    with atomic_path(out / "report.html") as latest:
        shutil.copyfile(page, latest)
    return write_parquet(released, document.with_suffix(".parquet"))


def preview_release(
    config: ReleaseConfig, *, ledger: str | None, root: Path | None, made: bool = True
) -> Preview:
    """Read every image of a release and return what it would read, pay and be; nothing is charged.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    ledger : str or None
        Address of the ledger; see `prepare_release`.
    root : Path or None
        The data root.
    made : bool
        False if there is no config yet, so that nothing can be paid.

    Returns
    -------
    Preview
        Images, account and likely use.

    Raises
    ------
    DatasetError
        When the images cannot be found, or there are none.
    """
    path = fetch(config.card, root or config.data_root, size=config.size, progress=False)
    missing = "its account is not known" if made else "there is no config"
    would, account, book, paying = f"do nothing yet, as {missing}", "", None, False
    refused, charged = list[str](), list[str]()
    try:
        book = open_ledger(ledger_address(ledger))
    except LedgerError as error:
        account = f"not known: {one_line(error)}"
    found, classes, persons = preview_images(config, path, book)
    if book is not None:
        charged += charged_elsewhere(config, book, found)
    if book is not None and made:
        try:
            account = account_in_words(config, book)
        except LedgerError as error:
            account = one_line(error)
        else:
            would, paying = intention(config, book)
            refused += refusals(config, book, path)
    shown = Preview(config, config.card, found, classes, persons, would, account)
    forecast, reason = _expected(shown)
    if made and paying and reason:
        refused.append(reason)
    if not made and (use := forecast.get("use")):
        (first, *more), *others = use
        first = f"Without a config, {equation(config.cost)} is assumed. {first}"
        forecast["use"] = ((first, *more), *others)
    forecast["useless"] = made and not reason and forecast.get("useless", False)
    shown = replace(shown, refusals=tuple(refused), charged=tuple(charged), **forecast)
    return replace(shown, would=REFUSED) if paying and shown.refused else shown


def _expected(preview: Preview) -> tuple[dict[str, Any], str]:
    """Return what means are likely usable for, and why public numbers refuse to pay for them."""
    from covdp.planning import expected_uses, is_foreseen
    from covdp.worth import check_worth

    config, reason = preview.config, ""
    sizes = {row.name: row.units for row in preview.classes}
    try:
        config.check_sizes(sizes)
        check_worth(config, [sum(sizes.values())] if config.secret else [*sizes.values()])
    except CovdpError as error:
        reason = one_line(error)
    if not any(sizes.values()) or not is_foreseen(config.plan):
        return {"uses": ("not foreseen",) * len(sizes)}, reason
    use, errors = expected_uses(config, sizes)
    useless = all(each.low is not None and not each.use for each in errors.values() if each.n)
    uses = tuple(each.in_words for each in errors.values())
    return {"use": use, "uses": uses, "useless": useless}, reason
