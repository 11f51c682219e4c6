package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// declines is the line that declines a question at a terminal.
const declines = "-"

// readAnswer reads a line as the answer to a question: an option by its number or
// its text, or any other words. An empty line answers what was asked to be done
// by hand alone, which it says is done.
func readAnswer(q task.Question, line string) (httpapi.AnswerRequest, bool) {
	line = strings.TrimSpace(line)
	if line == declines {
		return httpapi.AnswerRequest{Declined: true}, true
	}
	if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(q.Options) && !slices.Contains(q.Options, line) {
		line = q.Options[n-1]
	}
	return httpapi.AnswerRequest{Text: line}, line != "" || q.Kind == task.QuestionHands
}

// questionText says what is asked: the question, and under it the options by
// their numbers.
func questionText(q task.Question) string {
	text := printable(q.Text)
	if q.Kind == task.QuestionHands {
		text = "to be done in the browser: " + text
	}
	text = strings.ReplaceAll(text, "\n", "\n  ")
	for i, o := range q.Options {
		text += fmt.Sprintf("\n  %d  %s", i+1, printable(o))
	}
	return text
}

// howToAnswer says how a question is answered at the terminal that shows it.
func howToAnswer(q task.Question) string {
	switch {
	case q.Kind == task.QuestionHands:
		return "do it in the Browser panel, then press Enter here; " + declines + " if you cannot"
	case len(q.Options) > 0:
		return "a number or your own words; " + declines + " declines"
	}
	return "your answer; " + declines + " declines"
}

func (c *cli) answerCommand() *cobra.Command {
	var decline bool
	cmd := &cobra.Command{
		Use:   "answer SESSION [CALL] [TEXT]",
		Short: "Answer the question that a session's agent has asked",
		Long: "Answer takes the words, or the number of an option, to the agent, which goes on with\n" +
			"them. CALL names one of several questions; glovebox show lists them. What you were asked\n" +
			"to do in the browser is done where you say nothing. With --decline, TEXT is the reason.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withClient(cmd.Context(), func(client *apiClient) error {
				return c.answer(cmd.Context(), client, args[0], args[1:], decline)
			})
		},
	}
	cmd.Flags().BoolVar(&decline, "decline", false, "do not answer it")
	return cmd
}

func (c *cli) answer(ctx context.Context, client *apiClient, session string, words []string, decline bool) error {
	var s httpapi.Session
	if err := client.call(ctx, "GET", "/sessions/"+url.PathEscape(session), nil, &s); err != nil {
		return err
	}
	w, words, err := questionFor(s, words)
	if err != nil {
		return err
	}
	text := strings.Join(words, " ")
	req := httpapi.AnswerRequest{Text: text, Declined: true}
	if !decline {
		var ok bool
		if req, ok = readAnswer(questionOf(w), text); !ok {
			return usageError{errors.New("the answer is empty; say it, or --decline")}
		}
	}
	if err := client.call(ctx, "POST", "/sessions/"+url.PathEscape(s.ID)+"/answers/"+url.PathEscape(w.CallID), req, nil); err != nil {
		return err
	}
	done := "answered: " + printable(req.Text)
	switch {
	case req.Declined:
		done = "declined"
	case req.Text == "":
		done = "done"
	}
	_, err = fmt.Fprintf(c.out, "%s %s\n", s.ID, done)
	return err
}

// questionFor returns the question that words answer, and the words without its
// name: the one that they begin with, or else the only one that waits.
func questionFor(s httpapi.Session, words []string) (httpapi.Waiting, []string, error) {
	var open []httpapi.Waiting
	for _, w := range s.Waiting {
		if len(words) > 0 && w.CallID == words[0] {
			return w, words[1:], nil
		}
		if isQuestion(w) {
			open = append(open, w)
		}
	}
	switch len(open) {
	case 0:
		return httpapi.Waiting{}, nil, fmt.Errorf("session %s waits for no answer", s.ID)
	case 1:
		return open[0], words, nil
	}
	var names []string
	for _, w := range open {
		names = append(names, fmt.Sprintf("%s (%s)", w.CallID, clipped(printable(w.Text), titleWidth)))
	}
	return httpapi.Waiting{}, nil, usageError{fmt.Errorf("%d questions wait; name one of %s", len(open), strings.Join(names, ", "))}
}

func isQuestion(w httpapi.Waiting) bool {
	return w.Kind == task.QuestionText || w.Kind == task.QuestionHands
}

func questionOf(w httpapi.Waiting) task.Question {
	return task.Question{Kind: w.Kind, Text: w.Text, Options: w.Options}
}

// statusText says what a session does, and what it waits for.
func statusText(s httpapi.Session) string {
	if s.Status == task.StatusWaiting && len(s.Waiting) > 0 {
		return string(s.Status) + ": " + s.Waiting[0].Kind
	}
	return string(s.Status)
}

// waitingText says what a session waits for, and the line that answers it.
func waitingText(s httpapi.Session) string {
	var lines []string
	for _, w := range s.Waiting {
		if !isQuestion(w) {
			lines = append(lines, fmt.Sprintf("%s: allow %s?", w.CallID, w.Tool))
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: %s\n→ glovebox answer %s …", w.CallID, questionText(questionOf(w)), s.ID))
	}
	return strings.Join(lines, "\n")
}
