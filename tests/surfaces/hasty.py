"""`forum`, where the time that clients are given is over in a second or two, and room is scarce."""

from forum.surfaces.cli import main
from forum.surfaces.http import events, process, serving

SECONDS = 1.5
FOLLOWERS = 120

if __name__ == "__main__":
    process.HEADER_SECONDS = process.STALL_SECONDS = serving.BODY_SECONDS = SECONDS
    events.MOST_FOLLOWERS = FOLLOWERS
    main()
