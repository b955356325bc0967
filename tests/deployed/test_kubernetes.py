"""What is in `deploy/kubernetes` fits the API of Kubernetes and the program, and grants little."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM
from socket import create_connection
from typing import Any, cast

import httpx2
import pytest
import yaml

from forum.app import Forum
from forum.config import load_settings
from forum.engine import RunRequest
from forum.ledger.secret_mask import is_secret_name
from forum.runs.plan import single_task_plan
from forum.tlog import parse_checkpoint
from tests.deployed.containers import Container, Host, Mount, copy_secret, image_variables
from tests.deployed.schemas import RELEASES, list_faults
from tests.docs.pages import ROOT
from tests.e2e.project import eventually
from tests.soak.cluster import scratch_database

FOLDER = ROOT / "deploy/kubernetes"
Object = dict[str, Any]
KUSTOMIZATION: Object = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
WORKLOADS = ("Deployment", "StatefulSet", "Job")
PATIENCE_S = 60.0
ORDER = RunRequest("Go.", single_task_plan("Go."))


def manifests() -> Iterator[Object]:
    """Yield every object that is made."""
    for name in KUSTOMIZATION["resources"]:
        yield from yaml.safe_load_all((FOLDER / name).read_text())


def name_of(manifest: Object) -> str:
    """Return the kind and the name of an object."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


EVERY = [pytest.param(each, id=name_of(each)) for each in manifests()]
WORKING = [
    pytest.param(each, id=name_of(each)) for each in manifests() if each["kind"] in WORKLOADS
]


def pod_of(workload: Object) -> Object:
    """Return the specification of the pods of a workload."""
    return cast("Object", workload["spec"]["template"]["spec"])


def containers_of(workload: Object) -> list[Object]:
    """Return the containers of a pod in the order in which they are started."""
    pod = pod_of(workload)
    return [*pod.get("initContainers", ()), *pod["containers"]]


def workload(name: str) -> Object:
    """Return a workload."""
    (document,) = (
        each
        for each in manifests()
        if each["kind"] in WORKLOADS and each["metadata"]["name"] == name
    )
    return document


# The API


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("manifest", EVERY)
def test_the_api_knows_every_member(manifest: Object, release: str) -> None:
    """A member that it does not know is ignored there: a right that was not taken away."""
    assert list_faults(release, manifest) == []


def test_a_misspelt_member_is_found() -> None:
    """Otherwise the test above would say nothing."""
    manifest = workload("forum-server")
    manifest["spec"]["template"]["spec"]["containers"][0]["securityContext"] = {"privilege": False}

    assert "privilege" in list_faults(RELEASES[0], manifest)[0]


def test_every_file_is_part_of_the_kustomization() -> None:
    """One that is not is never applied."""
    files = {path.name for path in FOLDER.iterdir()} - {"kustomization.yaml"}
    generated = {
        name for each in KUSTOMIZATION["configMapGenerator"] for name in each.get("files", ())
    }

    assert files == {*KUSTOMIZATION["resources"], *generated}


def test_what_is_named_is_there() -> None:
    """Names are resolved when a pod starts, on somebody else's cluster."""
    maps = {each["name"] for each in KUSTOMIZATION["configMapGenerator"]}
    secrets = {"forum-database", "forum-writer"}  # made by hand, as the guide says
    guide = (ROOT / "docs/guides/kubernetes.md").read_text()
    for each in manifests():
        if each["kind"] not in WORKLOADS:
            continue
        pod = pod_of(each)
        volumes = {volume["name"] for volume in pod.get("volumes", ())}
        volumes |= {
            claim["metadata"]["name"] for claim in each["spec"].get("volumeClaimTemplates", ())
        }
        mounted = {m["name"] for document in containers_of(each) for m in document["volumeMounts"]}
        assert mounted == volumes
        labels = each["spec"]["template"]["metadata"]["labels"]
        if "selector" in each["spec"]:
            assert each["spec"]["selector"]["matchLabels"] == labels
        for volume in pod.get("volumes", ()):
            for source in volume.get("projected", {}).get("sources", ()):
                assert source["secret"]["name"] in secrets
            assert volume.get("configMap", {"name": "forum-settings"})["name"] in maps
    assert all(f"secret generic {name}" in guide for name in secrets)


