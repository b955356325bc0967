"""One bit of a bundle, turned over; and again by a forger who repairs whatever depends on it.

The law: an altered bundle is rejected, or nothing that is reported has changed.  And whatever it
is, both verifiers say the same of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from random import Random
from typing import NamedTuple
from zlib import crc32

from msgspec.structs import replace

from forum.ledger.kinds import LEDGER_KINDS
from forum.ledger.zip_archive import pack_archive, unpack_archive
from forum.verify import Report, Trust, verify_bundle
from tests.verify.samples import TRUST, Files, seal, standalone, stranger, verify_alone

HEADERS = "(zip headers)"
_LOCAL_HEADER = 30


class Flip(NamedTuple):
    """A bit of a file in a bundle, or of what surrounds the files."""

    name: str
    at: int
    bit: int


class Violation(Exception):
    """A flip for which the law does not hold, and what was said of it."""


class Flips:
    """All bits of a bundle, and what becomes of it when one is turned over."""

    def __init__(self, bundle: bytes, trust: Trust = TRUST, page_share: int = 100) -> None:
        """`page_share`: one in how many flips is also verified by the page."""
        self._page_share = page_share
        self.bundle, self._trust = bundle, trust
        self._stranger = stranger(trust)
        self._files = unpack_archive(bundle)
        self.spans = dict(_spans(self._files))
        self._genuine = verify_bundle(bundle, LEDGER_KINDS, trust)
        assert self._genuine.ok

    def of(self, *prefixes: str) -> Iterator[Flip]:
        """Yield every bit of the files whose names begin like this."""
        for name, data in self._files.items():
            if name.startswith(prefixes):
                yield from (Flip(name, at, bit) for at in range(len(data)) for bit in range(8))

    def headers(self) -> Iterator[Flip]:
        """Yield every bit that is in no file."""
        inside = {at for span in self.spans.values() for at in span}
        for at in range(len(self.bundle)):
            if at not in inside:
                yield from (Flip(HEADERS, at, bit) for bit in range(8))

    def everything(self) -> list[Flip]:
        """Return every bit of the bundle."""
        return [*self.of(""), *self.headers()]

    def sample_each(self, number: int, seed: int) -> list[Flip]:
        """Draw some bits from every file."""
        random, drawn = Random(seed), []
        for name in self._files:
            bits = [flip for flip in self.of(name) if flip.name == name]
            drawn += random.sample(bits, min(number, len(bits)))
        return drawn

    def turned(self, flip: Flip) -> bytes:
        """Return the bundle with one bit turned over."""
        start = self.spans[flip.name].start if flip.name in self.spans else 0
        return _turn(self.bundle, start + flip.at, flip.bit)

    def repaired(self, flip: Flip) -> bytes:
        """Return the same as a forger leaves it: digests, checksums and copies fit again."""
        turned = _turn(self._files[flip.name], flip.at, flip.bit)
        files = {**self._files, flip.name: turned}
        if flip.name == "manifest.json":
            return pack_archive(files)  # its own digests, or the checksum of the archive
        if flip.name == "checkpoint":
            old = self._files["checkpoint"]
            files = {
                n: d.replace(old, turned) if n.startswith("proofs/") else d
                for n, d in files.items()
            }
        return seal(files)

    def judge(self, altered: bytes, flip: Flip) -> bool:
        """Tell whether an altered bundle is rejected; raise `Violation` if the law is broken."""
        report = verify_bundle(altered, LEDGER_KINDS, self._trust)
        with quick_signatures():
            # Most flips break the same digest: a sample of them is enough for the page.
            compared = crc32(altered) % self._page_share == 0
            verify = standalone.verify if compared else verify_alone
            stated = verify(altered, self._stranger)
        ours = [
            report.ok,
            *(str(a.state) for a in (report.intact, report.complete, report.independent)),
        ]
        theirs = [
            stated["ok"],
            *(stated[c]["state"] for c in ("intact", "complete", "independent")),
        ]
        found = [(str(f.problem), f.index, f.entry) for f in report.findings]
        if ours != theirs or found != [
            (f["problem"], f["index"], f["entry"]) for f in stated["findings"]
        ]:
            raise Violation(f"{flip}: Forum says {ours}, {found}; the other {stated}")
        if report.ok and not _claims_no_more(report, self._genuine):
            raise Violation(f"{flip} is accepted, and changes the report to {report}")
        return not report.ok


def _claims_no_more(report: Report, genuine: Report) -> bool:
    """Return whether a report is the genuine one, but for times of witnesses that are gone.

    A cosignature below an earlier checkpoint can be taken away; the report then says less.
    """
    same = replace(report, interval=genuine.interval, not_checked=genuine.not_checked)
    ours, theirs = report.interval, genuine.interval
    assert ours
    assert theirs
    after = ours.after is None or (theirs.after is not None and ours.after <= theirs.after)
    before = ours.before is None or (theirs.before is not None and ours.before >= theirs.before)
    lists_more = set(genuine.not_checked) <= set(report.not_checked)
    return same == genuine and after and before and lists_more


@contextmanager
def quick_signatures() -> Iterator[None]:
    """Let the stand-alone verifier remember which signatures hold: each takes milliseconds."""
    original = standalone.signature_holds
    standalone.signature_holds = _remembered
    try:
        yield
    finally:
        standalone.signature_holds = original


_remembered = lru_cache(maxsize=100_000)(standalone.signature_holds)


def _spans(files: Files) -> Iterator[tuple[str, range]]:
    """Yield where the bytes of each file stand in the archive."""
    at = 0
    for name in sorted(files):
        at += _LOCAL_HEADER + len(name.encode())
        yield name, range(at, at + len(files[name]))
        at += len(files[name])


def _turn(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
