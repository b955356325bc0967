"""What it takes to run Forum on servers: an image, units, and a bill of what is in them."""
