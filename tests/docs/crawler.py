"""What a crawler and a reader with poor sight want to know of a page of the site."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag, urljoin

HOST = "http://site/"
NOWHERE = "404.html"
"""Its links are made for wherever it is shown."""


class Page(HTMLParser):
    """Links, names of places, headings by their level, images without a description."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.undescribed: list[str] = []
        self.levels: list[int] = []
        self.title, self.language = "", ""
        self._in_title = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.ids.add(str(found["id"]))
        for key in ("href", "src"):
            if found.get(key):
                self.links.append(str(found[key]))
        if tag == "img" and not found.get("alt"):
            self.undescribed.append(str(found.get("src")))
        if tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self.levels.append(int(tag[1]))
        if tag == "html":
            self.language = str(found.get("lang"))
        self._in_title = tag == "title" and not self.title

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False

    @property
    def skips(self) -> bool:
        """A level of headings is left out on the way down."""
        return any(after > before + 1 for before, after in zip(self.levels, self.levels[1:], strict=False))


def read(site: Path) -> dict[str, Page]:
    """Path below the site -> page."""
    return {path.relative_to(site).as_posix(): Page(path.read_text()) for path in sorted(site.rglob("*.html"))}


def dead_links(site: Path, pages: dict[str, Page]) -> list[str]:
    """Links into the site that lead to no file, or to no place on its page."""
    dead = []
    for name, page in pages.items():
        for link in page.links if name != NOWHERE else []:
            target, anchor = urldefrag(urljoin(HOST + name, link))
            if not target.startswith(HOST):
                continue
            path = target.removeprefix(HOST)
            path = f"{path}index.html" if not path or path.endswith("/") else path
            if not (site / path).is_file() or (anchor and path in pages and anchor not in pages[path].ids):
                dead.append(f"{name}: {link}")
    return dead


def troubles(pages: dict[str, Page]) -> list[str]:
    """What a page lacks for those who do not see it, or see it badly."""
    found = []
    titles: dict[str, str] = {}
    for name, page in pages.items():
        if name == NOWHERE:
            continue
        if page.levels.count(1) != 1 or page.levels[0] != 1:
            found.append(f"{name}: {page.levels.count(1)} headings of the first level, or one that is not the first")
        if page.skips:
            found.append(f"{name}: a level of headings is left out: {page.levels}")
        if page.language != "en" or not page.title.strip():
            found.append(f"{name}: no language or no title")
        if page.title in titles:
            found.append(f"{name}: has the title of {titles[page.title]}, '{page.title}'")
        titles[page.title] = name
        found += [f"{name}: nobody says what {image} shows" for image in page.undescribed]
    return found


CONTRAST = """() => {
  const part = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = ([red, green, blue]) => 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  const colour = text => { const found = text.match(/[\\d.]+/g).map(Number); return found.length < 4 ? [...found, 1] : found; };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
  const above = element => { const all = []; for (let e = element; e; e = e.parentElement) all.push(e); return all; };
  const ground = element => {
    const layers = above(element).map(each => colour(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const words = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!words || !element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const style = getComputedStyle(element), behind = ground(element), own = colour(style.color);
    own[3] *= above(element).reduce((all, each) => all * Number(getComputedStyle(each).opacity), 1);
    const pair = [luminance(over(own, behind)), luminance(behind)].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)} ${element.tagName}.${element.className}: ${words.slice(0, 40)}`);
  }
  return [...new Set(found)];
}"""
"""Text whose contrast with what is behind it is below that of WCAG 2.2, AA: 4.5 to 1, or 3 to 1 for large letters."""
