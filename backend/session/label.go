package session

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// longestTitle bounds a title that a person gives, in characters.
const longestTitle = 200

// Rename gives a session another title: one line of at most 200 characters.
func (s *Service) Rename(ctx context.Context, id, title string) error {
	title, err := checkTitle(title)
	if err != nil {
		return err
	}
	v, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	return s.append(ctx, v.ID, 0, &task.TaskRenamed{Title: title})
}

func checkTitle(title string) (string, error) {
	bad := func(reason string) (string, error) { return "", &sandbox.FieldError{Field: "title", Reason: reason} }
	title = strings.TrimSpace(title)
	switch {
	case title == "":
		return bad("is empty")
	case strings.ContainsFunc(title, unicode.IsControl):
		return bad("must be one line, without control characters")
	case utf8.RuneCountInString(title) > longestTitle:
		return bad(fmt.Sprintf("is longer than %d characters", longestTitle))
	}
	return title, nil
}

// Archive puts a session out of sight, or back. One whose turn runs or waits is
// not put away: the error is ErrBusy.
func (s *Service) Archive(ctx context.Context, id string, archived bool) error {
	v, err := s.View(ctx, id)
	switch {
	case err != nil:
		return err
	case v.Archived == archived:
		return nil
	case archived && (v.Status == task.StatusRunning || v.Status == task.StatusWaiting):
		return ErrBusy
	}
	return s.append(ctx, v.ID, 0, &task.TaskArchived{Archived: archived})
}
