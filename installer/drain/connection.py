"""A question to the API server and its answer, as HTTP has them; what is asked stands in `cluster`.

The official client is imported when something is first asked: that takes half a second and 40 MB, of which a host that
is already right is spared. It is imported by name, as mypy would read all of it for the five names used here.
"""

import contextlib
import http
import importlib
import json
import os
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime import errors

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet keeps a pod's token and its cluster's authority (Kubernetes, "Accessing the API from a Pod")."""

TIMEOUT_S = 10
"""For the connection, and again for each part of the answer."""

_SAID = 500  # characters of a text that is no answer of Kubernetes


class Unreachable(errors.Failure):
    """Nobody answered; whether a change was carried out is not known."""


class Refused(errors.Failure):
    """The API server answered, and did not do what was asked; `status` is its HTTP status."""

    def __init__(self, sentence: str, status: int) -> None:
        self.status = status
        super().__init__(sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the API server said."""

    status: int
    body: Mapping[str, Any]
    """Empty where the answer is no JSON object, hence not of Kubernetes."""
    text: str

    @property
    def done(self) -> bool:
        """Whether it did what was asked: a status of HTTP alone does not say so, as evictions show."""
        return self.status < http.HTTPStatus.BAD_REQUEST and self.body.get("status") != "Failure"

    @property
    def missing(self) -> bool:
        """Whether there is no such object; something on the way may say 404 too, and means the path."""
        return self.status == http.HTTPStatus.NOT_FOUND and self.body.get("reason") == "NotFound"

    @property
    def message(self) -> str:
        """Its words, as a sentence."""
        said = str(self.body.get("message") or " ".join(self.text[:_SAID].split()))
        return f"{said.rstrip('.') or 'it gave no reason'}."

    def refusal(self, wish: str) -> Refused:
        """The exception for an answer that is no; `wish` is what was asked for, such as "show the Lease x"."""
        code = self.body.get("code", self.status)
        return Refused(f"The API server did not {wish} ({code}): {self.message}", self.status)


class Connection:
    """The way to one API server, which threads may share; connections are opened as they are needed."""

    def __init__(self, kubeconfig: Path | None, service_account: Path, timeout_s: float) -> None:
        named = os.environ.get("KUBECONFIG")
        self._kubeconfig = kubeconfig or (Path(named) if named else None)
        self._service_account = service_account
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._client: Any = None

    def close(self) -> None:
        """Drops what is open; the next question opens it anew."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def ask(self, method: str, path: str, names: Mapping[str, str], body: Mapping[str, Any] | None = None) -> Reply:
        """The answer, whatever its status; `names` are put into the path where it has them in braces.

        Raises:
            Unreachable: There is none.
        """
        reply = self._send(method, path, names, body)
        if reply.status == http.HTTPStatus.UNAUTHORIZED:
            # Nothing was carried out. The client reads a pod's token anew by the wall clock, which jumps, and one
            # that a kubeconfig names never: a new client has the token that lies there now.
            self.close()
            reply = self._send(method, path, names, body)
        return reply

    def _send(self, method: str, path: str, names: Mapping[str, str], body: Mapping[str, Any] | None) -> Reply:
        client = self._connected()
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        try:
            request = client.param_serialize(method, path, names, None, headers, body, auth_settings=["BearerToken"])
            answer = client.call_api(*request, _request_timeout=(self._timeout_s, self._timeout_s))
            text = answer.read().decode(errors="replace")
        except _troubles() as error:
            host = client.configuration.host
            raise Unreachable(f"The API server at {host} cannot be asked: {_why(error)}.") from error
        parsed = None
        with contextlib.suppress(json.JSONDecodeError):
            parsed = json.loads(text)
        return Reply(status=answer.status, body=parsed if isinstance(parsed, dict) else {}, text=text)

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                library = importlib.import_module("kubernetes.client")
                settings = library.Configuration()
                settings.retries = False  # Whoever asks has a loop of his own.
                try:
                    self._loader()(settings)
                except _troubles() as error:
                    raise Unreachable(f"There is no way to the API server: {_why(error)}.") from error
                except (TypeError, AttributeError, KeyError) as error:
                    # The client takes a kubeconfig for one, whatever is in it.
                    raise Unreachable(f"'{self._kubeconfig}' is no kubeconfig.") from error
                self._client = library.ApiClient(settings)
                self._client.user_agent = "kae-driver-installer"
            return self._client

    def _loader(self) -> Callable[[Any], None]:
        if self._kubeconfig is not None:
            outside = importlib.import_module("kubernetes.config")
            path = str(self._kubeconfig)
            return lambda settings: outside.load_kube_config(path, client_configuration=settings, persist_config=False)
        inside = importlib.import_module("kubernetes.config.incluster_config")
        loader = inside.InClusterConfigLoader(
            token_filename=str(self._service_account / "token"), cert_filename=str(self._service_account / "ca.crt")
        )

        def load(settings: Any) -> None:
            # A proxy in the environment is for package mirrors; the API server is the cluster's own.
            settings.proxy = None
            loader.load_and_set(settings)

        return load


def _troubles() -> tuple[type[Exception], ...]:
    """What the client raises where the world fails."""
    return (
        OSError,
        importlib.import_module("urllib3.exceptions").HTTPError,
        importlib.import_module("yaml").YAMLError,
        importlib.import_module("kubernetes.client.exceptions").ApiException,  # for TLS; a status raises nothing here
        importlib.import_module("kubernetes.config.config_exception").ConfigException,
    )


def _why(error: BaseException) -> str:
    """The cause in the words of the system, without names of classes and objects."""
    chain = tuple(_causes(error))
    for cause in chain:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted, {cause.verify_message}"
    if any(isinstance(cause, TimeoutError) or "timed out" in str(cause) for cause in chain):
        return "it does not answer in time"
    for cause in reversed(chain):
        if isinstance(cause, OSError) and cause.strerror:
            return f"{cause.strerror}{f', {cause.filename}' if cause.filename else ''}"
    return " ".join(str(getattr(error, "reason", None) or error).split()).rstrip(".")


def _causes(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain
