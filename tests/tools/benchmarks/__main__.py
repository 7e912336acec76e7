"""Run every `bench_*.py`: a table on screen, the figures in reports/output/bench.json."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from covdp.files import atomic_path, make_folder, project_root
from covdp.results import collect_versions, machine


def collect(names: list[str]) -> list[dict[str, Any]]:
    """Run the benchmarks whose file name contains one of `names` (all without names)."""
    rows: list[dict[str, Any]] = []
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        if not names or any(name in path.stem for name in names):
            with Console(stderr=True).status(f"{path.stem} …"):
                rows += importlib.import_module(f"tests.tools.benchmarks.{path.stem}").run()
    return rows


def show(rows: list[dict[str, Any]]) -> Table:
    """Return the table: ours, the peer, the ratio and what it should be."""
    table = Table("benchmark", "ours", "peer", "unit", "ratio", "target", title="Ours and peers")
    for row in rows:
        numbers = [
            f"{row[key]:,.4g}" if row.get(key) is not None else "" for key in ("ours", "peer")
        ]
        ratio, target = row.get("ratio"), row.get("target")
        table.add_row(
            row["name"],
            *numbers,
            row["unit"],
            "" if ratio is None else f"{ratio:.3g}",
            "" if target is None else str(target),
        )
    return table


def main() -> None:
    """Run, show and save."""
    rows = collect(sys.argv[1:])
    Console().print(show(rows))
    folder = make_folder((project_root() or Path.cwd()) / "reports" / "output")
    with atomic_path(folder / "bench.json") as temporary:
        record = {"machine": machine(), "versions": collect_versions(), "benchmarks": rows}
        temporary.write_text(json.dumps(record, indent=2), encoding="utf-8")
    print(folder / "bench.json")


if __name__ == "__main__":
    main()
