from compiler.inventory import snapshot
from tests.watcher import fleet
from watcher import commit_message

TEMPLATE = "inventory({cluster}): {summary}"


def message(old: list[snapshot.Node], new: list[snapshot.Node]) -> str:
    before, after = ({node.name: node for node in nodes} for nodes in (old, new))
    return commit_message.message(TEMPLATE, "east", before, after, "")


def test_the_message_says_who_joined_and_who_left() -> None:
    text = message([fleet.node("a"), fleet.node("b")], [fleet.node("b"), fleet.node("c"), fleet.node("d")])

    assert text == "inventory(east): 2 nodes joined, 1 node left\n\n2 nodes joined: c, d\n1 node left: a\n"


def test_the_message_says_what_changed_on_how_many_nodes() -> None:
    old = [fleet.node("a"), fleet.node("b"), fleet.node("c")]
    new = [fleet.node("a", kernel_version="6.6.0"), fleet.node("b", kernel_version="6.6.0"), fleet.node("c", hpre=1)]

    assert message(old, new).splitlines()[0] == (
        "inventory(east): kernel changed on 2 nodes, devices changed on 1 node"
    )


def test_labels_are_named_only_where_nothing_else_changed() -> None:
    old, new = [fleet.node("a")], [fleet.node("a", labels={"pool": "tls"})]

    assert message(old, new).splitlines()[0] == "inventory(east): labels changed on 1 node"


def test_many_nodes_are_not_all_named() -> None:
    text = message([], [fleet.node(f"n{number:02}") for number in range(23)])

    assert text.splitlines()[2].endswith("n18, n19 and 3 more")


def test_braces_in_names_are_not_filled_in() -> None:
    assert commit_message.message("{summary} {cluster} {x}", "east", {}, {"a": fleet.node("a")}, "").startswith(
        "1 node joined east {x}"
    )


def test_the_trailer_is_the_last_paragraph_and_whole() -> None:
    names = " ".join(f"n{number}" for number in range(100))

    text = commit_message.message(TEMPLATE, "east", {}, {}, f"Kae-Watcher: x\nKae-Lost: {names};")

    assert text == f"inventory(east): written anew\n\nKae-Watcher: x\nKae-Lost: {names};\n"


def test_a_driver_that_is_loaded_is_named_as_such() -> None:
    old, new = ([fleet.node("a", labels={"openfuyao.com/kae.driver-version": one})] for one in ("2.2.0", "2.3.0"))

    assert message(old, new).splitlines()[0] == "inventory(east): driver changed on 1 node"
