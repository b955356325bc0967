#!/usr/bin/env bash
# Make an environment for each framework that an adapter of the SDK is tested with.
#
#   .ci/frameworks.sh BIN   BIN is the folder of an environment with Forum's tools
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bin=$(cd "$1" && pwd)
for framework in openai-agents langgraph crewai google-adk; do
    home=.ci/frameworks/$framework
    "$bin/uv" venv --quiet --clear --python "$bin/python" "$home"
    "$bin/uv" pip install --quiet --python "$home" --require-hashes -r "requirements/frameworks/$framework.txt"
    # Forum itself by a path, and not installed: its tests run what is in the checkout.
    printf '%s\n' "$PWD/src" "$PWD/clients/python/src" > "$("$home/bin/python" -c 'import site; print(site.getsitepackages()[0])')/forum.pth"
done
