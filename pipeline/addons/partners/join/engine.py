"""The engine of joint releases: NVFlare carries what hospitals say, and knows nothing of it.

    covdp join run ─► job: digest of the terms, names ─► `Relay`, the server ◄─ `Participant`, each

The job has no code: it names two classes of this file, which all have installed and allow. It says
no module to call, no image and no budget: those are the hospital's own. A line asks for the answer
of its turn until the relay has heard all hospitals. Asking again changes nothing, so a message that
is lost is no fault, and no request is open while a hospital takes hours; it says that it is there.
One that does not ends the job, and so does one that is there and says no words of its turn for half
a day: before its first it may read its images over a night.

What ends a job is one line: that of a `JointError`, which all hospitals may see, else that one of
them cannot go on. Why stands in the log of that one, as it may tell of its images or account. In a
simulation, on one machine, the line says why.
"""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nvflare.apis.executor import Executor, FLContext, Shareable, Signal
from nvflare.apis.impl.controller import Controller, Task
from nvflare.fuel.flare_api.flare_api import new_secure_session

from covdp.addons.partners.join import hospital
from covdp.addons.partners.join.shares import JointError
from covdp.errors import CovdpError, one_line
from covdp.publish.config import VARIABLE

CLASSES = {"server": f"{__name__}.Relay", "client": f"{__name__}.Participant"}
"""Classes that a job names."""
TOPIC, END = "covdp join", "covdp.txt"
"""Topic of messages; file of a job at the server, with the line that ended it or nothing."""
PATIENCE, DEADLINE, BEAT = 300.0, 12 * 3600.0, 5.0
"""Seconds in which each hospital is heard, says its words of a turn, and is heard again."""
KEPT = "it cannot go on, and its own log says why"
"""Words for what only this hospital may see: of its images, files and account."""
STOPPED = "nothing more is opened: start the job anew when all are there"


