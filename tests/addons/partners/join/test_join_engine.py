"""The engine on NVFlare as it is deployed: its simulator, and its server with certified sites."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from nvflare.apis.fl_exception import UnsafeComponentError
from nvflare.apis.signal import Signal
from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer
from scipy import stats

from covdp.addons.partners.join import engine
from covdp.addons.partners.join.shares import JointError
from covdp.addons.partners.join.site import Exchange, Site
from covdp.addons.partners.join.study import Study
from covdp.cli import main
from covdp.errors import LedgerError
from covdp.ledger import Ledger
from covdp.ledger.keys import fingerprint
from tests.addons.partners.join import worker
from tests.addons.partners.join.hub import study_of
from tests.addons.partners.join.wards import NAMES, approve_at, entries_of, write_hospitals
from tests.tools.code import ROOT
from tests.tools.patience import until

ADMIN = "lead@hub.org"
PROJECT = """
api_version: 3
name: study
participants:
  - {{name: localhost, type: server, org: hub, fed_learn_port: {port}}}
  - {{name: north, type: client, org: north}}
  - {{name: south, type: client, org: south}}
  - {{name: west, type: client, org: west}}
  - {{name: lead@hub.org, type: admin, org: hub, role: lead}}
builders:
  - path: nvflare.lighter.impl.workspace.WorkspaceBuilder
  - path: nvflare.lighter.impl.static_file.StaticFileBuilder
    args: {{config_folder: config, scheme: grpc}}
  - path: nvflare.lighter.impl.cert.CertBuilder
  - path: nvflare.lighter.impl.signature.SignatureBuilder
