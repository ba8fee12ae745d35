// SPDX-License-Identifier: Apache-2.0

package zkstore

import (
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/store/zkstore/internal/zktree"
)

func init() { driver.Register(storekit.Opener(Open), driver.Variants("zk")...) }

// Open connects to the ensemble at a URL and returns a store on it. The package comment has the
// grammar of the URLs. Open asks once, so that a wrong address is reported now. Errors never
// show a password.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	servers, o, err := parseURL(url, opts)
	if err != nil {
		return nil, err
	}
	s, err := zktree.Open(ctx, servers, o)
	if err != nil {
		return nil, err
	}
	return &Store{s}, nil
}

func parseURL(url string, opts *Options) ([]string, zktree.Options, error) {
	o := opts.tree()
	servers, namespace, err := zktree.ParseURL("zkstore", "zk", url, &o, nil)
	if err == nil && namespace != "" {
		err = storekit.Part("zkstore", "namespace", "Namespace", &o.Root, namespace)
	}
	return servers, o, err
}
