# Ctrl-C.
. "$(dirname "$0")/support.sh"
model="$models/qwen2-tiny"

python3 - "$EDGEWISE" "$model" "$work" <<'PYTHON' || problem "Ctrl-C is not taken well"
import os, pty, select, signal, subprocess, sys, termios, time
command, model, work = sys.argv[1:]
bad = 0

def check(what, true, *facts):
    global bad
    if not true:
        print("FAILED:", what, *facts)
        bad += 1

# Long work ends soon, with the code that shells know, and leaves no half-written file.
with open(f"{work}/text", "w") as f:
    f.write("the quick brown fox " * 200000)
process = subprocess.Popen([command, "perplexity", model, f"{work}/text", "--weights", "f32"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
time.sleep(1.0)
process.send_signal(signal.SIGINT)
began = time.monotonic()
output, told = process.communicate(timeout=300)
check("perplexity", process.returncode == 130 and output == b"", process.returncode, output, told)

# A chat that waits for a pipe is long work too.
process = subprocess.Popen([command, "chat", model, "--weights", "f32", "--temperature", "0", "--max-tokens", "4"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
process.stdin.write(b"hi\n")
process.stdin.flush()
first = process.stdout.readline()
time.sleep(0.5)
process.send_signal(signal.SIGINT)
check("a chat from a pipe", process.wait(timeout=60) == 130 and first, process.returncode, first)

# Reads the terminal up to and with `text`; what was read beyond it waits for the next call.
waiting = {}
def read_until(fd, text, seconds=60):
    got = waiting.pop(fd, b"")
    end = time.monotonic() + seconds
    while text not in got and time.monotonic() < end:
        if select.select([fd], [], [], 0.2)[0]:
            try:
                got += os.read(fd, 65536)
            except OSError:
                break
    check(f"waiting for {text}", text in got, got[-300:])
    waiting[fd] = got[got.find(text) + len(text):] if text in got else b""

def start(*arguments):
    child, fd = pty.fork()
    if child == 0:
        # Without NOFLSH the terminal may throw away, at a Ctrl-C, what the program prints just then.
        mode = termios.tcgetattr(0)
        mode[3] |= termios.NOFLSH
        termios.tcsetattr(0, termios.TCSANOW, mode)
        os.execv(command, [command, "chat", model, *arguments])
    return child, fd

# A chat on a terminal: the first Ctrl-C at the prompt says how to leave, the next message is answered, two leave.
child, fd = start("--max-tokens", "8", "--weights", "f32", "--temperature", "0")
read_until(fd, b"> ")
os.write(fd, b"\x03")
read_until(fd, b"/quit leaves")
read_until(fd, b"> ")
os.write(fd, b"hi\n")
read_until(fd, b"> ")
os.write(fd, b"/stats\n")
read_until(fd, b"tokens/s")
os.write(fd, b"\x03")
read_until(fd, b"/quit leaves")
os.write(fd, b"\x03")
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
check("a chat left by Ctrl-C", code == 0, code)

# A reply that is under way ends at Ctrl-C, the chat goes on.
child, fd = start("--max-tokens", "0", "--weights", "f32", "--temperature", "30", "--seed", "9")
read_until(fd, b"> ")
os.write(fd, b"hi\n")
os.write(fd, b"\x03")
read_until(fd, b"> ")
os.write(fd, b"/stats\n")
read_until(fd, b"context ")
os.write(fd, b"/quit\n")
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
check("a chat left by /quit", code == 0, code)
sys.exit(bad > 0)
PYTHON

finish