"""


@dataclass
class Deployment:
    """A server and three sites, each with a startup kit of its own, as processes.

    Attributes
    ----------
    kits : Path
        Folder of the kits, by name.
    folder : Path
        Folder of the hospitals, with their ledgers, and of what the server saw.
    books : mapping of str to Ledger
        Ledger of each hospital.
    """

    kits: Path
    folder: Path
    books: Mapping[str, Ledger]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start the server or a site as people do, but in the foreground."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        python = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        told = {worker.FOLDER: str(self.folder), "COVDP_LEDGER": str(ledger_of(self.folder, name))}
        if name in self.running:
            self.running[name].wait()
        with (self.kits / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [self.kits / name / "startup" / "sub_start.sh", "--once"],
                env={**os.environ, "PATH": path, "PYTHONPATH": python, **told},
                stdout=log,
                stderr=log,
            )

    def run(self, study: Study, fault: str = "") -> None:
        """Run a job once all are connected, to its end."""
        (self.folder / "fault").write_text(fault)
        ended = list[JointError | None]()

        def ran() -> bool:
            try:
                engine.run(study.digest, "join", NAMES, self.kits / ADMIN)
            except JointError as error:
                if "is not connected" in str(error) or "no job runs by" in str(error):
                    return False
                ended.append(error)
            return True

        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(engine.CLASSES, "server", f"{worker.__name__}.Witness")
            patch.setitem(engine.CLASSES, "client", f"{worker.__name__}.Worker")
            until(ran)
        if ended and ended[0]:
            raise ended[0]

    def end(self) -> None:
        """Kill all that runs."""
        for process in self.running.values():
            with suppress(psutil.NoSuchProcess):
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
            process.kill()
            process.wait()


def ledger_of(folder: Path, name: str) -> Path:
    """Return the path of the ledger of a hospital."""
    return folder / name / "ledger.sqlite"


def write_each(folder: Path, names: Sequence[str], images: int = 220) -> dict[str, Ledger]:
    """Write images, card, config and a ledger of its own for each hospital."""
    for name in names:
        (folder / name).mkdir()
    return {name: write_hospitals(folder / name, [name], images=images) for name in names}


def approve_each(folder: Path, books: Mapping[str, Ledger]) -> Study:
    """Return a study that each hospital has approved, with the key of its own ledger."""
    keys = {name: book.signing_key().public_key() for name, book in books.items()}
    prints = {name: fingerprint(key.public_bytes_raw()) for name, key in keys.items()}
    study = study_of([*books], fingerprints=prints)
    for name, book in books.items():
        approve_at(folder / name, book, study, name)
    return study


def kept_by_each(deployed: Deployment, study: Study) -> dict[str, dict[str, str]]:
    """Return what the ledger of each hospital keeps of a study."""
    return {name: entries_of(book, study, name) for name, book in deployed.books.items()}


def allow(kit: Path, storage: Path) -> None:
    """Let a site run joint releases with the tests' classes; a server stores in our folder."""
    assert main(["join", "admit", str(kit)]) == 0
    path = kit / "local" / "resources.json"
    resources = json.loads(path.read_text())
    assert resources["class_allow_list"] == [*engine.CLASSES.values()]
    resources["class_allow_list"] = [f"{worker.__name__}.{x}" for x in ("Witness", "Worker")]
    path.write_text(json.dumps(resources).replace("/tmp/nvflare", str(storage)))


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Provision a server and three sites with certificates, and start them."""
    folder = tmp_path_factory.mktemp("deployed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "project.yml").write_text(PROJECT.format(port=port))
    command = [sys.executable, "-m", "nvflare.cli", "provision", "-p", "project.yml", "-w", "kits"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (folder / "wards").mkdir()
    kits, wards = folder / "kits" / "study" / "prod_00", folder / "wards"
    deployment = Deployment(kits, wards, write_each(wards, NAMES))
    try:
        for name in ("localhost", *NAMES):
            allow(kits / name, folder / "storage")
            deployment.start(name)
        yield deployment
    finally:
        deployment.end()


@dataclass
class Wire:
    """Context of a relay or of a site, without a network: a message goes straight to the relay."""

    relay: engine.Relay
    name: str
    folder: Path

    def get_identity_name(self) -> str:
        """Return the name of the site."""
        return self.name

    def get_job_id(self) -> str:
        """Return the number of the job."""
        return "job"

    def get_run_dir(self, job: str) -> str:
        """Return the folder of the job at the server."""
        return str(self.folder)

    def send_aux_request(
        self, targets: list[str], topic: str, words: Any, timeout: float, fl_ctx: Any
    ) -> dict[str, Any]:
        """Have the relay answer, but for messages that are lost."""
        if np.random.default_rng().random() < 0.3:
            return {}
        return {"server": self.relay.hear(topic, words, self)}

    def register_aux_message_handler(self, topic: str, handler: Any) -> None:
        """Do nothing: it is called straight."""

    def get_engine(self) -> Any:
        """Return what sends."""
        return self

    get_workspace = get_peer_context = get_engine


def take_turns(
    work: Callable[[str, Exchange], object],
    folder: Path,
    *,
    relay: engine.Relay | None = None,
    ended: Signal | None = None,
    hanging: int = 0,
) -> dict[str, str]:
    """Return the line that each hospital ended with, and the server's; some end as it does."""
    relay = relay or engine.Relay([*NAMES])
    relay.start_controller(Wire(relay, "server", folder))
    panics, ends, aborted = list[str](), dict[str, str](), Signal()

    def broadcast(task: Any, *_: object) -> None:
        def run(name: str) -> None:
            site = engine.Participant("study")
            site.take_part, site.beat = lambda _, *part: work(*part), 0.1  # type: ignore
            result = site.execute("take part", None, Wire(relay, name, folder), aborted)
            ends[name] = result["fault"]
            relay.end(SimpleNamespace(result=result, client=SimpleNamespace(name=name)), None)
            if len(ends) == len(NAMES):
                task.completion_status = "OK"

        for name in NAMES:
            threading.Thread(target=run, args=(name,)).start()

    relay.broadcast = broadcast
    relay.system_panic = lambda fault, _: panics.append(fault)
    relay.control_flow(ended or Signal(), Wire(relay, "server", folder))
    until(lambda: len(ends) == len(NAMES) - hanging)
    aborted.trigger(True)
    until(lambda: len(ends) == len(NAMES))
    ends["server"] = (folder / engine.END).read_text()
    assert panics == [ends["server"]] * bool(ends["server"])
    return ends


