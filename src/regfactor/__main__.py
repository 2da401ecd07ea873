"""`python -m regfactor` is the command line."""

from regfactor.cli import main

if __name__ == "__main__":
    main()
