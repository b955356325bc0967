"""A cap that holds: an agent in a loop is stopped before the call that does not fit.

python cap.py
"""

import forum

PLAN = [{"id": f"step-{number}", "instruction": f"Do step {number}."} for number in range(1, 6)]


@forum.agent(usd=0.02)
def worker(prompt: str) -> str:
    """Work for two cents a call."""
    return "Done."


def main() -> None:
    """Have five steps done for at most seven cents."""
    with forum.engine_of(".") as engine:
        result = engine.submit("Do five steps.", plan=PLAN, agents=[worker], usd=0.07).wait(60)
    print(f"{result.outcome}: ${result.usd:.2f} of $0.07 spent")


if __name__ == "__main__":
    main()
