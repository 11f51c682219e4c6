package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/llm"
)

func (c *cli) retryCommand() *cobra.Command {
	return c.verb("retry", "Ask the model of a session again now, where that failed", "asks again")
}

func (c *cli) archiveCommand() *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use:   "archive SESSION",
		Short: "Put a session out of sight; its sandbox stays as it is",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			done := "archived; glovebox ls --all shows it"
			if undo {
				done = "is back in sight"
			}
			return c.post(cmd.Context(), args[0], "archive", httpapi.ArchiveRequest{Archived: !undo}, done)
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "put it back")
	return cmd
}

func (c *cli) interruptCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "interrupt SESSION | --all",
		Short: "Stop the turn of a session, or of all; sandboxes go on",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case all == (len(args) == 1):
				return usageError{errors.New("name one session, or --all")}
			case !all:
				return c.post(cmd.Context(), args[0], "interrupt", nil, "stops")
			}
			return c.withClient(cmd.Context(), func(client *apiClient) error {
				var stopped httpapi.Stopped
				if err := client.call(cmd.Context(), "POST", "/interrupt", nil, &stopped); err != nil {
					return err
				}
				_, err := fmt.Fprintln(c.out, "turns stopped:", stopped.Sessions)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every turn that runs or waits")
	return cmd
}

// inSight returns the sessions that are not archived.
func inSight(sessions []httpapi.Session) []httpapi.Session {
	var out []httpapi.Session
	for _, s := range sessions {
		if !s.Archived {
			out = append(out, s)
		}
	}
	return out
}

// spent says what requests to a model have used and, where that is known, cost.
func spent(u llm.Usage, cost *float64) string {
	if u == (llm.Usage{}) {
		return ""
	}
	text := fmt.Sprintf("%d tokens in, %d out", u.Input+u.CacheRead+u.CacheWrite, u.Output)
	if u.CacheRead > 0 {
		text += fmt.Sprintf(" (%d in from a cache)", u.CacheRead)
	}
	switch {
	case cost == nil || *cost == 0: // not known, or of a model that costs nothing
	case *cost < 0.01:
		text += fmt.Sprintf(", $%.4f", *cost)
	default:
		text += fmt.Sprintf(", $%.2f", *cost)
	}
	return text
}

// retryText says when a model is asked again, after what.
func retryText(detail string, at time.Time, attempt, attempts int) string {
	return fmt.Sprintf("%s; the answer begins anew at %s (attempt %d of %d)",
		printable(detail), at.Local().Format(time.TimeOnly), attempt+1, attempts)
}
