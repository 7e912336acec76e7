"""The flow that matches local images, in the clear, with a release: a gate for every night.

Its state fails, with one line, where the images of a folder are of another population than the
release, and where they cannot be matched; so whatever waits for it does not go on. Page and
percentiles, which are as private as the images, lie in the folder that is named, for their owner
alone. Prefect keeps what a task raises, logs and returns, so no number and no name of a file is in
any of these: that images differ is all that a server learns.
"""

from pathlib import Path

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.release import superseded
from pipeline.errors import ConfigError
from pipeline.publish.local_images import match_images
from pipeline.publish.redact import redact_errors, silence
from pipeline.report import build_match


@task(name="match", retries=0, cache_policy=NO_CACHE, persist_result=False)
def match_folder(release: Path, dataset: str, out: Path, root: Path | None) -> bool | None:
    """Match, and write the page; return whether the images differ, None where nothing was tested.

    Raises
    ------
    ConfigError
        When they cannot be matched; why is not said here.
    """
    error = ConfigError(
        f"{dataset} cannot be matched with {release}; Prefect keeps these words, so why is "
        "withheld, and `covdp match` with the same arguments tells it"
    )

    def work() -> bool | None:
        matched = match_images(release, dataset, root)
        build_match(matched, out)
        return matched.differs if matched.p_values else None

    with silence():
        return redact_errors(work, error)


@flow(name="match", retries=0, persist_result=False)
def match(release: Path, dataset: str, out: Path, root: Path | None = None) -> State[None]:
    """Match a dataset with a release, ``OUT/match.html``; the state fails where they differ."""
    if reason := superseded():
        return Completed(name="Skipped", message=reason)
    differs = match_folder(release, dataset, out, root)
    if differs is None:
        return Failed(message=f"{dataset} could not be tested; see {out / 'match.html'}")
    if differs:
        return Failed(message=f"{dataset} differs from {release}; see {out / 'match.html'}")
    return Completed(message=f"no difference was found between {dataset} and {release}")