class Relay(Controller):  # type: ignore[misc]
    """Server of a job: it waits for all hospitals in each turn, and relays.

    Parameters
    ----------
    hospitals : list of str
        Names of all.

    Attributes
    ----------
    patience, deadline : float
        Seconds in which each is heard, and in which each says its words of a turn, or ends.
    """

    patience, deadline = PATIENCE, DEADLINE

    def __init__(self, hospitals: list[str]) -> None:
        super().__init__()
        self.hospitals, self.fault, self.lock = hospitals, "", threading.Lock()
        self.heard, self.answered = dict[str, float](), 0.0
        self.said, self.answers = dict[str, tuple[str, Any]](), dict[str, Any]()

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Begin to hear.

        Parameters
        ----------
        fl_ctx : FLContext
            Context of NVFlare.
        """
        self.answered = time.monotonic()
        self.heard = dict.fromkeys(self.hospitals, self.answered)
        fl_ctx.get_engine().register_aux_message_handler(TOPIC, self.hear)

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: the job has ended.

        Parameters
        ----------
        fl_ctx : FLContext
            Context of NVFlare.
        """

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Have all hospitals take part, until they have or a fault ends the job; write which.

        Parameters
        ----------
        abort_signal : Signal
            Signal that the job is to end.
        fl_ctx : FLContext
            Context of NVFlare.
        """
        task = Task("take part", Shareable(), result_received_cb=self.end)
        self.broadcast(task, fl_ctx, self.hospitals, len(self.hospitals))
        while task.completion_status is None and not self.fault:
            time.sleep(0.1)
            if silent := self.silent():
                self.fault = f"{', '.join(silent)} did not answer; {STOPPED}"
            elif abort_signal.triggered:
                self.fault = f"ended by hand, or as a site failed; {STOPPED}"
        folder = fl_ctx.get_engine().get_workspace().get_run_dir(fl_ctx.get_job_id())
        Path(folder, END).write_text(self.fault, encoding="utf-8")
        if self.fault:
            self.system_panic(self.fault, fl_ctx)

    def end(self, client_task: Any, fl_ctx: FLContext) -> None:
        """Take the line that ended a hospital's part, or none.

        Parameters
        ----------
        client_task : object
            Task with the result of `Participant.execute`.
        fl_ctx : FLContext
            Context of NVFlare.
        """
        broken = f"{client_task.client.name} could not take part; {STOPPED}"
        with self.lock:
            self.heard.pop(client_task.client.name, None)
            self.fault = self.fault or client_task.result.get("fault", broken)

    def silent(self) -> list[str]:
        """Return the hospitals that are not heard, or do not say their words of a turn."""
        now = time.monotonic()
        with self.lock:
            lost = {name for name, when in self.heard.items() if now > when + self.patience}
            if now > self.answered + self.deadline:
                lost |= {*(self.hospitals if self.said else self.heard)} - self.said.keys()
            return sorted(lost)

    def hear(self, topic: str, request: Mapping[str, Any], fl_ctx: FLContext) -> Shareable:
        """Return the words of all hospitals in a turn once all have said theirs, and the fault.

        Parameters
        ----------
        topic : str
            Ours.
        request : mapping
            Kind and content; empty from a hospital that is at work.
        fl_ctx : FLContext
            Context of NVFlare, which knows who asks.
        """
        name, kind = fl_ctx.get_peer_context().get_identity_name(), str(request.get("kind", ""))
        with self.lock:
            if name not in self.heard:  # a stranger, or one that has ended
                return Shareable()
            self.heard[name] = time.monotonic()
            if kind and kind not in self.answers and not self.fault:
                self.said[name] = kind, request.get("content")
                if {turn for turn, _ in self.said.values()} != {kind}:
                    self.fault = f"what hospitals said does not fit together; {STOPPED}"
                elif len(self.said) == len(self.hospitals):
                    self.answers[kind] = {x: words for x, (_, words) in self.said.items()}
                    self.said, self.answered = {}, time.monotonic()
            return Shareable({"fault": self.fault, "answer": self.answers.get(kind)})


class Participant(Executor):  # type: ignore[misc]
    """Site of a job: it takes part once in a study that the hospital has approved.

    Parameters
    ----------
    study : str
        Digest of the terms.

    Attributes
    ----------
    beat : float
        Seconds after which it is heard again.
    """

    take_part, beat = staticmethod(hospital.take_part), BEAT

    def __init__(self, study: str) -> None:
        super().__init__()
        self.study = study

    def say(self, ask: Callable[..., Any], kind: str, content: bytes) -> Any:
        """Return the words of all hospitals in a turn: the `Exchange` of a study.

        Parameters
        ----------
        ask : callable
            Function that sends words and returns the reply.
        kind : str
            Name of the turn.
        content : bytes
            Words of this hospital.

        Raises
        ------
        JointError
            With the line that ended the job.
        """
        pause = 0.02
        while not (reply := ask(kind=kind, content=content)).get("answer"):
            if fault := reply.get("fault"):
                raise JointError(fault)
            time.sleep(pause)
            pause = min(1.0, 1.5 * pause)
        return reply["answer"]

    def execute(self, task: str, data: Shareable, fl_ctx: FLContext, abort: Signal) -> Shareable:
        """Return the line that ended the part of this hospital, or none.

        Parameters
        ----------
        task : str
            Name of the task; there is one.
        data : Shareable
            Nothing.
        fl_ctx : FLContext
            Context of NVFlare.
        abort : Signal
            Signal that the job is to end.
        """
        name, engine = fl_ctx.get_identity_name(), fl_ctx.get_engine()
        if ledger := os.environ.get(f"{VARIABLE}_{name}"):  # of a simulation
            os.environ[VARIABLE] = ledger

        def ask(**words: Any) -> Mapping[str, Any]:
            if abort.triggered:
                return {"fault": f"the server ended the job; {STOPPED}"}
            replies = engine.send_aux_request(["server"], TOPIC, Shareable(words), 10.0, fl_ctx)
            return replies.get("server") or {}

        told = list[str]()

        def take_part() -> None:
            try:
                self.take_part(self.study, name, partial(self.say, ask))
                told.append("")
            except BaseException as error:
                why = one_line(error) if isinstance(error, CovdpError) else type(error).__name__
                self.logger.error(why)
                is_public = ledger or isinstance(error, JointError)
                told.append(f"{name}: {why if is_public else KEPT}")

        work = threading.Thread(target=take_part, daemon=True)  # one that hangs ends with the job
        work.start()
        while work.is_alive() and not abort.triggered:
            ask()
            work.join(self.beat)
        return Shareable({"fault": [*told, STOPPED][0]})


def write_job(folder: Path, study: str, hospitals: Sequence[str]) -> Path:
    """Write a job of NVFlare.

    Parameters
    ----------
    folder : Path
        New folder, whose name is the job's.
    study : str
        Digest of the terms.
    hospitals : sequence of str
        Names of all hospitals, as the server knows them.

    Returns
    -------
    Path
        The folder.
    """
    relay = {"id": "relay", "path": CLASSES["server"], "args": {"hospitals": hospitals}}
    part = {"tasks": ["*"], "executor": {"path": CLASSES["client"], "args": {"study": study}}}
    meta = {"name": folder.name, "min_clients": len(hospitals), "mandatory_clients": hospitals}
    meta |= {"resource_spec": {}, "deploy_map": {"join": ["server", *hospitals]}}
    config = folder / "join" / "config"
    _write(folder / "meta.json", meta)
    _write(config / "config_fed_server.json", {"format_version": 2, "workflows": [relay]})
    _write(config / "config_fed_client.json", {"format_version": 2, "executors": [part]})
    return folder


def _write(path: Path, content: object) -> None:
    """Write JSON, in a folder that need not be there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")


