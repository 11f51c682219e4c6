package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

func (c *cli) listCommand() *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the sessions",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.look(cmd.Context(), func(client *apiClient) error {
				var sessions []httpapi.Session
				if err := client.call(cmd.Context(), "GET", "/sessions", nil, &sessions); err != nil {
					return err
				}
				found := len(sessions)
				if !all {
					sessions = inSight(sessions)
				}
				if asJSON {
					for _, s := range sessions {
						if err := c.printJSON("session", s.ID, s); err != nil {
							return err
						}
					}
					return nil
				}
				if len(sessions) == 0 && found > 0 {
					_, err := fmt.Fprintf(c.out, "No sessions but %d archived: glovebox ls --all\n", found)
					return err
				}
				if len(sessions) == 0 {
					_, err := fmt.Fprintln(c.out, "No sessions yet. Start one: glovebox run")
					return err
				}
				return c.table(sessions)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON per session")
	cmd.Flags().BoolVar(&all, "all", false, "list the archived ones too")
	return cmd
}

func (c *cli) table(sessions []httpapi.Session) error {
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SESSION\tSTATUS\tSANDBOX\tID\tTITLE")
	for _, s := range sessions {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.ID, statusText(s), clipped(stateText(s), stateWidth), s.ShortID, clipped(printable(s.Title), titleWidth))
	}
	return w.Flush()
}

// How many characters of what may be long a table shows; glovebox show has all.
const (
	stateWidth = 40
	titleWidth = 60
)

// clipped returns text on one line of at most width characters.
func clipped(text string, width int) string {
	r := []rune(strings.Join(strings.Fields(text), " "))
	if len(r) <= width {
		return string(r)
	}
	return string(r[:width-1]) + "…"
}

// stateText says a sandbox's state with its cause and age.
func stateText(s httpapi.Session) string {
	if s.Wall == "local" {
		return "none (on the host)"
	}
	if s.Sandbox == nil {
		return "unknown"
	}
	text := string(s.Sandbox.Value)
	if s.Sandbox.Cause == sandbox.CauseCalledOff {
		text = "none"
	}
	if s.Sandbox.Cause != "" {
		text += " (" + s.Sandbox.Cause + ")"
	}
	if age := time.Since(s.Sandbox.ObservedAt); age > 10*time.Second {
		text += fmt.Sprintf(", seen %s ago", age.Round(time.Second))
	}
	return text
}

// printJSON writes v as one line, with the fields that every line has.
func (c *cli) printJSON(kind, sessionID string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &fields); err != nil {
		return err
	}
	for name, value := range map[string]string{"type": kind, "session_id": sessionID} {
		if fields[name], err = json.Marshal(value); err != nil {
			return err
		}
	}
	return writeJSON(c.out, fields)
}

