"""Pages as a reader of HTML sees them."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Collects what a page loads and says."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str | None] = []
        self.labels: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag, and whatever it loads or is called."""
        self.tags.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href", "action")]
        self.labels += [value or "" for name, value in attrs if name == "aria-label"]
