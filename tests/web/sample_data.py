"""Write a project with realistic runs, by Forum's own engine and scripted agents.

    python -m tests.web.sample_data FOLDER

The runs of `forum demo --open`, a run of `forum run`, and an evaluation of two agents.
"""

import json
import sys
from pathlib import Path

from forum.app import Forum
from forum.config import load_settings
from forum.engine import RunRequest
from forum.features.demo.sample_runs import build_sample_requests
from forum.features.evaluation.sample import play_sample_evaluation
from tests.features.gateway.running import HERE as GATEWAY
from tests.features.gateway.running import local_provider, provider_variables
from tests.surfaces.terminal import Terminal


def write_sample_runs(terminal: Terminal) -> dict[str, str]:
    """Carry out the sample runs in a new project, and return their names by what they show."""
    runs = _carry_out(terminal, build_sample_requests())
    with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
        with forum.runs.run_worker():
            runs["evaluation"] = play_sample_evaluation(forum).evaluation
        forum.log.publish()
    runs["relayed"] = _relayed(terminal)
    return runs


def write_gate_run(terminal: Terminal) -> str:
    """Carry out the run that waits at a gate in a new project, and return its name."""
    return _carry_out(terminal, {"gate": build_sample_requests()["gate"]})["gate"]


def _carry_out(terminal: Terminal, orders: dict[str, RunRequest]) -> dict[str, str]:
    (terminal.folder / "forum.toml").write_text('[budgets.daily]\nper = "day"\nusd = 2\n')
    settings = load_settings(terminal.folder, terminal.environment)
    runs = {}
    with Forum(settings) as forum:
        forum.keys.initialise()
        with forum.runs.run_worker():
            for name, request in orders.items():
                runs[name] = forum.runs.submit(request)
                forum.reads.follow_run(runs[name])
        forum.log.publish()
    return runs


def _relayed(terminal: Terminal) -> str:
    """Run a program with `forum run`, against a provider on this machine."""
    before = _listed(terminal)
    with local_provider(terminal.folder.parent / "provider.log") as url:
        agent = (sys.executable, str(GATEWAY / "plain_agent.py"), "2", "4")
        variables = provider_variables(url)
        done = terminal.type("run", "--max-usd", "1", "--", *agent, **variables)
    assert done.returncode == 0, done.stderr
    (run,) = _listed(terminal) - before
    return run


def _listed(terminal: Terminal) -> set[str]:
    return {line["run"] for line in terminal.ask("runs")["runs"]}


def main() -> None:
    """Write the project into the folder that is named, and print the runs."""
    print(json.dumps(write_sample_runs(Terminal(Path(sys.argv[1]))), indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
