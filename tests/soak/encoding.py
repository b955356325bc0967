"""Draw entries of all kinds in right and wrong encodings, and compare what every verifier says.

    python -m tests.soak.encoding [--seconds N] [--seed S]

It ends with an error and the bytes of the first entries on which the library, verify.py,
verify.html or the verifier in Go differ.
"""

import argparse
import sys
from time import monotonic

from tests.verify.encodings import all_cases, disagreements, random_cases, readers

BATCH = 5000


def main() -> int:
    """Compare until the time is over, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    ends, seed = monotonic() + args.seconds, args.seed
    cases = all_cases()
    done = 0
    while True:
        wrong = disagreements(cases)
        done += len(cases)
        if wrong or monotonic() > ends:
            break
        cases, seed = random_cases(seed, BATCH), seed + 1
    print(f"{done} entries, {', '.join(readers())}: {len(wrong)} differences; last seed {seed - 1}")
    print(*wrong[:10], sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
