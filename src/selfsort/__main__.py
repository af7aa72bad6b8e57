"""`python -m selfsort` is the command line."""

from selfsort.cli.main import main

if __name__ == "__main__":
    main()
