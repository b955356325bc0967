"""Forty mistakes of newcomers: each is met with its cause, and with a remedy that works."""

import errno
import json
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from forum.errors import ForumError
from forum.installation import install_command
from forum.surfaces.cli import output
from forum.surfaces.cli.os_errors import explain_os_error
from tests.features.gateway.running import local_provider, provider_variables
from tests.support import free_port
from tests.surfaces.serving import started
from tests.surfaces.terminal import Terminal

_GOOD_KEY = "sk-right-right-right"
_PLAN = 'request = "x"\n[[tasks]]\nid = "a"\ninstruction = "Do it."\n'
_CYCLE = 'needs = ["b"]\n[[tasks]]\nid = "b"\ninstruction = "Do it."\nneeds = ["a"]\n'
_AGENT = """\
import json, os, sys, urllib.request
call = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"model": sys.argv[1], "max_tokens": 9,
                "messages": [{"role": "user", "content": "hi"}]}).encode(),
    {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
try:
    urllib.request.urlopen(call).read()
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode())
"""


class Newcomer(Terminal):
    """A user at a terminal who sees what a command prints, whatever becomes of it."""

    def try_out(self, *words: str) -> str:
        """Run a command that fails, and return all that it prints."""
        done = self.call(*words)
        assert done.exit_code != 0, done.output
        error = done.exception
        if isinstance(error, OSError):
            return explain_os_error(error)
        text = f"error: {error}" if isinstance(error, ForumError) else ""
        return done.output + text

    def succeed(self, *words: str) -> str:
        """Run a command that must succeed, and return what it prints on stdout."""
        done = self.call(*words)
        assert done.exit_code == 0, f"{done.output} {done.exception}"
        return done.stdout

    def write(self, name: str, text: str) -> None:
        """Write a file of the project."""
        (self.folder / name).write_text(text)


@dataclass(frozen=True)
class Mistake:
    """A mistake: how it is made, the words of its cause and of its remedy, and the remedy."""

    make: Callable[[Newcomer], str]
    cause: str
    remedy: str
    repair: Callable[[Newcomer], object] = field(default=lambda _user: None)


def typed(line: str, **files: str) -> Callable[[Newcomer], str]:
    """Return the mistake of a command line, in a project with these files."""

    def make(user: Newcomer) -> str:
        _write_files(user, files)
        return user.try_out(*line.split())

    return make


def works(line: str, **files: str) -> Callable[[Newcomer], str]:
    """Return the remedy of a command line, after these files are written."""

    def repair(user: Newcomer) -> str:
        _write_files(user, files)
        return user.succeed(*line.split())

    return repair


def _write_files(user: Newcomer, files: dict[str, str]) -> None:
    for name, text in files.items():
        user.write(name.replace("_", "."), text)


class _Provider(BaseHTTPRequestHandler):
    """A provider that knows one model and one key."""

    def do_POST(self) -> None:
        """Answer a call, or refuse it as OpenAI does."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {_GOOD_KEY}":
            self._send(401, {"error": {"message": "Incorrect API key provided."}})
        elif asked["model"] != "tiny":
            self._send(404, {"error": {"message": f"The model {asked['model']} does not exist."}})
        else:
            message = {"role": "assistant", "content": "Rhine."}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
            self._send(200, {"model": "tiny", "choices": [choice], "usage": usage})

    def _send(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


@contextmanager
def provider(port: int = 0) -> Iterator[str]:
    """Serve a provider on this machine, and yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", port), _Provider)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _ask_model(user: Newcomer, url: str, model: str, key: str, *, right: bool) -> str:
    user.environment["TINY_KEY"] = key
    words = ["submit", "x", "--no-route", "--chat-url", url, "--model", model]
    words += ["--key-env", "TINY_KEY"]
    return user.succeed(*words) if right else user.try_out(*words)


def _unreadable_plans(user: Newcomer) -> str:
    make_toml = typed("submit --plan plan.toml", plan_toml="request = \n")
    return make_toml(user) + typed("submit --plan plan.json", plan_json='{"request": }')(user)


def _wrong_key(user: Newcomer) -> str:
    with provider() as url:
        return _ask_model(user, url, "tiny", "sk-wrong-wrong-wrong", right=False)


