package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const commandEnv = "LIGHTWORK_TEST_COMMAND"

// TestMain is also the program itself.
func TestMain(m *testing.M) {
	if os.Getenv(commandEnv) != "" {
		main()
	}
	m.Run()
}

// TestSecondInterrupt: a command that waits for what no signal ends, here for a pipe, is
// ended by a second interrupt.
func TestSecondInterrupt(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(exe, "replay", "import", pipe)
	command.Env = append(os.Environ(), commandEnv+"=1")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)

	var in *os.File // can be opened for writing as soon as the command reads
	for in == nil {
		select {
		case <-late:
			_ = command.Process.Kill()
			t.Fatal("the command does not read")
		case <-tick.C:
			in, _ = os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		}
	}
	defer in.Close()
	for {
		select {
		case <-ended:
			if by := command.ProcessState.Sys().(syscall.WaitStatus); by.Signal() != syscall.SIGINT {
				t.Errorf("it ended with %s", command.ProcessState)
			}
			return
		case <-late:
			_ = command.Process.Kill()
			t.Fatal("interrupts do not end the command")
		case <-tick.C:
			_ = command.Process.Signal(syscall.SIGINT)
		}
	}
}
