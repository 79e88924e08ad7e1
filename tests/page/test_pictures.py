"""The pictures of the documentation are what the page shows. `REWRITE=1` writes them anew; look at them before you commit them.

Other releases of Chromium and FreeType draw edges of letters a little differently; so a small part of the pixels may differ.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.page.replaying import Recorded, looking, read, replayed

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SHOWS = {"now": "Waiting by reason", "preemption": "After", "whatif": "Outcome"}
"""A part of each screen which is there once it has read everything, by its label."""
LIGHT = ("whatif",)
HIGH = {"now": 860, "preemption": 960, "whatif": 740}
SIZE_MAX = 300_000
DIFFERENT, PART_MAX = 48, 0.02
"""From which difference of a channel on (of 255) a pixel counts as another one, and which part of all may be."""

COMPARING = """
async ([one, other, different]) => {
  const pixels = async text => {
    const image = new Image();
    image.src = 'data:image/png;base64,' + text;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    const brush = canvas.getContext('2d');
    brush.drawImage(image, 0, 0);
    return brush.getImageData(0, 0, image.width, image.height);
  };
  const [a, b] = [await pixels(one), await pixels(other)];
  if (a.width !== b.width || a.height !== b.height) return 1;
  let count = 0;
  for (let i = 0; i < a.data.length; i += 4)
    if ([0, 1, 2].some(channel => Math.abs(a.data[i + channel] - b.data[i + channel]) > different)) count++;
  return count / (a.width * a.height);
}
"""


@pytest.fixture(scope="module")
def chromium() -> str:
    """The one that readers have: without windows, letters are drawn otherwise."""
    return shutil.which("chromium") or ""


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return read()


@pytest.fixture(scope="module")
def address(recorded: Recorded) -> Iterator[str]:
    with replayed(recorded) as address:
        yield address


@pytest.mark.parametrize("name", SHOWS)
def test_the_pictures_in_the_documentation_are_what_the_page_shows(browser: Browser, address, recorded, name) -> None:
    settings = {"color_scheme": "light" if name in LIGHT else "dark", "viewport": {"width": 1280, "height": HIGH[name]}}
    with looking(browser, address, recorded.now, "anyone", **settings) as page:
        page.evaluate("screen => { location.hash = '#/' + screen }", recorded.screens[name])
        part = page.get_by_label(SHOWS[name], exact=True)
        expect(part).to_be_visible()
        expect(part).not_to_contain_text("Reading")
        page.wait_for_function("document.querySelector('footer svg').childElementCount > 0")
        drawn = page.screenshot()
        file = IMAGES / f"{name}.png"
        if os.environ.get("REWRITE"):
            file.write_bytes(drawn)
        assert file.stat().st_size <= SIZE_MAX
        texts = [base64.b64encode(content).decode() for content in (file.read_bytes(), drawn)]
        page.goto("data:text/html,")
        assert page.evaluate(COMPARING, [*texts, DIFFERENT]) <= PART_MAX