def _right_key(user: Newcomer) -> str:
    with provider() as url:
        return _ask_model(user, url, "tiny", _GOOD_KEY, right=True)


def _unknown_model(user: Newcomer) -> str:
    with provider() as url:
        return _ask_model(user, url, "huge", _GOOD_KEY, right=False)


def _server_down(user: Newcomer) -> str:
    return _ask_model(user, f"http://127.0.0.1:{free_port()}/v1", "tiny", _GOOD_KEY, right=False)


def _run_agent(user: Newcomer, model: str, *options: str) -> tuple[int, str]:
    """Run an agent through the gateway; return the exit status and what was printed."""
    user.write("agent.py", _AGENT)
    with local_provider(user.folder / "provider.log") as url:
        words = ("run", *options, "--", sys.executable, "agent.py", model)
        done = user.type(*words, **provider_variables(url))
    return done.returncode, done.stdout + done.stderr


def _gateway_refuses(model: str, *options: str) -> Callable[[Newcomer], str]:
    def make(user: Newcomer) -> str:
        status, text = _run_agent(user, model, *options)
        assert status != 0
        return text

    return make


def _gateway_relays(model: str, *options: str) -> Callable[[Newcomer], None]:
    def repair(user: Newcomer) -> None:
        status, text = _run_agent(user, model, *options)
        assert status == 0, text

    return repair


def _port_in_use(user: Newcomer) -> str:
    user.succeed("init")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        return user.type("serve", "--port", str(other.getsockname()[1])).stderr


def _with_database(user: Newcomer, url: str) -> str:
    user.succeed("init")
    user.environment["FORUM_DATABASE_URL"] = url
    text = user.try_out("runs")
    assert "moved" not in text
    return text


def _without_database(user: Newcomer) -> None:
    del user.environment["FORUM_DATABASE_URL"]
    done = user.call("runs")
    assert (done.exit_code, "moved" in done.output) == (0, False)


def _make_bundle(user: Newcomer) -> bytes:
    user.succeed("submit", "x")
    user.succeed("ledger", "export", "--output", "run.zip")
    user.write("policy", user.succeed("ledger", "policy"))
    return (user.folder / "run.zip").read_bytes()


