"""Every key of Forum is recognised, as a whole in a file and by its beginning in a text."""

import re
from pathlib import Path

import pytest

from forum.ledger.key_forms import KEY_MARKS, has_whole_key, looks_like_key
from tests.surfaces.halls import EVERYTHING, open_forum
from tests.test_repository import package_sources


def test_every_key_that_a_project_has_is_recognised(tmp_path: Path) -> None:
    """The keys of files, the operator's token, and an API key."""
    with open_forum(tmp_path) as forum:
        forum.access.operator_token()
        texts = [str(forum.access.grant("a", EVERYTHING)), forum.access.operator_token()]
        files = (forum.settings.key_file, forum.settings.write_key_file)
        texts += [file.read_text() for file in files]
    for text in texts:
        assert has_whole_key(f"KEY={text}\n".encode())
        assert looks_like_key(text)
        assert any(mark in text.encode() for mark in KEY_MARKS)
        assert not has_whole_key(text[:20].encode())


@pytest.mark.parametrize("text", ["sk-proj-0123456789", "forum_test", "forum-operator", "PRIVATE"])
def test_other_texts_are_none(text: str) -> None:
    """A provider's key, and words that begin alike."""
    assert not has_whole_key(text.encode())
    assert not looks_like_key(text)


def test_one_module_says_what_keys_look_like() -> None:
    """A second list would miss what is added to the first."""
    form = re.compile(r"PRIVATE\\?\+KEY\\?\+|forum/write-key/1|forum-operator_")
    paths = {path for path, text in package_sources().items() if form.search(text)}
    assert paths == {
        "ledger/access.py",
        "ledger/key_forms.py",
        "stores/state_files.py",
        "ledger/write_tags.py",
    }
