"""`forum`, where the time that clients are given is over in a second or two, and room is scarce."""

from forum.surfaces.cli import main
from forum.surfaces.http import events, request_pipeline, server_process

SECONDS = 1.5
FOLLOWERS = 120

if __name__ == "__main__":
    server_process.HEADER_TIMEOUT_S = server_process.STALL_TIMEOUT_S = (
        request_pipeline.BODY_TIMEOUT_S
    ) = SECONDS
    events.MAX_FOLLOWERS = FOLLOWERS
    main()
