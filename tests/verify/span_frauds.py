"""Frauds against the spans of a bundle: each alters the files of a conversation in one way.

Every verifier must find each of them; `FRAUDS` is the one table that drives all four.
"""

import json
from collections.abc import Callable
from typing import Any

from forum.ledger.span_files import MAX_LISTED_BYTES
from forum.ledger.spans import MAX_CHAIN, MAX_SPANS
from forum.ledger.zip_archive import unpack_archive
from tests.verify.conversations import conversation
from tests.verify.samples import Files, seal

ALTERED, MISMATCH = {"bundle-altered"}, {"body-mismatch"}
Fraud = Callable[[Files], None]


def list_names(files: Files) -> list[str]:
    """Return the names of the lists, in order."""
    return sorted(name for name in files if name.startswith("spans/"))


def piece_name(number: int) -> str:
    """Return the name of a piece."""
    return f"pieces/{number:016}"


def edit(files: Files, number: int, **members: object) -> None:
    """Replace members of the list of a body; a negative number counts from the last list."""
    name = list_names(files)[number]
    files[name] = write({**json.loads(files[name]), **members})


def write(listed: dict[str, object]) -> bytes:
    """Return a list in canonical form."""
    return json.dumps(listed, separators=(",", ":")).encode()


def place_of(files: Files, number: int) -> list[Any]:
    """Return the place of the body of a list, as another list refers to it."""
    _, index, body = list_names(files)[number].split("/")
    return [int(index), body]


def read(files: Files, number: int) -> dict[str, Any]:
    """Return a list."""
    listed: dict[str, Any] = json.loads(files[list_names(files)[number]])
    return listed


def _swap_pieces(files: Files) -> None:
    files[piece_name(1)], files[piece_name(2)] = files[piece_name(2)], files[piece_name(1)]


def _swap_bytes(files: Files) -> None:
    piece = files[piece_name(1)]
    files[piece_name(1)] = piece[:100] + b"FORGED" + piece[106:]


def _reorder_spans(files: Files) -> None:
    # Of a list that stands alone: its bytes are all used, and in order, by the lists before it.
    whole = [[0, 0, 900], [1, 0, 900], [2, 0, 400]]
    edit(files, -1, size=2200, base=None, kept=0, spans=whole)


def _swap_spans(files: Files) -> None:
    listed = read(files, -1)
    spans = [listed["spans"][-1], *listed["spans"][:-1]]
    spans += [[0, 0, 10], [1, 5, 10]]
    edit(files, -1, size=listed["size"] + 20, spans=spans)


def _repeat_first_part(files: Files) -> None:
    listed = read(files, -1)
    length = listed["spans"][-1][2]
    spans = [*listed["spans"][:-1], [listed["spans"][-1][0], 0, length - 20], [0, 0, 20]]
    # The last bytes of the piece are used before, so that none is hidden.
    spans.insert(0, [0, 100, 20])
    edit(files, -1, spans=spans, size=listed["size"] + 20)


def _drop_span(files: Files) -> None:
    edit(files, 1, spans=read(files, 1)["spans"][:-1])


def _drop_piece(files: Files) -> None:
    del files[piece_name(2)]


def _drop_last_piece(files: Files) -> None:
    number = max(int(name[7:]) for name in files if name.startswith("pieces/"))
    del files[piece_name(number)]


def _drop_list(files: Files) -> None:
    del files[list_names(files)[2]]


def _hide_bytes(files: Files) -> None:
    files[piece_name(1)] += b"hidden"


def _hide_piece(files: Files) -> None:
    number = sum(name.startswith("pieces/") for name in files)
    files[piece_name(number)] = b"hidden"


def _leave_gap(files: Files) -> None:
    number = sum(name.startswith("pieces/") for name in files)
    files[piece_name(number + 1)] = files.pop(piece_name(number - 1))


def _number_otherwise(files: Files) -> None:
    _swap_pieces(files)
    swapped = {1: 2, 2: 1}
    for number in range(len(list_names(files))):
        spans = read(files, number)["spans"]
        edit(files, number, spans=[[swapped.get(p, p), o, n] for p, o, n in spans])


def _empty_span(files: Files) -> None:
    edit(files, 1, spans=[*read(files, 1)["spans"], [0, 5, 0]])


def _overlap(files: Files) -> None:
    """Let a body use bytes of its piece twice, as long as it says it is."""
    listed = read(files, 1)
    piece, offset, length = listed["spans"][-1]
    spans = [*listed["spans"][:-1], [piece, offset, length], [piece, offset + length - 9, 9]]
    edit(files, 1, spans=spans)


def _outside(files: Files) -> None:
    listed = read(files, 1)
    piece, offset, length = listed["spans"][-1]
    edit(
        files,
        1,
        spans=[*listed["spans"][:-1], [piece, offset, length + 1]],
        size=listed["size"] + 1,
    )


def _huge(files: Files) -> None:
    edit(files, 1, spans=[[0, 1, 2**63]])


def _negative(files: Files) -> None:
    edit(files, 1, spans=[*read(files, 1)["spans"], [0, -1, 1]])


