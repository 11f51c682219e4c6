package docker

import (
	"fmt"
	"os"
	"strings"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// sandboxAPI is the oldest API that a sandbox can be made with: that of Docker
// 1.13. Before it an engine takes mounts and a limit of cpus, and leaves them out
// without a word.
const sandboxAPI = "1.25"

// negotiate takes the newest API that both sides speak. It comes before the first
// real request, since an engine refuses a path with a version that it does not
// know. A version that DOCKER_API_VERSION asks for is kept.
func (p *Provider) negotiate(ping types.Ping) error {
	p.engine.NegotiateAPIVersionPing(ping)
	ours := p.engine.ClientVersion()
	if ping.APIVersion == "" || !versions.GreaterThan(ours, ping.APIVersion) {
		return nil
	}
	return fmt.Errorf("%s asks for API %s, but the engine at %s (%s) speaks %s; unset %[1]s",
		client.EnvOverrideAPIVersion, ours, p.endpoint.host, p.endpoint.why, ping.APIVersion)
}

// versionError says what to do about an engine that does not serve the version
// that was agreed on: its oldest one is newer. Other errors stay what they are.
func (p *Provider) versionError(err error) error {
	if err == nil || !strings.Contains(err.Error(), "client version") {
		return err
	}
	advice := "install a newer glovebox, or an older engine"
	if os.Getenv(client.EnvOverrideAPIVersion) != "" {
		advice = "unset " + client.EnvOverrideAPIVersion
	}
	return fmt.Errorf("the engine at %s (%s) does not serve API %s: %w; %s", p.endpoint.host, p.endpoint.why, p.engine.ClientVersion(), err, advice)
}

// checkAPI refuses to make sandboxes on an engine that would leave out a part of
// their walls.
func (p *Provider) checkAPI() error {
	if ours := p.engine.ClientVersion(); versions.LessThan(ours, sandboxAPI) {
		return fmt.Errorf("the engine at %s (%s) speaks API %s, and mounts and limits of a sandbox need %s (Docker 1.13): %w; update the engine, or use the namespace wall",
			p.endpoint.host, p.endpoint.why, ours, sandboxAPI, sandbox.ErrUnsupported)
	}
	return nil
}
