package docker

import (
	"archive/tar"
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// ids are a user and a group by number.
type ids struct{ uid, gid int }

// imageUser returns the numbers of the user that an image names. Names are
// looked up in the image's own files, through a container that is never
// started and removed at once.
func (p *Provider) imageUser(ctx context.Context, root string, img image.InspectResponse) (ids, error) {
	var named string
	if img.Config != nil {
		named = img.Config.User
	}
	user, group, hasGroup := strings.Cut(named, ":")
	if user == "" {
		return ids{}, nil
	}
	uid, uidErr := strconv.Atoi(user)
	gid, gidErr := strconv.Atoi(group)
	if uidErr == nil && hasGroup && gidErr == nil {
		return ids{uid, gid}, nil
	}
	created, err := call(ctx, p, "look into the image", createTimeout, func(ctx context.Context) (container.CreateResponse, error) {
		return p.engine.ContainerCreate(ctx, &container.Config{
			Image: img.ID, Entrypoint: []string{insideGuest},
			Labels: map[string]string{labelInstance: p.opts.Instance, labelSession: root, labelVersion: p.opts.Version},
		}, &container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	})
	if err != nil {
		return ids{}, err
	}
	defer p.detached(ctx, func(ctx context.Context) error { return p.removeContainer(ctx, created.ID) })

	passwd, err := p.readFile(ctx, created.ID, "/etc/passwd")
	if err != nil {
		return ids{}, err
	}
	groups, err := p.readFile(ctx, created.ID, "/etc/group")
	if err != nil {
		return ids{}, err
	}
	found, err := lookUp(user, group, hasGroup, passwd, groups)
	if err != nil {
		return ids{}, &sandbox.FieldError{Field: "user", Reason: fmt.Sprintf("the image's user %q: %v; choose host", named, err)}
	}
	return found, nil
}

// lookUp follows the engine's rules: a number needs no entry, and then its
// group is 0.
func lookUp(user, group string, hasGroup bool, passwd, groups string) (ids, error) {
	var got ids
	number, err := strconv.Atoi(user)
	entry := findEntry(passwd, func(f []string) bool { return f[0] == user || err == nil && len(f) > 2 && f[2] == user })
	switch {
	case len(entry) > 3:
		got.uid, _ = strconv.Atoi(entry[2])
		got.gid, _ = strconv.Atoi(entry[3])
	case err == nil:
		got.uid = number
	default:
		return ids{}, fmt.Errorf("%s is not in its /etc/passwd", user)
	}
	if !hasGroup {
		return got, nil
	}
	if number, err := strconv.Atoi(group); err == nil {
		got.gid = number
		return got, nil
	}
	entry = findEntry(groups, func(f []string) bool { return f[0] == group })
	if len(entry) < 3 {
		return ids{}, fmt.Errorf("%s is not in its /etc/group", group)
	}
	got.gid, _ = strconv.Atoi(entry[2])
	return got, nil
}

func findEntry(file string, match func([]string) bool) []string {
	lines := bufio.NewScanner(strings.NewReader(file))
	for lines.Scan() {
		if fields := strings.Split(lines.Text(), ":"); match(fields) {
			return fields
		}
	}
	return nil
}

// readFile reads a small file of a container, "" when there is none.
func (p *Provider) readFile(ctx context.Context, id, path string) (string, error) {
	return call(ctx, p, "read "+path+" of the image", readTimeout, func(ctx context.Context) (string, error) {
		body, _, err := p.engine.CopyFromContainer(ctx, id, path)
		if cerrdefs.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		defer body.Close()
		archive := tar.NewReader(body)
		if _, err := archive.Next(); err != nil {
			return "", err
		}
		text, err := io.ReadAll(io.LimitReader(archive, 1<<20))
		return string(text), err
	})
}
