"""The command `trunkline`: words in, exit codes out; one file per verb in `verbs`.

Until `main` answers signals, Ctrl-C ends the command as SIGTERM does: without a traceback of the
imports that it interrupts. Other programs that import this keep their own answer.
"""

import signal
import sys
from pathlib import Path

_is_command = Path(sys.argv[0]).name in ("-m", "trunkline")  # `python -m trunkline.harness...`

if _is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
