package agent_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/browsertest"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/local"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/script"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

func TestMain(m *testing.M) { browsertest.Main(m) }

// The demo has to work, twice in the same workspace, with the real tools.
func TestDemo_playsThrough(t *testing.T) {
	dir := t.TempDir()
	env, err := local.New(local.Options{Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.Close() })
	demo := quickDemo(strings.NewReplacer("sleep 1;", ""))
	for range 2 {
		j := newJournal(t)
		o := options(nil)
		m := script.New(demo)
		m.Pace = 0
		o.Model.Model, o.Tools, o.NewCallID = m, tools.Standard(), nil
		o.Env = func(context.Context) (execenv.Env, error) { return env, nil }
		run(t, t.Context(), j, o, agent.Done)
		for _, c := range j.State().Calls {
			if c.Result.Status != task.CallOK {
				t.Errorf("%s %s = %s: %s", c.Started.Tool, c.Started.Input, c.Result.Status, c.Result.Text)
			}
		}
		if said := fmt.Sprint(j.State().Conversation()); !strings.Contains(said, "I have no browser in this session") || strings.Contains(said, "I write a page") {
			t.Errorf("what the demo says without a browser: %s", said)
		}
		if got := j.State().LastText(); !strings.Contains(got, "That was the demo") {
			t.Errorf("the last words are %q", got)
		}
		got, err := os.ReadFile(filepath.Join(dir, "glovebox-demo", "hello.sh"))
		if err != nil || !strings.Contains(string(got), `name="you at the window"`) {
			t.Errorf("hello.sh = %q, %v", got, err)
		}

		if err := j.Append(t.Context(), task.MessagesAppended{Messages: []llm.Message{llm.Text(llm.RoleUser, "thanks!")}}, task.TaskWoken{Cause: "message"}); err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), j, o, agent.Done)
		if got := j.State().LastText(); !strings.Contains(got, "Thank you for writing") {
			t.Errorf("the answer to a person is %q", got)
		}
	}
}

// quickDemo is the demo without its pauses, and with other words in its calls.
func quickDemo(words *strings.Replacer) script.Script {
	demo := script.Demo()
	for i := range demo.Steps {
		demo.Steps[i].Delay = 0
		for k := range demo.Steps[i].Calls {
			c := &demo.Steps[i].Calls[k]
			c.Input = []byte(words.Replace(string(c.Input)))
		}
	}
	return demo
}

// With a browser the demo serves a page where it is, uses it, and leaves no server.
func TestDemo_opensAPage(t *testing.T) {
	place := browsertest.Context(t)
	b := tabs.New(tabs.Options{Dial: place.Dial, Context: place.ID})
	t.Cleanup(func() { b.Close() })
	hands := browser.NewAgent(browser.Options{Browser: b})
	dir := t.TempDir()
	env, err := local.New(local.Options{Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	demo := quickDemo(strings.NewReplacer("sleep 1;", "", "8765", fmt.Sprint(port), ":223D", fmt.Sprintf(":%04X", port)))

	for range 2 {
		j := newJournal(t)
		o := options(nil)
		m := script.New(demo)
		m.Pace = 0
		o.Model.Model, o.Tools, o.NewCallID = m, tools.Standard().With(tools.Browser()...), nil
		o.Env = func(context.Context) (execenv.Env, error) { return env, nil }
		o.Browser = func(context.Context) (browser.Backend, error) { return hands, nil }
		run(t, t.Context(), j, o, agent.Done)
		pictures := 0
		for _, c := range j.State().Calls {
			if c.Result.Status != task.CallOK {
				t.Errorf("%s %s = %s: %s", c.Started.Tool, c.Started.Input, c.Result.Status, c.Result.Text)
			}
			pictures += len(c.Result.Images)
		}
		if pictures != 1 || strings.Contains(fmt.Sprint(j.State().Conversation()), "I have no browser") {
			t.Errorf("%d pictures were taken", pictures)
		}
		page, err := hands.Extract(t.Context())
		if err != nil || !strings.Contains(page.Text, "Hello, you at the window!") {
			t.Errorf("the page says %q, %v", page.Text, err)
		}
		if conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			conn.Close()
			t.Error("the demo's server still runs")
		}
	}
}