def test_services_and_budgets_select_the_pods_of_a_workload() -> None:
    """A budget that selects nothing lets all of them be stopped at once."""
    labels = [
        each["spec"]["template"]["metadata"]["labels"]
        for each in manifests()
        if each["kind"] in WORKLOADS
    ]
    selected = [
        each["spec"]["selector"].get("matchLabels", each["spec"]["selector"])
        for each in manifests()
        if each["kind"] in ("Service", "PodDisruptionBudget")
    ]
    budgets = {
        each["metadata"]["name"] for each in manifests() if each["kind"] == "PodDisruptionBudget"
    }

    assert all(each in labels for each in selected)
    assert budgets == {
        each["metadata"]["name"] for each in manifests() if each["kind"] in WORKLOADS
    } - {"forum-migrate"}


# Rights


@pytest.mark.parametrize("manifest", WORKING)
def test_a_pod_has_no_more_rights_than_it_needs(manifest: Object) -> None:
    """Whoever gets in is not root, writes to volumes only, and cannot ask the cluster."""
    pod = pod_of(manifest)
    security = pod["securityContext"]

    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == security["runAsGroup"] == security["fsGroup"] == 10001
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert not any("hostPath" in volume for volume in pod.get("volumes", ()))
    for container in containers_of(manifest):
        assert container["image"] == "forumd"
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}


def test_secrets_are_files() -> None:
    """Variables are shown to whoever may describe a pod, and inherited by programs of agents."""
    for each in manifests():
        for container in containers_of(each) if each["kind"] in WORKLOADS else ():
            for variable in container.get("env", ()):
                assert not is_secret_name(variable["name"].removesuffix("FILE"))
                assert "secretKeyRef" not in variable.get("valueFrom", {})
            assert "envFrom" not in container


def test_one_pod_signs() -> None:
    """Two would have two memories of what was signed; and a worker has no key that signs."""
    signer = workload("forum-signer")
    claims = {claim["metadata"]["name"] for claim in signer["spec"]["volumeClaimTemplates"]}
    commands = [
        word
        for name in ("forum-server", "forum-worker")
        for container in containers_of(workload(name))
        for word in container["command"]
    ]

    assert signer["kind"] == "StatefulSet"
    assert signer["spec"]["replicas"] == 1
    assert claims == {"key", "state"}
    assert not any(word.endswith("log.key") for word in commands)


# What is started


def read_containers(name: str, host: Host) -> list[Container]:
    """Return the containers of a workload, with volumes of their own."""
    manifest = workload(name)
    literals = {
        each["name"]: dict(pair.split("=", 1) for pair in each.get("literals", ()))
        for each in KUSTOMIZATION["configMapGenerator"]
    }
    (host.volume(f"{name}-settings") / "forum.toml").write_text((FOLDER / "forum.toml").read_text())
    found = []
    for container in containers_of(manifest):
        variables = image_variables()
        for variable in container.get("env", ()):
            reference = variable.get("valueFrom", {}).get("configMapKeyRef")
            variables[variable["name"]] = (
                literals[reference["name"]][reference["key"]] if reference else variable["value"]
            )
        mounts = [
            Mount(mount["mountPath"], f"{name}-{mount['name']}", mount.get("subPath", ""))
            for mount in container["volumeMounts"]
        ]
        found.append(
            Container(
                f"{name}-{container['name']}", tuple(container["command"]), tuple(mounts), variables
            )
        )
    return found


