//go:build linux

package guest

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/guest/process"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// user is whom commands run as.
type user struct {
	uid, gid int
	groups   []int // supplementary, without gid
	name     string
	home     string
}

// resolveUser reads what the config asks for. In the namespace wall there is
// only one user to be: the guest's own, and so it is for a guest that was put
// into a container without the capabilities to change.
func resolveUser(cfg wire.GuestConfig) (user, error) {
	u := user{uid: os.Getuid(), gid: os.Getgid(), home: cfg.Home}
	_, permitted, _ := process.Capabilities()
	const change = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	if cfg.Tag != wire.TagUTS && permitted&change == change {
		switch cfg.User {
		case "", "host":
			var st unix.Stat_t
			if err := unix.Stat(cfg.Workdir, &st); err != nil {
				return u, fmt.Errorf("read the owner of the workspace %s: %w", cfg.Workdir, err)
			}
			u.uid, u.gid = int(st.Uid), int(st.Gid)
		case "root":
			u.uid, u.gid = 0, 0
		default:
			a, b, ok := strings.Cut(cfg.User, ":")
			uid, err1 := strconv.ParseUint(a, 10, 31)
			gid, err2 := strconv.ParseUint(b, 10, 31)
			if !ok || err1 != nil || err2 != nil {
				return u, fmt.Errorf("user %q: want host, root or UID:GID", cfg.User)
			}
			u.uid, u.gid = int(uid), int(gid)
		}
	}
	if cfg.Adopted { // its files are its owner's
		u.name = nameOf("/etc/passwd", u.uid)
		u.groups = groupsOf("/etc/group", u.name, u.gid)
		return u, nil
	}
	u.name = ensureName("/etc/passwd", u.uid, fmt.Sprintf("%%s:x:%d:%d:%%[1]s:%s:/bin/sh\n", u.uid, u.gid, u.home))
	ensureName("/etc/group", u.gid, fmt.Sprintf("%%s:x:%d:\n", u.gid))
	u.groups = groupsOf("/etc/group", u.name, u.gid)
	return u, nil
}

// nameOf returns the name of an id, or the id itself.
func nameOf(file string, id int) string {
	for _, f := range entries(file, new([]byte)) {
		if f[2] == strconv.Itoa(id) {
			return f[0]
		}
	}
	return strconv.Itoa(id)
}

// ensureName returns the name of an id in a file of the form of passwd or
// group. Where it has none, a line is added if the file can be written: many
// programs fail for a user without a name, none for a surplus line.
func ensureName(file string, id int, format string) string {
	names := map[string]bool{}
	var text []byte
	for _, f := range entries(file, &text) {
		if f[2] == strconv.Itoa(id) {
			return f[0]
		}
		names[f[0]] = true
	}
	name := "glovebox"
	for names[name] {
		name += "_"
	}
	w, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return name
	}
	defer w.Close()
	if len(text) > 0 && text[len(text)-1] != '\n' {
		format = "\n" + format
	}
	fmt.Fprintf(w, format, name)
	return name
}

func groupsOf(file, name string, gid int) (groups []int) {
	for _, f := range entries(file, new([]byte)) {
		id, err := strconv.ParseUint(f[2], 10, 31)
		tag := id >= wire.FirstTagGroup && id <= wire.LastTagGroup
		if err != nil || int(id) == gid || tag || len(f) < 4 {
			continue
		}
		if slices.Contains(strings.Split(f[3], ","), name) {
			groups = append(groups, int(id))
		}
	}
	return groups
}

// entries returns the fields of each line that has at least three.
func entries(file string, text *[]byte) (all [][]string) {
	var err error
	if *text, err = os.ReadFile(file); err != nil {
		return nil
	}
	s := bufio.NewScanner(strings.NewReader(string(*text)))
	for s.Scan() {
		if f := strings.Split(s.Text(), ":"); len(f) >= 3 {
			all = append(all, f)
		}
	}
	return all
}
