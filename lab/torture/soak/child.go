// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/lab/internal/rig"
)

// start starts a client process and waits for its first report.
func start(cfg Config) (*rig.Child, Report, error) {
	c, err := rig.Start(context.Background(), rig.Command{Name: "client " + cfg.Spec.Who, Args: []string{"client"}})
	if err != nil {
		return nil, Report{}, err
	}
	var first Report
	err = c.Ask(cfg, &first, time.Minute)
	return c, first, err
}

// finish lets a client close everything and returns its last report.
func finish(c *rig.Child, most time.Duration) (r Report, err error) {
	c.CloseInput()
	for err == nil && !r.Over {
		r = Report{}
		err = c.Next(&r, most)
	}
	return r, err
}
