"""Erase a text, and still prove everything else: only its fingerprint is in the chain.

python redact.py
"""

import subprocess
import sys

import forum


@forum.step
def greet(customer: str) -> str:
    """Handle a name that somebody may want to be forgotten."""
    return f"Dear {customer}"


def command(*words: str) -> str:
    """Run a command of Forum, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "forum", *words], capture_output=True, text=True, check=True
    )
    return done.stdout


def main() -> None:
    """Record a step, erase its result, verify the ledger."""
    with forum.run("Greet a customer") as run:
        greet("Ada Lovelace")
    run.verify()  # waits until everything is on record
    entry = command("show", run.id).split("greet")[1].split()[-1]
    command("ledger", "redact", entry, "output")
    print("erased:", "Dear Ada" not in command("ledger", "get", entry))
    print(run.verify())


if __name__ == "__main__":
    main()
