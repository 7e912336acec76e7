"""What a run of a deployment on somebody's Prefect server is held to.

Whoever may use that server may ask for runs. What a flow can see to is that a run has the
parameters of its deployment, and that nights that were missed are not all paid for at once.
"""

from datetime import UTC, datetime, timedelta

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterExpectedStartTime,
)
from prefect.client.schemas.sorting import FlowRunSort
from prefect.runtime import flow_run

from pipeline.errors import ConfigError


def overtaken() -> str | None:
    """Return why this run is skipped: a later planned time of its deployment has come; else None.

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