def _cut_bundle(user: Newcomer) -> str:
    whole = _make_bundle(user)
    (user.folder / "cut.zip").write_bytes(whole[: len(whole) // 2])
    return user.try_out("verify", "cut.zip", "--policy", "policy")


def _foreign_trust_file(user: Newcomer) -> str:
    _make_bundle(user)
    other = Newcomer(user.folder / "other")
    other.succeed("init")
    user.write("foreign", other.succeed("ledger", "policy"))
    return user.try_out("verify", "run.zip", "--policy", "foreign")


def _way_around(user: Newcomer) -> str:
    user.succeed("init")
    return user.type("run", "--max-usd", "1", "--", "true").stderr


def _no_trust_file(user: Newcomer) -> str:
    _make_bundle(user)
    return user.try_out("verify", "run.zip", "--policy", "run.zip")


def _full_disk(user: Newcomer) -> str:
    user.succeed("submit", "x")
    return user.try_out("ledger", "export", "--output", "/dev/full")


def _no_permission(user: Newcomer) -> str:
    user.succeed("submit", "x")

    def refuse(path: Path, _data: bytes) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with pytest.MonkeyPatch.context() as patch:  # whoever runs the tests may be allowed everything
        patch.setattr(output, "write_private", refuse)
        return user.try_out("ledger", "export", "--output", "locked.zip")


def _unreachable_weights(user: Newcomer) -> str:
    user.environment["FORUM_MODELS_DIR"] = str(user.folder / "models")
    return user.try_out("models", "pull", "minilm", "--from", "https://127.0.0.1:9/")


def _unknown_run(user: Newcomer) -> str:
    user.succeed("init")
    return user.try_out("show", "ffffffff")


def _unknown_entry(user: Newcomer) -> str:
    user.succeed("init")
    return user.try_out("why", "9999")


def _deleted_ledger(user: Newcomer) -> str:
    user.succeed("init")
    shutil.rmtree(user.folder / ".forum")
    return user.try_out("submit", "x")


def _missing_extra(user: Newcomer) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "psycopg", None)
        for name in ("postgres", "postgres_connections", "postgres_reader", "postgres_schema"):
            patch.delitem(sys.modules, f"forum.stores.{name}", raising=False)
        return _with_database(user, "postgresql://127.0.0.1/test")


def _bad_field(user: Newcomer) -> str:
    user.succeed("init")
    token = user.succeed("token").strip()
    with started(user, "serve", "--port", str(free_port())) as url:
        sent = {"request": "x", "budgett": {}}
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.post(f"{url}/api/v1/runs", json=sent, headers=headers).text


_NO_MODEL = '[models.capable]\nmodle = "m"\n'
_KEYLESS = '[models.capable]\nmodel = "gpt-4o-mini"\nkey_env = "NO_SUCH_KEY"\n'
_PRICELESS = '[models.capable]\nmodel = "gpt-nonesuch"\nkey_env = "HOME"\n'
_PRICED = _PRICELESS + "price = { input = 1, output = 2 }\n"
_AGENT_PLAN = f'{_PLAN}agent = "writer"\n'

MISTAKES = {
    "typo in a command": Mistake(
        typed("sumbit x"), "No such command 'sumbit'", "Did you mean submit?", works("submit x")
    ),
    "typo in a command of a group": Mistake(
        typed("ledger shwo"), "No such command 'shwo'", "Did you mean show?"
    ),
    "typo in an option": Mistake(
        typed("submit x --modle m"), "No such option '--modle'", "Did you mean --model?\n"
    ),
    "no ledger": Mistake(typed("runs"), "there is no ledger in", "forum init", works("init")),
    "nothing asked": Mistake(typed("submit"), "say what is to be done", "a REQUEST"),
    "bad TOML or JSON in a plan": Mistake(
        _unreadable_plans,
        "plan.toml: Invalid value (at line 1, column 11)",
        "plan.json: Expecting value: line 1 column 13",
        works("submit --plan plan.toml", plan_toml='request = "x"'),
    ),
    "cycle in a plan": Mistake(
        typed("submit --plan plan.toml", plan_toml=_PLAN + _CYCLE),
        "task 'a' waits for itself",
        "line 2, column 1",
    ),
    "wrong key in a plan": Mistake(
        typed("submit --plan plan.toml", plan_toml=f"{_PLAN}agnet = 'x'\n"),
        "tasks[0].agnet: unknown key",
        "did you mean agent?",
    ),
    "plan file missing": Mistake(
        typed("submit --plan plna.toml", plan_toml=_PLAN),
        "File 'plna.toml' does not exist",
        "Did you mean plan.toml?",
        works("submit --plan plan.toml"),
    ),
    "unknown agent in a plan": Mistake(
        typed("submit --plan plan.toml", plan_toml=_AGENT_PLAN),
        "no agent is called 'writer'",
        "--agent writer=PROGRAM",
        works("submit --plan plan.toml --agent writer=cat"),
    ),
    "program not found": Mistake(
        typed("submit x --cmd nonesuch"),
        "cannot start the program 'nonesuch': No such file or directory",
        "install it, or put its full path first",
        works("submit x --cmd cat"),
    ),
    "no API key": Mistake(
        typed("submit x", forum_toml=_KEYLESS),
        "cannot read the key NO_SUCH_KEY",
        "set the variable NO_SUCH_KEY",
    ),
    "wrong API key": Mistake(
        _wrong_key, "Incorrect API key provided", "variable TINY_KEY: set the right one", _right_key
    ),
    "unknown model": Mistake(
        _unknown_model, "The model huge does not exist", "correct the name of the model, 'huge'"
    ),
    "model server down": Mistake(
        _server_down, "no connection to http://127.0.0.1:", "is the server running? Start it"
    ),
    "unknown price": Mistake(
        typed("submit x", forum_toml=_PRICELESS),
        "the price of 'gpt-nonesuch' is not known",
        "price = { input = 0, output = 0 } in forum.toml",
        works("models check", forum_toml=_PRICED),
    ),
    "cap too small for a request": Mistake(
        typed("submit x --cmd cat --price-usd 1 --max-usd 0.10"),
        "$1.00 more was needed, and $0.00 of $0.10",
        "raise the cap: --max-usd 1.00",
        works("submit x --cmd cat --price-usd 1 --max-usd 1.00"),
    ),
    "cap too small for a program": Mistake(
        _gateway_refuses("gpt-4o-mini", "--max-usd", "0.0000001"),
        "this call may cost $",
        "raise --max-usd",
        _gateway_relays("gpt-4o-mini", "--max-usd", "1"),
    ),
    "unpriced model under a cap": Mistake(
        _gateway_refuses("my-model", "--max-usd", "1"),
        "the price of the model 'my-model' is not known",
        "--allow my-model",
        _gateway_relays("my-model", "--max-usd", "1", "--allow", "my-model"),
    ),
    "team without a model": Mistake(
        typed("submit x --team"), "--team) needs a model", "forum demo --open"
    ),
    "typo in a section of a model": Mistake(
        typed("models check", forum_toml=_NO_MODEL),
        "[models.capable] it has no setting 'modle'",
        "did you mean model?",
    ),
    "broken forum.toml": Mistake(
        typed("submit x", forum_toml="[models\n"), "Expected ']'", "line 1, column 8"
    ),
    "unknown section": Mistake(
        typed("submit x", forum_toml="[databse]\n"),
        "[databse] is not a section",
        "did you mean database?",
    ),
    "bad value in a section": Mistake(
        typed("submit x", forum_toml='[worker]\nrunner = "cron"\n'),
        "[worker] runner: 'cron' is unknown",
        "write one of claims, dbos, temporal",
    ),
    "unknown lane": Mistake(
        typed("submit x --lane bakend"),
        "no lane is called 'bakend'",
        "the roster has: backend",
        works("submit x --lane backend"),
    ),
    "run not found": Mistake(
        _unknown_run, "ffffffff is neither a run nor an entry", "forum runs", works("runs")
    ),
    "entry not found": Mistake(
        _unknown_entry, "none with index 9999", "forum ledger show", works("ledger show")
    ),
    "port in use": Mistake(
        _port_in_use, "another process listens there", "choose another port with --port"
    ),
    "Postgres down": Mistake(
        lambda user: _with_database(user, f"postgresql://127.0.0.1:{free_port()}/test"),
        "Connection refused",
        "See that the server runs",
        _without_database,
    ),
    "database does not exist": Mistake(
        lambda user: _with_database(user, "postgresql://postgres@127.0.0.1/nonesuch"),
        'database "nonesuch" does not exist',
        "createdb",
        _without_database,
    ),
    "missing extra": Mistake(
        _missing_extra, "psycopg", install_command("postgres"), _without_database
    ),
    "no permission": Mistake(
        _no_permission,
        "locked.zip: Permission denied",
        "Let this user read and write it",
        works("ledger export --output open.zip"),
    ),
    "disk full": Mistake(
        _full_disk, "No space left on device", "Free some space", works("ledger verify")
    ),
    "deleted ledger": Mistake(
        _deleted_ledger, "signing key", "forum init --new-log", works("init --new-log")
    ),
    "truncated bundle": Mistake(
        _cut_bundle,
        "truncated: it ends before its directory does",
        "copy or download it again",
        works("verify run.zip --policy policy"),
    ),
    "file that is no trust file": Mistake(
        _no_trust_file,
        "run.zip is no trust file",
        "forum ledger policy > trust",
        works("verify run.zip --policy policy"),
    ),
    "trust file of another log": Mistake(
        _foreign_trust_file,
        "Your trust file is for the log",
        "You need the trust file of that log",
        works("verify run.zip --policy policy"),
    ),
    "program that goes round the gateway": Mistake(
        _way_around,
        "no call came through Forum: nothing was capped",
        "close the way around with --confine",
    ),
    "weights out of reach": Mistake(
        _unreachable_weights,
        "127.0.0.1 cannot be reached",
        "forum models pull minilm --from FOLDER",
    ),
    "bad field over HTTP": Mistake(_bad_field, "budgett", "budget"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_met_with_its_cause_and_a_remedy(name: str, tmp_path: Path) -> None:
    """The remedy is carried out where that can be done on this machine."""
    mistake, user = MISTAKES[name], Newcomer(tmp_path)

    text = " ".join(mistake.make(user).split())

    assert " ".join(mistake.cause.split()) in text
    assert " ".join(mistake.remedy.split()) in text
    # The end says it once, and in words.
    assert text.rpartition("✗")[2].count(mistake.cause) <= 1
    assert "[Errno" not in text
    mistake.repair(user)
