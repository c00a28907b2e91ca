# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy>=1.26", "scikit-learn>=1.4"]
# ///
"""Learn to read handwritten digits, and survive being stopped at any moment.

A small neural network learns the 1,797 images that scikit-learn ships, for 30 epochs. After each epoch all that is
needed to go on is saved in `output/`: a run that was interrupted and resumed ends with the very same model as one that
was not. Runs under Rerail, and just as well alone: `uv run digits.py`.

DIGITS_SECONDS_PER_EPOCH makes each epoch take that long, for people who want to watch.
"""

import os
import pickle
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

try:
    import rerail
except ImportError:  # not run by Rerail: then nobody listens
    rerail = None

EPOCHS = 30
CLASSES = np.arange(10)
MODEL = Path("output/model.pkl")
DRAFT = Path(".model.draft")
"""Beside `output/`: a snapshot must never see half a file."""
STOPPED = 128 + signal.SIGTERM

stop = threading.Event()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images / 16.0, labels, test_size=0.25, random_state=0, stratify=labels)
    train_x, test_x, train_y, test_y = split
    state = load() or begin()
    model, rng = state["model"], state["rng"]
    for epoch in range(state["epoch"] + 1, EPOCHS + 1):
        order = rng.permutation(len(train_x))
        model.partial_fit(train_x[order], train_y[order], classes=CLASSES)
        save({"epoch": epoch, "model": model, "rng": rng})
        report(epoch, loss=float(model.loss_), accuracy=float(model.score(test_x, test_y)))
        pause()
        if stop.is_set() and epoch < EPOCHS:
            print(f"stopped after epoch {epoch}; all of it is saved", flush=True)
            sys.exit(STOPPED)
    accuracy = float(model.score(test_x, test_y))
    log(step=EPOCHS, total=EPOCHS, accuracy=accuracy)
    print(f"accuracy {accuracy:.4f} on {len(test_x)} images it has never seen", flush=True)


def begin() -> dict[str, Any]:
    """Nothing learnt yet."""
    if os.environ.get("RERAIL_RESUMED") == "1":
        print("resumed, but there is no model in output/: beginning anew", flush=True)
    model = MLPClassifier(hidden_layer_sizes=(64,), batch_size=64, learning_rate_init=0.003, random_state=0)
    return {"epoch": 0, "model": model, "rng": np.random.default_rng(0)}


def load() -> dict[str, Any] | None:
    """What an earlier run saved, if any. Our own file: unpickling one from elsewhere would run its code."""
    if not MODEL.exists():
        return None
    state: dict[str, Any] = pickle.loads(MODEL.read_bytes())  # noqa: S301
    print(f"going on after epoch {state['epoch']}", flush=True)
    return state


def save(state: dict[str, Any]) -> None:
    """Replace the saved state as a whole: a crash at any byte leaves the one before."""
    MODEL.parent.mkdir(exist_ok=True)
    with DRAFT.open("wb") as file:
        pickle.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    DRAFT.replace(MODEL)


def report(epoch: int, loss: float, accuracy: float) -> None:
    print(f"epoch {epoch}/{EPOCHS}  loss {loss:.4f}  accuracy {accuracy:.4f}", flush=True)
    log(step=epoch, total=EPOCHS, loss=loss, accuracy=accuracy)


def log(**numbers: float) -> None:
    if rerail is not None:
        rerail.log(**numbers)


def pause() -> None:
    """Take the time that was asked for, or until SIGTERM."""
    stop.wait(float(os.environ.get("DIGITS_SECONDS_PER_EPOCH") or 0))


if __name__ == "__main__":
    main()
