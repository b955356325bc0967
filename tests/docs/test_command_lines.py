"""No document or message shows a secret in a command line, which every user of a machine can read.

A token of a variable or of another program is an argument as much as one that is written out.  A
pipe to `curl -H @-`, a file and the environment are read by their owner alone.
"""

import re
import subprocess

from tests.docs.pages import ROOT

_TEXTS = (".md", ".py", ".toml", ".yaml", ".yml", ".sh", ".service", ".conf", ".txt", ".ts", ".tsx")
_ELSEWHERE = "benchmarks/requests"
_ROSTER = "roster.toml"
"""Requests of users that a router learns from; nobody pastes them."""
_BEARER = re.compile(
    r"""(?:-H|--header)[ =]["'][^"'\n]*(?:bearer|x-api-key:)[^"'\n]*""", flags=re.IGNORECASE
)
_SUBSTITUTED = re.compile(r"\$\(\s*forum token|--(?:key|token)[ =][\"']?\$")
_ASSIGNED = re.compile(r"^\s*(?:\$ )?(?:export )?[A-Z][A-Z0-9_]*=\"?\$\(forum token\)\"?(?=\s|$)")
"""A variable of the environment or of the shell."""


def find_secrets(text: str) -> list[str]:
    """Return the lines that put a secret into the arguments of a program."""
    texts = []
    for line in text.splitlines():
        rest = _ASSIGNED.sub("", line)
        if _BEARER.search(rest) or _SUBSTITUTED.search(rest):
            texts.append(line.strip())
    return texts


def test_no_secret_is_in_a_command_line_of_a_document() -> None:
    """Of README, guides, help texts, examples, units and tests of documents."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    names = [
        name
        for name in listed
        if name.endswith(_TEXTS)
        and not name.endswith(f"/{_ROSTER}")
        and not name.startswith(("tests/", "web/node_modules", _ELSEWHERE))
        and (ROOT / name).is_file()
    ]
    document = {
        name: lines
        for name in names
        if (lines := find_secrets((ROOT / name).read_text(errors="replace")))
    }

    assert len(names) > 200
    assert document == {}


def test_what_is_found_and_what_is_not() -> None:
    """A law that finds nothing would pass over everything."""
    bad = (
        'curl -H "Authorization: Bearer $(forum token)" http://x',
        "curl --header 'Authorization: Bearer abc' http://x",
        'curl --header "x-api-key: $KEY" http://x',
        "some-agent --key $(forum token)",
        'OTHER=1 some-agent "$(forum token)"',
    )
    good = (
        "forum token --header | curl -H @- http://x",
        "printf 'Authorization: Bearer %s\\n' \"$key\" | curl --header @- http://x",
        "export FORUM_API_KEY=$(forum token)",
        'curl --header "Last-Event-ID: 17" http://x',
    )

    assert [line for line in bad if not find_secrets(line)] == []
    assert [line for line in good if find_secrets(line)] == []
