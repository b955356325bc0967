"""Programs that measure Forum, so that no figure has to be taken on trust."""
