"""``python -m flows [NAME…]``: experiments as a flow of Prefect, its tasks in sight."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

import flows  # noqa: F401  (its settings come before Prefect)

# isort: split
from pipeline.errors import CovdpError, one_line

app = App(name="python -m flows", help_format="markdown", version_flags=[])


@app.default
def run(
    *names: str,
    data_root: Annotated[Path | None, Parameter("--data-root")] = None,
    out: Annotated[Path | None, Parameter("--out")] = None,
    quick: Annotated[bool, Parameter("--quick", negative="")] = False,
) -> None:
    """Run experiments under Prefect; without a name the main job on the embedded images.

    Prefect's server is the one that PREFECT_API_URL names. Where it names none, Prefect starts one
    that ends with the flow.

    ```
    python -m flows
    python -m flows ew-simulation tg-timing --quick
    ```

    Parameters
    ----------
    names
        Names of experiments, files of your own (TOML), or `all`, as for `covdp reproduce`.
    data_root
        Folder of the datasets [COVDP_DATA, else data/cache].
    out
        Folder of the results.
    quick
        At most 10 repetitions.
    """
    from pipeline.experiments import MAIN, load_experiments

    load_experiments(*(names or (str(MAIN),)), quick=quick)  # what is wrong is said at once
    from flows.experiments import experiments

    page = experiments(names, data_root, out, quick)
    tables = sorted((page.parent / "results").glob("*.parquet"))
    print(f"results  {tables[0] if len(tables) == 1 else tables[0].parent}")
    print(f"report   {page}")


if __name__ == "__main__":
    try:
        app()
    except CovdpError as error:
        print(f"covdp: {one_line(error)}", file=sys.stderr)
        sys.exit(2)