func (c *cli) showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show SESSION",
		Short: "Show a session and its sandbox",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.look(cmd.Context(), func(client *apiClient) error {
				var s httpapi.Session
				if err := client.call(cmd.Context(), "GET", "/sessions/"+url.PathEscape(args[0]), nil, &s); err != nil {
					return err
				}
				if asJSON {
					return c.printJSON("session", s.ID, s)
				}
				var retry, archived string
				if r := s.Retry; r != nil {
					retry = retryText(r.Detail, r.At, r.Attempt, r.Attempts)
				}
				if s.Archived {
					archived = "yes"
				}
				w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
				for _, row := range [][2]string{
					{"session", s.ID}, {"title", printable(s.Title)}, {"archived", archived}, {"status", string(s.Status)}, {"waiting", waitingText(s)}, {"detail", printable(s.Detail)}, {"retry", retry},
					{"wall", string(s.Wall)}, {"sandbox", stateText(s)}, {"id", s.ShortID}, {"image", s.Image}, {"network", s.Network},
					{"workspace", s.Workspace}, {"model", s.Model}, {"agent", s.Agent}, {"plugins", strings.Join(s.Plugins, ", ")}, {"used", spent(s.Usage, s.CostUSD)}, {"generation", fmt.Sprint(s.Generation)}, {"address", string(s.Ref)},
				} {
					if row[1] != "" {
						fmt.Fprintf(w, "%s\t%s\n", row[0], strings.ReplaceAll(row[1], "\n", "\n\t"))
					}
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (c *cli) logsCommand() *cobra.Command {
	var asJSON, follow, own bool
	var after int64
	var tail int
	cmd := &cobra.Command{
		Use:   "logs SESSION",
		Short: "Print what happened in a session",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if own && (asJSON || follow || after != 0) {
				return usageError{errors.New("--sandbox goes with --tail alone")}
			}
			if own {
				return c.sandboxLogs(cmd.Context(), args[0], tail)
			}
			return c.look(cmd.Context(), func(client *apiClient) error {
				p := &printer{out: c.out, json: asJSON, think: c.verbose, id: args[0], told: true, user: true}
				err := client.follow(cmd.Context(), args[0], after, func(f httpapi.Frame) error {
					if f.SessionID != "" {
						p.id = f.SessionID
					}
					p.frame(f)
					if f.Type == "caught_up" && !follow {
						return errDone
					}
					if f.Type == "caught_up" && client.own {
						p.endText()
						fmt.Fprintln(c.err, "glovebox: no server runs for this data directory, so nothing more comes")
						return errDone
					}
					if f.Type == "caught_up" {
						p.told = false // the rest comes live
					}
					return nil
				})
				p.endText()
				if follow && errors.Is(err, context.Canceled) {
					return nil // that is how following ends
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON per event")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens from now on")
	cmd.Flags().Int64Var(&after, "after", 0, "begin after this seq")
	cmd.Flags().BoolVar(&own, "sandbox", false, "print what the sandbox's own process wrote instead")
	cmd.Flags().IntVar(&tail, "tail", 200, "with --sandbox, how many lines from its end")
	return cmd
}

func (c *cli) sandboxLogs(ctx context.Context, session string, tail int) error {
	return c.look(ctx, func(client *apiClient) error {
		var logs httpapi.Logs
		path := fmt.Sprintf("/sessions/%s/logs?tail=%d", url.PathEscape(session), tail)
		if err := client.call(ctx, "GET", path, nil, &logs); err != nil {
			return asUsage(err)
		}
		_, err := io.WriteString(c.out, printable(logs.Text))
		return err
	})
}

// verb returns the command of a verb that only posts.
func (c *cli) verb(name, short, done string) *cobra.Command {
	return c.verbSeen(name, short, nil, done)
}

// verbSeen is verb for one that may find what it is to bring about; see postSeen.
func (c *cli) verbSeen(name, short string, already func(httpapi.Session) string, done string) *cobra.Command {
	return &cobra.Command{
		Use:   name + " SESSION",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.postSeen(cmd.Context(), args[0], name, nil, already, done)
		},
	}
}

func (c *cli) post(ctx context.Context, session, verb string, body any, done string) error {
	return c.postSeen(ctx, session, verb, body, nil, done)
}

// postSeen is post for a verb that may find what it is to bring about: already says
// so by how the session was before, or is "" where done tells what came about.
func (c *cli) postSeen(ctx context.Context, session, verb string, body any, already func(httpapi.Session) string, done string) error {
	return c.withClient(ctx, func(client *apiClient) error {
		at := "/sessions/" + url.PathEscape(session)
		if already != nil {
			var before httpapi.Session
			if err := client.call(ctx, "GET", at, nil, &before); err != nil {
				return err
			}
			done = cmp.Or(already(before), done)
		}
		var accepted httpapi.Accepted
		if err := client.call(ctx, "POST", at+"/"+verb, body, &accepted); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c.out, "%s %s\n", accepted.SessionID, done)
		return err
	})
}

// stateOf returns the state that a session's sandbox was last seen in, "" for none.
func stateOf(s httpapi.Session) sandbox.State {
	if s.Sandbox == nil {
		return ""
	}
	return s.Sandbox.Value
}

func (c *cli) attachCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "attach SESSION|CONTAINER|URL",
		Short: "Reconnect a session to its sandbox, or open one in a running container or at a URL",
		Long: "With a session, reconnects it to its sandbox and starts that when it is stopped.\n" +
			"With the name or id of a running container of the docker engine, opens a session in it:\n" +
			"release takes the guest out again; the container runs on, and what was changed in it stays.\n" +
			"With the URL of a guest or of an AIO server, opens a session there.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if isURL(args[0]) {
				return c.attachURL(cmd.Context(), args[0])
			}
			return c.with(cmd.Context(), PartAct, func(client *apiClient) error { return c.attach(cmd.Context(), client, args[0]) })
		},
	}
}

