"""Turn over every bit of a bundle, one at a time: none is accepted, and two verifiers agree.

    python -m tests.soak.flip [--repaired N|all] [--seed S] [--page] [--json]

First every bit of the file as it is.  Then bits of the files within it, with everything repaired
that a forger can repair (digests, checksums, the copies of the checkpoint): N of each file, or
all of those that a verdict rests on.  Each altered bundle is verified by Forum and by the
stand-alone file; it must be rejected, or nothing that is reported may have changed.  The page
`verify.html` verifies one in a hundred of them under Node, and with --page every one.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from tests.verify.flips import HEADERS, Flip, Flips, Violation
from tests.verify.samples import STANDALONE, make_bundle

REPORT_SECONDS = 5.0
ENCLOSED = frozenset({"README.txt", "policy", "verify.py"})
"""What a bundle holds for convenience; nothing that is reported may rest on it."""


def sweep(
    what: str, flips: Flips, bits: Sequence[Flip], alter: Callable[[Flip], bytes]
) -> Counter[tuple[str, bool]]:
    """Judge an alteration for each bit; count by kind of file and by whether it was rejected."""
    started = shown = monotonic()
    seen: Counter[tuple[str, bool]] = Counter()
    for done, flip in enumerate(bits, 1):
        seen[kind_of(flip.name), flips.judge(alter(flip), flip)] += 1
        if monotonic() - shown > REPORT_SECONDS or done == len(bits):
            shown = monotonic()
            seconds = shown - started
            print(f"{what}: {done} of {len(bits)} bits, {seconds:.0f} s", file=sys.stderr)
    return seen


def kind_of(name: str) -> str:
    """Return what sort of file this is."""
    return name.partition("/")[0] if name != HEADERS else HEADERS


def chosen(flips: Flips, repaired: str, seed: int) -> list[Flip]:
    """Return the bits to turn over with everything repaired."""
    if repaired != "all":
        return flips.sample_each(int(repaired), seed)
    return [flip for flip in flips.of("") if flip.name not in ENCLOSED]


def tell(what: str, seen: Counter[tuple[str, bool]]) -> dict[str, dict[str, int]]:
    """Print what was counted, and return it for `--json`."""
    kinds = sorted({kind for kind, _ in seen})
    table = {k: {"rejected": seen[k, True], "unchanged": seen[k, False]} for k in kinds}
    for kind, counts in table.items():
        line = f"{counts['rejected']:>8} rejected {counts['unchanged']:>8} change nothing"
        print(f"{what:<9} {kind:<14} {line}", file=sys.stderr)
    return table


def main() -> None:
    """Turn bits over, print the figures, and exit with 0 only if the law held for all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.flip", description=__doc__)
    parser.add_argument("--repaired", default="100", help="bits of each file, or: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", action="store_true", help="let the page verify every bundle")
    parser.add_argument("--json", action="store_true", help="print one object as the last line")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bundle = make_bundle(Path(folder), STANDALONE.read_bytes())
    flips = Flips(bundle, page_share=1 if asked.page else 100)
    print(f"a bundle of {len(flips.bundle)} bytes", file=sys.stderr)
    try:
        raw = sweep("as it is", flips, flips.everything(), flips.turned)
        repaired = chosen(flips, asked.repaired, asked.seed)
        again = sweep("repaired", flips, repaired, flips.repaired)
    except Violation as violation:
        sys.exit(f"the law is broken: {violation}")
    figures = {"bytes": len(flips.bundle), "as_it_is": tell("as it is", raw)}
    figures["repaired"] = tell("repaired", again)
    accepted = sum(count for (kind, rejected), count in raw.items() if not rejected)
    if asked.json:
        print(json.dumps(figures))
    sys.exit(1 if accepted else 0)


if __name__ == "__main__":
    main()
