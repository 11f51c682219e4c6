package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// labelSnapshotHome marks an image that has a HOME for commands in it. What is
// made of it keeps its HOME inside, where it is found.
const labelSnapshotHome = "glovebox.snapshot.home"

// withHome adds to a committed image the HOME of a container's commands, where
// that lies outside of it: people think of it as the sandbox's own. It is read
// just after the commit, and not in the same moment. The image that it was added
// to is removed.
func (p *Provider) withHome(ctx context.Context, c container.InspectResponse, made string, config *container.Config) (string, error) {
	b, err := p.box(c.Config.Labels[labelSandbox])
	if err != nil || !homeIsOutside(c, b) {
		return made, err
	}
	created, err := call(ctx, p, "add the home directory", createTimeout, func(ctx context.Context) (container.CreateResponse, error) {
		return p.engine.ContainerCreate(ctx, &container.Config{ // never started
			Image: made, Entrypoint: []string{insideGuest}, User: "0:0",
			Labels: map[string]string{labelInstance: p.opts.Instance, labelSession: c.Config.Labels[labelSession], labelVersion: p.opts.Version},
		}, &container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	})
	if err != nil {
		return made, err
	}
	remove := func(ctx context.Context) error { return p.removeContainer(ctx, created.ID) }
	defer func() { p.detached(ctx, remove) }()
	if err := p.copyHome(ctx, created.ID, b.home()); err != nil {
		return made, err
	}
	config.Labels[labelSnapshotHome] = "inside"
	whole, err := p.commit(ctx, created.ID, config)
	if err != nil {
		return made, err
	}
	p.detached(ctx, remove) // before the image that it was made of
	return whole, nil
}

func homeIsOutside(c container.InspectResponse, b box) bool {
	for _, m := range mountsOf(c.HostConfig) {
		if m.Type == mount.TypeBind && m.Target == insideHome && m.Source == b.home() {
			return true
		}
	}
	return false
}

// copyHome puts what is in a directory of this machine into a container as HOME.
func (p *Provider) copyHome(ctx context.Context, id, dir string) error {
	r, w := io.Pipe()
	packed := make(chan error, 1) // the one end
	go func() {
		err := packHome(w, dir)
		w.CloseWithError(err)
		packed <- err
	}()
	_, err := call(ctx, p, "add the home directory", snapshotTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.engine.CopyToContainer(ctx, id, "/", r, container.CopyToContainerOptions{})
	})
	r.CloseWithError(errors.New("the engine takes no more"))
	if perr := <-packed; err == nil && perr != nil {
		err = fmt.Errorf("pack the home directory: %w", perr)
	}
	return err
}

// packHome writes a directory as a tar of HOME. The sandbox's user owns what is
// in there, and its links are kept and not followed.
func packHome(to io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w := tar.NewWriter(to)
	err = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return packFile(w, root, name)
	})
	return errors.Join(err, w.Close())
}

func packFile(w *tar.Writer, root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the sandbox goes on meanwhile
	}
	if err != nil {
		return err
	}
	target := ""
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if target, err = root.Readlink(name); err != nil {
			return err
		}
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil // a socket or a pipe: nobody is at its other end
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname, h.Format = path.Join(insideHome[1:], name), "", "", tar.FormatPAX
	if info.IsDir() {
		h.Name += "/"
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		h.Uid, h.Gid = int(st.Uid), int(st.Gid)
	}
	if !info.Mode().IsRegular() {
		return w.WriteHeader(h)
	}
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	// As many bytes as were announced, whatever is written to it meanwhile.
	if n, err := io.CopyN(w, f, h.Size); err != nil && !errors.Is(err, io.EOF) {
		return err
	} else if n < h.Size {
		_, err = io.CopyN(w, zeros{}, h.Size-n)
		return err
	}
	return nil
}

// zeros is an endless file of them.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
