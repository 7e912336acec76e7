"""What starts `covdp serve` elsewhere: the Dockerfile, the compose file, the systemd unit.

``python -m tests.tools.container`` does the Dockerfile's steps; here is what needs neither root nor
time.
"""

import configparser
import itertools
import json
from typing import Any

import pytest
import yaml

from covdp.cli import app, main
from covdp.cli.releases import serve
from tests.flows.deployments import LAST, ROOT, STEPS, told


def told_settings() -> dict[str, str]:
    """Return the environment that the image sets."""
    return dict(part.split("=", 1) for part in told("ENV").split())


def served(tokens: list[str]) -> dict[str, Any]:
    """Return the options of a command line that must be `covdp serve`."""
    command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
    assert command is serve
    return bound.arguments


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """Return the services of the compose file."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "flows/compose.yaml").read_text())
    return found["services"]


@pytest.fixture(scope="module")
def unit() -> configparser.SectionProxy:
    """Return the service's section of the systemd unit."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(ROOT / "flows/covdp.service")
    return parser["Service"]


def test_the_image_copies_what_there_is_and_no_results() -> None:
    """Each COPY names what is in the checkout and let in by .dockerignore; caches are kept out."""
    rules = (ROOT / ".dockerignore").read_text().split("\n")
    copied = [rest.split()[:-1] for name, rest in STEPS if name == "COPY" and "--from" not in rest]
    for source in itertools.chain.from_iterable(copied):
        assert (ROOT / source).exists(), source
        assert f"!{source}" in rules
    assert rules.index("*") < rules.index("!data") < rules.index("data/cache")
    assert rules.index("!reports") < rules.index("reports/output")


def test_the_image_serves_as_a_user_without_rights_or_secrets() -> None:
    """Its command is `covdp serve`, not as root; what it writes is in volumes; it has no secret."""
    names = [name for name, _ in LAST]
    assert told("USER") == "covdp"
    assert "RUN" not in names[names.index("USER") :]
    options = served(json.loads(told("CMD")))
    volumes = json.loads(told("VOLUME"))
    assert str(options["out"]) in volumes
    settings = told_settings()
    for name in ("HOME", "NUMBA_CACHE_DIR"):
        assert any(f"{settings[name]}/".startswith(f"{volume}/") for volume in volumes), name
    assert "ARG" not in [name for name, _ in STEPS]
    assert not any(word in " ".join(settings) for word in ("LEDGER", "PASSWORD", "SECRET", "KEY"))


def test_compose_mounts_what_the_image_reads(compose: dict[str, Any]) -> None:
    """The folders of config, images, state and results are mounted; the ledger has a volume."""
    service, ledger = compose["covdp"], compose["ledger"]
    mounts = {item.removesuffix(":ro").split(":")[-1]: item for item in service["volumes"]}
    options = served(json.loads(told("CMD")))
    assert {str(options["config"].parent), *json.loads(told("VOLUME"))} <= set(mounts)
    assert mounts[told_settings()["COVDP_DATA"]].endswith(":ro")
    assert service["depends_on"]["ledger"]["condition"] == "service_healthy"
    assert "${LEDGER_PASSWORD}@ledger/" in service["environment"]["COVDP_LEDGER"]
    assert ledger["environment"]["POSTGRES_PASSWORD"].startswith("${LEDGER_PASSWORD:?")
    assert ledger["volumes"] == ["ledger:/var/lib/postgresql/data"]


def test_the_unit_serves_and_does_not_repeat_what_cannot_mend(
    unit: configparser.SectionProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    """Systemd runs `covdp serve` and starts it again after a crash, not after bad input."""
    program, *tokens = unit["ExecStart"].split()
    assert program.endswith("/covdp")
    state = f"/var/lib/{unit['StateDirectory']}"
    assert served(tokens)["out"].is_relative_to(state)
    settings = dict(item.split("=", 1) for item in unit["Environment"].split())
    assert settings.pop("PYTHONUNBUFFERED") == told_settings()["PYTHONUNBUFFERED"] == "1"
    assert settings.keys() >= {"HOME", "NUMBA_CACHE_DIR"}
    assert all(folder.startswith(state) for folder in settings.values())
    assert unit["Restart"] == "on-failure"
    assert unit["RestartPreventExitStatus"] == str(main(tokens))
    assert "release.toml" in capsys.readouterr().err
    assert "130" in unit["SuccessExitStatus"].split()
    assert "MemoryDenyWriteExecute" not in unit  # numba compiles
    begun = unit.parser["Unit"]["After"].split()  # else a mount that comes later ends it for good
    assert {"remote-fs.target", "network-online.target"} <= set(begun)
