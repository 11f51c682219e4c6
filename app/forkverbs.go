package app

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func (c *cli) unpauseCommand() *cobra.Command {
	return c.verbSeen("unpause", "Let a session's paused sandbox go on", func(s httpapi.Session) string {
		if stateOf(s) != sandbox.StatePaused {
			return "is not paused"
		}
		return ""
	}, "goes on")
}

func (c *cli) snapshotCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "snapshot SESSION [NAME]",
		Short: "Make an image of what a session's sandbox holds",
		Long: "Makes the image glovebox/snapshot:NAME of what the session's sandbox holds: its own files and\n" +
			"its HOME, not the workspace nor what else is mounted. The sandbox is paused meanwhile.\n" +
			"Other sessions are opened from it by run --image.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var req httpapi.SnapshotRequest
			if len(args) > 1 {
				req.Name = args[1]
			}
			return c.withClient(cmd.Context(), func(client *apiClient) error {
				var made httpapi.Snapshot
				if err := client.work(cmd.Context(), args[0], "snapshot", req, &made); err != nil {
					return asUsage(err)
				}
				if asJSON {
					return c.printJSON("snapshot", args[0], made)
				}
				_, err := fmt.Fprintf(c.out, "%s %s, %d MB in %.1f s\n", made.Image, made.ID, made.Size/1e6, float64(made.TookMS)/1000)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (c *cli) forkCommand() *cobra.Command {
	var req httpapi.ForkRequest
	cmd := &cobra.Command{
		Use:   "fork SESSION",
		Short: "Open another session that goes on from a session's conversation",
		Long: "Opens another session with the conversation of this one up to now, and prints its id.\n\n" +
			"Its sandbox is a fresh one from the same image, one that is made of a snapshot of the session's,\n" +
			"or that one itself, shared: the last session to let go of it removes it. Its workspace is the\n" +
			"same directory, or a copy.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withClient(cmd.Context(), func(client *apiClient) error {
				var accepted httpapi.Accepted
				if err := client.work(cmd.Context(), args[0], "fork", req, &accepted); err != nil {
					return asUsage(err)
				}
				_, err := fmt.Fprintln(c.out, accepted.SessionID)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&req.Title, "title", "", "of the fork")
	cmd.Flags().StringVar(&req.Sandbox, "sandbox", "", "snapshot, fresh or share (default fresh, or share where only one is there)")
	cmd.Flags().StringVar(&req.Workspace, "workspace", "", "share or copy (default share)")
	return cmd
}

// work makes a request that waits until something is copied. When ctx ends that
// is called off: it belongs to the server, and would go on otherwise.
func (c *apiClient) work(ctx context.Context, session, verb string, in, out any) error {
	at := "/sessions/" + url.PathEscape(session)
	err := c.call(ctx, "POST", at+"/"+verb, in, out)
	if ctx.Err() != nil {
		off, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_ = c.call(off, "POST", at+"/work/cancel", nil, nil) // it may have ended by itself
	}
	return err
}
