// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencelock/fencelock/internal/must"
)

// muteVariable names a file. A supervisor that has it dies when the file has been written,
// before it reports that the command runs.
const muteVariable = "FENCELOCK_TEST_MUTE"

// dieMute is such a supervisor. args are those after Arg.
func dieMute(file string, args []string) {
	runtime.LockOSThread()
	for _, pipe := range args[:2] {
		if fd, err := strconv.Atoi(pipe); err == nil {
			unix.CloseOnExec(fd)
		}
	}
	if _, err := start("/bin/sh", args[4:]); err != nil {
		panic(err)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if text, _ := os.ReadFile(file); len(text) > 0 {
			break
		}
	}
	os.Exit(1)
}

// TestNothingSurvivesASupervisorThatReportsNothing: Start fails if the supervisor dies between the start of the
// command and its report. The holder releases the lock then, so nothing of the command lives on.
func TestNothingSurvivesASupervisorThatReportsNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere than on Linux a process that leaves the group escapes")
	}
	dir := t.TempDir()
	// Many: without the rule Start returns while they are killed one after the other.
	const strays = 50
	last := filepath.Join(dir, strconv.Itoa(strays))
	c, err := Start([]string{"sh", "-c", `i=1; while [ $i -le ` + strconv.Itoa(strays) + ` ]; do setsid sh -c 'echo $$ >` + dir + `/$0; exec sleep 300' $i & i=$((i+1)); done; wait`},
		append(os.Environ(), muteVariable+"="+last), Now().Add(time.Hour))
	var alive []int
	for i := range strays {
		if text, _ := os.ReadFile(filepath.Join(dir, strconv.Itoa(i+1))); len(text) > 0 { // the others were killed before they wrote it
			if pid := readPID(t, filepath.Join(dir, strconv.Itoa(i+1))); syscall.Kill(pid, 0) == nil {
				alive = append(alive, pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	if err == nil || len(alive) > 0 {
		t.Errorf("Start returned %+v, %v; %v live", c, err, alive)
	}
}

// TestNumberOfAnEndedCommandIsNotKilled: a supervisor that dies after the end of the command leaves a number that may
// be another's.
func TestNumberOfAnEndedCommandIsNotKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere than on Linux the group is all there is to kill")
	}
	other := exec.Command("sleep", "300")
	other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.OK(t, other.Start())
	defer func() { _ = other.Process.Kill() }()
	c := newChild()
	c.before = children()
	c.clear(heard{pid: other.Process.Pid, started: true, exited: true})
	if syscall.Kill(other.Process.Pid, 0) != nil {
		t.Error("a process with the number of the command was killed")
	}
}
