"""A person signs in, submits a script and watches it succeed, in a real browser on the real stack."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

CHROMIUM = "/usr/bin/chromium"
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
pytestmark = pytest.mark.browser

SCRIPT = """\
import json, os, pathlib, time

for step in range(1, 6):
    print("epoch", step, flush=True)
    with open(os.environ["RERAIL_METRICS"], "a") as metrics:
        metrics.write(json.dumps({"step": step, "total": 5, "loss": 1 / step}) + "\\n")
    time.sleep(0.4)
pathlib.Path("output/model.txt").write_text("trained")
print("all done")
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser's console complained of, such as a breach of the content policy."""
    return []


@pytest.fixture(params=[(1440, "light"), (390, "dark")], ids=["desk", "phone"])
def page(request, chromium: Browser, complaints: list[str]) -> Iterator[Page]:
    width, scheme = request.param
    context: BrowserContext = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened = context.new_page()
    opened.on("console", lambda told: complaints.append(told.text) if told.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    context.close()


def sign_in(page: Page, stack) -> None:
    page.goto(stack.url)
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill(stack.admin_password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()


def test_a_person_signs_in_submits_and_sees_the_job_succeed(page: Page, stack, complaints: list[str]) -> None:
    sign_in(page, stack)
    page.get_by_role("link", name="Submit a job").first.click()
    page.get_by_label("Name", exact=True).fill("first light")
    page.get_by_label("Training script").fill(SCRIPT)
    page.get_by_role("button", name="Submit job").click()

    expect(page.get_by_role("heading", name="first light")).to_be_visible()
    page.evaluate("window.stayed = true")
    expect(page.locator("#head .state")).to_have_text("Succeeded", timeout=60_000)
    expect(page.locator("#log-text")).to_contain_text("all done")
    expect(page.locator("#timeline")).to_contain_text("Succeeded in attempt")
    expect(page.locator("#attempts")).to_contain_text("Succeeded")
    expect(page.get_by_role("link", name="Download artifact")).to_be_visible()
    assert page.evaluate("window.stayed"), "it was told without loading the page again"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing hangs over the edge"

    page.get_by_role("link", name="Jobs").first.click()
    expect(page.locator("#list")).to_contain_text("first light")
    assert complaints == []


def test_bad_input_is_told_beside_its_field_and_the_script_is_kept(page: Page, stack, complaints: list[str]) -> None:
    sign_in(page, stack)
    page.goto(f"{stack.url}/submit")
    page.get_by_label("Training script").fill("print('kept')")
    page.get_by_label("Time limit").fill("soon")
    page.get_by_role("button", name="Submit job").click()
    expect(page.locator("#id_time_limit_error")).to_have_text("Write a time such as 90 s, 45 min or 12 h.")
    expect(page.get_by_label("Training script")).to_have_value("print('kept')")
    assert [told for told in complaints if "422" not in told] == []


def test_a_job_is_cancelled_by_keyboard_alone(page: Page, stack, complaints: list[str]) -> None:
    sign_in(page, stack)
    page.goto(f"{stack.url}/submit")
    page.get_by_label("Training script").fill("import time\ntime.sleep(600)")
    page.get_by_label("Training script").press("Tab")
    page.get_by_role("button", name="Submit job").press("Enter")
    cancel = page.locator("#head").get_by_role("button", name="Cancel job")
    cancel.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Keep it")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#head .state")).to_have_text("Cancelled", timeout=60_000)
    assert complaints == []
