package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lockport/lockport/internal/lab/peer"
)

// terminal is a process that leads a session on a pseudo-terminal.
type terminal struct {
	*process
	keyboard *os.File // the master side
}

// onTerminal starts a program on its own terminal. Its output is in out.
func onTerminal(t *testing.T, url string, program ...string) *terminal {
	t.Helper()
	master := peer.Must(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	t.Cleanup(func() { master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number := peer.Must(unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN))(t)
	slave := peer.Must(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	defer slave.Close()
	// Linux sends an interrupt key's signal first and then discards pending output, such as the "code=130" that the signal caused.
	settings := peer.Must(unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS))(t)
	settings.Lflag |= unix.NOFLSH
	require.NoError(t, unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, settings))

	p := prepare(url)
	p.Cmd.Args = program
	p.Cmd.Path = peer.Must(exec.LookPath(program[0]))(t)
	p.Stdin, p.Stdout, p.Stderr = slave, slave, slave
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.begin(t)
	// A master whose Fd was called blocks, so Close would not end a Read; the end of the last slave does.
	go func() {
		chunk := make([]byte, 4096)
		for {
			n, err := master.Read(chunk)
			_, _ = p.out.Write([]byte(strings.ReplaceAll(string(chunk[:n]), "\r", "")))
			if err != nil {
				return
			}
		}
	}()
	return &terminal{process: p, keyboard: master}
}

func (tt *terminal) types(t *testing.T, keys string) {
	t.Helper()
	require.NoError(t, peer.ErrOf(tt.keyboard.WriteString(keys)))
}

// groups is a shell command that writes the group of the process and the foreground group of its terminal.
const groups = `set -- $(cut -d")" -f2 /proc/$$/stat); echo group=$3; echo foreground=$6`

// The command may use the terminal although standard input comes from elsewhere, as pagers and password prompts do.
func TestTerminalForegroundGroupIsLentAndGivenBack(t *testing.T) {
	t.Parallel()
	for input, read := range map[string]string{"": "read line", "echo data | ": "read line </dev/tty"} {
		shell := onTerminal(t, folder(t), "sh", "-c",
			input+`"$0" run a -- sh -c '`+groups+`; `+read+`; echo "read $line"'; echo code=$?; echo after; `+groups, program())
		inside := shell.number(t, "group")
		if input == "" {
			require.Equal(t, inside, shell.number(t, "foreground"), "the command is not in the foreground")
		}
		require.NotEqual(t, inside, shell.Process.Pid, "the command has no group of its own")
		shell.types(t, "hello\n")
		shell.says(t, "read hello\n")
		require.Equal(t, 0, shell.number(t, "code"))
		require.Equal(t, 0, shell.process.code(t), shell.out.String())
		own := strconv.Itoa(shell.Process.Pid)
		shell.says(t, "after\ngroup="+own+"\nforeground="+own+"\n") // otherwise the terminal was not returned
	}
}

// TestTerminalPipeline: the reader of the command's output may be a pager, so it keeps the terminal until the command asks for it.
func TestTerminalPipeline(t *testing.T) {
	t.Parallel()
	shell := onTerminal(t, folder(t), "sh", "-c",
		`"$0" run a -- sh -c '`+groups+`; read line; echo "read $line"; echo asked; `+groups+`' | cat; echo end=1`, program()) // the last word, when all else has been written
	group := shell.group(t)
	require.Equal(t, shell.Process.Pid, shell.number(t, "foreground"), "the command took the terminal from the pipeline")
	shell.types(t, "hello\n")
	shell.says(t, "read hello\n")
	shell.number(t, "end")
	_, after, _ := strings.Cut(shell.out.String(), "asked\n")
	require.Contains(t, after, "foreground="+strconv.Itoa(group)+"\n")
}

func TestTerminalInterruptKey(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"", "--keep"} {
		shell := onTerminal(t, folder(t), "sh", "-c", `trap : INT; "$0" run `+option+` a -- sh -c 'echo inside=1; sleep 1000'; echo code=$?`, program())
		shell.number(t, "inside")
		// A busy machine can lose a key before the terminal handles it. The key is not echoed then, so press it again, like a person.
		eventually(t, func() bool {
			shell.types(t, "\x03")
			return strings.Contains(shell.out.String(), "code=")
		}, "the key ends nothing: %q", shell.out.String())
		require.Equal(t, 130, shell.number(t, "code"))
		require.NotContains(t, shell.out.String(), "retrying")
		// The key ends the script, too. Here the command sends its signal.
		script := onTerminal(t, folder(t), "sh", "-c", `"$0" run `+option+` a -- sh -c 'kill -INT $$'; echo after`, program())
		require.Equal(t, -1, script.code(t), script.out.String())
	}
}

