package docker

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// realSSH starts an ssh server of the test's own and makes its host known as far
// to the ssh command, with a key, and another key that the server does not know.
// It returns the port, and the file in which ssh's arguments are noted.
func realSSH(t *testing.T) (port int, asked string, otherKey func()) {
	t.Helper()
	daemon, err := exec.LookPath("sshd")
	if err != nil {
		daemon = "/usr/sbin/sshd"
	}
	client, err := exec.LookPath("ssh")
	if err == nil {
		_, err = os.Stat(daemon)
	}
	if err != nil && slices.Contains(strings.Split(os.Getenv("GLOVEBOX_TEST_REQUIRE"), ","), "sshd") {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // it wants this, empty
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	for _, key := range []string{"host", "me", "other"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for port == 0 { // one that the kernel gives to nobody who asks for any
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))); err == nil {
			port = l.Addr().(*net.TCPAddr).Port
			l.Close()
		}
	}
	server := exec.Command(daemon, "-D", "-e", "-f", "/dev/null", "-p", strconv.Itoa(port), "-h", filepath.Join(dir, "host"),
		"-o", "ListenAddress=127.0.0.1", "-o", "AuthorizedKeysFile="+filepath.Join(dir, "me.pub"), "-o", "StrictModes=no",
		"-o", "PidFile=none", "-o", "MaxStartups=100", "-o", "PermitRootLogin=prohibit-password", "-o", "PasswordAuthentication=no", "-o", "KbdInteractiveAuthentication=no",
		"-o", "SetEnv=PATH="+os.Getenv("PATH"))
	out, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	listening, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for lines, up := bufio.NewScanner(out), false; lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			if !up && strings.Contains(lines.Text(), "Server listening") {
				up = true
				close(listening)
			}
		}
	}()
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGTERM)
		<-ended
		server.Wait()
		if t.Failed() {
			t.Logf("sshd says:\n%s", &said)
		}
	})
	select {
	case <-listening:
	case <-ended:
		t.Fatal("sshd does not start")
	}
	config := func(key string) string {
		text := fmt.Sprintf("Host far\n HostName 127.0.0.1\n IdentityFile %s\n IdentitiesOnly yes\n UserKnownHostsFile %s\n StrictHostKeyChecking accept-new\n",
			filepath.Join(dir, key), filepath.Join(dir, "known"))
		file := filepath.Join(dir, key+".conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("exec %s -F %s \"$@\"", client, file)
	}
	path := os.Getenv("PATH")
	asked = withSSH(t, config("me"))
	return port, asked, func() {
		t.Setenv("PATH", path)
		withSSH(t, config("other"))
	}
}
