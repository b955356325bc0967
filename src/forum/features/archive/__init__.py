"""Archive: ended runs are moved out of the database, into a folder or a bucket."""

from forum.feature import Feature

FEATURE = Feature(
    "archive",
    archiver="archive.service:ArchiveService",
)
