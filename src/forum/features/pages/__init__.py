"""Pages: runs and reports as HTML files that load nothing."""

from forum.feature import Feature

FEATURE = Feature(
    "pages",
    run_page="pages.run_page:render_run_page",
)
