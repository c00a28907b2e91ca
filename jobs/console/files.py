"""Reading what a command is given as files."""

from pathlib import Path

from jobs.console.base import ConsoleCommand


def read_text(command: ConsoleCommand, path: Path, most_bytes: int) -> str:
    """The text in a file; each thing that keeps it from being used is one sentence."""
    try:
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise command.error(f"{path} can't be read: {error.strerror or error}.") from None
    if len(content) > most_bytes:
        raise command.error(f"{path} is larger than {most_bytes} bytes.")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise command.error(f"{path} is not UTF-8 text: byte {error.start} begins no character.") from None
    if not text.strip():
        raise command.error(f"{path} is empty.")
    if "\0" in text:
        raise command.error(f"{path} holds a null byte, so it is no text.")
    return text
