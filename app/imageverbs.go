package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
)

func (c *cli) imageCommand() *cobra.Command {
	var tiny bool
	build := &cobra.Command{
		Use:   "build",
		Short: "Build an image on this machine: the standard one, with a browser, or the tiny one",
		Long: `Builds the standard image: Debian with Chromium, fonts, git, curl, ripgrep, python3 and
node. It takes some minutes and about a gigabyte. Where the engine reaches a registry it is
made on Debian's own image, else of Debian's packages by mmdebstrap on this machine.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			recipe := standardRecipe
			if tiny {
				recipe = tinyRecipe
			}
			return c.with(cmd.Context(), PartAct, func(client *apiClient) error {
				return c.make(cmd.Context(), client, httpapi.KindBuild, recipe)
			})
		},
	}
	build.Flags().BoolVar(&tiny, "tiny", false, "the tiny image instead: a static shell, from this machine's busybox")
	pull := &cobra.Command{
		Use:   "pull IMAGE",
		Short: "Get an image from its registry, unless it is there",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), PartAct, func(client *apiClient) error {
				return c.make(cmd.Context(), client, httpapi.KindPull, args[0])
			})
		},
	}
	return group(&cobra.Command{Use: "image", Short: "Images of the docker wall"}, build, pull)
}

// stepsAfter are the steps of a build that come after the first n and are kept.
func stepsAfter(b *httpapi.Build, n int) []string { return b.Log[max(n-b.Dropped, 0):] }

// make starts the build or pull of an image, or joins the one that runs, and
// prints its steps. An interrupt cancels it.
func (c *cli) make(ctx context.Context, client *apiClient, kind, image string) error {
	conn, err := client.dial(ctx, "/events")
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	var started httpapi.Build
	if err := client.call(ctx, "POST", "/images/"+kind, httpapi.BuildRequest{Image: image}, &started); err != nil {
		return asUsage(err)
	}
	printed := 0 // steps
	for {
		_, data, err := conn.Read(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return cancelMake(ctx, client, kind, image)
		case err != nil:
			return endOf(err)
		}
		var f httpapi.Frame
		if err := json.Unmarshal(data, &f); err != nil {
			return fmt.Errorf("a frame of the server: %w", err)
		}
		if f.Build == nil || f.Build.Kind != kind || f.Build.Image != image || f.Build.StartedAt.Before(started.StartedAt) {
			continue
		}
		if f.Build.State != httpapi.BuildFailed {
			for _, step := range stepsAfter(f.Build, printed) {
				fmt.Fprintln(c.out, printable(step))
			}
			printed = f.Build.Dropped + len(f.Build.Log)
		}
		switch f.Build.State {
		case httpapi.BuildDone:
			_, err := fmt.Fprintf(c.out, "%s, %d ms\n", f.Build.Ref, f.Build.EndedAt.Sub(f.Build.StartedAt).Milliseconds())
			return err
		case httpapi.BuildFailed:
			return errors.New(f.Build.Error)
		case httpapi.BuildCancelled:
			return fmt.Errorf("the %s of %s was cancelled", kind, f.Build.Ref)
		}
	}
}

// cancelMake cancels what an interrupted verb was waiting for. What has ended
// meanwhile needs none.
func cancelMake(ctx context.Context, client *apiClient, kind, image string) error {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := client.call(late, "POST", "/images/"+kind+"/cancel", httpapi.BuildRequest{Image: image}, nil)
	var api *apiError
	if err != nil && !(errors.As(err, &api) && api.Code == "no_build") {
		return errors.Join(ctx.Err(), err)
	}
	return ctx.Err()
}
