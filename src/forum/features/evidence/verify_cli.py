"""The part of `forum verify` that is about evidence packs."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from forum.features.evidence.audit import PackProblem, PackResult
from forum.features.evidence.schemas import pack_form
from forum.features.evidence.service import draw_verified_page, verify_pack_file
from forum.features.evidence.verify_page import build_page
from forum.surfaces.cli import common_options, output, verification_view
from forum.verify import Trust

_MAX_FINDINGS = 20


def verify_pack(pack: Path, trust: Trust, page: Path | None, *, as_json: bool) -> bool:
    """Print what a pack proves, write it to a page, and return whether all of it holds."""
    result = verify_pack_file(pack, trust)
    if page is not None:
        output.write_private(page, draw_verified_page(pack, result, trust).encode())
        common_options.echo_info(f"the page with this result: {page}")
    lines = _pack_lines(pack, result)
    output.print_result("forum.pack-report/1", pack_form(result), lines, as_json=as_json)
    return result.ok


def _pack_lines(file: Path, result: PackResult) -> Iterator[str]:
    """Yield the result of checking a pack as text."""
    if result.is_unread:
        finding = result.findings[0]
        needs_trust = finding.problem is PackProblem.LOG_PART
        yield from verification_view.unread_lines(
            file, finding.detail, finding.problem, needs_trust_file=needs_trust
        )
        return
    yield f"{result.origin or 'unreadable'}  size {result.size}  root {result.root[:16]}"
    if result.since:
        yield f"an evidence pack, from {result.since} until {result.until}"
        yield f"counted by: {result.counted_by}"
    yield from verification_view.claim_lines("Intact", result.intact)
    yield from verification_view.claim_lines("Complete", result.complete)
    yield from verification_view.witness_lines(result.independent, result.witnessing)
    yield from verification_view.claim_lines("Figures", result.figures)
    yield from verification_view.claim_lines("Attested", result.attested)
    columns = output.terminal_width()
    for finding in result.findings[:_MAX_FINDINGS]:
        yield from output.wrap_lines(str(finding), columns, "  ")
    if result.found > _MAX_FINDINGS:
        yield f"  and {result.found - _MAX_FINDINGS} more"
    for words in result.not_checked:
        yield from output.wrap_lines(f"not checked: {words}", columns, "  ")


def write_verify_page(path: Path, *, as_json: bool) -> None:
    """Write the page, and print by what another copy of it can be compared."""
    data = build_page().encode()
    path.write_bytes(data)
    digest = sha256(data).hexdigest()
    output.print_result(
        "forum.verify-page/1",
        {"path": str(path), "sha256": digest},
        f"{digest}  {path}",
        as_json=as_json,
    )
