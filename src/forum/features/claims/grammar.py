"""Find out which action a sentence claims to have taken.

A sentence is split into clauses, and each clause is read once, word by word: who is the subject,
whether a negation or a hypothesis came before the verb, and what was acted upon.  Nothing is tried
twice, so the time grows linearly with the text, which an attacker may have written.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum

import msgspec

from forum.features.claims import words as claim_words
from forum.runs.claims import ClaimedAction

_PRECEDENCE = (
    ClaimedAction.TESTS,
    ClaimedAction.FILE,
    ClaimedAction.SENT,
    ClaimedAction.COMMAND,
    ClaimedAction.CHECKED,
)
"""A sentence that claims several actions counts as a claim of the first of these."""
_WORD = re.compile(
    r"(?:[cdjlmnt]|qu|s(?!'ils?\b))'(?=\w)"  # the elided words of French
    r"|/?\w+(?:[./@-]+\w+)*(?:'\w+)?"
    r"|[,:](?=\s|$)|[;()|\u2013\u2014]|--?(?=\s)"
)
_SEPARATORS = frozenset((",", ":", ";", "(", ")", "|", "\u2013", "\u2014", "-", "--"))
_MAX_NOTE_WORDS = 5
"""The length of a clause such as "all changes committed"; in a longer one, the last word is rather
an adjective."""
_FILE_NAME = re.compile(r"[\w-]{2,}\.[a-z]\w{0,7}|[\w-]\.[a-z]\w{1,7}")


class _Subject(Enum):
    LEFT_OUT = 0
    """No word tells that there is one, as in "Checked the logs"."""
    SPEAKER = 1
    PASSIVE = 2
    """It is acted upon, nobody says by whom."""
    SOMEBODY = 3
    """There is one, which may be an agent or anybody else."""
    OTHER = 4
    """It is neither the speaker nor an agent."""


class _Verb(msgspec.Struct, frozen=True):
    """One meaning of a word that says that something was done."""

    action: ClaimedAction | None
    """None if the action depends on what succeeded: tests or a program."""
    earlier: str
    """A word that must come before it in the clause; may be empty."""
    needs_thing: bool = False
    is_present: bool = False


class _WordSet(msgspec.Struct, frozen=True):
    """Words, and endings that stand for all words that end so."""

    words: frozenset[str]
    endings: tuple[str, ...]

    def occur_in(self, clause: Sequence[str]) -> bool:
        """Tell whether a clause contains one of them."""
        return not self.words.isdisjoint(clause) or (
            bool(self.endings) and any(word.endswith(self.endings) for word in clause)
        )


class _Language(msgspec.Struct, frozen=True, kw_only=True):
    """A table of words, prepared for reading."""

    verbs: Mapping[str, Sequence[_Verb]]
    subjects: Mapping[str, _Subject]
    auxiliaries: frozenset[str]
    finite: frozenset[str]
    negations: frozenset[str]
    negative_objects: frozenset[str]
    final_negations: frozenset[str]
    hypotheticals: frozenset[str]
    assurances: frozenset[str]
    waiting: frozenset[str]
    not_before_verbs: frozenset[str]
    joints: frozenset[str]
    bridges: frozenset[str]
    breaks: frozenset[str]
    ends_with_verb: bool
    skipped: frozenset[str]
    """Words that do not count as the first or the last of a clause."""
    tests: _WordSet
    programs: _WordSet
    things: _WordSet
    generic: frozenset[str]


class _Clause(msgspec.Struct, frozen=True):
    words: Sequence[str]
    is_joined: bool
    """Whether a word such as "and" joins it to the clause before it."""


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case, and the marks that separate clauses."""
    return _WORD.findall(text.lower().replace("\u2019", "'"))


class Grammar(msgspec.Struct, frozen=True):
    """The tables of all languages, prepared for reading."""

    languages: tuple[_Language, ...]
    verbs: frozenset[str]
    generic_words: frozenset[str]
    """Words that name nothing: articles, auxiliaries, verbs of claims, "file" and "test"."""

    def may_claim(self, words: Iterable[str]) -> bool:
        """Tell whether any of these words can be the verb of a claim."""
        return not self.verbs.isdisjoint(words)

    def find_action(self, sentence: str) -> ClaimedAction | None:
        """Return the action that a sentence claims to have taken; None if it claims none."""
        words = split_words(sentence)
        if not self.may_claim(words):
            return None
        actions: set[ClaimedAction] = set()
        for language in self.languages:
            if not language.verbs.keys().isdisjoint(words):
                actions.update(_read_sentence(words, language))
        return next((action for action in _PRECEDENCE if action in actions), None)


def build_grammar(tables: Mapping[str, claim_words.WordTable]) -> Grammar:
    """Prepare the tables of languages, which are named by their codes."""
    languages = tuple(
        _prepare(table, claim_words.INFLECTIONS.get(code, lambda word: (word,)))
        for code, table in tables.items()
    )
    verbs = frozenset(word for language in languages for word in language.verbs)
    generic_words = frozenset().union(*(language.generic for language in languages))
    return Grammar(languages, verbs, generic_words)


