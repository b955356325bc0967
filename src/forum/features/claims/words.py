"""The form of the words by which claims are recognised, one table for each language.

A column is text: words in lower case between blanks.  `earlier+word` means both words in this
order, whatever stands between them: "laufen alle durch".  The tables are in `words.toml`, and
`forum.features.claims.grammar` prepares them for reading.
"""

from collections.abc import Callable, Mapping

import msgspec


class WordTable(msgspec.Struct, frozen=True, kw_only=True):
    """The words of one language."""

    first_person: str
    """Words that make the speaker the subject; `*ending` stands for the verbs that end so."""
    passive: str
    """Words that say that something was done, and not by whom."""
    others: str
    """Words that make somebody else the subject."""

    auxiliaries: str
    """Words behind which the subject is known not to be left out, whoever it is."""
    finite: str = ""
    """Verbs that never end a clause whose subject is left out."""

    negations: str
    """Words that negate a verb behind them."""
    negative_objects: str
    """Words that negate a verb directly before them."""
    final_negations: str = ""
    """Words that negate the whole clause if they end it."""
    hypotheticals: str
    """Words for what may be, will be or should be."""
    assurances: str
    """Pairs of words, of which the first is not hypothetical before the second."""
    waiting: str
    """Words that make "the tests pass" a wish or a condition, but not "the tests passed"."""
    not_before_verbs: str = ""
    """Words directly behind which a verb is an infinitive or an adjective."""

    joints: str
    """Words that join two clauses; a hypothesis of the first holds for the second."""
    bridges: str = ""
    """Words behind a comma that continue the clause before it."""
    breaks: str = ""
    """Words that begin a clause of its own."""
    ends_with_verb: bool = False
    """Whether participles stand at the end of clauses."""
    adverbs: str
    """Words that may stand before the first word of a clause or behind its last."""

    wrote: str
    changed: str
    """Like `wrote`, but only of a thing: who "added" two numbers has changed no file."""
    sent: str
    ran: str
    started: str
    """Like `ran`, but only of a thing: who "started" to think has run no program."""

    checked: str
    succeeds: str
    """What tests and programs do in the present, if all is well."""
    succeeded: str
    """What they have done."""

    tests: str
    programs: str
    things: str
    """What an agent works on.  In these three columns `*word` also stands for its compounds."""
    generic: str
    """Words that every tool call may contain, so that sharing one with it proves nothing."""


def inflect_french(participle: str) -> tuple[str, ...]:
    """Return the forms of a French participle, and "viens de" with its infinitive."""
    if "+" in participle:
        return (participle,)
    forms = tuple(participle + ending for ending in ("", "e", "s", "es"))
    if not participle.endswith("é"):
        return forms
    infinitive = participle.removesuffix("é") + "er"
    return (*forms, f"viens+{infinitive}", f"venons+{infinitive}")


def inflect_spanish(verb: str) -> tuple[str, ...]:
    """Return the past forms of a regular Spanish verb, "acabo de" and "estuve" among them."""
    stem, ending = verb[:-2], verb[-2:]
    if "+" in verb or ending not in ("ar", "er", "ir"):
        return (verb,)
    if ending == "ar":
        # The spelling keeps the sound of the stem: pagar, pagué; buscar, busqué; lanzar, lancé.
        spelled = {"c": stem[:-1] + "qu", "g": stem + "u", "z": stem[:-1] + "c"}.get(stem[-1], stem)
        past = (f"{spelled}é", f"{stem}amos", f"{stem}ó", f"{stem}aron")
        participle, gerund = f"{stem}ad", f"{stem}ando"
    else:
        past = (f"{stem}í", f"{stem}imos", f"{stem}ió", f"{stem}ieron")
        participle, gerund = f"{stem}id", f"{stem}iendo"
    participles = (f"{participle}{end}" for end in ("o", "a", "os", "as"))
    pairs = (f"acabo+{verb}", f"acabamos+{verb}", f"estuve+{gerund}", f"estado+{gerund}")
    return (*past, *participles, *pairs)


INFLECTIONS: Mapping[str, Callable[[str], tuple[str, ...]]] = {
    "fr": inflect_french,
    "es": inflect_spanish,
}
"""How the verbs of a language are inflected, where its table has only one form of each."""