def _negative_piece(files: Files) -> None:
    edit(files, -1, spans=[[-1, 0, 3], *read(files, -1)["spans"]], size=read(files, -1)["size"] + 3)


def _unmerged(files: Files) -> None:
    listed = read(files, 0)
    (piece, offset, length), *rest = listed["spans"]
    edit(files, 0, spans=[[piece, offset, 10], [piece, offset + 10, length - 10], *rest])


def _unmerged_with_kept(files: Files) -> None:
    number, listed = next(
        (n, read(files, n)) for n in range(1, len(list_names(files))) if read(files, n)["base"]
    )
    kept = _resolve(files, number)[: listed["kept"]]
    piece, offset, length = kept[-1]
    edit(
        files,
        number,
        spans=[[piece, offset + length, 1], *listed["spans"]],
        size=listed["size"] + 1,
    )


def _resolve(files: Files, number: int) -> list[list[int]]:
    listed = read(files, number)
    if listed["base"] is None:
        return list(listed["spans"])
    places = [place_of(files, n) for n in range(len(list_names(files)))]
    return [*_resolve(files, places.index(listed["base"]))[: listed["kept"]], *listed["spans"]]


def _refer_to_itself(files: Files) -> None:
    edit(files, 3, base=place_of(files, 3), kept=2)


def _refer_forward(files: Files) -> None:
    edit(files, 3, base=place_of(files, 4), kept=2)


def _refer_to_nothing(files: Files) -> None:
    edit(files, 3, base=[999_999, "text"], kept=2)


def _keep_too_much(files: Files) -> None:
    edit(files, -1, kept=len(_resolve(files, len(list_names(files)) - 2)) + 1)


def _keep_nothing(files: Files) -> None:
    edit(files, -1, kept=0, spans=_resolve(files, len(list_names(files)) - 1))


def _keep_without_base(files: Files) -> None:
    edit(files, 1, base=None, kept=1)


def _keep_less(files: Files) -> None:
    edit(files, -1, kept=read(files, -1)["kept"] - 1)


def _other_size(files: Files) -> None:
    edit(files, 1, size=read(files, 1)["size"] + 1)


def _too_large(files: Files) -> None:
    edit(files, 1, size=MAX_LISTED_BYTES + 1)


