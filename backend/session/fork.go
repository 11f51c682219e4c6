package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/store"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// Fork asks for a session that goes on from another's conversation. What is
// empty takes its default: a fresh sandbox, or where only one is there, that one;
// and the same workspace.
type Fork struct {
	Title     string
	Sandbox   string // ForkSnapshot, ForkFresh or ForkShare
	Workspace string // ForkShare or ForkCopy
}

// What a fork takes of its source's sandbox and workspace.
const (
	ForkSnapshot = "snapshot" // a sandbox of its own, with what the source's holds now
	ForkFresh    = "fresh"    // a sandbox of its own, from the source's image
	ForkShare    = "share"    // the same one
	ForkCopy     = "copy"     // a workspace of its own, with what the source's holds now
)

// Fork opens a session that goes on from another's conversation, and returns its
// id once it is recorded: what is copied has been copied then, and its sandbox
// follows by itself. The source is left as it is, its turn runs on. On any error,
// and when it is called off, nothing of the fork is left.
func (s *Service) Fork(ctx context.Context, id string, f Fork) (string, error) {
	v, err := s.View(ctx, id)
	if err != nil {
		return "", err
	}
	if f, err = f.fill(v); err != nil {
		return "", err
	}
	fork := newID(sessionPrefix)
	err = s.carryOut(ctx, v.ID, WorkFork, func(ctx context.Context, w *work) error { return s.fork(ctx, w, v, fork, f) })
	if err != nil {
		return "", err
	}
	return fork, nil
}

// fill checks what is asked for against what the source has, and fills in the rest.
func (f Fork) fill(v View) (Fork, error) {
	bad := func(field, format string, a ...any) (Fork, error) {
		return f, &sandbox.FieldError{Field: field, Reason: fmt.Sprintf(format, a...)}
	}
	spec := v.Created.Spec
	lent := spec.Wall == sandbox.WallRemote || spec.Adopt != ""
	f.Sandbox, f.Workspace = cmp.Or(f.Sandbox, map[bool]string{false: ForkFresh, true: ForkShare}[lent]), cmp.Or(f.Workspace, ForkShare)
	switch f.Sandbox {
	case ForkSnapshot, ForkFresh, ForkShare:
	default:
		return bad("sandbox", "unknown way %q; choose snapshot, fresh or share", f.Sandbox)
	}
	switch f.Workspace {
	case ForkShare, ForkCopy:
	default:
		return bad("workspace", "unknown way %q; choose share or copy", f.Workspace)
	}
	switch {
	case lent && f.Sandbox != ForkShare:
		return bad("sandbox", "the session is in a place that was there before it, which is neither copied nor made again; choose share")
	case spec.Wall == sandbox.WallLocal && f.Sandbox == ForkSnapshot:
		return bad("sandbox", "the local wall has no sandbox to make a snapshot of; choose fresh")
	case spec.Wall == sandbox.WallNamespace && f.Sandbox == ForkSnapshot:
		return bad("sandbox", "the namespace wall has no images, so no snapshots; choose fresh or share")
	case f.Workspace == ForkCopy && v.Created.Workspace == "":
		return bad("workspace", "the session has none on this machine that could be copied; choose share")
	case f.Workspace == ForkCopy && f.Sandbox == ForkShare && spec.Wall != sandbox.WallLocal:
		return bad("workspace", "a shared sandbox has the source's workspace in it; choose share, or a sandbox of its own")
	case f.Sandbox == ForkShare && !lent && spec.Wall != sandbox.WallLocal && !v.holds():
		return bad("sandbox", "the session has no sandbox that could be shared%s; choose fresh, or re-provision the session first", v.whyNone())
	}
	if f.Title != "" {
		title, err := checkTitle(f.Title)
		f.Title = title
		return f, err
	}
	f.Title = title(Open{Title: "Fork of " + v.Title})
	return f, nil
}

// fork makes what a fork needs and records it, or leaves nothing.
func (s *Service) fork(ctx context.Context, w *work, v View, id string, f Fork) (err error) {
	created := v.Created
	created.Title, created.Goal, created.OneShot = f.Title, "", false
	created.Spec.Share = ""
	if f.Sandbox == ForkShare && created.Spec.Adopt == "" && (created.Spec.Wall == sandbox.WallDocker || created.Spec.Wall == sandbox.WallNamespace) {
		created.Spec.Share = v.ID
	}
	undo := func(what string, do func() error) {
		if err == nil {
			return
		}
		if uerr := do(); uerr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", what, uerr))
		}
	}
	if f.Workspace == ForkCopy {
		if created.Workspace, err = s.copyWorkspace(ctx, w, v.Created.Workspace, id); err != nil {
			return err
		}
		created.Spec.Workspace = created.Workspace
		defer undo("remove the copy", func() error { return os.RemoveAll(created.Workspace) })
	}
	if err := s.allowed(id, created); err != nil {
		return err
	}
	if f.Sandbox == ForkSnapshot {
		s.at(w, func(w *Work) { w.Step, w.Files, w.Bytes, w.Total = stepSnapshot, 0, 0, 0 })
		snap, err := s.o.Lifetime.Snapshot(ctx, v.ID, "fork-"+id)
		if err != nil {
			return err
		}
		created.Spec.Image = snap.Image
		defer undo("remove the snapshot", func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			return s.o.RemoveImage(ctx, snap.Image)
		})
	}
	if created.Spec.Adopt != "" { // it may be gone, and nobody can make it again
		if _, err := s.o.Lifetime.Resolve(ctx, created.Spec.Wall, created.Spec.Adopt); err != nil {
			return err
		}
	}
	if f.Sandbox != ForkShare && created.Spec.Wall != sandbox.WallLocal {
		if err := s.o.Lifetime.Check(ctx, created.Spec); err != nil {
			return err
		}
	}
	if err = s.recordFork(ctx, v, id, f, created); err == nil {
		s.wake(id)
	}
	return err
}

