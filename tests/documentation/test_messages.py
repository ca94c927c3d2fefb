"""The generated pages on messages and metrics are current, and know what the device plugin says."""

import ast
import re

from docs import messages, metrics
from tests.documentation import pages, sentences

ROOT = pages.ROOT
PLUGIN = sorted({*ROOT.glob("device_plugin/**/*.py"), *ROOT.glob("runtime/*.py")})


def test_the_pages_of_messages_and_metrics_are_what_code_and_data_say() -> None:
    assert pages.text_of(messages.PAGE) == messages.text(), "run `make docs`"
    assert pages.text_of(metrics.PAGE) == metrics.text(), "run `make docs`"


def test_every_message_has_a_sentence_or_a_sign_and_a_way_on() -> None:
    told = [message for chapter in messages.chapters() for message in chapter["message"]]

    assert [each for each in told if not (each.get("says") or "sign" in each)] == []
    assert {name for each in told for name in each} == {"says", "sign", "why", "help"}


def test_every_sentence_of_the_device_plugin_that_is_explained_is_one() -> None:
    known = [text for path in PLUGIN for text in sentences.texts(ast.parse(path.read_text("utf-8")))]

    for sentence in messages.sentences("Device plugin"):
        assert any(sentences.says(text, sentence) for text in known), sentence


def test_every_reason_of_an_unhealthy_device_is_explained() -> None:
    made = {code for path in PLUGIN for code in re.findall(r'\bcode="(\w+)"', path.read_text("utf-8"))}
    (chapter,) = messages.chapters("Device plugin: reasons")

    assert {each["sign"] for each in chapter["message"]} == {f"`{code}`" for code in made}


def test_every_metric_of_a_program_and_every_alert_has_a_row() -> None:
    sources = ("installer/report/driver_state.py", "device_plugin/plugin_metrics.py", "watcher/loop.py")
    made = {name for path in sources for name in re.findall(r'"(kae_[a-z_]+)"', pages.text_of(ROOT / path))}
    rules = pages.text_of(ROOT / "templates/monitoring/prometheusrule-kae.yaml")

    rows = re.findall(r"^\| `?(\w+)`? \|", pages.text_of(metrics.PAGE), re.MULTILINE)

    assert made | set(re.findall(r"alert: (\w+)", rules)) <= {row.removesuffix("_total") for row in rows}
