"""`python -m pijit`: an unmodified program under pijit, or one of the subcommands."""

import sys

from pijit.tools.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
