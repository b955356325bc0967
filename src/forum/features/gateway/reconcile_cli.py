"""`forum ledger reconcile`: compare a provider's bill with the record of the gateway."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from msgspec import Struct

from forum.app import Forum, RunQuery
from forum.app.formatting import pluralize
from forum.features.gateway import rules
from forum.runs.report_kinds import Operation, Provenance, ReportStepFacts
from forum.surfaces.cli import common_options
from forum.surfaces.cli.console import echo
from forum.surfaces.cli.output import format_table, print_json
from forum.units import format_moment, format_usd

EXIT_DIFFERS = 3
_PAGE_SIZE = 500
_SHOWN = 20
"""How many differences of a kind are printed; `--json` has all."""


class BilledUsageForm(Struct, frozen=True):
    """What some calls have used."""

    requests: int
    input_tokens: int
    output_tokens: int
    usd: str


class BillDifferenceForm(Struct, frozen=True):
    """Where a bill and the record differ."""

    since: int
    until: int
    model: str
    billed: BilledUsageForm
    recorded: BilledUsageForm
    runs: tuple[str, ...]


class ReconciliationForm(Struct, frozen=True):
    """How a bill and the record differ."""

    agrees: bool
    billed: BilledUsageForm
    recorded: BilledUsageForm
    not_recorded: tuple[BillDifferenceForm, ...]
    not_billed: tuple[BillDifferenceForm, ...]
    differing: tuple[BillDifferenceForm, ...]


@common_options.command(
    examples=(
        "forum ledger reconcile usage.csv",
        "forum ledger reconcile --provider openai usage.csv --json",
    ),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--provider", default="", help="Compare only the calls to this provider.")
@common_options.as_json
@click.pass_context
def reconcile(ctx: click.Context, file: Path, provider: str, *, as_json: bool) -> None:
    """Compare a CSV of a provider's usage with the recorded calls.

    The file has a line of names, with columns time, model, input_tokens and output_tokens, and may
    have end_time, requests and cost_usd; names that providers give them are known as well.  A row
    without an end is one call.  The exit status is 3 if anything differs.
    """
    try:
        bill = rules.read_bill(file.read_text("utf-8-sig").splitlines())
    except (ValueError, OSError) as error:
        raise click.BadParameter(f"{file}: {error}", ctx, param_hint="FILE") from None
    with common_options.open_forum() as forum:
        calls = list(read_calls(forum, bill, provider))
    result = rules.reconcile(bill, calls)
    if as_json:
        print_json("forum.reconciliation/1", _form(result))
    else:
        _print(bill, result)
    if not result.agrees:
        ctx.exit(EXIT_DIFFERS)


def read_calls(forum: Forum, bill: rules.Bill, provider: str) -> Iterator[rules.RecordedCall]:
    """Yield the calls that the gateway made in the time of a bill, or near it."""
    begin, end = bill.begin - rules.MAX_SHIFT_US, bill.end + rules.MAX_SHIFT_US
    query = RunQuery(until=end, provenance=Provenance.RELAYED, within=True)
    before: str | None = None
    while True:
        page = forum.reads.list_runs(query, before, _PAGE_SIZE)
        for listed in page.runs:
            if not listed.ended or listed.ended >= begin:
                for call in _calls_of(forum, listed.run):
                    if begin <= call.began < end and provider in ("", call.provider):
                        yield call
        if page.next is None:
            return
        before = page.next


def _calls_of(forum: Forum, run: str) -> Iterator[rules.RecordedCall]:
    kinds = forum.ledger.kinds
    for _, data in forum.store.entries_of_run(run):
        facts = kinds.read(data).facts
        if isinstance(facts, ReportStepFacts) and facts.op is Operation.MODEL:
            spent = facts.spent
            # A call that used nothing was not made, or failed: no provider bills it.
            if spent.calls and (spent.tokens or spent.usd):
                usage = rules.Usage(1, facts.input_tokens, facts.output_tokens, facts.usd)
                yield rules.RecordedCall(
                    run=run,
                    began=facts.began,
                    model=facts.model,
                    provider=facts.provider,
                    usage=usage,
                )


def _form(result: rules.Reconciliation) -> ReconciliationForm:
    return ReconciliationForm(
        agrees=result.agrees,
        billed=_usage_form(result.billed),
        recorded=_usage_form(result.recorded),
        not_recorded=_difference_forms(result.not_recorded),
        not_billed=_difference_forms(result.not_billed),
        differing=_difference_forms(result.differing),
    )


def _difference_forms(
    differences: Sequence[rules.UsageDifference],
) -> tuple[BillDifferenceForm, ...]:
    return tuple(
        BillDifferenceForm(
            since=each.begin,
            until=each.end,
            model=each.model,
            billed=_usage_form(each.billed),
            recorded=_usage_form(each.recorded),
            runs=each.runs,
        )
        for each in differences
    )


def _usage_form(usage: rules.Usage) -> BilledUsageForm:
    return BilledUsageForm(
        usage.requests, usage.input_tokens, usage.output_tokens, format_usd(usage.usd)
    )


def _print(bill: rules.Bill, result: rules.Reconciliation) -> None:
    heads = ("", "calls", "input tokens", "output tokens", "usd")
    for line in format_table(
        [heads, _row("billed", result.billed, bill), _row("recorded", result.recorded, bill)]
    ):
        echo(line)
    for title, differences in (
        ("billed, and not recorded: these calls did not go through this gateway",
         result.not_recorded),
        ("recorded, and not billed", result.not_billed),
        ("on both sides, with other sums", result.differing),
    ):  # fmt: skip
        if differences:
            echo("", f"{pluralize(len(differences), 'row')} {title}")
        for each in differences[:_SHOWN]:
            sides = " and ".join(
                f"{name} {usage.requests} calls, {usage.input_tokens} + {usage.output_tokens} "
                f"tokens, ${format_usd(usage.usd)}"
                for name, usage in (("billed", each.billed), ("recorded", each.recorded))
                if any(usage)
            )
            echo(f"  {format_moment(each.begin)}  {each.model}: {sides}")
        if len(differences) > _SHOWN:
            echo(f"  and {len(differences) - _SHOWN} more: --json has all")
    if result.agrees:
        echo("the bill and the record agree")


def _row(name: str, usage: rules.Usage, bill: rules.Bill) -> tuple[str, ...]:
    is_known = name == "recorded" or bill.has_costs
    return (
        name, f"{usage.requests:,}", f"{usage.input_tokens:,}", f"{usage.output_tokens:,}",
        f"${format_usd(usage.usd)}" if is_known else "not in the file",
    )  # fmt: skip
