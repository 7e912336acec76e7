"""Starting a pass over images from the command line, here or on workers of Dask."""

from pipeline.store import Filled, Place, Plan, fill


def run_describe(plan: Plan, place: Place, runner: str) -> Filled:
    """Fill a store: in this process, or with each shard a task under Prefect."""
    from flows.runners import check_runner, task_runner

    check_runner(runner)
    if runner == "threads":  # one stream keeps all cores busy
        return fill(plan, place)
    from flows.launch import aside, prefect

    with prefect() as ready:
        from flows.describing import hand_out_by

        work = hand_out_by(task_runner(runner), ready)
        return aside(lambda: fill(plan, place, work))
