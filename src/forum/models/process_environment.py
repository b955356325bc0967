"""Environments for the programs that Forum starts, derived from that of its worker."""

import os
from collections.abc import Iterable

from forum.config import SecretRules
from forum.engine import ToolInvocation
from forum.ledger.secret_mask import is_secret_name
from forum.runs.cli_agents import is_session_variable

_FORUM_VARIABLES = frozenset(
    # A program must get neither the secrets of Forum itself, nor the run, task and idempotency key
    # of an outer Forum: with that key its effects would look like repetitions.
    {"FORUM_DATABASE_URL", "PGPASSWORD", "FORUM_KEY_FILE", "FORUM_KEY", "FORUM_RUN", "FORUM_TASK"}
)
OPERATOR = SecretRules()
"""The rules of a project that is no tenant of another one."""
_COMMON_VARIABLES = ("PATH", "HOME", "LANG")
"""Variables that nearly every program needs and that are never secret."""


def task_variables(invocation: ToolInvocation) -> dict[str, str]:
    """Return the variables that identify the task of a tool call."""
    return {"FORUM_RUN": invocation.run, "FORUM_TASK": invocation.task}


def tool_variables(invocation: ToolInvocation) -> dict[str, str]:
    """Return the variables that identify a tool call; FORUM_KEY is its idempotency key."""
    return task_variables(invocation) | {"FORUM_KEY": invocation.key}


def trusted_environment(rules: SecretRules = OPERATOR, /, **added: str) -> dict[str, str]:
    """Return the environment without Forum's own secrets, for programs that the operator trusts.

    A program of a tenant gets the variables of this tenant.
    """
    if rules.tenant is not None:
        return allowed_environment(filter(rules.owns_variable, os.environ), rules, **added)
    return {
        name: value for name, value in os.environ.items() if name not in _FORUM_VARIABLES
    } | added


def coding_agent_environment(rules: SecretRules = OPERATOR, /, **added: str) -> dict[str, str]:
    """Return the trusted environment without the session that Forum itself was started in."""
    return {
        name: value
        for name, value in trusted_environment(rules).items()
        if not is_session_variable(name)
    } | added


def environment_without_secrets(
    names: Iterable[str], rules: SecretRules = OPERATOR, /, **added: str
) -> dict[str, str]:
    """Return the environment without variables that look like secrets, unless they are named.

    A program of a tenant gets nothing but what is named.
    """
    if rules.tenant is not None:
        return allowed_environment(names, rules, **added)
    allowed = {*names}
    return {
        name: value
        for name, value in trusted_environment().items()
        if name in allowed or not is_secret_name(name)
    } | added


def allowed_environment(
    names: Iterable[str], rules: SecretRules = OPERATOR, /, **added: str
) -> dict[str, str]:
    """Return only the named and the common variables, never a secret of Forum.

    What the rules do not allow is left out.
    """
    wanted = {*_COMMON_VARIABLES, *filter(rules.owns_variable, names)} - _FORUM_VARIABLES
    return {name: os.environ[name] for name in sorted(wanted) if name in os.environ} | added
