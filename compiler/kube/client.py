"""A question to a live API server, and its answer: HTTP by the official client, failures as sentences.

It only ever reads. Nothing here keeps what was read.
"""

import contextlib
import http
import importlib
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler import errors
from compiler.kube import credentials

CONNECT_S = 10
"""For a connection, its TLS included."""

READ_S = 30
"""Between two parts of an answer,"""

ANSWER_S = 120
"""and for all of it: an answer that trickles is none."""

JSON = "application/json"

# An idle connection to a machine that is gone is noticed after a minute, as client-go notices it after three.
_KEEPALIVE = {"idle": 30, "interval": 10, "count": 3}
_BUSY_PAUSES_S = (1.0, 2.0, 5.0)
_PAUSE_S = 10  # the longest that is waited because the server says so
_SAID = 500  # characters of a text that is no answer of Kubernetes


class Unreachable(errors.WorldError):
    """Nobody answered, or not to the end; to ask again may help."""


class Untrusted(Unreachable):
    """Whoever answered has no certificate that the configured authority vouches for."""


class Refused(errors.WorldError):
    """The API server answered, and did not do what was asked; `status` is its HTTP status."""

    def __init__(self, message: str, hint: str = "", *, status: int) -> None:
        super().__init__(message, hint)
        self.status = status


class Denied(Refused):
    """The API server does not know who asks (401), or does not allow it (403)."""


class Missing(Refused):
    """There is no such object."""


class Gone(Refused):
    """The API server has forgotten the state that was referred to (410): begin again with a full list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A GET."""

    wish: str
    """What is asked for: a verb and its resource, as in "list nodes"."""
    path: str
    """With names in braces."""
    names: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = JSON


