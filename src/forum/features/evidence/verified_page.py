"""The page of a pack, drawn from what the verifier of a reader found."""

from forum.features.evidence.audit import PackResult
from forum.features.evidence.page import SELF_WITNESSED, CheckedClaim, ReaderCheck, draw_page
from forum.verify.report import WitnessState
from forum.verify.trust import Trust


def draw_pack_page(result: PackResult, trust: Trust, digest: str, verifier: str) -> str:
    """Return the page of a verification; `digest` is the SHA-256 of the file.

    Every verdict on it is the reader's: nothing in a pack says that anything holds.
    """
    check = ReaderCheck(
        origin=result.origin,
        since=result.since,
        until=result.until,
        ok=result.ok,
        claims=tuple(_list_claims(result)),
        findings=tuple(map(str, result.findings)),
        found=result.found,
        not_checked=result.not_checked,
        keys=tuple(_list_keys(trust)),
        verifier=verifier,
        digest=digest,
        compared_maps=result.compared_maps,
        seed_witnesses=tuple(
            f"{witness.name} ({_describe_mark(independent=witness.independent)})"
            for witness in result.seed_witnesses
        ),
    )
    return draw_page(check, result.report)


def _list_claims(result: PackResult) -> list[CheckedClaim]:
    claims = {
        "Intact": result.intact,
        "Complete": result.complete,
        "Independent": result.independent,
        "Figures": result.figures,
        "Attested": result.attested,
    }
    listed = {name: CheckedClaim(name, c.state, c.reason) for name, c in claims.items()}
    if result.witnessing is WitnessState.SELF_WITNESSED:
        # The writer may run every witness that the reader does not mark.
        reason = result.independent.reason
        listed["Independent"] = CheckedClaim("Witnessed", SELF_WITNESSED, reason)
    return list(listed.values())


def _list_keys(trust: Trust) -> list[str]:
    """Return the keys that a reader trusts, each in words."""
    policy = trust.policy
    marked = policy.independent_keys(trust.keys) if policy else ()
    witnesses = policy.witness_keys if policy else ()
    return [
        *(f"log {key}" for key in trust.log_keys),
        *(f"witness {key} ({_describe_mark(independent=key in marked)})" for key in witnesses),
    ]


def _describe_mark(*, independent: bool) -> str:
    if independent:
        return "another organization's, by your trust file"
    return "not marked as another organization's"
