"""The child that is Prefect's server: ``python -m flows.guarded``, started by `flows.server`.

Whoever asks without the secret is refused before Prefect sees the request, whatever the path:
health, documentation and web sockets too. There is no page for a browser, and none is let in.
"""

import base64
import hmac
import os
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, TypeAlias

from flows.attached import end_with_parent

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

SETTINGS = {
    "PREFECT_UI_ENABLED": "false",
    "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": "",
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",  # none is used
    "PREFECT__SERVER_FINAL": "1",  # one server in this process: 50 MB less
}


def main() -> None:
    """Take a free port of this machine, print it, print ``ready``, serve until the pipe ends.

    The port is taken here and never given back, so nobody else can stand in for the server. Servers
    of one home start one after another: each brings the database up to its version, which two at
    once fail to do.
    """
    os.umask(0o077)
    os.environ.update(SETTINGS)
    home = Path(os.environ["PREFECT_HOME"]).expanduser()
    home.mkdir(parents=True, exist_ok=True)
    for path in home.glob("prefect.db*"):
        path.chmod(0o600)
    servers: list[Any] = []
    end_with_parent(lambda: _end(servers))
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(listener.getsockname()[1], flush=True)

    import uvicorn
    from filelock import FileLock
    from prefect.server.api.server import create_app

    starting = FileLock(home / "starting.lock", mode=0o600)
    starting.acquire()
    secret = os.environ["PREFECT_SERVER_API_AUTH_STRING"]
    app = guarded(create_app(ephemeral=True), secret, starting.release)
    servers.append(uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on")))
    servers[0].run(sockets=[listener])
    os._exit(0)  # all is written; taking the interpreter down would take seconds more


def guarded(app: App, secret: str, started: Callable[[], object]) -> App:
    """Return `app` behind `secret`, ``user:password``; `started` is called once it has started.

    Then it prints ``ready``.
    """
    expected = b"Basic " + base64.b64encode(secret.encode())

    async def tell(message: Message, send: Send) -> None:
        await send(message)
        if message["type"] == "lifespan.startup.complete":
            started()
            print("ready", flush=True)

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, lambda message: tell(message, send))
            return
        headers = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(headers) == 1 and hmac.compare_digest(headers[0], expected):
            await app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": "websocket.close", "code": 1008})  # refuses the handshake

    return answer


def _end(servers: list[Any]) -> None:
    if not servers:
        os._exit(0)
    servers[0].should_exit = True


if __name__ == "__main__":
    main()
