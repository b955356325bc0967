#!/usr/bin/env bash
# Make an environment with each newer Python that Forum supports, beside the one of the gate.
#
#   .ci/pythons.sh BIN [VERSION...]   BIN is the folder of an environment with Forum's tools
#
#   PYTHON_3_12, PYTHON_3_13   the interpreters to use, instead of those that are found
#
# Debian 12 has Python 3.11 only, and no package of PyPI, npm or Debian 12 carries a newer CPython:
# those that are named after it download it from elsewhere.  So an interpreter is looked for on the
# path, in pyenv's folder and among those of uv; then uv is asked to download it.  Where that is not
# possible, either, somebody has to install one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bin=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- 3.12 3.13

is_version() { "$1" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$2')" > /dev/null 2>&1; }

# Print the path of an interpreter of a version, or nothing.
find_python() {
    local version=$1 named=PYTHON_${1/./_} candidate
    if [ -n "${!named:-}" ]; then
        is_version "${!named}" "$version" && echo "${!named}"
        return
    fi
    for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
        if is_version "$candidate" "$version"; then
            command -v "$candidate"
            return
        fi
    done
    "$bin/uv" python find --quiet --no-project "$version" 2> /dev/null ||
        { "$bin/uv" python install --quiet --no-bin "$version" &&
            "$bin/uv" python find --quiet --no-project "$version"; } 2> /dev/null
}

for version; do
    python=$(find_python "$version") || python=
    if [ -z "$python" ]; then
        echo "There is no Python $version. Install it, or name one: PYTHON_${version/./_}=/path/of/python$version" >&2
        exit 1
    fi
    home=.ci/pythons/$version
    "$bin/uv" venv --quiet --clear --python "$python" "$home"
    "$bin/uv" pip install --quiet --python "$home" --require-hashes --no-deps -r requirements/ci.txt
    "$bin/uv" pip install --quiet --python "$home" --no-deps --no-build-isolation -e .
done