// attach reconnects a session, or where there is none of that name, adopts a
// container.
func (c *cli) attach(ctx context.Context, client *apiClient, name string) error {
	var accepted httpapi.Accepted
	var api *apiError
	err := client.call(ctx, "POST", "/sessions/"+url.PathEscape(name)+"/attach", nil, &accepted)
	if errors.As(err, &api) && api.Code == "unknown_session" {
		if err := client.call(ctx, "POST", "/containers/"+url.PathEscape(name)+"/attach", httpapi.AttachRequest{Title: name}, &accepted); err != nil {
			if errors.As(err, &api) && api.Code == "sandbox_lost" {
				return fmt.Errorf("there is no session and no container %q; see glovebox ls and docker ps", name)
			}
			return err
		}
		err = client.follow(ctx, accepted.SessionID, 0, func(f httpapi.Frame) error {
			seen := f.Sessions
			if f.Session != nil {
				seen = append(seen, *f.Session)
			}
			for _, v := range seen {
				switch {
				case v.ID != accepted.SessionID:
				case v.Ref != "":
					return errDone
				case v.Suspended == task.NoSandbox, v.Suspended == task.Interrupted:
					return errors.New(v.Detail)
				}
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s attached\n", accepted.SessionID)
	return err
}

func (c *cli) startCommand() *cobra.Command {
	return c.verbSeen("start", "Start a session's stopped sandbox", func(s httpapi.Session) string {
		if stateOf(s) == sandbox.StateReady {
			return "is running already"
		}
		return ""
	}, "started")
}

func (c *cli) stopCommand() *cobra.Command {
	return c.verb("stop", "Stop a session's sandbox and keep its contents", "stopped")
}

func (c *cli) restartCommand() *cobra.Command {
	return c.verb("restart", "Stop a session's sandbox and start it again, with its contents", "restarted")
}

func (c *cli) reprovisionCommand() *cobra.Command {
	return c.verb("reprovision", "Give a session whose sandbox is lost or released a new one", "has a new sandbox")
}

func (c *cli) closeCommand() *cobra.Command {
	return c.verb("close", "End a session and remove its sandbox", "closed")
}

func (c *cli) releaseCommand() *cobra.Command {
	var keep, stop bool
	cmd := &cobra.Command{
		Use:   "release SESSION",
		Short: "Let go of a session's sandbox: remove it, or keep or stop it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			how := "remove"
			switch {
			case keep && stop:
				return usageError{errors.New("choose --keep or --stop, not both")}
			case keep:
				how = "keep"
			case stop:
				how = "stop"
			}
			return c.postSeen(cmd.Context(), args[0], "release", httpapi.ReleaseRequest{How: how}, releasedBefore, "released")
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the sandbox running; it is yours then")
	cmd.Flags().BoolVar(&stop, "stop", false, "only stop the sandbox")
	return cmd
}

// releasedBefore says that a session has nothing to let go of.
func releasedBefore(s httpapi.Session) string {
	switch stateOf(s) {
	case sandbox.StateReleased, sandbox.StateDetached:
		return "was released already"
	case sandbox.StateFailed:
		return "has no sandbox"
	}
	return ""
}

func (c *cli) toolCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "tool SESSION NAME JSON",
		Short: "Make one tool call in a session's sandbox and print its result as JSON",
		Args:  cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			input := json.RawMessage(args[2])
			if !json.Valid(input) {
				return usageError{errors.New("the input is not JSON")}
			}
			return c.withClient(cmd.Context(), func(client *apiClient) error {
				var result httpapi.ToolResponse
				err := client.call(cmd.Context(), "POST", "/sessions/"+url.PathEscape(args[0])+"/tools",
					httpapi.ToolRequest{Tool: args[1], Input: input}, &result)
				if err != nil {
					return asUsage(err)
				}
				if err := writeJSON(c.out, result); err != nil {
					return err
				}
				if result.Status != task.CallOK {
					return exitError{exitFailed}
				}
				return nil
			})
		},
	}
}

func (c *cli) execCommand() *cobra.Command {
	var dir string
	var input bool
	cmd := &cobra.Command{
		Use:   "exec [flags] SESSION -- COMMAND [ARG...]",
		Short: "Run a command in a session's sandbox; streams and exit code pass through",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			argv := args[1:]
			if argv[0] == "--" {
				argv = argv[1:]
			}
			if len(argv) == 0 {
				return usageError{errors.New("no command to run")}
			}
			req := httpapi.ExecRequest{Argv: argv, Dir: dir, Stdin: input}
			return c.withClient(cmd.Context(), func(client *apiClient) error {
				return c.exec(cmd.Context(), client, args[0], req)
			})
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&dir, "dir", "", "directory to run in (default the workspace)")
	cmd.Flags().BoolVarP(&input, "interactive", "i", false, "pass standard input on")
	return cmd
}

func (c *cli) exec(ctx context.Context, client *apiClient, session string, req httpapi.ExecRequest) error {
	conn, err := client.dial(ctx, "/sessions/"+url.PathEscape(session)+"/exec")
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	if err := conn.Write(ctx, websocket.MessageText, body); err != nil {
		return err
	}
	if req.Stdin {
		// Ends with its input or with the connection; a read of a terminal cannot
		// be ended from here, and the process is about to end then anyway.
		go feed(ctx, conn, c.in)
	}
	for {
		kind, data, err := conn.Read(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("%w; the command may go on in the sandbox: glovebox exec %s -- ps shows whether it does", errServerGone, session)
		case kind == websocket.MessageText:
			return execEnd(conn, data)
		case len(data) == 0:
			continue
		}
		out := c.out
		if data[0] == 2 {
			out = c.err
		}
		if _, err := out.Write(data[1:]); err != nil {
			return err
		}
	}
}

func execEnd(conn *websocket.Conn, data []byte) error {
	var end httpapi.ExecResult
	if err := json.Unmarshal(data, &end); err != nil {
		return err
	}
	conn.Close(websocket.StatusNormalClosure, "")
	switch {
	case end.Error != nil:
		return &apiError{ErrorBody: *end.Error}
	case end.Outcome == nil:
		return errors.New("the server did not say how the command ended")
	case end.Outcome.ExitCode != 0:
		return exitError{end.Outcome.ExitCode}
	}
	return nil
}

func feed(ctx context.Context, conn *websocket.Conn, in io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 && conn.Write(ctx, websocket.MessageBinary, buf[:n]) != nil {
			return
		}
		if err != nil {
			_ = conn.Write(ctx, websocket.MessageBinary, nil) // an empty message: the end
			return
		}
	}
}

func (c *cli) tokenCommand() *cobra.Command {
	rotate := &cobra.Command{
		Use:   "rotate",
		Short: "Make a new token; every open window has to be opened again",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withClient(cmd.Context(), func(client *apiClient) error {
				if err := client.call(cmd.Context(), "POST", "/token", nil, nil); err != nil {
					return err
				}
				dir, err := c.data()
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(c.out, "The new token is in", filepath.Join(dir, tokenFile))
				return err
			})
		},
	}
	return group(&cobra.Command{Use: "token", Short: "The token that screens and verbs show to the server"}, rotate)
}

