"""Sessions of the open protocol of our own: configs and scripts, as files for the command line."""

import json
from pathlib import Path
from typing import Any

from tests.features.council.sitting import config, entry, synthesis, turn, verdict

PANEL = ("logician", "visionary", "researcher", "critic", "engineer")
CHAIR = "coordinator"
SCRIPT = "scripts/two-rounds.json"
SELECTOR_SCRIPT = "scripts/llm-selector.json"
CONFIGS = ("two-rounds", "rules-selector", "llm-selector")
MESSAGES = 14  # two rounds of five turns and a verdict, the answer, and the request before them
# A word for the scope of each persona: the selector that works by rules chooses all of them.
PROBLEM = (
    "Design a novel lock for the canal: prove that it is consistent, research the evidence, "
    "name each security risk and failure, and estimate the cost to build it."
)


def write_examples(folder: Path) -> Path:
    """Write the configs and scripts into a folder, and return it."""
    for name in ("configs", "scripts"):
        (folder / name).mkdir(parents=True)
    for name, selector in (
        ("two-rounds", {}),
        ("rules-selector", {"strategy": "rules"}),
        (
            "llm-selector",
            {"strategy": "llm", "selector_budget": {"max_tokens": 5000, "max_cost_usd": 0.5}},
        ),
        ("openai", {}),
    ):
        provider = ("openai", "gpt-4o-mini") if name == "openai" else ("fake", "fake-deterministic")
        written = json.dumps(_config(name, selector, *provider), indent=1)
        (folder / f"configs/{name}.yaml").write_text(written)
    _write_script(folder / SCRIPT, _two_rounds())
    _write_script(folder / SELECTOR_SCRIPT, [_selection()])
    return folder


def _config(name: str, selector: dict[str, Any], provider: str, model: str) -> dict[str, Any]:
    """Return a config, which is JSON and so YAML, too."""
    made = config(
        panel=PANEL,
        session_id=f"canal-{name}",
        problem_statement=PROBLEM,
        selector={**selector, "coordinator_agent": CHAIR},
        coordinator={"id": CHAIR, "persona_ref": CHAIR},
    )
    for agent in (*made["agents"], made["coordinator"]):
        agent |= {"provider": provider, "model": model}
    return made


def _two_rounds() -> list[dict[str, Any]]:
    entries = []
    for number, action in ((1, "continue"), (2, "finalize")):
        entries += [
            _entry(turn(f"{name} in round {number}"), name, "turn_structured_output")
            for name in PANEL
        ]
        entries.append(_entry(verdict(action), CHAIR, "verdict"))
    answer = synthesis("Build the smaller lock, and measure the seepage for a year.")
    return [*entries, _entry(answer, CHAIR, "synthesis_content")]


def _entry(data: bytes, speaker: str, schema: str) -> dict[str, Any]:
    made = entry(data, agent_id=speaker, expected_output_schema=schema)
    made["result"]["usage"] = {
        "prompt_tokens": 120,
        "completion_tokens": 80,
        "total_tokens": 200,
        "cost_usd": 0.001,
    }
    return made


def _selection() -> dict[str, Any]:
    """Return the reply of a model that chooses the panel, as free text."""
    made = entry(None)
    chosen = {"selected_agents": PANEL, "coordinator_agent": CHAIR, "reasoning": "all of them"}
    made["result"]["messages"] = [{"role": "assistant", "content": json.dumps(chosen)}]
    return made


def _write_script(file: Path, entries: list[dict[str, Any]]) -> None:
    file.write_text(
        json.dumps({"schema_version": "1.0.0", "on_exhaustion": "error", "entries": entries})
    )
