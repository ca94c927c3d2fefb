"""The output of dnf and rpm as a failure quotes it."""

from installer.host import package_errors


def test_an_output_of_eight_lines_is_quoted_whole() -> None:
    output = "".join(f"line {number}.\n" for number in range(1, 9))

    assert package_errors.quoted(output) == "; ".join(f"line {number}" for number in range(1, 9))


def test_a_mark_stands_for_the_first_lines_of_a_longer_output() -> None:
    output = "".join(f"line {number}.\n" for number in range(1, 10))

    assert package_errors.quoted(output) == f"… {'; '.join(f'line {number}' for number in range(2, 10))}"


def test_a_mark_stands_for_the_start_of_a_long_line() -> None:
    assert package_errors.quoted("x" * 900) == "x" * 900
    assert package_errors.quoted("y" + "x" * 900) == f"… {'x' * 900}"


def test_repeated_and_empty_lines_are_quoted_once_and_not_marked() -> None:
    assert package_errors.quoted("error: a\n\n" * 9) == "error: a"


def test_a_program_that_prints_nothing_does_not_say_why() -> None:
    assert str(package_errors.Refused("rpm", "\n")) == "The host's rpm refuses: it does not say why."
