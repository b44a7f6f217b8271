"""One call of an mngr that is loaded already. `LoadedMngr` writes it as a program `mngr` beside the server's socket.

It gives its files, environment and folder to the server, passes signals on, and ends as the call ends. Where no server
takes the call it becomes the real program, to which `program` beside it links. Only the standard library is used, and
as little of it as possible: it starts for each call.
"""

import json
import os
import signal
import socket
import sys

LENGTH = 4
NOT_TAKEN = 1 << 30
FOLDER = os.path.dirname(os.path.abspath(sys.argv[0]))  # noqa: PTH100, PTH120 - pathlib takes longer to import than all of this


def main() -> None:
    """Make the call; does not return."""
    program = os.readlink(f"{FOLDER}/program")  # noqa: PTH115
    arguments = [program, *sys.argv[1:]]
    asked = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109
    request = json.dumps(asked).encode()
    server = socket.socket(socket.AF_UNIX)
    try:
        server.connect(f"{FOLDER}/socket")
        socket.send_fds(server, [len(request).to_bytes(LENGTH, "big")], [0, 1, 2])
        server.sendall(request)
    except OSError:  # the server has not read all of it, so no call was made
        os.execv(program, arguments)

    def pass_on(number: int, frame: object) -> None:
        try:  # noqa: SIM105 -- without an import more
            server.send(bytes([number]))
        except OSError:
            pass  # the server has ended, which `recv` tells

    # From now on only: a byte before or in the request would be read as a part of it.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    try:
        answer = server.recv(LENGTH)
    except OSError:
        answer = b""
    if len(answer) < LENGTH:
        sys.stderr.write("Error: the loaded mngr ended before its call did\n")
        os._exit(1)
    status = int.from_bytes(answer, "big", signed=True)
    if status == NOT_TAKEN:
        os.execv(program, arguments)
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main()