def answers(host: Host, name: str, probe: Object) -> bool:
    """Return whether a probe of a workload's main container succeeds."""
    container = pod_of(workload(name))["containers"][0]
    if "exec" in probe:
        main = read_containers(name, host)[-1]
        command = tuple(probe["exec"]["command"])
        return host.status(Container(main.name, command, main.mounts, main.variables)) == 0
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    (kind,) = probe.keys() & {"httpGet", "tcpSocket"}
    port = host.port(f"{name}-{container['name']}", ports[probe[kind]["port"]])
    try:
        if kind == "tcpSocket":
            create_connection(("127.0.0.1", port), 3).close()
            return True
        answer = httpx2.get(f"http://127.0.0.1:{port}{probe[kind]['path']}")
    except (OSError, httpx2.TransportError):
        return False
    return 200 <= answer.status_code < 400


@contextmanager
def started(host: Host, *names: str) -> Iterator[None]:
    """Start the pods of workloads, wait for all of their probes, and have them end as told."""
    processes = []
    for name in names:
        *first, main = read_containers(name, host)
        for container in first:
            host.run(container)
        processes.append((name, host.start(main)))
    for name, process in processes:
        container = pod_of(workload(name))["containers"][0]
        probes = [container[kind] for kind in container if kind.endswith("Probe")]
        assert probes
        eventually(
            lambda name=name, process=process, probes=probes: (  # type: ignore[misc]
                process.poll() is not None or all(answers(host, name, probe) for probe in probes)
            ),
            seconds=PATIENCE_S,
        )
        log = (host.folder / f"{name}-{container['name']}.log").read_text()
        assert process.poll() is None, log
    yield
    for name, process in processes:
        process.terminate()
        status = process.wait(pod_of(workload(name))["terminationGracePeriodSeconds"])
        # The witness raises the signal again when it has ended, which is 0 for the first process.
        assert status in (0, -SIGTERM)
        main = read_containers(name, host)[-1]
        assert host.written_outside_of_mounts(main.name) == []


@pytest.mark.postgres
def test_every_command_and_probe_is_run(tmp_path: Path, postgres_url: str) -> None:
    """In the order of the guide: migrations, the signer, its keys for the others, and a run."""
    with scratch_database(postgres_url) as url:
        host = Host(tmp_path, {"FORUM_DATABASE_URL": url})
        for name in ("forum-migrate", "forum-signer", "forum-server", "forum-worker"):
            (host.volume(f"{name}-secrets") / "pgpass").write_text("*:*:*:forum:secret\n")
        with host.stack:
            for container in read_containers("forum-migrate", host):
                host.run(container)
            with started(host, "forum-signer", "forum-witness"):
                signer = read_containers("forum-signer", host)[-1]
                command = ("forum", "keys", "create", "--name", "ci", "--scope", "submit")
                host.run(Container(signer.name, command, signer.mounts, signer.variables))
                keys = host.volume("forum-signer-key")
                for name in ("forum-server", "forum-worker"):
                    copy_secret(keys, host.volume(f"{name}-secrets"), "write.key", "log.pub")
                with started(host, "forum-server", "forum-worker"):
                    folder = tmp_path / "roots/forum-server-server/var/lib/forum"
                    state = host.volume("forum-server-state")
                    settings = load_settings(
                        folder, {"FORUM_DATABASE_URL": url, "FORUM_STATE_DIR": str(state)}
                    )
                    with Forum(settings) as forum:
                        run = forum.runs.submit(ORDER)
                        eventually(
                            lambda: forum.reads.read_run(run).outcome is not None,
                            seconds=PATIENCE_S,
                        )
                        eventually(lambda: is_signed(forum), seconds=PATIENCE_S)
                        assert not settings.key_file.exists()


def is_signed(forum: Forum) -> bool:
    """Return whether a checkpoint covers every entry."""
    note = forum.store.checkpoint()
    size = parse_checkpoint(note).size if note else 0
    return not forum.store.pending_entries(1).rows and size == forum.store.head().size > 0


@pytest.mark.parametrize("manifest", WORKING)
def test_a_pod_is_given_time_to_end(manifest: Object) -> None:
    """A server ends requests and a worker its calls for ten seconds, after a pause of five."""
    if manifest["kind"] != "Job":
        assert pod_of(manifest)["terminationGracePeriodSeconds"] >= 30
