"""Ask for the id of the session keyring."""

from _tools import reaches

KEYCTL_GET_KEYRING_ID, SESSION = 0, -3
reaches("keyctl", KEYCTL_GET_KEYRING_ID, SESSION, 0)