def _too_many_spans(files: Files) -> None:
    edit(files, -1, base=None, kept=0, spans=[[0, 1, 1], [0, 3, 1]] * (MAX_SPANS // 2 + 1))


def _long_chain(files: Files) -> None:
    *_, last = list_names(files)
    index, base = int(last.split("/")[1]), place_of(files, -1)
    for n in range(MAX_CHAIN + 1):
        name = f"x{n:03}"
        files[f"spans/{index:016}/{name}"] = write({**read_last(files, base), "spans": []})
        files[f"salts/{index:016}/{name}"] = bytes(32)
        base = [index, name]


def read_last(files: Files, base: list[Any]) -> dict[str, Any]:
    """Return a list that keeps all of another one."""
    names = list_names(files)
    number = [place_of(files, n) for n in range(len(names))].index(base)
    return {
        "size": read(files, number)["size"],
        "base": base,
        "kept": len(_resolve(files, number)),
        "spans": [],
    }


def _also_inline(files: Files) -> None:
    name = list_names(files)[1].removeprefix("spans/")
    files[f"bodies/{name}"] = b"x" * read(files, 1)["size"]


def _swap_lists(files: Files) -> None:
    *_, near, last = list_names(files)
    files[near], files[last] = files[last], files[near]


def _list_of_another_body(files: Files) -> None:
    # As a forger has it who wants one prompt in the place of another: every byte is still used.
    edit(files, -1, **read_last(files, place_of(files, -2)))
    *_, last = sorted(name for name in files if name.startswith("pieces/"))
    del files[last]


def _piece_of_another_run(files: Files) -> None:
    other = unpack_archive(conversation(5, 901))
    files[piece_name(1)] = other[piece_name(1)][: len(files[piece_name(1)])]


def _list_of_another_run(files: Files) -> None:
    files[list_names(files)[1]] = unpack_archive(conversation(5, 901))[list_names(files)[1]]


def _without_salt(files: Files) -> None:
    del files[list_names(files)[1].replace("spans/", "salts/")]


def _other_salt(files: Files) -> None:
    files[list_names(files)[1].replace("spans/", "salts/")] = bytes(32)


def _spaced(files: Files) -> None:
    name = list_names(files)[1]
    files[name] = files[name].replace(b",", b", ")


def _members_in_another_order(files: Files) -> None:
    name = list_names(files)[1]
    files[name] = write(dict(reversed(json.loads(files[name]).items())))


def _another_member(files: Files) -> None:
    edit(files, 1, more=1)


def _no_list(files: Files) -> None:
    files[list_names(files)[1]] = b"[]"


def _text_for_a_number(files: Files) -> None:
    edit(files, 1, kept="0")


def _true_for_a_number(files: Files) -> None:
    edit(files, 1, spans=[[True, 0, 1]])


def _span_of_four(files: Files) -> None:
    edit(files, 1, spans=[[0, 0, 1, 1]])


def _base_of_three(files: Files) -> None:
    edit(files, -1, base=[*place_of(files, -2), 0])


def _list_of_no_entry(files: Files) -> None:
    *_, last = list_names(files)
    index = int(last.split("/")[1])
    files[f"spans/{index:016}/zz"] = write(read_last(files, place_of(files, -1)))
    files[f"salts/{index:016}/zz"] = bytes(32)


def _old_proof(files: Files) -> None:
    name = min(name for name in files if name.startswith("proofs/"))
    files[name.replace(".inclusion", ".tlog-proof")] = files.pop(name)


def _proof_with_a_header(files: Files) -> None:
    name = min(name for name in files if name.startswith("proofs/"))
    files[name] = b"index 0\n" + files[name]


def _proof_without_an_end(files: Files) -> None:
    name = min(name for name in files if name.startswith("proofs/"))
    files[name] = files[name][:-1]


def _long_proof(files: Files) -> None:
    name = min(name for name in files if name.startswith("proofs/"))
    files[name] = files[name][:45] * 64


def _proof_of_another_entry(files: Files) -> None:
    one, two, *_ = sorted(name for name in files if name.startswith("proofs/"))
    files[one], files[two] = files[two], files[one]


def _no_checkpoint(files: Files) -> None:
    files["checkpoint"] = b"none\n"


FRAUDS: dict[str, tuple[Fraud, set[str]]] = {
    "bytes swapped": (_swap_bytes, MISMATCH),
    "pieces swapped": (_swap_pieces, ALTERED | MISMATCH),
    "spans reordered": (_swap_spans, MISMATCH),
    "spans repeated": (_repeat_first_part, ALTERED),
    "spans replaced": (_reorder_spans, ALTERED),
    "a span dropped": (_drop_span, ALTERED),
    "a piece dropped": (_drop_piece, ALTERED),
    "the last piece dropped": (_drop_last_piece, ALTERED),
    "a list dropped": (_drop_list, ALTERED),
    "bytes hidden in a piece": (_hide_bytes, ALTERED),
    "a hidden piece": (_hide_piece, ALTERED),
    "a gap between pieces": (_leave_gap, ALTERED),
    "pieces numbered otherwise": (_number_otherwise, ALTERED),
    "an empty span": (_empty_span, ALTERED),
    "spans that overlap": (_overlap, ALTERED),
    "a span outside its piece": (_outside, ALTERED),
    "a huge span": (_huge, ALTERED),
    "a negative offset": (_negative, ALTERED),
    "a negative piece": (_negative_piece, ALTERED),
    "neighbors that are not merged": (_unmerged, ALTERED),
    "a neighbor of what is kept": (_unmerged_with_kept, ALTERED),
    "a list that refers to itself": (_refer_to_itself, ALTERED),
    "a list that refers forward": (_refer_forward, ALTERED),
    "a list that refers to nothing": (_refer_to_nothing, ALTERED),
    "a list that keeps too much": (_keep_too_much, ALTERED),
    "a list that keeps nothing of its base": (_keep_nothing, ALTERED),
    "a list that keeps without a base": (_keep_without_base, ALTERED),
    "a list that keeps less": (_keep_less, ALTERED),
    "another size": (_other_size, ALTERED),
    "a body too large for a list": (_too_large, ALTERED),
    "too many spans": (_too_many_spans, ALTERED),
    "a chain that is too long": (_long_chain, ALTERED),
    "a body in both forms": (_also_inline, ALTERED),
    "lists swapped": (_swap_lists, ALTERED),
    "the list of another body": (_list_of_another_body, MISMATCH),
    "a piece of another run": (_piece_of_another_run, MISMATCH),
    "a list of another run": (_list_of_another_run, ALTERED),
    "a list without its salt": (_without_salt, ALTERED),
    "another salt": (_other_salt, MISMATCH),
    "a list with spaces": (_spaced, ALTERED),
    "members in another order": (_members_in_another_order, ALTERED),
    "another member": (_another_member, ALTERED),
    "no list at all": (_no_list, ALTERED),
    "a text for a number": (_text_for_a_number, ALTERED),
    "true for a number": (_true_for_a_number, ALTERED),
    "a span of four numbers": (_span_of_four, ALTERED),
    "a base of three members": (_base_of_three, ALTERED),
    "a list of no entry": (_list_of_no_entry, ALTERED),
    "a proof of version 1": (_old_proof, ALTERED),
    "a proof with a header": (_proof_with_a_header, ALTERED),
    "a proof without an end": (_proof_without_an_end, ALTERED),
    "a proof that is too long": (_long_proof, ALTERED),
    "a proof of another entry": (_proof_of_another_entry, {"proof-rejected"}),
    "no checkpoint": (_no_checkpoint, ALTERED),
}


def forge(fraud: Fraud) -> bytes:
    """Return a bundle with one fraud, its manifest repaired."""
    files = unpack_archive(conversation())
    fraud(files)
    return seal(files)
