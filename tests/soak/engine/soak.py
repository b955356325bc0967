"""Soaking one database: the campaign, the audit, and the figures of both."""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from forum.app import Forum
from tests.soak.engine.audit import Audit
from tests.soak.engine.bench import Bench, open_bench
from tests.soak.engine.campaign import Campaign, Goals, say
from tests.soak.engine.takeover import GOAL_SECONDS, Takeover, Takeovers, Weather, percentile

MAX_SHOWN = 10


def soak(database: str, goals: Goals, seed: int = 0, keep: Path | None = None) -> dict[str, Any]:
    """Soak one database, and return what happened."""
    with tempfile.TemporaryDirectory(prefix="forum-soak-") as name:
        folder = Path(name)
        try:
            with open_bench(database, folder) as bench, Forum(bench.settings) as forum:
                forum.keys.initialise()
                return _soak(bench, forum, goals, seed)
        finally:
            if keep is not None:
                shutil.copytree(folder, keep, dirs_exist_ok=True)


def _soak(bench: Bench, forum: Forum, goals: Goals, seed: int) -> dict[str, Any]:
    campaign = Campaign(bench, forum, goals, seed)
    campaign.run()
    ran = campaign.seconds
    say(f"{bench.name}: {campaign.kills} killed in {ran:.0f} s; checking")
    forum.log.publish()
    audit = Audit(forum, bench, campaign.evidence, campaign.requests.shapes)
    audit.run()
    takeovers = Takeovers(campaign.evidence, forum.store)
    deaths = [takeover for death in campaign.deaths for takeover in takeovers.of(death)]
    weather = Weather(campaign.evidence, campaign.deaths, campaign.storms)
    calm = [takeover for takeover in deaths if weather.is_calm(takeover)]
    violations = [*campaign.violations, *audit.violations]
    return {
        "ok": not violations,
        "runs": len(campaign.requests.asked),
        "runs_within": audit.runs - len(campaign.requests.asked),
        "killed": campaign.kills,
        "kills": dict(sorted(campaign.tally.kills.items())),
        "places_missed": campaign.missed,
        "zombies": campaign.tally.zombies,
        "server_faults": dict(campaign.tally.server_faults),
        "entries": audit.entries,
        "calls": audit.calls,
        "calls_lost": audit.lost,
        "calls_repeated": audit.calls_repeated,
        "tools": audit.effects,
        "tools_repeated": audit.tools_repeated,
        "takeovers": len(calm),
        **_figures("takeover", calm),
        "takeovers_in_storms": len(deaths) - len(calm),
        **_figures("takeover_in_storms", [takeover for takeover in deaths if takeover not in calm]),
        "not_taken_over": sum(1 for takeover in deaths if takeover.seconds is None),
        "slow": [str(takeover) for takeover in calm if (takeover.seconds or 0) > GOAL_SECONDS][
            :MAX_SHOWN
        ],
        "troubles": campaign.troubles,
        "verified": audit.verified,
        "seconds": round(ran, 1),
        "seconds_with_the_audit": round(campaign.seconds, 1),
        "violations": violations,
    }


def _figures(name: str, takeovers: Iterable[Takeover]) -> dict[str, float]:
    seconds = [takeover.seconds for takeover in takeovers if takeover.seconds is not None]
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {f"{name}_{key}": round(percentile(seconds, share), 2) for key, share in shares.items()}
