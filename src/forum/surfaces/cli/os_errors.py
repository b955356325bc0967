"""Messages with a remedy for errors of the operating system."""

import errno

_SPACE = "Free some space on that disk, then try again"
_PERMISSIONS = "Let this user read and write it"
_REMEDIES = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EACCES: _PERMISSIONS,
    errno.EPERM: _PERMISSIONS,
    errno.EROFS: "Mount that disk for writing, or name another folder",
    errno.EMFILE: "Raise the limit of open files: ulimit -n 4096",
    errno.ENFILE: "Raise the limit of open files of this machine: sysctl fs.file-max",
    errno.EIO: "Look for faults of that disk in the log of the kernel",
}


def explain_os_error(error: OSError) -> str:
    """Return the failed operation's file and error, with a remedy if one is known."""
    if error.errno is None or error.strerror is None:
        return str(error)
    places = [str(name) for name in (error.filename, error.filename2) if name is not None]
    what = ": ".join([*places, error.strerror])
    remedy = _REMEDIES.get(error.errno)
    return f"{what}. {remedy}" if remedy else what