def test_turns_are_relayed_though_messages_are_lost(tmp_path: Path) -> None:
    """A third of them; each hospital hears all, and a stranger nothing."""
    heard, relay = dict[str, list[Any]](), engine.Relay([*NAMES])

    def work(name: str, line: Exchange) -> None:
        words = {"kind": "hello", "content": b"x"}
        reply = relay.hear(engine.TOPIC, words, Wire(relay, "stranger", tmp_path))
        assert "answer" not in reply
        heard[name] = [line("hello", name.encode()), line("count", name.encode() * 9)]

    assert set(take_turns(work, tmp_path, relay=relay).values()) == {""}
    assert list(heard.values()) == [[{x: x.encode() * n for x in NAMES} for n in (1, 9)]] * 3


def test_hospitals_at_two_turns_hear_nothing(tmp_path: Path) -> None:
    """No hospital is given an answer; all end, with one line."""
    answers = list[object]()

    def work(name: str, line: Exchange) -> None:
        line("hello", b"")
        answers.append(line("step 1" if name == "south" else "count", bytes(16)))

    ends = take_turns(work, tmp_path)
    assert "does not fit together" in ends["server"]
    assert not any(answers)
    assert all(ends["server"] in line for name, line in ends.items())


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (JointError("ask the\nleading hospital"), "south: ask the leading hospital"),
        (LedgerError("the account has 0 left"), f"south: {engine.KEPT}"),
        (KeyError(worker.SECRET), f"south: {engine.KEPT}"),
        (SystemExit(worker.SECRET), f"south: {engine.KEPT}"),
    ],
    ids=["joint", "ledger", "other", "exit"],
)
def test_a_fault_of_one_hospital_ends_all_with_its_line(
    error: BaseException, told: str, tmp_path: Path
) -> None:
    """Whether the others wait or have done their part."""

    def work(name: str, line: Exchange) -> None:
        line("hello", b"")
        if name == "south":
            raise error
        if name == "north":
            line("transcript", b"")

    ends = take_turns(work, tmp_path)
    assert ends == {"north": f"north: {told}", "south": told, "west": "", "server": told}


@pytest.mark.parametrize("why", ["unheard", "silent", "gone", "hand"])
def test_a_job_ends_when_not_all_say_their_words(why: str, tmp_path: Path) -> None:
    """In one line, with the names of those who did not; nothing is opened."""
    relay, ended = engine.Relay([*NAMES]), Signal()
    if why == "hand":
        ended.trigger(True)

    def work(name: str, line: Exchange) -> None:
        if name != "south":
            line("hello", b"")
            return
        until(lambda: len(relay.said) == 2 or relay.fault)
        if why in ("silent", "gone"):
            relay.deadline = 0.0
        while why == "unheard" and not relay.fault:  # as if its other thread were dead, too
            relay.heard["south"] = -engine.PATIENCE
        if why != "gone":
            threading.Event().wait()  # and is there, as its other thread says

    ends = take_turns(work, tmp_path, relay=relay, ended=ended, hanging=why != "gone")
    told = "ended by hand" if why == "hand" else "south did not answer; nothing more is opened"
    assert ends["server"].startswith(told)
    assert engine.STOPPED in ends["north"]
    assert not relay.answers


def test_who_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    """One that has published is heard no more, while another writes its pages for long."""
    relay = engine.Relay([*NAMES])

    def work(name: str, line: Exchange) -> None:
        line("end", b"")
        if name == "south":
            until(lambda: relay.heard.keys() == {"south"})
            relay.heard["south"] += 300.0
            relay.patience = 0.0
            assert not relay.silent()
            relay.patience = 300.0

    assert set(take_turns(work, tmp_path, relay=relay).values()) == {""}


