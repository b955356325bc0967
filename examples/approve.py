"""A gate: nothing is paid before somebody has seen what it is, and said yes.

python approve.py
"""

from typing import Any

import forum

PLAN: list[dict[str, Any]] = [
    {"id": "draft", "instruction": "Write the order."},
    {"id": "pay", "instruction": "Pay it.", "needs": ["draft"]},
]


@forum.agent
def clerk(prompt: str) -> str:
    """Write an order, or pay it."""
    return "Paid." if "Pay it." in prompt else "40 chairs, 4200 EUR."


def main() -> None:
    """Stop before the payment, look at it, approve it."""
    with forum.engine_of(".") as engine:
        run = engine.submit("Order chairs.", plan=PLAN, agents=[clerk], gates=["task:pay"])
        waiting = run.wait(60).waiting
        print("waits for approval:", *waiting)
        for subject in waiting:
            run.decide(subject, "approve")
        print(run.wait(60).answer)


if __name__ == "__main__":
    main()
