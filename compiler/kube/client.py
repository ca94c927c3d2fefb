"""Send requests to an API server with the official client, and return answers; failures are exceptions with sentences.

The watcher and most commands only read, by `Connection.get`. The driver installer and `kae rehearse` also write, by
`Connection.ask`.
"""

import contextlib
import http
import importlib
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from compiler import errors
from compiler.kube import credentials

JSON = "application/json"

# Notices a lost peer of an idle connection after one minute; client-go needs three.
_KEEPALIVE = {"idle": 30, "interval": 10, "count": 3}
_BUSY_PAUSES_S = (1.0, 2.0, 5.0)
_MAX_PAUSE_S = 10  # whatever Retry-After says
_MAX_QUOTE = 400  # characters of a text that is not an answer of Kubernetes


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """The time limits of a request, in seconds."""

    connect_s: float = 10
    """To connect, TLS included."""
    read_s: float = 30
    """Between two parts of the answer."""
    answer_s: float = 120
    """For the whole answer: a server that trickles counts as unreachable."""


TIMEOUTS = Timeouts()


class Unreachable(errors.WorldError):
    """There is no complete answer. A retry may help; whether a write was carried out is unknown."""


class Untrusted(Unreachable):
    """The configured authority does not vouch for the server's certificate."""


class Refused(errors.WorldError):
    """The API server answered, and did not do what was requested; `status` is the HTTP status."""

    def __init__(self, message: str, hint: str = "", *, status: int) -> None:
        super().__init__(message, hint)
        self.status = status


class Denied(Refused):
    """The API server does not accept the credentials (401), or they do not allow the request (403)."""


class Missing(Refused):
    """The object does not exist."""


class Gone(Refused):
    """The API server no longer has the referenced resourceVersion (410): start again with a full list."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the API server."""

    action: str
    """A verb and its object for messages, such as "list nodes"."""
    path: str
    """With names in braces."""
    method: str = "GET"
    names: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The values of the braces; the client quotes them."""
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    accept: str = JSON
    body: Mapping[str, Any] | None = None
    content: str = JSON
    """The type of the body; one of YAML is sent as JSON, which it is too."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the API server, whatever its status."""

    status: int
    text: bytes
    body: Mapping[str, Any]
    """Empty where the text is not a JSON object, hence not from Kubernetes."""
    retry_after: str = ""

    @classmethod
    def of(cls, status: int, text: bytes, retry_after: str = "") -> "Answer":
        """Return the answer with this text, parsed."""
        return cls(status=status, text=text, body=parsed(text), retry_after=retry_after)

    @property
    def ok(self) -> bool:
        """True when the server did what was requested; evictions can fail with a status below 400."""
        return self.status < http.HTTPStatus.BAD_REQUEST and self.body.get("status") != "Failure"

    @property
    def missing(self) -> bool:
        """True when the object does not exist; a proxy's 404 means the path instead, and has no reason."""
        return self.status == http.HTTPStatus.NOT_FOUND and self.body.get("reason") == "NotFound"

    @property
    def message(self) -> str:
        """The server's own words, as a sentence."""
        message = self.body.get("message")
        return _sentence(str(message)) if message else _quote(self.text.decode(errors="replace"))