func (c *cli) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what a session needs, by using it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// With, since it is what one runs before anything has been made.
			return c.with(cmd.Context(), PartLook, func(client *apiClient) error {
				var d httpapi.Doctor
				if err := client.call(cmd.Context(), "GET", "/doctor", nil, &d); err != nil {
					return err
				}
				if err := c.printDoctor(d, asJSON); err != nil {
					return err
				}
				if !d.OK {
					return exitError{doctorCode(d)}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON per check")
	return cmd
}

// doctorCode says whether what is broken is that no wall is there.
func doctorCode(d httpapi.Doctor) int {
	for _, ch := range d.Checks {
		if ch.Status == "fail" && (ch.Name == checkDocker || ch.Name == checkNamespace) {
			return exitNoWall
		}
	}
	return exitFailed
}

func (c *cli) printDoctor(d httpapi.Doctor, asJSON bool) error {
	for _, ch := range d.Checks {
		if asJSON {
			if err := c.printJSON("check", "", ch); err != nil {
				return err
			}
			continue
		}
		mark := map[string]string{"ok": "ok  ", "info": "info", "warn": "warn", "fail": "FAIL"}[ch.Status]
		fmt.Fprintf(c.out, "%s  %-16s %s\n", mark, ch.Name, strings.ReplaceAll(ch.Detail, "\n", " "))
		if ch.Fix != "" {
			fmt.Fprintf(c.out, "      %-16s → %s\n", "", withLine(ch.Fix, ch.Command))
		}
	}
	return nil
}