def _read_sentence(words: Sequence[str], language: _Language) -> Iterator[ClaimedAction]:
    """Yield the actions that a sentence claims."""
    follows_speaker = follows_tests = is_hypothetical = False
    for clause in _split_clauses(words, language):
        subjects = [language.subjects[word] for word in clause.words if word in language.subjects]
        # "If the tests passed and the file was written" is one hypothesis; in "You can merge, and I
        # ran the tests" the speaker begins anew.
        is_supposed = is_hypothetical and clause.is_joined and _Subject.SPEAKER not in subjects
        supposed_from = 0 if is_supposed else _find_hypothesis(clause.words, language)
        has_tests = language.tests.occur_in(clause.words)
        if not language.verbs.keys().isdisjoint(clause.words):
            reader = _ClauseReader(
                clause.words,
                language,
                supposed_from=supposed_from,
                has_tests=has_tests,
                follows_speaker=follows_speaker,
                follows_tests=follows_tests,
            )
            yield from reader.read()
        if subjects:
            follows_speaker = subjects[0] is _Subject.SPEAKER
        follows_tests = follows_tests or has_tests
        is_hypothetical = supposed_from < len(clause.words)


class _ClauseReader:
    """Reads a clause from its first word to its last."""

    def __init__(
        self,
        words: Sequence[str],
        language: _Language,
        *,
        supposed_from: int,
        has_tests: bool,
        follows_speaker: bool,
        follows_tests: bool,
    ) -> None:
        self._words = words
        self._language = language
        self._supposed_from = supposed_from
        self._is_hypothetical = supposed_from < len(words)
        self._has_tests = has_tests
        self._follows_speaker = follows_speaker
        self._follows_tests = follows_tests
        self._has_name = any(map(_is_name, words))
        self._has_thing = self._has_name or language.things.occur_in(words)
        self._has_program = language.programs.occur_in(words)
        counted = [at for at, word in enumerate(words) if word not in language.skipped]
        self._first, self._last = (counted[0], counted[-1]) if counted else (-1, -1)
        self._subject = _Subject.LEFT_OUT
        self._is_negated = words[-1] in language.final_negations
        self._is_waiting = False

    def read(self) -> Iterator[ClaimedAction]:
        """Yield the actions that the clause claims."""
        language, seen = self._language, {""}
        for at, word in enumerate(self._words):
            self._subject = language.subjects.get(word, self._subject)
            if word in language.auxiliaries and self._subject is _Subject.LEFT_OUT:
                self._subject = _Subject.SOMEBODY
            self._is_negated |= word in language.negations
            self._is_waiting |= word in language.waiting
            for verb in language.verbs.get(word, ()):
                if verb.earlier in seen and not self._is_denied(verb, at):
                    action = self._find_action(verb, at)
                    if action is not None:
                        yield action
            seen.add(word)

    def _is_denied(self, verb: _Verb, at: int) -> bool:
        """Tell whether a verb is negated, or is no verb but an adjective or an infinitive."""
        words, language = self._words, self._language
        if self._is_negated or (at and words[at - 1] in language.not_before_verbs):
            return True
        # "I sent no mail" and "I checked nothing" claim nothing; "I checked nothing broke" does.
        after = words[at + 1 : at + 3]
        is_look_at_clause = verb.action is ClaimedAction.CHECKED and len(after) > 1
        return bool(after) and after[0] in language.negative_objects and not is_look_at_clause

    def _find_action(self, verb: _Verb, at: int) -> ClaimedAction | None:
        if verb.action is None:
            return self._find_success(verb, at)
        if not self._is_claimed(verb, at):
            return None
        if verb.action is ClaimedAction.COMMAND and self._has_tests and not self._has_program:
            return ClaimedAction.TESTS
        return verb.action

    def _find_success(self, verb: _Verb, at: int) -> ClaimedAction | None:
        if self._is_hypothetical or (verb.is_present and self._is_waiting):
            return None
        # "Tests: 12 passed", "I ran the tests and all passed".
        if self._has_tests or (self._follows_tests and at == self._last):
            return ClaimedAction.TESTS
        return ClaimedAction.COMMAND if self._has_program else None

    def _is_claimed(self, verb: _Verb, at: int) -> bool:
        """Tell whether the clause says that this was done, and by nobody else.

        Less is asked of a clause the clearer its subject: a speaker may have acted on anything, a
        passive clause must name a thing that agents work on, and one with any other subject a file
        or an address.
        """
        is_elliptic = self._subject is _Subject.LEFT_OUT and self._stands_alone(at)
        if self._subject is _Subject.SPEAKER or (is_elliptic and self._follows_speaker):
            return at < self._supposed_from and (self._has_thing or not verb.needs_thing)
        if self._is_hypothetical or self._subject is _Subject.OTHER:
            return False
        if self._subject is _Subject.PASSIVE or is_elliptic:
            return self._has_thing
        return self._has_name

    def _stands_alone(self, at: int) -> bool:
        """Tell whether a verb can do without a subject: "Checked the logs", "Datei geschrieben"."""
        is_short = self._language.ends_with_verb or len(self._words) <= _MAX_NOTE_WORDS
        return at == self._first or (
            at == self._last and is_short and self._words[at] not in self._language.finite
        )