def admit(kit: Path) -> None:
    """Let a site of NVFlare run joint releases and nothing else: no other class, no job's code.

    Parameters
    ----------
    kit : Path
        Folder of the server or of a hospital, as it was provisioned.

    Raises
    ------
    JointError
        When it is none.
    """
    try:
        names = {x: kit / "local" / f"{x}.json" for x in ("resources", "authorization")}
        found = {x: json.loads(Path(f"{names[x]}.default").read_text("utf-8")) for x in names}
        allowed = [*CLASSES.values()]  # not this module, whose functions a job could call
        found["resources"] |= {"class_allow_list": allowed, "allow_log_streaming": False}
        rights = found["authorization"]["permissions"]
        rights["lead"] |= {"byoc": "none", "shell_commands": "none"}
        rights["project_admin"] = rights["lead"]
        for name, path in names.items():
            _write(path, found[name])
    except (OSError, ValueError, KeyError) as error:
        fault = f"{kit} is no startup kit of a server or a site ({one_line(error)})"
        raise JointError(f"{fault}; give the folder that `nvflare provision` made") from error


def simulate(study: str, hospitals: Mapping[str, str]) -> None:
    """Run a job on this machine, each hospital in a process of its own.

    Parameters
    ----------
    study : str
        Digest of the terms.
    hospitals : mapping of str to str
        Address of the ledger of each hospital.

    Raises
    ------
    JointError
        With the line that ended the job.
    """
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # processes end after it
        run, log = Path(folder, "run"), Path(folder, "log.txt")
        job = write_job(Path(folder, "join"), study, [*hospitals])
        _write(run / "local" / "resources.json", {"class_allow_list": [*CLASSES.values()]})
        command = [sys.executable, "-m", "nvflare.private.fed.app.simulator.simulator", str(job)]
        command += ["-w", str(run), "-c", ",".join(hospitals), "-t", str(len(hospitals))]
        ledgers = os.environ | {f"{VARIABLE}_{name}": place for name, place in hospitals.items()}
        with log.open("wb") as out:
            subprocess.run(command, stdout=out, stderr=out, env=ledgers, check=False)
        last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        _check_end(run / "server" / "simulate_job" / END, last)


def run(study: str, name: str, hospitals: Sequence[str], kit: Path) -> str:
    """Submit a job to a server, and wait for its end; whoever interrupts this ends the job.

    Parameters
    ----------
    study : str
        Digest of the terms.
    name : str
        Name of the job: letters, digits, dots, underscores and hyphens.
    hospitals : sequence of str
        Names of all hospitals, as the server knows them.
    kit : Path
        Folder of an admin's startup kit, as it was provisioned.

    Returns
    -------
    str
        Number of the job.

    Raises
    ------
    JointError
        When the server refuses, or a hospital is not connected to it; with the line that ended the
        job, where it is not done.
    """
    logging.getLogger("nvflare").addHandler(logging.NullHandler())  # not to standard error
    try:
        admin = json.loads((kit / "startup" / "fed_admin.json").read_text(encoding="utf-8"))
        with (
            redirect_stdout(StringIO()),
            TemporaryDirectory() as folder,
            closing(new_secure_session(admin["admin"]["username"], str(kit.absolute()))) as session,
        ):
            there = {client.name for client in session.get_connected_client_list()}
            if away := sorted({*hospitals} - there):
                raise JointError(f"{away[0]} is not connected; start NVFlare there, and try again")
            job = str(session.submit_job(str(write_job(Path(folder, name), study, hospitals))))
            try:
                status = session.wait_for_job(job)["status"]
            except KeyboardInterrupt:
                session.abort_job(job)
                raise
            found = session.download_job_result(job, folder)
            _check_end(Path(found, "workspace", END), f"the server says {status}")
            return job
    except CovdpError:
        raise
    except Exception as error:
        fault = f"no job runs by {kit} ({type(error).__name__}: {one_line(error)})"
        way = "give the folder of an admin's startup kit, and see that the server runs"
        raise JointError(f"{fault}; {way}") from error


def _check_end(path: Path, why: str) -> None:
    """Raise `JointError` with the line that ended a job, unless it is done."""
    fault = path.read_text(encoding="utf-8") if path.exists() else f"NVFlare ended early ({why})"
    if fault:
        raise JointError(one_line(fault))