def test_a_job_has_no_code_and_names_the_study_and_the_hospitals_alone(tmp_path: Path) -> None:
    """Its classes are those of the engine."""
    job = engine.write_job(tmp_path / "join", "ab" * 32, NAMES)
    files = {str(path.relative_to(job)): path for path in job.rglob("*") if path.is_file()}
    config = {"join/config/config_fed_client.json", "join/config/config_fed_server.json"}
    assert set(files) == {"meta.json", *config}
    client, server = (json.loads(files[name].read_text()) for name in sorted(config))
    assert server["workflows"][0]["args"] == {"hospitals": [*NAMES]}
    (executor,) = client["executors"]
    assert executor["executor"]["args"] == {"study": "ab" * 32}


def test_a_site_that_is_admitted_builds_two_classes_alone(tmp_path: Path) -> None:
    """No function of ours, which a job could give an account of its own to simulate with."""
    local, permissions = tmp_path / "local", {"lead": {}, "project_admin": {"byoc": "any"}}
    local.mkdir()
    for name, content in {"resources": {}, "authorization": {"permissions": permissions}}.items():
        (local / f"{name}.json.default").write_text(json.dumps(content))
    engine.admit(tmp_path)
    path = str(local / "resources.json")
    site = SimpleNamespace(get_resources_file_path=lambda: path)
    allow = ComponentPathAuthorizer().authorize_component_config
    for name in ("Relay", "Participant"):
        allow({"path": f"{engine.__name__}.{name}"}, workspace=site)
    for name in ("simulate", "run", "_write", "TemporaryDirectory", "hospital.approve"):
        with pytest.raises(UnsafeComponentError):
            allow({"path": f"{engine.__name__}.{name}"}, workspace=site)


def test_a_folder_that_is_no_kit_is_refused(tmp_path: Path) -> None:
    """In one line, with the way out."""
    with pytest.raises(JointError, match="give the folder that `nvflare provision` made"):
        engine.admit(tmp_path)
    with pytest.raises(JointError, match="give the folder of an admin's startup kit"):
        engine.run("ab" * 32, "join", NAMES, tmp_path)


def messages(path: Path) -> dict[tuple[str, str], bytes]:
    """Return the words of each turn and hospital of a job, as the server was told them."""
    rows = path.read_text().splitlines()
    said = [json.loads(row) for row in rows]
    return {(kind, name): bytes.fromhex(words) for name, kind, words in said}


def check_signatures(seen: dict[tuple[str, str], bytes], study: Study) -> None:
    """Check that all that is said is public keys, or signed by a hospital in this attempt."""
    said = {name: words for (kind, name), words in seen.items() if kind == "hello"}
    assert {len(words) for words in said.values()} == {4 * 32}  # keys, terms, nonce
    text = b"".join(name.encode() + b"\0" + said[name] for name in sorted(said))
    attempt: Any = SimpleNamespace(study=study, transcript=hashlib.sha256(text).digest())
    for (kind, name), words in seen.items():
        if kind != "hello":
            message = Site._message(attempt, kind, name, words[64:])
            assert fingerprint(said[name][:32]) == study.fingerprints[name]
            Ed25519PublicKey.from_public_bytes(said[name][:32]).verify(words[:64], message)


@pytest.mark.slow
def test_a_failure_in_one_hospital_is_told_there_alone(deployed: Deployment) -> None:
    """Its log has the type, the server nothing; no word of the message is in any file, or log."""
    study = approve_each(deployed.folder, deployed.books)
    with pytest.raises(JointError, match=f"^west: {engine.KEPT}$"):
        deployed.run(study, fault="fail west start")
    assert (deployed.kits / "localhost" / "log.txt").exists()
    for path in deployed.kits.rglob("*"):
        assert path.is_dir() or worker.SECRET.encode() not in path.read_bytes()
    logs = {name: deployed.kits / name for name in ("localhost", "south", "west")}
    told = {
        name: any(b"KeyError" in path.read_bytes() for path in kit.rglob("*log*.txt"))
        for name, kit in logs.items()
    }
    assert told == {"localhost": False, "south": False, "west": True}


