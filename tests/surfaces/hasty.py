"""`forum`, where the time that clients are given is over in a second or two, and room is scarce."""

from forum.limits import admission
from forum.surfaces.cli import main
from forum.surfaces.http import server_process

SECONDS = 1.5
FOLLOWERS = 120

if __name__ == "__main__":
    server_process.HEADER_TIMEOUT_S = server_process.STALL_TIMEOUT_S = admission.BODY_TIMEOUT_S = (
        SECONDS
    )
    admission.MAX_STREAMS = FOLLOWERS
    main()
