"""``python -m forum``: the command line, for when the ``forum`` script is not on the path."""

from forum.surfaces.cli import main

if __name__ == "__main__":
    main()
