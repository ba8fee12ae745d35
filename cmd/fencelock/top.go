// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/spf13/cobra"
)

func (a *app) topCommand() *cobra.Command {
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "top [PREFIX]",
		Short: "Watch locks in the terminal: contended, oldest, about to end",
		Long: `Watch the locks whose name starts with PREFIX, or all, in the terminal.

  c   the most contended first: how many wait, and for how long
  a   the oldest first
  e   those that end next unless they are renewed: their holders may be in trouble
  ↑ ↓ choose a lock, enter shows it, esc goes back
  p   pause, and resume
  q   quit

Yellow: clients wait for the lock. Red: the holder has not renewed for half of its TTL,
though one that lives does so after a third.

It polls the store once every --every.`,
		Example: `  fencelock top
  fencelock top orders/ --every 5s`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("one PREFIX at most")
			}
			if every < 100*time.Millisecond {
				return usage("--every %v: at least 100ms", every)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var s lockview.Selection
			if len(args) == 1 {
				s.Prefix = args[0]
			}
			return a.top(cmd.Context(), s, every)
		},
	}
	cmd.Flags().DurationVar(&every, "every", time.Second, "how often to poll the store")
	return cmd
}

func (a *app) top(ctx context.Context, s lockview.Selection, every time.Duration) error {
	if terminalWidth(os.Stdout) == 0 {
		return usage("top needs a terminal; use ls or ls --watch")
	}
	conn, err := a.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer a.close(conn)
	m := &topModel{ctx: ctx, client: conn.client, wanted: s, every: every, topScreen: topScreen{server: conn.Caps().Engine, every: every}}
	_, err = tea.NewProgram(m, tea.WithContext(ctx)).Run()
	switch {
	case errors.Is(err, tea.ErrInterrupted):
		return exitSilently(130)
	case err != nil:
		return withCode(exitInternal, err)
	}
	return nil
}

// topModel connects the screen with the terminal and the store.
type topModel struct {
	topScreen
	ctx    context.Context
	client *fencelock.Client
	wanted lockview.Selection
	every  time.Duration
}

// listed is the answer of the store, tick the time to poll again.
type (
	listed struct {
		locks []fencelock.Status
		grace time.Duration
		err   error
		at    time.Time
	}
	tick struct{}
)

// Init implements tea.Model.
func (m *topModel) Init() tea.Cmd { return m.poll }

// poll reads the locks. Only one call is in flight: a slow store is not polled faster
// than it answers.
func (m *topModel) poll() tea.Msg {
	locks, err := m.wanted.Read(m.ctx, m.client)
	answer := listed{locks: locks, err: err, at: time.Now()}
	var grace *fencelock.GraceError
	if err == nil && errors.As(m.client.Ready(m.ctx), &grace) {
		answer.grace = grace.RetryAfter
	}
	return answer
}

// Update implements tea.Model.
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case listed:
		m.took(msg.locks, msg.err, msg.at)
		m.grace = msg.grace
		return m, tea.Tick(m.every, func(time.Time) tea.Msg { return tick{} })
	case tick:
		if m.paused {
			return m, tea.Tick(m.every, func(time.Time) tea.Msg { return tick{} })
		}
		return m, m.poll
	case tea.KeyPressMsg:
		if m.press(msg.String()) {
			return m, tea.Quit
		}
	}
	return m, nil
}

// View implements tea.Model.
func (m *topModel) View() tea.View {
	v := tea.NewView(m.render())
	v.AltScreen = true
	v.WindowTitle = "fencelock top"
	return v
}