// allowed asks the host's policy once more: a fork is a root task of its own.
func (s *Service) allowed(id string, c task.TaskCreated) error {
	if c.Spec.Wall == sandbox.WallLocal {
		return nil
	}
	ok, err := s.o.HostConfig.sandboxed(id, c.Workspace)
	if err == nil && !ok {
		err = &sandbox.FieldError{Field: "workspace", Reason: fmt.Sprintf("this host's policy runs sessions of %s on the host itself, and this one is behind the %s wall", cmp.Or(c.Workspace, "an empty workspace"), c.Spec.Wall)}
	}
	return err
}

// Copying ends the name of a workspace that is being copied for a fork, beside
// the empty one that it will replace. What is found when no Service runs is of a
// process that died, and nobody's.
const Copying = ".copying"

// copyWorkspace makes a fork's own workspace and returns it.
func (s *Service) copyWorkspace(ctx context.Context, w *work, from, id string) (string, error) {
	dir, err := s.o.Workspace(id)
	if err != nil {
		return "", fmt.Errorf("make a workspace: %w", err)
	}
	half := dir + Copying
	err = os.Mkdir(half, 0o700)
	if err == nil {
		err = copyTree(ctx, from, half, func(done, all amount) {
			s.at(w, func(w *Work) { w.Step, w.Files, w.Bytes, w.Total = stepCopy, done.files, done.bytes, all.bytes })
		})
	}
	if err == nil {
		err = ctx.Err()
	}
	if rerr := os.Remove(dir); err == nil { // empty as it was made
		err = rerr
	}
	if err == nil {
		err = os.Rename(half, dir)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("copy the workspace: %w", err), os.RemoveAll(half))
	}
	return dir, nil
}

// recordFork writes the fork's log, and in the source's that there is one.
func (s *Service) recordFork(ctx context.Context, v View, id string, f Fork, created task.TaskCreated) error {
	past, err := s.o.Store.Events(ctx, store.Query{TaskID: v.ID})
	if err != nil {
		return err
	}
	forked := &task.TaskForked{SourceID: v.ID, ForkID: id, Sandbox: f.Sandbox, Workspace: f.Workspace}
	if f.Sandbox == ForkSnapshot {
		forked.Image = created.Spec.Image
	}
	if n := len(past); n > 0 {
		forked.Seq = past[n-1].Seq
	}
	own, err := task.ForkOf(past, id)
	if err != nil {
		return err
	}
	now := time.Now()
	var events []task.Event
	add := func(root string, payloads ...task.Payload) error {
		for _, p := range payloads {
			e, err := task.Encode(root, root, 0, now, p)
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		return nil
	}
	if err := add(id, &created, forked); err != nil {
		return err
	}
	events = append(events, own...)
	if err := add(id, notice(forkNotice(v, f, created))); err != nil {
		return err
	}
	if err := add(v.ID, forked); err != nil {
		return err
	}
	if _, err := s.o.Store.Append(ctx, events...); err != nil {
		return fmt.Errorf("record the fork: %w", err)
	}
	return nil
}

// forkNotice tells the model of a fork what of the conversation still holds.
func forkNotice(v View, f Fork, created task.TaskCreated) string {
	text := "You are a fork of another session: all that was said and done up to here happened there, and it goes on without you. "
	if created.Spec.Wall == sandbox.WallLocal {
		text += "Both of you run on the person's own machine. "
	} else {
		text += map[string]string{
			ForkSnapshot: "Your sandbox is your own, made of a snapshot of that session's: its files are there, those outside the workspace included; its running processes are not. ",
			ForkFresh:    "Your sandbox is a new one from the same image: running processes, installed packages and files outside the workspace of that session are not in it. ",
			ForkShare:    "You share its sandbox: what either of you changes or ends there, the other sees, files and processes alike. ",
		}[f.Sandbox]
	}
	switch {
	case v.Created.Workspace == "":
	case f.Workspace == ForkCopy:
		text += "The workspace is a copy of your own, as that session's was just now."
	default:
		text += "The workspace is the very same directory, and that session may change files in it at any time: read a file again before you change it."
	}
	return text
}

// Snapshot keeps what a session's sandbox holds as an image, and returns when it
// is there. An empty name is made of the session's id and the time.
func (s *Service) Snapshot(ctx context.Context, id, name string) (sandbox.Snapshot, error) {
	v, err := s.walled(ctx, id)
	if err != nil {
		return sandbox.Snapshot{}, err
	}
	if name == "" {
		name = v.ID + "-" + time.Now().UTC().Format("20060102-150405")
	}
	var snap sandbox.Snapshot
	err = s.carryOut(ctx, v.ID, WorkSnapshot, func(ctx context.Context, w *work) error {
		s.at(w, func(w *Work) { w.Step = stepSnapshot })
		made, err := s.o.Lifetime.Snapshot(ctx, v.ID, name)
		snap = made
		return err
	})
	if err != nil {
		return sandbox.Snapshot{}, err
	}
	return snap, nil
}

// Unpause lets a session's paused sandbox go on. One that runs is left alone.
func (s *Service) Unpause(ctx context.Context, id string) error {
	v, err := s.walled(ctx, id)
	if err != nil {
		return err
	}
	if v.Status == task.StatusEnded {
		return ErrEnded
	}
	if _, err := s.o.Lifetime.Unpause(ctx, v.ID); err != nil {
		return err
	}
	s.wake(v.ID)
	return nil
}
