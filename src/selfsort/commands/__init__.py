"""One module per command; torch, numpy and the like are imported only inside the commands that need them."""
