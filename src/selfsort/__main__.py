"""`python -m selfsort` is the command line."""

from selfsort.cli import main

if __name__ == "__main__":
    main()
