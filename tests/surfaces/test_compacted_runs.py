"""What is told of runs whose conversations were compacted."""

from forum.app.formatting import describe_compaction, describe_compactions
from forum.runs.kinds import CompactionFacts, CompactionMethod
from forum.runs.run_fold import Run, TaskRun

FACTS = CompactionFacts(
    attempt=1,
    rounds=3,
    first="attempt/1/call/1/reply",
    last="attempt/1/call/3/reply",
    method=CompactionMethod.EXCERPT,
    tokens_before=2255,
    tokens_after=914,
)


def test_a_reader_is_told_which_conversations_were_compacted() -> None:
    """An answer that was made from a summary says so; others say nothing."""
    tasks = {"look": TaskRun("look", compactions=(FACTS, FACTS)), "sum": TaskRun("sum")}

    assert describe_compactions(Run(tasks=tasks)).endswith("was compacted: look (2 times).")
    assert describe_compactions(Run(tasks={"sum": TaskRun("sum")})) == ""
    assert describe_compaction(FACTS) == (
        "an excerpt stands for the first 3 replies with the results of their tool calls; "
        "about 914 tokens in place of 2255"
    )