def _find_hypothesis(words: Sequence[str], language: _Language) -> int:
    """Return the position of the first hypothetical word, or the number of words."""
    if not language.hypotheticals.isdisjoint(words):
        for at, word in enumerate(words):
            pair = "+".join(words[at : at + 2])
            if word in language.hypotheticals and pair not in language.assurances:
                return at
    return len(words)


def _split_clauses(words: Sequence[str], language: _Language) -> Iterator[_Clause]:
    clause: list[str] = []
    is_joined = is_separated = False
    for word in words:
        if word in _SEPARATORS:
            is_separated = True
            continue
        starts = word in language.joints or word in language.breaks
        if starts or (is_separated and word not in language.bridges):
            if clause:
                yield _Clause(clause, is_joined)
            clause, is_joined = [], word in language.joints
        clause.append(word)
        is_separated = False
    if clause:
        yield _Clause(clause, is_joined)


def _is_name(word: str) -> bool:
    """Tell whether a word is the name of a file or an address."""
    if "@" in word or word.count("/") > 1:
        return True
    return "." in word and _FILE_NAME.fullmatch(word.rpartition("/")[2]) is not None


def _prepare(table: claim_words.WordTable, inflect: Callable[[str], Iterable[str]]) -> _Language:
    """Turn the columns of a table into sets and mappings."""
    verbs = _prepare_verbs(table, inflect)
    joints, breaks = frozenset(table.joints.split()), frozenset(table.breaks.split())
    return _Language(
        verbs=verbs,
        subjects=_prepare_subjects(table, verbs),
        auxiliaries=frozenset(table.auxiliaries.split()),
        finite=frozenset(table.finite.split()),
        negations=frozenset(table.negations.split()),
        negative_objects=frozenset(table.negative_objects.split()),
        final_negations=frozenset(table.final_negations.split()),
        hypotheticals=frozenset(table.hypotheticals.split()),
        assurances=frozenset(table.assurances.split()),
        waiting=frozenset(table.waiting.split()),
        not_before_verbs=frozenset(table.not_before_verbs.split()),
        joints=joints,
        bridges=frozenset(table.bridges.split()),
        breaks=breaks,
        ends_with_verb=table.ends_with_verb,
        skipped=joints | breaks | frozenset(table.adverbs.split()),
        tests=_word_set(table.tests),
        programs=_word_set(table.programs),
        things=_word_set(table.things),
        generic=_generic_words(table, verbs),
    )


def _prepare_verbs(
    table: claim_words.WordTable, inflect: Callable[[str], Iterable[str]]
) -> dict[str, list[_Verb]]:
    verbs: dict[str, list[_Verb]] = {}
    for column, action in (
        (table.wrote, ClaimedAction.FILE),
        (table.changed, ClaimedAction.FILE),
        (table.sent, ClaimedAction.SENT),
        (table.ran, ClaimedAction.COMMAND),
        (table.started, ClaimedAction.COMMAND),
        (table.checked, ClaimedAction.CHECKED),
        (table.succeeds, None),
        (table.succeeded, None),
    ):
        for form in (form for word in column.split() for form in inflect(word)):
            earlier, _, word = form.rpartition("+")
            verb = _Verb(
                action,
                earlier,
                needs_thing=column in (table.changed, table.started),
                is_present=column is table.succeeds,
            )
            verbs.setdefault(word, []).append(verb)
    return verbs


def _prepare_subjects(table: claim_words.WordTable, verbs: Iterable[str]) -> dict[str, _Subject]:
    speakers = _word_set(table.first_person)
    return {
        **dict.fromkeys(table.others.split(), _Subject.OTHER),
        **dict.fromkeys(table.passive.split(), _Subject.PASSIVE),
        **dict.fromkeys(speakers.words, _Subject.SPEAKER),
        **{word: _Subject.SPEAKER for word in verbs if word.endswith(speakers.endings)},
    }


def _generic_words(
    table: claim_words.WordTable, verbs: Mapping[str, Sequence[_Verb]]
) -> frozenset[str]:
    # The last word of a pair may be a name: "production" of "mis en production".
    alone = (word for word, uses in verbs.items() if any(not verb.earlier for verb in uses))
    return frozenset((*alone, *f"{table.generic} {table.first_person} {table.passive}".split()))


def _word_set(column: str) -> _WordSet:
    words = column.split()
    endings = tuple(word[1:] for word in words if word.startswith("*"))
    return _WordSet(frozenset(word for word in words if not word.startswith("*")), endings)
