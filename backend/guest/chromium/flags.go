//go:build linux

package chromium

import (
	"strings"

	"golang.org/x/sys/unix"
)

// wantedShm is the least size of /dev/shm that Chromium's pages live with.
const wantedShm = 256 << 20

// blankPage is what a browser opens with, and after its last tab was closed.
const blankPage = "about:blank"

// flags are how a browser is started, whatever sandbox it is in.
var flags = []string{
	"--headless=new",
	"--remote-debugging-pipe",
	"--window-size=1280,900",
	"--no-first-run", "--no-default-browser-check", "--hide-crash-restore-bubble",
	"--password-store=basic", "--disable-gpu", "--mute-audio", "--disable-notifications",

	// Nothing leaves that no page has asked for; what no flag says is in preferences.
	"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
	"--disable-domain-reliability", "--disable-client-side-phishing-detection", "--no-pings",
	"--dns-prefetch-disable", "--disable-breakpad",
	"--disable-features=" + strings.Join([]string{
		"Translate", "MediaRouter", "DialMediaRouteProvider", "OptimizationHints", "InterestFeedContentSuggestions",
		"AutofillServerCommunication", "CertificateTransparencyComponentUpdater", "NetworkTimeServiceQuerying",
		"HttpsUpgrades", // a page that is asked for by http is not asked for by https first
	}, ","),
	// These two are asked for whatever the flags above say: they get a port inside
	// the sandbox where nobody answers.
	"--gaia-url=http://127.0.0.1:9", "--component-updater=url-source=http://127.0.0.1:9",

	// Nothing goes past the proxy: QUIC and WebRTC are UDP.
	"--disable-quic", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",

	// Whoever drives it sees a question as an event; one that is asked of a window
	// that nobody looks at would never be answered. Windows that are opened are
	// seen as well, and counted by the one who drives.
	"--disable-prompt-on-repost", "--disable-hang-monitor", "--disable-popup-blocking",
	"--disable-backgrounding-occluded-windows",
}

// viaProxy sends everything through a proxy but what is inside the sandbox.
// Chromium would leave out link-local addresses too, where others keep their
// metadata services; the first entry undoes that.
func viaProxy(addr string) []string {
	return []string{
		"--proxy-server=http://" + addr,
		"--proxy-bypass-list=<-loopback>;localhost;*.localhost;127.0.0.0/8;[::1]",
	}
}

// arguments returns the command line of a browser.
func arguments(program, profile, proxy string, sandboxed, smallShm bool) []string {
	argv := append([]string{program}, flags...)
	argv = append(argv, "--user-data-dir="+profile)
	if proxy != "" {
		argv = append(argv, viaProxy(proxy)...)
	}
	if !sandboxed {
		argv = append(argv, "--no-sandbox")
	}
	if smallShm {
		argv = append(argv, "--disable-dev-shm-usage")
	}
	return append(argv, blankPage)
}

// isSmallShm says that /dev/shm is missing or too small for a browser's pages.
func isSmallShm() bool {
	var st unix.Statfs_t
	err := unix.Statfs("/dev/shm", &st)
	return err != nil || st.Type != unix.TMPFS_MAGIC || int64(st.Blocks)*st.Bsize < wantedShm
}

// withoutProxies takes the variables out that would lead Chromium to a proxy:
// it is told of one by its flags, or has none.
func withoutProxies(env []string) []string {
	var kept []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasSuffix(strings.ToLower(name), "_proxy") {
			kept = append(kept, kv)
		}
	}
	return kept
}