class Connection:
    """A connection pool to one API server. Threads may share it; it connects at the first request."""

    def __init__(self, load: credentials.Load, agent: str, timeouts: Timeouts = TIMEOUTS) -> None:
        """Store the settings; `agent` is the User-Agent header."""
        self._load = load
        self._agent = agent
        self._timeouts = timeouts
        self._lock = threading.Lock()
        self._client: Any = None
        self._host = ""

    @property
    def host(self) -> str:
        """The API server's URL; raises NoAccess or NoClient where it cannot be determined."""
        if not self._host:
            self._connected()
        return self._host

    def close(self) -> None:
        """Drop all connections and credentials; the next request reads the credentials again."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def get(self, request: Request) -> Mapping[str, Any]:
        """Return the JSON object that answers a GET; a busy server (429) is asked up to three times more.

        Raises:
            NoClient, NoAccess: The credentials or the Kubernetes client are missing.
            Unreachable: There is no answer.
            Refused: The server did not do it; Denied, Missing and Gone tell the reason.
        """
        for pause_s in (*_BUSY_PAUSES_S, None):
            answer = self.ask(request)
            if answer.status != http.HTTPStatus.TOO_MANY_REQUESTS or pause_s is None:
                break
            time.sleep(_pause_s(answer.retry_after, pause_s))
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise self.refusal(request.action, answer)
        if not answer.body:
            raise Refused(f"the server at {self.host} is not an API server: {answer.message}", status=answer.status)
        return answer.body

    def ask(self, request: Request) -> Answer:
        """Return the answer to one request, whatever its status; nothing is repeated but after a 401.

        Raises:
            NoClient, NoAccess: The credentials or the Kubernetes client are missing.
            Unreachable: There is no answer.
        """
        with self.opened(request, self._timeouts.read_s) as response:
            return Answer.of(response.status, self._text(response), response.headers.get("Retry-After") or "")

    @contextlib.contextmanager
    def opened(self, request: Request, read_s: float) -> Iterator[Any]:
        """Yield urllib3's response before its body is read, whatever its status; raise Unreachable on failures."""
        with self._failures():
            response = self._send(request, read_s)
            if response.status == http.HTTPStatus.UNAUTHORIZED:
                # Nothing was carried out. The client reads a pod's token again by the wall clock, which jumps, and a
                # kubeconfig's files never: a new client has the present ones.
                response.close()
                self.close()
                response = self._send(request, read_s)
            try:
                yield response
            finally:
                # A response that was read to its end is back in the pool; for it this does nothing.
                response.close()

    def signed(self, request: Request) -> tuple[Any, str, Mapping[str, str]]:
        """Return the client's settings, and the URL and headers of a request, for a protocol other than HTTP.

        Raises NoClient or NoAccess.
        """
        with self._failures():
            client = self._connected()
            _, url, headers, *_ = client.param_serialize(
                request.method, request.path, request.names, header_params={}, auth_settings=["BearerToken"]
            )
            return client.configuration, url, headers

    def refusal(self, action: str, answer: Answer) -> Refused:
        """Return the exception for an answer that refuses an action."""
        code = answer.body.get("code")
        code = code if isinstance(code, int) else answer.status
        host, words, kind = self.host, answer.message, Missing if answer.missing else Refused
        sentence = f"the API server at {host} did not {action} ({code}): {words}"
        if code == http.HTTPStatus.UNAUTHORIZED:
            kind = Denied
            sentence = (
                f"the API server at {host} did not {action}, as it does not accept the credentials (401): {words}"
            )
        elif code == http.HTTPStatus.FORBIDDEN:
            kind = Denied
            sentence = f"the API server at {host} did not {action}, as the credentials do not allow it (403): {words}"
        elif code == http.HTTPStatus.GONE:
            kind = Gone
        return kind(sentence, status=answer.status)

    def _send(self, request: Request, read_s: float) -> Any:
        client = self._connected()
        headers = {"Accept": request.accept} | ({} if request.body is None else {"Content-Type": request.content})
        query = list(request.query.items())
        arguments = client.param_serialize(
            request.method, request.path, request.names, query, headers, request.body, auth_settings=["BearerToken"]
        )
        return client.call_api(*arguments, _request_timeout=(self._timeouts.connect_s, read_s)).response

    def _text(self, response: Any) -> bytes:
        limit_s = self._timeouts.answer_s
        deadline_s = time.monotonic() + limit_s
        parts = []
        # Unlike `stream`, `read1` does not wait for all of a part.
        while part := response.read1(1 << 16, decode_content=True):
            parts.append(part)
            if time.monotonic() > deadline_s:
                raise Unreachable(f"the API server at {self.host} takes longer than {limit_s:g} s for an answer.")
        return b"".join(parts)

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                module = credentials.library("client")
                settings = module.Configuration()
                settings.retries = False  # Callers know which requests may be repeated.
                keepalive = credentials.library("utils.keepalive")
                settings.socket_options = keepalive.tcp_keepalive_socket_options(**_KEEPALIVE)
                self._load(settings)
                self._client = module.ApiClient(settings)
                self._client.user_agent = self._agent
                self._host = str(settings.host)
            return self._client

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn the client's exceptions for network and credentials into Unreachable and NoAccess."""
        library = credentials.library("client.exceptions")
        transport = importlib.import_module("urllib3.exceptions")  # the client's own transport
        unusable = credentials.library("config.config_exception").ConfigException
        try:
            yield
        except unusable as error:
            raise credentials.NoAccess(f"the credentials cannot be read: {_quote(str(error))}") from error
        except (OSError, transport.HTTPError, library.ApiException) as error:
            host = self.host
            causes = tuple(_causes(error))
            untrusted = next((cause for cause in causes if isinstance(cause, ssl.SSLCertVerificationError)), None)
            if untrusted is not None:
                self.close()  # The authority's file may have been renewed.
                message = f"the certificate of {host} is not trusted: {_quote(untrusted.verify_message)}"
                raise Untrusted(message) from error
            raise Unreachable(f"the API server at {host} cannot be reached: {_cause(error, causes)}.") from error


def parsed(text: bytes) -> Mapping[str, Any]:
    """Return the JSON object in a text; an empty one for any other text."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _sentence(text: str) -> str:
    # The API server's "…is forbidden: " has nothing behind it where RBAC has no reason.
    return f"{' '.join(text.split()).rstrip('.: ') or 'it gave no reason'}."


def _quote(text: str) -> str:
    return _sentence(" ".join(text.split())[:_MAX_QUOTE])


def _pause_s(retry_after: str, default_s: float) -> float:
    return float(min(int(retry_after), _MAX_PAUSE_S)) if retry_after.isdecimal() else default_s


def _cause(error: BaseException, causes: tuple[BaseException, ...]) -> str:
    """Return the cause in the system's words, without names of classes and objects."""
    if any(isinstance(cause, TimeoutError) or "timed out" in str(cause) for cause in causes):
        return "it does not answer in time"
    for cause in reversed(causes):
        if isinstance(cause, OSError) and cause.strerror:
            return f"{cause.strerror}{f', {cause.filename}' if cause.filename else ''}"
    return _quote(str(getattr(error, "reason", None) or error)).rstrip(".")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        error = error.__cause__ or error.__context__
