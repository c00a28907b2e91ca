import pytest

from jobs.views.log_text import readable, whole_lines


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07text", "text"),
        (b" 10%\r 50%\r100%\n", "100%\n"),
        (b"windows\r\nlines\r\n", "windows\nlines\n"),
        (b"half \xc3", "half �"),
        (b"a\x00\x08b\tc", "ab\tc"),
    ],
)
def test_output_is_shown_as_a_terminal_would_have_left_it(data, shown):
    assert readable(data) == shown


def test_only_whole_lines_are_taken_while_there_are_any():
    assert whole_lines(b"one\ntw") == 4
    assert whole_lines(b"no end") == 6
