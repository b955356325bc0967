"""Tell features with which agents, tools and rules a process begins to serve."""

from forum.app import Forum
from forum.feature import load_parts
from forum.features import FEATURES
from forum.runs.roster import Roster
from forum.runs.team_settings import TeamSettings


def record_configuration(forum: Forum, team: TeamSettings, roster: Roster) -> None:
    """Record the configuration of this process, if a feature keeps a record of it."""
    for record in load_parts(FEATURES, "record_configuration"):
        record(forum, team, roster)