@pytest.mark.slow
@pytest.mark.parametrize("what", ["code", "function"])
def test_a_job_that_brings_code_or_calls_a_function_is_run_by_no_site(
    what: str, deployed: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the same code is allowed where it is installed, and the function stands beside it."""

    def write(folder: Path, study: str, hospitals: Sequence[str]) -> Path:
        job = write_job(folder, study, hospitals)
        if what == "code":
            (job / "join" / "custom").mkdir()
            (job / "join" / "custom" / "worker.py").write_text(Path(worker.__file__).read_text())
        else:
            client = job / "join" / "config" / "config_fed_client.json"
            parts = json.loads(client.read_text())
            call = {"path": f"{worker.__name__}.fail_once", "args": {"name": "x", "kind": "y"}}
            client.write_text(json.dumps(parts | {"components": [{"id": "call", **call}]}))
        return job

    write_job = engine.write_job
    monkeypatch.setattr(engine, "write_job", write)
    with pytest.raises(JointError, match="ended "):
        deployed.run(study_of(), fault="fail x y")
    assert (deployed.folder / "fault").exists()


@pytest.mark.slow
def test_a_site_that_hangs_or_is_killed_goes_on_and_the_server_sees_uniform_words(
    deployed: Deployment,
) -> None:
    """One charge, one release of all; no share is drawn anew. χ² of bytes, p above 1e-6."""
    study = approve_each(deployed.folder, deployed.books)
    old = {*deployed.folder.glob("*.jsonl")}
    with pytest.raises(JointError, match=r"^south did not answer; nothing more is opened"):
        deployed.run(study, fault="hang south step 2")  # its other thread says that it is there
    (deployed.folder / "hung").unlink()
    with pytest.raises(JointError, match=r"^south did not answer; nothing more is opened"):
        deployed.run(study, fault="kill south step 3")
    before = kept_by_each(deployed, study)
    shares = [entry for entry in before["south"] if entry.startswith("share")]
    assert shares == ["share 1", "share 2", "share 3"]
    deployed.start("south")
    deployed.run(study)

    paths = [*deployed.folder.rglob("tissue*.json")]
    documents = [json.loads(path.read_bytes()) for path in paths]
    assert {each["joint"]["hospital"] for each in documents} == {*NAMES}
    assert len({json.dumps(each["classes"], sort_keys=True) for each in documents}) == 1
    assert all(len(row.costs) == 1 for book in deployed.books.values() for row in book.show())
    for name, kept in kept_by_each(deployed, study).items():
        assert before[name].items() <= kept.items()
        assert len(set(kept.values())) == len(kept)

    words = list[bytes]()
    jobs = {*deployed.folder.glob("*.jsonl")} - old
    assert len(jobs) == 3
    for job in jobs:
        seen = messages(job)
        check_signatures(seen, study)
        masked = [turn for turn in seen if turn[0].startswith(("count", "step "))]
        words += [seen[turn][64:] for turn in masked]
    octets = np.frombuffer(b"".join(words), np.uint8)
    assert len(octets) > 256 * 20
    assert stats.chisquare(np.bincount(octets, minlength=256)).pvalue > 1e-6


@pytest.mark.slow
def test_five_hospitals_on_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A process each, with its own ledger; nothing is printed, no file is left."""
    names, places = ("north", "south", "west", "east", "centre"), tmp_path / "places"
    places.mkdir()
    study = approve_each(tmp_path, write_each(tmp_path, names, 60))
    monkeypatch.setattr(tempfile, "tempdir", str(places))
    engine.simulate(study.digest, {name: str(ledger_of(tmp_path, name)) for name in names})
    paths = [*tmp_path.rglob("tissue*.json")]
    documents = [json.loads(path.read_bytes()) for path in paths]
    assert len({json.dumps(each["classes"], sort_keys=True) for each in documents}) == 1
    assert {each["joint"]["hospital"] for each in documents} == {*names}
    assert capfd.readouterr() == ("", "")
    assert not any(places.iterdir())
