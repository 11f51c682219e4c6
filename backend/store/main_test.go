package store_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/store"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// childEnv makes the test binary a child process that does one of children.
const childEnv = "GLOVEBOX_STORE_TEST_CHILD"

var children = map[string]func(dir string) error{
	"own":    ownForEver,
	"append": appendForEver,
}

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		if err := children[name](os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is another process that has the store's directory in its hands.
type child struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func startChild(t *testing.T, name, dir string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe() // open for as long as the child is to live
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &child{cmd: cmd, out: bufio.NewScanner(out)}
}

// line returns the child's next line, "" when it has ended.
func (c *child) line() string {
	if !c.out.Scan() {
		return ""
	}
	return c.out.Text()
}

// kill ends the child as a crash would and returns the lines it had still written.
func (c *child) kill(t *testing.T) (rest []string) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for c.out.Scan() {
		rest = append(rest, c.out.Text())
	}
	c.cmd.Wait()
	return rest
}

func ownForEver(dir string) error {
	l, err := store.Acquire(dir)
	if err != nil {
		return err
	}
	if err := l.SetURL("http://127.0.0.1:7333/"); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// appendForEver prints the seq of every event whose Append returned.
func appendForEver(dir string) error {
	s, err := store.Open(context.Background(), dir, store.Options{})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		e, err := task.Encode("r", "r", 0, time.Now(), task.TaskWoken{Cause: fmt.Sprint(i)})
		if err != nil {
			return err
		}
		stored, err := s.Append(context.Background(), e, e, e)
		if err != nil {
			return err
		}
		fmt.Println(stored[0].Seq, stored[2].Seq)
	}
}