class Connection:
    """The way to one API server. Threads may share it; connections are opened as they are needed."""

    def __init__(self, load: credentials.Load, agent: str) -> None:
        """Asks nobody yet; `agent` is how it calls itself."""
        self._load = load
        self._agent = agent
        self._lock = threading.Lock()
        self._client: Any = None
        self._host = ""

    @property
    def host(self) -> str:
        """The API server's URL; raises NoAccess and NoClient where it was never known."""
        if not self._host:
            self._connected()
        return self._host

    def close(self) -> None:
        """Drops what is open and what was read of credentials; the next question reads them anew."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def get(self, question: Question) -> Mapping[str, Any]:
        """The JSON object that answers. A server that is busy is asked again, as it says, for half a minute at most.

        Raises:
            NoClient, NoAccess: Nobody can be asked.
            Unreachable: There is no answer.
            Refused: The answer is no; Denied, Missing and Gone say why.
        """
        for pause_s in (*_BUSY_PAUSES_S, None):
            with self.opened(question, READ_S) as answer:
                text = self._text(answer)
            if answer.status != http.HTTPStatus.TOO_MANY_REQUESTS or pause_s is None:
                break
            time.sleep(_pause_s(answer.headers.get("Retry-After"), pause_s))
        body = parsed(text)
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise self.refusal(question.wish, text, answer.status)
        if body is None:
            raise Refused(
                f"what answers at {self.host} is no API server: {_said(text.decode(errors='replace'))}",
                status=answer.status,
            )
        return body

    @contextlib.contextmanager
    def opened(self, question: Question, read_s: float) -> Iterator[Any]:
        """The answer as urllib3 has it, before its body is read, whatever its status; what fails is Unreachable."""
        with self._failures():
            answer = self._send(question, read_s)
            if answer.status == http.HTTPStatus.UNAUTHORIZED:
                # The client reads a pod's token anew by the wall clock, which jumps, and what a kubeconfig names never:
                # a new client has what lies there now.
                answer.close()
                self.close()
                answer = self._send(question, read_s)
            try:
                yield answer
            finally:
                # What was read to its end is back in the pool, and this does nothing.
                answer.close()

    def refusal(self, wish: str, text: bytes, status: int) -> Refused:
        """The exception for a Status of Kubernetes, or for another text with which a question was refused."""
        body = parsed(text) or {}
        said = _said(str(body.get("message") or text.decode(errors="replace")))
        host = self.host
        if status == http.HTTPStatus.UNAUTHORIZED:
            return Denied(f"the API server at {host} does not know who asks: {said}", status=status)
        if status == http.HTTPStatus.FORBIDDEN:
            return Denied(f"the API server at {host} does not let us {wish}: {said}", status=status)
        sentence = f"the API server at {host} did not {wish} ({status}): {said}"
        if status == http.HTTPStatus.GONE:
            return Gone(sentence, status=status)
        # Something on the way may say 404 too, and means the path.
        if status == http.HTTPStatus.NOT_FOUND and body.get("reason") == "NotFound":
            return Missing(sentence, status=status)
        return Refused(sentence, status=status)

    def _send(self, question: Question, read_s: float) -> Any:
        client = self._connected()
        headers = {"Accept": question.accept}
        request = client.param_serialize(
            "GET", question.path, question.names, list(question.query.items()), headers, auth_settings=["BearerToken"]
        )
        return client.call_api(*request, _request_timeout=(CONNECT_S, read_s)).response

    def _text(self, answer: Any) -> bytes:
        deadline_s = time.monotonic() + ANSWER_S
        parts = []
        for part in answer.stream(1 << 16, decode_content=True):
            parts.append(part)
            if time.monotonic() > deadline_s:
                raise Unreachable(f"the API server at {self.host} takes longer than {ANSWER_S} s for an answer.")
        return b"".join(parts)

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                module = credentials.library("client")
                settings = module.Configuration()
                settings.retries = False  # Whoever asks knows whether to ask again.
                settings.socket_options = credentials.library("utils.keepalive").tcp_keepalive_socket_options(
                    **_KEEPALIVE
                )
                self._load(settings)
                self._client = module.ApiClient(settings)
                self._client.user_agent = self._agent
                self._host = str(settings.host)
            return self._client

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """What the client raises where the world fails becomes Unreachable, in words."""
        library = credentials.library("client.exceptions")
        transport = importlib.import_module("urllib3.exceptions")  # what the client stands on
        unusable = credentials.library("config.config_exception").ConfigException
        try:
            yield
        except unusable as error:
            raise credentials.NoAccess(f"the credentials cannot be read: {_said(str(error))}") from error
        except (OSError, transport.HTTPError, library.ApiException) as error:
            host = self.host
            causes = tuple(_causes(error))
            untrusted = next((cause for cause in causes if isinstance(cause, ssl.SSLCertVerificationError)), None)
            if untrusted is not None:
                self.close()  # The authority may have been renewed: its file is read anew.
                said = f"the certificate of {host} is not trusted: {_said(untrusted.verify_message)}"
                raise Untrusted(said) from error
            raise Unreachable(f"the API server at {host} cannot be asked: {_why(error, causes)}.") from error


def parsed(text: bytes) -> Mapping[str, Any] | None:
    """The JSON object that a text is; None for any other."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _said(text: str) -> str:
    """The words of others, as the end of a sentence."""
    line = " ".join(text.split())
    return f"{line[:_SAID].rstrip('.') or 'it gave no reason'}."


def _pause_s(said: str | None, otherwise_s: float) -> float:
    return float(min(int(said), _PAUSE_S)) if said and said.isdecimal() else otherwise_s


def _why(error: BaseException, causes: tuple[BaseException, ...]) -> str:
    """The cause in the words of the system, without names of classes and objects."""
    if any(isinstance(cause, TimeoutError) or "timed out" in str(cause) for cause in causes):
        return "it does not answer in time"
    for cause in reversed(causes):
        if isinstance(cause, OSError) and cause.strerror:
            return f"{cause.strerror}{f', {cause.filename}' if cause.filename else ''}"
    return _said(str(getattr(error, "reason", None) or error)).rstrip(".")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        error = error.__cause__ or error.__context__