// TestTerminalStopKey presses Ctrl-Z: shell, lockport and command must see a stopped job, and fg must continue it.
func TestTerminalStopKey(t *testing.T) {
	t.Parallel()
	url := folder(t)
	shell := onTerminal(t, url, "sh", "-mc",
		`"$0" run a -- sh -c 'echo group=$$; read line; echo "read $line"; exit 6'; echo stopped=$?; read line; fg; echo code=$?`, program())
	group := shell.group(t)
	shell.types(t, "\x1a")
	require.Equal(t, 128+int(syscall.SIGTSTP), shell.number(t, "stopped"))
	ran(t, 75, url, "run", "-n", "a", "--", "true")
	shell.types(t, "now\n")
	eventually(t, func() bool { return state(group) != "T" }, "the command is not continued")
	shell.types(t, "hello\n")
	shell.says(t, "read hello\n")
	require.Equal(t, 6, shell.number(t, "code"))
}

// TestTerminalStopKeyAfterTheCommand presses Ctrl-Z while lockport waits: for the next term, or for the end of --min-hold.
func TestTerminalStopKeyAfterTheCommand(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"--keep", "--min-hold=1000s"} {
		url := folder(t)
		shell := onTerminal(t, url, "sh", "-mc", `"$0" run `+option+` a -- sh -c 'trap "" TSTP; echo inside=1';
			echo stopped=$?; read line; kill %1; fg; echo code=$?`, program())
		shell.number(t, "inside")
		if option == "--keep" {
			holds(t, url, "a") // no second term
		}
		eventually(t, func() bool {
			shell.types(t, "\x1a")
			return strings.Contains(shell.out.String(), "stopped=")
		}, "the key stops nothing: %q", shell.out.String())
		require.Equal(t, 128+int(syscall.SIGTSTP), shell.number(t, "stopped"))
		shell.types(t, "now\n")
		shell.number(t, "code") // continued, it gets SIGTERM
	}
}

// TestTerminalHangup: a lockport that waits does not outlive its terminal, which its session loses before SIGHUP arrives.
func TestTerminalHangup(t *testing.T) {
	t.Parallel()
	url := folder(t)
	holds(t, url, "a")
	shell := onTerminal(t, url, "sh", "-c", `"$0" run --keep a -- true & echo pid=$!; read line`, program())
	pid := shell.number(t, "pid")
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	shell.says(t, `waiting for "a"`)
	shell.types(t, "\n") // the shell ends, and its terminal with it
	eventually(t, func() bool { return strings.Trim(state(pid), "Z") == "" }, "lockport lives on")
}

// TestTerminalBackground: a background job must not take the terminal. It stops when it reads from it, and continues in the foreground.
func TestTerminalBackground(t *testing.T) {
	t.Parallel()
	shell := onTerminal(t, folder(t), "sh", "-mc",
		`"$0" run a -- sh -c '`+groups+`; read line; echo "read $line"; exit 6' & echo job=$!; read line; fg; echo code=$?`, program())
	group, job := shell.group(t), shell.number(t, "job")
	require.Equal(t, shell.Process.Pid, shell.number(t, "foreground"), "the command took the terminal")
	eventually(t, func() bool { return state(group) == "T" && state(job) == "T" }, "the command is %q, lockport %q", state(group), state(job))
	shell.types(t, "now\n")
	eventually(t, func() bool { return state(group) != "T" }, "the command is not continued: %s", shell.out.String())
	shell.types(t, "hello\n")
	shell.says(t, "read hello\n")
	require.Equal(t, 6, shell.number(t, "code"))
}

// TestTerminalStopWithoutJobControl: if no shell would continue lockport, Ctrl-Z must not hang the terminal.
func TestTerminalStopWithoutJobControl(t *testing.T) {
	t.Parallel()
	lockport := onTerminal(t, folder(t), program(), "run", "a", "--", "sh", "-c", `echo inside=1; read line; echo "read $line"`)
	lockport.number(t, "inside")
	lockport.types(t, "\x1a")
	lockport.types(t, "hello\n")
	lockport.says(t, "read hello\n")
	require.Equal(t, 0, lockport.code(t))
}

// TestTerminalSaysWhoHolds: of several locks, the waiter has one and names the holder of the other.
func TestTerminalSaysWhoHolds(t *testing.T) {
	t.Parallel()
	url := folder(t)
	holder := holds(t, url, "b")
	// Unless lockport dies of SIGINT, a shell continues its script. The first process of a container cannot.
	for code, namespace := range map[int][]string{-1: {"env"}, 130: {"unshare", "-pf"}} {
		if exec.Command(namespace[0], append(namespace[1:], "true")...).Run() != nil {
			continue // only some users may make a namespace
		}
		interrupted := onTerminal(t, url, append(namespace, program(), "run", "b", "--", "true")...)
		interrupted.says(t, `lockport: waiting for "b", held by `)
		require.NoError(t, syscall.Kill(-interrupted.Process.Pid, syscall.SIGINT))
		require.Equal(t, code, interrupted.code(t))
	}
	waiter := onTerminal(t, url, program(), "run", "a", "b", "--", "echo", "mine")
	waiter.says(t, fmt.Sprintf(", pid %d, ", holder.Process.Pid))
	require.NoError(t, holder.Process.Signal(syscall.SIGTERM))
	waiter.says(t, "mine\n")
	require.Equal(t, 0, waiter.code(t))
}

// stat returns the state of a process, as ps(1) shows it, its parent, and further fields of /proc/PID/stat; nil: there is no such process.
func stat(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

func state(pid int) string { return append(stat(pid), "")[0] }
