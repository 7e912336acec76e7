"""The flow of one private release of one population, or of one night of its stream.

    `settle` (pay, draw, commit) ─► publish (Parquet and page from the committed bytes) ─► artifact

`settle` draws noise: Prefect never retries or caches it. Started again with the same run key it
finds its charge. The key of a scheduled run is the date it was planned for, however late it starts.
`publish` only writes files from committed bytes, so it may be retried; the artifact says what is in
them. Parameters are public: the path of a config, folders, a run key. The ledger's address may hold
a password and is no parameter: it comes from COVDP_LEDGER. Prefect keeps what a task raises, so no
word of a file that is named as a config is in it.

Whoever may use a Prefect server may ask for runs. What a flow can see to is that a run has the
parameters of its deployment, and that nights that were missed are not all paid for at once.

The flow that matches local images, in the clear, with a release: a gate for every night.

Its state fails, with one line, where the images of a folder are of another population than the
release, and where they cannot be matched; so whatever waits for it does not go on. Page and
percentiles, which are as private as the images, are in the folder that is named, for their owner
alone. Prefect keeps what a task raises, logs and returns, so no number and no name of a file is in
any of these: that images differ is all that a server learns.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterExpectedStartTime,
)
from prefect.client.schemas.objects import State
from prefect.client.schemas.sorting import FlowRunSort
from prefect.runtime import deployment, flow_run
from prefect.states import Cancelled, Completed, Failed

from covdp import jobs
from covdp.errors import ConfigError, CovdpError
from covdp.figures import letter
from covdp.figures.style import size_in_words
from covdp.ledger import open_ledger
from covdp.privacy.rounding import digits_down, digits_up
from covdp.publish import ledger_address, load_release, read_document
from covdp.publish.redact import redact_errors, silence
from covdp.report import verdict
from covdp.schema import ClassEntry, ClassPart, Document
from covdp.store import find_place

publish = task(name="publish", retries=2, retry_delay_seconds=[2, 10], persist_result=False)(
    jobs.publish
)


@task(name="settle", retries=0, cache_policy=NO_CACHE, persist_result=False)
def settle_release(
    config: Path,
    out: Path,
    root: Path | None,
    run_key: str | None,
    store: str | None = None,
    again: bool = False,
    even_if_useless: bool = False,
) -> Path:
    """Pay, draw, commit, and write the committed bytes; return the path of the document.

    Parameters
    ----------
    config : Path
        Path of the config, a TOML file.
    out : Path
        Folder for results.
    root : Path or None
        Data root; the usual one when None.
    run_key : str or None
        Run key; the time of the scheduled run when None.
    store : str, optional
        Address of the store; a temporary one when None.
    again : bool
        True to agree to pay once more, as `covdp release --again`.
    even_if_useless : bool
        True to agree to pay for means that noise drowns, as `covdp release --even-if-useless`.

    Returns
    -------
    Path
        Path of the document.
    """
    place = None if store is None else find_place(store, out=out)
    job = replace(_load(config, out, run_key), root=root, store=place)
    job = replace(job, again=job.again or again, beside=again, even_if_useless=even_if_useless)
    return jobs.settle_release(job)


@flow(name="release", retries=0, persist_result=False)
def release(
    config: Path,
    out: Path,
    root: Path | None = None,
    run_key: str | None = None,
    store: str | None = None,
    again: bool = False,
    even_if_useless: bool = False,
) -> Path | State[Path]:
    """Release once under a run key and return the path of the Parquet file.

    `again` and `even_if_useless` agree to pay, as the options of `covdp release` do.
    A run that a later one of its deployment has overtaken is cancelled, and its state says why.

    Parameters
    ----------
    config : Path
        Path of the config, a TOML file.
    out : Path
        Folder for results.
    root : Path, optional
        Data root; the usual one when None.
    run_key : str, optional
        Run key; the time of the scheduled run when None.
    store : str, optional
        Address of the store; a temporary one when None.
    again : bool
        True to agree to pay once more, as `covdp release --again`.
    even_if_useless : bool
        True to agree to pay for means that noise drowns, as `covdp release --even-if-useless`.

    Returns
    -------
    Path or State
        Path of the Parquet file, or a cancelled state.
    """
    if reason := superseded():
        get_run_logger().warning(reason)
        return Cancelled(message=reason)
    table = out
    for part in jobs.releases_due(_load(config, out, run_key)):
        run = part.settings.run_key
        document = settle_release(config, out, root, run, store, again, even_if_useless)
        table = publish(document, out)
        leave_artifact(document)
    return Path(table)


def _load(config: Path, out: Path, run_key: str | None) -> jobs.ReleaseJob:
    """Return the release that `config` asks for; faults of the file are not reported here."""
    settings = None
    try:
        at = flow_run.scheduled_start_time
        settings = load_release(config, run_key=run_key, at=at, opened=True)
    except CovdpError:
        pass
    if settings is not None:
        planned = deployment.id is not None and on_schedule()
        return jobs.ReleaseJob(settings, open_ledger(ledger_address()), out, again=planned)
    raise ConfigError(
        f"{config} cannot be released from; Prefect keeps these words, so why is withheld, and "
        f"`covdp release --config {config}` says it on the machine where the file is"
    )


def on_schedule() -> bool:
    """Return True if a schedule made this run: each of its times is a release of its own."""
    with get_client(sync_client=True) as client:
        return client.read_flow_run(flow_run.id).auto_scheduled


def superseded() -> str | None:
    """Return the reason to skip this run, a later planned time that has come, or None.

    Of planned times that have passed only the last is run. A run without a deployment is never
    skipped.

    Raises
    ------
    ConfigError
        When the run has other parameters than its deployment.
    """
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(flow_run.id)
        if run.deployment_id is None or run.expected_start_time is None:
            return None
        if run.parameters != client.read_deployment(run.deployment_id).parameters:
            raise ConfigError(
                "a run of a deployment takes the deployment's own parameters and no others; "
                "change the deployment, or release by hand with `covdp release`"
            )
        since = run.expected_start_time + timedelta(microseconds=1)
        times = FlowRunFilterExpectedStartTime(after_=since, before_=datetime.now(UTC))
        later = client.read_flow_runs(
            deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[run.deployment_id])),
            flow_run_filter=FlowRunFilter(expected_start_time=times),
            sort=FlowRunSort.EXPECTED_START_TIME_DESC,
            limit=1,
        )
    if not later:
        return None
    planned = [f"{item.expected_start_time:%Y-%m-%d %H:%M} UTC" for item in (run, later[0])]
    return f"{planned[0]} is skipped, and nothing charged: {planned[1]} has come as well"


def leave_artifact(document: Path) -> None:
    """Leave an artifact of a committed document; those of one config are versions of one key.

    It is made from the committed bytes alone, so all of it is public.

    Parameters
    ----------
    document : Path
        Path of the document.
    """
    released = read_document(document)
    create_markdown_artifact(
        key=f"release-{released.settings.name.lower()}",  # Prefect's keys have no capitals
        markdown=in_markdown(released, document.with_suffix(".html")),
        description=f"{released.settings.population}, {released.settings.run_key}",
    )


def in_markdown(released: Document, page: Path) -> str:
    """Return a document in Markdown; the uses of its means come first.

    Parameters
    ----------
    released : Document
        Document of the release.
    page : Path
        Path of the page.
    """
    settings, account = released.settings, released.paid
    symbol = letter(account.definition)
    paid = f"{symbol} = {digits_up(account.charged, 6)}"
    left = f"{symbol} = {digits_down(account.left, 6)}"
    lines = released.price_in_words(paid, left)
    heads = ["class", *released.counted, "error, predicted"]
    rows = [
        _row(row, *([size_in_words(row.n, row.n_sd)] if isinstance(row, ClassPart) else row.counts))
        for row in released.classes
    ]
    table = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join(
        [
            _plain(verdict(released).text),
            "",
            f"{_plain(settings.title)}: {_plain(settings.population)}, {_plain(settings.run_key)}",
            "",
            *("| " + " | ".join(cells) + " |" for cells in table),
            "",
            *(f"{line}  " for line in lines),
            f"Page: `{page}`",
            "",
        ]
    )


def _row(row: ClassEntry, *counts: str) -> list[str]:
    error = row.predicted_error
    unknown = "no mean yet" if row.point is None else "not known"
    return [_plain(row.class_name), *counts, unknown if error is None else f"{error:.3g}"]


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>()#+!|~" else letter for letter in text)


@task(name="match", retries=0, cache_policy=NO_CACHE, persist_result=False)
def match_folder(release: Path, dataset: str, out: Path, root: Path | None) -> bool | None:
    """Match, and write the page; return whether the images differ, None where nothing was tested.

    Parameters
    ----------
    release : Path
        Path of the document to compare with.
    dataset : str
        Name of a dataset, or path of a card.
    out : Path
        Folder for results.
    root : Path or None
        Data root; the usual one when None.

    Returns
    -------
    bool or None
        True if the images differ, None where nothing was tested.

    Raises
    ------
    ConfigError
        When they cannot be matched; why is not stated here.
    """
    error = ConfigError(
        f"{dataset} cannot be matched with {release}; Prefect keeps these words, so why is "
        "withheld, and `covdp match` with the same arguments tells it"
    )

    def work() -> bool | None:
        from covdp.addons.partners.local_images import match_images
        from covdp.addons.partners.several_page import build_match

        matched = match_images(release, dataset, root)
        build_match(matched, out)
        return matched.differs if matched.p_values else None

    with silence():
        return redact_errors(work, error)


@flow(name="match", retries=0, persist_result=False)
def match(release: Path, dataset: str, out: Path, root: Path | None = None) -> State[None]:
    """Match a dataset with a release, ``OUT/match.html``; the state fails where they differ.

    Parameters
    ----------
    release : Path
        Path of the document to compare with.
    dataset : str
        Name of a dataset, or path of a card.
    out : Path
        Folder for results.
    root : Path, optional
        Data root; the usual one when None.

    Returns
    -------
    State
        State of the flow, failed where the images differ.
    """
    if reason := superseded():
        return Cancelled(message=reason)
    differs = match_folder(release, dataset, out, root)
    if differs is None:
        return Failed(message=f"{dataset} could not be tested; see {out / 'match.html'}")
    if differs:
        return Failed(message=f"{dataset} differs from {release}; see {out / 'match.html'}")
    return Completed(message=f"no difference was found between {dataset} and {release}")
