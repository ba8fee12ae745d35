// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

// serveHealthCommand is for containers, which have no other program to call the server with.
func (a *app) serveHealthCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "health [URL]",
		Short: "Check whether a server runs",
		Long: `Check whether a server runs, for the health check of a container. URL is that of the server
(default http://127.0.0.1:7420). The exit code is 0 if /healthz answers, and 69 if it does
not. Whether the store answers is not checked: a restart of the server does not help it.`,
		Example: `  fencelock serve health`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			url := "http://127.0.0.1:7420"
			if len(args) > 0 {
				url = args[0]
			}
			return a.serveHealth(cmd.Context(), strings.TrimSuffix(url, "/")+"/healthz")
		},
	}
}

func (a *app) serveHealth(parent context.Context, url string) error {
	ctx, cancel := context.WithTimeout(parent, a.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return withCode(exitUsage, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return withCode(exitUnavailable, fmt.Errorf("%w; is fencelock serve started? fencelock serve health URL checks another server", err))
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return withCode(exitUnavailable, fmt.Errorf("%s answers %s; is it fencelock serve?", url, resp.Status))
	}
	return nil
}
