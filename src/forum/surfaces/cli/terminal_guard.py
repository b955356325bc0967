"""Restore the modes of a terminal if the process that changed them is killed.

    python -I -S terminal_guard.py MODES

Standard input is a pipe from that process, standard output the terminal.  The pipe ends with the
process, however that ends; a byte in it says that the process restores the terminal by itself.
"""

import json
import sys
import termios

if __name__ == "__main__" and not sys.stdin.buffer.read():
    *flags, characters = json.loads(sys.argv[1])
    modes = [*flags, [bytes([value]) for value in characters]]
    termios.tcsetattr(1, termios.TCSANOW, modes)
